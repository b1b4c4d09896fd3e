//! Drawings of a small lifecycle kept as they are, and what must hold of the drawing of any other.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::builtin;
use super::super::check::check;
use super::*;

const SMALL: &str = "
lifecycle: small

purpose: task
about: A change that is reviewed.
initial: queued
roles: [worker]
settings: { max_cycles: 3 }
fields: { diagnostic: text }
counters:
  cycles: { limit: max_cycles, then: failed, set: { diagnostic: too many cycles } }
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
  - { from: review, to: working, on: revise, by: [human], count: [cycles] }
  - { from: failed, to: queued, on: retry, by: [human], reset: [cycles] }
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

fn mermaid(lifecycle: &Lifecycle, current: Option<StateId>) -> String {
    graph(lifecycle, current).mermaid()
}

fn svg(lifecycle: &Lifecycle, current: Option<StateId>) -> String {
    graph(lifecycle, current).svg()
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
    insta::assert_snapshot!(mermaid(&lifecycle, lifecycle.find_state("review")), @r##"
    flowchart TD
        queued["#9675; queued<br/>queued"]
        working["#9654; working<br/>working #183; agent worker"]
        review["#9678; review<br/>reviewing"]
        subgraph group_blocked["blocked"]
            blocked_outside["#8863; blocked(outside)<br/>blocked"]
        end
        done(["#10003; done<br/>done"])
        failed["#10007; failed<br/>failed"]
        blocked_outside__prior(("H"))
        queued__start((" ")) --> queued
        queued -->|"claim (worker, system)"| working
        working -->|"submit (worker, system)<br/>hand_over (human)"| review
        working -->|"block (worker, system)"| blocked_outside
        blocked_outside -->|"unblock (human)"| blocked_outside__prior
        review -->|"approve (human)"| done
        review -->|"revise (human)"| working
        review -->|"revise, cycles = 3 (human)<br/>timeout 7d"| failed
        failed -->|"retry (human)"| queued
        working -->|"stalled 1d without progress"| failed
        blocked_outside -->|"timeout 14d"| failed
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
    "##);
}

#[test]
fn picture_of_a_small_lifecycle() {
    let lifecycle = checked(SMALL);
    insta::assert_snapshot!(svg_body(&lifecycle, lifecycle.find_state("review")));
}

#[test]
fn every_edge_has_a_title_and_every_state_its_name() {
    for lifecycle in built_in() {
        let graph = graph(&lifecycle, None);
        let picture = graph.svg();
        for edge in &graph.edges {
            let start = format!("<title>{}</title>", graph.edge_title(edge));
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
    assert!(text.contains("a_b[\"#9654; a#34;#93;#58;#59;#60;b#62;#1;<br/>"), "{text}");
    assert!(text.contains("queued -->|\"x --#62; y #60;i#62; (worker, system)\"| a_b"), "{text}");
}

#[test]
fn mermaid_ids_are_words_and_differ() {
    let mut lifecycle = checked(SMALL);
    let names = ["end", "a(b)", "a_b", "a-b", "History", "1st"];
    for (state, name) in lifecycle.states.iter_mut().zip(names) {
        state.name = name.to_owned();
    }
    let text = mermaid(&lifecycle, None);
    for (name, id) in names.iter().zip(["node_end", "a_b", "a_b_2", "a_b_3", "History", "node_1st"])
    {
        let declared = text.lines().find(|line| line.contains(&format!("; {name}<br/>")));
        let declared = declared.expect("it is declared").trim_start();
        assert!(
            declared.starts_with(&format!("{id}[")) || declared.starts_with(&format!("{id}(["))
        );
    }
}

/// States in a row, each with ways to many others, as many as a lifecycle may have.
fn largest() -> Lifecycle {
    let mut lifecycle = checked(SMALL);
    let (state, transition) = (lifecycle.states[1].clone(), lifecycle.transitions[0].clone());
    let count = crate::limits::LIFECYCLE_STATES;
    let named = |index: usize| State { name: format!("s{index}"), ..state.clone() };
    lifecycle.states = (0..count).map(named).collect();
    lifecycle.transitions.clear();
    for from in 0..count {
        for step in [1, 7, 50, 400, 993, 999] {
            let (from, to) =
                (state_id(from), TransitionTarget::State(state_id((from + step) % count)));
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
    assert_eq!(mermaid(&lifecycle, None).matches(" -->").count(), 6_001);
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
