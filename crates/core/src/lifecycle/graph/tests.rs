//! Drawings of a small lifecycle kept as they are, and what must hold of the drawing of any other.

use std::collections::BTreeMap;
use std::fmt::Write;

use proptest::prelude::*;

use super::super::builtin;
use super::super::check::check;
use super::*;
use crate::draw::layout::{self, Line, Plan, Sizes};
use crate::draw::words::fitted;

const SMALL: &str = "
lifecycle: small

purpose: task
about: A change that is reviewed.
initial: queued
roles: [worker]
settings: { max_rounds: 3 }
fields: { diagnostic: text }
counters:
  rounds: { limit: max_rounds, then: failed, set: { diagnostic: too many rounds } }
states:
  queued: { kind: queued }
  working:
    kind: working
    about: An agent is at work.
    does: { activity: agent, role: worker, outcomes: { otherwise: submit } }
    timeouts: [{ after: 24h, since: progress, to: failed, on: stalled, set: { diagnostic: stalled } }]
  review:
    kind: reviewing
    timeouts: [{ after: 7d, to: failed, set: { diagnostic: nobody reviewed } }]
  blocked(outside):
    kind: blocked
    timeouts: [{ after: 14d, to: failed, set: { diagnostic: blocked } }]
  done: { kind: done }
  failed: { kind: failed, requires: [diagnostic] }
transitions:
  - { from: queued, to: working, on: claim, by: [worker, system] }
  - { from: working, to: review, on: submit, by: [worker] }
  - { from: working, to: review, on: submit, by: [system] }
  - { from: working, to: review, on: hand_over, by: [human] }
  - { from: working, to: blocked(outside), on: block, by: [worker, system] }
  - { from: blocked(outside), to: [prior], on: unblock, by: [human] }
  - { from: review, to: done, on: approve, by: [human] }
  - { from: review, to: working, on: revise, by: [human], count: [rounds] }
  - { from: failed, to: queued, on: retry, by: [human], reset: [rounds] }
";

fn checked(source: &str) -> Lifecycle {
    match check(source, "test", &BTreeMap::new()) {
        Ok(lifecycle) => lifecycle,
        Err(problems) => panic!("the lifecycle of the test is refused: {problems:?}"),
    }
}

fn built_in() -> impl Iterator<Item = Lifecycle> {
    builtin::SOURCES.iter().map(|(_, source)| checked(source))
}

/// The picture without its style, which says nothing about the lifecycle.
fn svg_body(lifecycle: &Lifecycle, current: Option<StateId>) -> String {
    let picture = svg(lifecycle, current);
    let (head, rest) = picture.split_once("<style>").expect("it has a style");
    let (_, body) = rest.split_once("</style>\n").expect("the style ends");
    format!("{head}{body}")
}

#[test]
fn mermaid_of_a_small_lifecycle() {
    let lifecycle = checked(SMALL);
    insta::assert_snapshot!(mermaid(&lifecycle, lifecycle.find_state("review")), @r#"
    stateDiagram-v2
        direction TB
        state "queued" as queued
        state "working" as working
        state "review" as review
        state "blocked" as group_blocked {
            state "blocked(outside)" as blocked_outside
        }
        state "done" as done
        state "failed" as failed
        state "[H]" as blocked_outside__history
        [*] --> queued
        queued --> working : claim (worker, system)
        working --> review : submit (worker, system)<br/>hand_over (human)
        working --> blocked_outside : block (worker, system)
        blocked_outside --> blocked_outside__history : unblock (human)
        review --> done : approve (human)
        review --> working : revise (human)
        review --> failed : revise, rounds = 3 (human)<br/>timeout 7d
        failed --> queued : retry (human)
        working --> failed : stalled 1d
        blocked_outside --> failed : timeout 14d
        done --> [*]
        classDef kind_queued fill:#eef1f5,stroke:#5b6b7f,color:#1b2430
        class queued kind_queued
        classDef kind_working fill:#dcebff,stroke:#1f5fbf,color:#10243f
        class working kind_working
        classDef kind_reviewing fill:#ece4ff,stroke:#6a3fc0,color:#25154a
        class review kind_reviewing
        classDef kind_blocked fill:#ffe2cc,stroke:#b3500a,color:#42200a
        class blocked_outside kind_blocked
        classDef kind_done fill:#d8f3dc,stroke:#1f7a3a,color:#0d331a
        class done kind_done
        classDef kind_failed fill:#ffdcdc,stroke:#b42323,color:#450d0d
        class failed kind_failed
        classDef current stroke-width:4px,font-weight:bold
        class review current
    "#);
}

#[test]
fn picture_of_a_small_lifecycle() {
    let lifecycle = checked(SMALL);
    insta::assert_snapshot!(svg_body(&lifecycle, lifecycle.find_state("review")));
}

#[test]
fn every_edge_has_a_title_and_every_state_its_name() {
    for lifecycle in built_in() {
        let picture = svg(&lifecycle, None);
        for edge in edges(&lifecycle) {
            let start = format!(
                "<title>{} → {}: ",
                lifecycle.state(edge.from).name,
                lifecycle.target_name(edge.to)
            );
            let shown = picture.matches(&start).count();
            // An edge that goes round has a row and a line.
            assert!((1..=2).contains(&shown), "{}: {start} {shown} times", lifecycle.id);
        }
        for state in &lifecycle.states {
            let name = format!(">{}</text>", state.name);
            let shown = picture
                .lines()
                .filter(|line| line.contains("lc-name") && line.ends_with(&name))
                .count();
            assert_eq!(shown, 1, "{}: {}", lifecycle.id, state.name);
        }
    }
}

#[test]
fn only_the_current_state_is_marked() {
    for lifecycle in built_in() {
        assert!(!svg(&lifecycle, None).contains("lc-current\""));
        assert!(!mermaid(&lifecycle, None).contains("class current"));
        let marked = svg(&lifecycle, Some(lifecycle.initial));
        assert_eq!(marked.matches("lc-current\"").count(), 1);
        assert_eq!(marked.matches(">current</text>").count(), 1);
    }
}

#[test]
fn a_picture_needs_nothing_from_outside() {
    for lifecycle in built_in() {
        let picture = svg(&lifecycle, None);
        for foreign in ["<script", "href", "url(", "@import", "<image", "<foreignObject"] {
            assert!(!picture.contains(foreign), "{}: {foreign}", lifecycle.id);
        }
        let addresses = picture.matches("http").count();
        assert_eq!(addresses, 1, "only the name space of SVG itself");
    }
}

#[test]
fn drawings_are_the_same_each_time() {
    for lifecycle in built_in() {
        assert_eq!(svg(&lifecycle, None), svg(&lifecycle.clone(), None));
        assert_eq!(mermaid(&lifecycle, None), mermaid(&lifecycle.clone(), None));
    }
}

#[test]
fn text_cannot_leave_its_place() {
    let mut lifecycle = checked(SMALL);
    lifecycle.about = "</desc><script>alert('&')</script>".to_owned();
    lifecycle.states[1].name = "a\"]:;<b>\u{1}".to_owned();
    lifecycle.transitions[0].trigger = "x --> y <i>".to_owned();
    let picture = svg(&lifecycle, None);
    assert!(!picture.contains("<script>") && !picture.contains("<b>") && !picture.contains("<i>"));
    assert!(picture.contains("&lt;/desc&gt;&lt;script&gt;alert('&amp;')"));
    assert!(picture.contains("a&quot;]:;&lt;b&gt;\u{fffd}"));
    let text = mermaid(&lifecycle, None);
    assert!(text.contains("state \"a#34;#93;#58;#59;#60;b#62;#1;\" as a_b"), "{text}");
    assert!(text.contains("queued --> a_b : x --#62; y #60;i#62; (worker, system)"), "{text}");
}

#[test]
fn mermaid_ids_are_words_and_differ() {
    let mut lifecycle = checked(SMALL);
    let names = ["end", "a(b)", "a_b", "a-b", "History", "1st"];
    for (state, name) in lifecycle.states.iter_mut().zip(names) {
        state.name = name.to_owned();
    }
    let text = mermaid(&lifecycle, None);
    for (name, id) in
        names.iter().zip(["state_end", "a_b", "a_b_2", "a_b_3", "History", "state_1st"])
    {
        assert!(text.contains(&format!("state \"{name}\" as {id}\n")), "{name}: {text}");
    }
}

/// States in a row, each with ways to many others, as many as a lifecycle may have.
fn largest() -> Lifecycle {
    let mut lifecycle = checked(SMALL);
    let (state, transition) = (lifecycle.states[1].clone(), lifecycle.transitions[0].clone());
    let count = crate::limits::LIFECYCLE_STATES;
    let named =
        |index: usize| crate::lifecycle::State { name: format!("s{index}"), ..state.clone() };
    lifecycle.states = (0..count).map(named).collect();
    lifecycle.transitions.clear();
    for from in 0..count {
        for step in [1, 7, 50, 400, 993, 999] {
            let id = crate::lifecycle::state_id;
            let (from, to) = (id(from), TransitionTarget::State(id((from + step) % count)));
            lifecycle.transitions.push(Transition { from, to, ..transition.clone() });
        }
    }
    lifecycle
}

#[test]
fn the_largest_lifecycle_is_drawn() {
    let lifecycle = largest();
    let picture = svg(&lifecycle, None);
    assert_eq!(picture.matches("lc-name\"").count(), 1_000);
    assert!(picture.len() < 8_000_000, "{} bytes", picture.len());
    assert_eq!(mermaid(&lifecycle, None).matches(" --> ").count(), 6_001);
}

#[test]
fn a_state_where_many_lead_stays_if_others_need_it() {
    let mut source = SMALL.replace("{ from: failed, to: queued,", "{ from: failed, to: repaired,");
    source = source.replace("  done: {", "  repaired: { kind: queued }\n  done: {");
    source.push_str("  - { from: repaired, to: done, on: accept, by: [human] }\n");
    let picture = svg(&checked(&source), None);
    assert!(!picture.contains("Reached from many states"));
    assert!(svg(&checked(SMALL), None).contains("Reached from many states"));
}

fn any_sheet() -> impl Strategy<Value = (Vec<Line>, Sizes)> {
    (1_usize..14).prop_flat_map(|count| {
        let line = (0..count, 0..count).prop_filter("no loops", |(from, to)| from != to);
        let lines = prop::collection::vec(line.prop_map(|(from, to)| Line { from, to }), 0..30);
        let lines = if count == 1 { Just(Vec::new()).boxed() } else { lines.boxed() };
        let boxes = prop::collection::vec((50.0..300.0_f64, 30.0..120.0_f64), count);
        let words = prop::collection::vec((10.0..200.0_f64, 15.0..75.0_f64), 30);
        (lines, boxes, words).prop_map(|(lines, boxes, words)| (lines, Sizes { boxes, words }))
    })
}

/// Left, right, top and bottom of all boxes and all words.
fn areas(plan: &Plan, sizes: &Sizes) -> Vec<(String, [f64; 4])> {
    let area = |middle: f64, top: f64, (width, height): (f64, f64)| {
        [middle - width / 2.0, middle + width / 2.0, top, top + height]
    };
    let boxes = plan.boxes.iter().zip(&sizes.boxes).enumerate();
    let boxes = boxes
        .map(|(index, (spot, size))| (format!("box {index}"), area(spot.middle, spot.top, *size)));
    let words =
        plan.ways.iter().zip(&sizes.words).enumerate().filter_map(|(index, (way, size))| {
            let spot = way.as_ref()?.through.first()?;
            Some((format!("words {index}"), area(spot.middle, spot.top, *size)))
        });
    boxes.chain(words).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_overlaps((lines, sizes) in any_sheet()) {
        let order = layout::order(sizes.boxes.len(), &lines);
        let plan = layout::plan(&lines, &order, &sizes);
        let areas = areas(&plan, &sizes);
        for (index, (name, one)) in areas.iter().enumerate() {
            for (other_name, other) in &areas[index + 1..] {
                let beside = one[1] <= other[0] || other[1] <= one[0];
                let below = one[3] <= other[2] || other[3] <= one[2];
                prop_assert!(beside || below, "{} and {}: {:?} {:?}", name, other_name, one, other);
            }
        }
    }

    #[test]
    fn lines_with_words_lead_down((lines, sizes) in any_sheet()) {
        let order = layout::order(sizes.boxes.len(), &lines);
        let plan = layout::plan(&lines, &order, &sizes);
        for (line, way) in lines.iter().zip(&plan.ways) {
            let Some(way) = way else { continue };
            let mut layer = plan.boxes[line.from].layer;
            for spot in way.through.iter().chain([&plan.boxes[line.to]]) {
                prop_assert_eq!(spot.layer, layer + 1);
                layer = spot.layer;
            }
        }
    }

    #[test]
    fn what_leads_one_way_never_goes_round(count in 2_usize..14, picks in prop::collection::vec((0_usize..14, 0_usize..14), 0..30)) {
        let upward = |(one, other): (usize, usize)| {
            let (from, to) = (one.min(other) % count, one.max(other) % count);
            (from < to).then_some(Line { from, to })
        };
        let lines: Vec<Line> = picks.into_iter().filter_map(upward).collect();
        let order = layout::order(count, &lines);
        prop_assert!(order.down.iter().all(|down| *down), "{:?}", lines);
    }
}

#[test]
fn a_cycle_goes_back_once() {
    let lines = [(0, 1), (1, 2), (2, 0), (2, 1), (0, 2)].map(|(from, to)| Line { from, to });
    assert_eq!(layout::order(3, &lines).down, [true, true, false, false, true]);
}

#[test]
fn a_long_text_is_cut_to_its_room() {
    assert_eq!(fitted("short", 100.0), "short");
    assert_eq!(fitted("a text that is too long", 100.0), "a text that i…");
    assert_eq!(fitted("長い説明です", 50.0), "長い説…");
}

#[test]
fn rows_say_all_that_fits() {
    let mut text = String::from(SMALL);
    for number in 0..40 {
        writeln!(text, "  - {{ from: review, to: failed, on: reason_{number}, by: [human], guards: [diagnostic] }}")
            .expect("writing to a string does not fail");
    }
    let picture = svg(&checked(&text), None);
    assert!(picture.contains("reason_0 (human)") && picture.contains(" more</text>"));
    let title = picture
        .lines()
        .find(|line| line.starts_with("<title>review → failed: "))
        .expect("it is listed");
    assert!(title.contains("reason_39 (human)"), "{title}");
}
