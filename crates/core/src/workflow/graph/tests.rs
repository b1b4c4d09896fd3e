//! Snapshots of small workflows, and laws for the drawing of any workflow.

use proptest::prelude::*;

use super::*;
use crate::workflow::samples::{chain, diamond, flow, gate, step, tests_then_code};

fn no_marks() -> StepMarks {
    StepMarks::new()
}

fn mermaid(flow: &Workflow, marks: &StepMarks) -> String {
    graph(flow, marks).mermaid()
}

fn svg(flow: &Workflow, marks: &StepMarks) -> String {
    graph(flow, marks).svg()
}

fn marked(marks: &[(&str, StateKind, &str, &str)]) -> StepMarks {
    let mark = |(step, kind, state, note): &(&str, StateKind, &str, &str)| {
        let mark = StepMark { state: (*state).to_owned(), kind: *kind, note: (*note).to_owned() };
        ((*step).to_owned(), mark)
    };
    marks.iter().map(mark).collect()
}

fn under_way() -> StepMarks {
    marked(&[
        ("X-1", StateKind::Done, "complete", "attempt 2, 3m"),
        ("X-2", StateKind::Waiting, "gate(human)", "since 10:40"),
    ])
}

/// The picture without its style sheet.
fn svg_body(flow: &Workflow, marks: &StepMarks) -> String {
    let picture = svg(flow, marks);
    let (head, rest) = picture.split_once("<style>").expect("it has a style");
    let (_, body) = rest.split_once("</style>\n").expect("the style ends");
    format!("{head}{body}")
}

#[test]
fn the_steps_of_a_large_matrix_are_drawn_as_one() {
    let mut steps = vec![step("plan", &[], None)];
    for os in ["a", "b", "c", "d"] {
        let build = format!("build[{os}]");
        steps.push(step(
            &build,
            &["plan"],
            Some(gate(&format!("BG[{os}]"), 3, &[("", Some(&build))])),
        ));
        steps.push(step(&format!("test[{os}]"), &[&build], None));
    }
    let all: Vec<String> = ["a", "b", "c", "d"].map(|os| format!("test[{os}]")).into();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    steps.push(step("end", &all, None));
    let flow = flow(steps);
    let marks = marked(&[
        ("build[a]", StateKind::Done, "passed", ""),
        ("build[b]", StateKind::Done, "passed", ""),
        ("build[c]", StateKind::Waiting, "gate(human)", ""),
    ]);
    let drawn = graph(&flow, &marks);
    let labels: Vec<&str> = drawn.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(labels, ["plan", "build ×4", "BG", "test ×4", "end", "DONE"]);
    let text = drawn.mermaid();
    assert!(text.contains("1 gate(human), 2 passed"), "{text}");
    // Three are still readable, and matrices that wait for each other in turn cannot be one.
    let small = flow_of(&["x[1]", "x[2]", "x[3]"], &[]);
    assert_eq!(graph(&small, &no_marks()).nodes.len(), 4);
    let turns = [("y[1]", "x[1]"), ("x[2]", "y[1]"), ("y[2]", "x[2]"), ("x[3]", "y[2]")];
    let ids = ["x[1]", "x[2]", "x[3]", "x[4]", "y[1]", "y[2]", "y[3]", "y[4]"];
    assert_eq!(graph(&flow_of(&ids, &turns), &no_marks()).nodes.len(), 9);
}

/// Steps with what each of some needs.
fn flow_of(ids: &[&str], needs: &[(&str, &str)]) -> Workflow {
    let of = |id: &&str| {
        let own: Vec<&str> =
            needs.iter().filter(|(one, _)| one == id).map(|(_, needed)| *needed).collect();
        step(id, &own, None)
    };
    flow(ids.iter().map(of).collect())
}

#[test]
fn mermaid_of_tests_then_code() {
    insta::assert_snapshot!(mermaid(&tests_then_code(), &no_marks()), @r##"
    flowchart TD
        X_1["X-1<br/>write-tests<br/>test-writer"]
        XG_1_2{"XG-1-2<br/>notify"}
        X_2["X-2<br/>implement<br/>implementor"]
        XG_2_end{"XG-2-end<br/>human"}
        DONE(["#10003; DONE<br/>every step has passed"])
        X_1 --> XG_1_2
        XG_1_2 -->|"pass"| X_2
        XG_1_2 -.->|"fail #8804; 2"| X_1
        X_2 --> XG_2_end
        XG_2_end -->|"pass"| DONE
        XG_2_end -.->|"fail #8804; 3"| X_2
        classDef kind_queued fill:#eef1f5,stroke:#5b6b7f,color:#1b2430
        class X_1,X_2 kind_queued
        classDef kind_parked fill:#ececec,stroke:#707070,color:#2a2a2a
        class XG_1_2,XG_2_end kind_parked
        classDef kind_done fill:#d8f3dc,stroke:#1f7a3a,color:#0d331a
        class DONE kind_done
    "##);
}

#[test]
fn mermaid_of_a_diamond() {
    insta::assert_snapshot!(mermaid(&diamond(), &no_marks()), @r##"
    flowchart TD
        plan["plan<br/>do plan<br/>worker"]
        left["left<br/>do left<br/>worker"]
        G_left{"G-left<br/>auto"}
        right["right<br/>do right<br/>worker"]
        node_join["join<br/>do join<br/>worker"]
        G_join{"G-join<br/>auto"}
        tag["tag<br/>of release"]
        DONE(["#10003; DONE<br/>every step has passed"])
        ABORT(["#8856; ABORT<br/>aborted"])
        tag -->|"needed"| node_join
        plan --> left
        plan --> right
        left --> G_left
        G_left -->|"pass"| node_join
        G_left -.->|"fail #8804; 2"| left
        right --> node_join
        node_join --> G_join
        G_join -->|"pass"| DONE
        G_join -.->|"plan #8804; 3"| plan
        G_join -.->|"left #8804; 3"| left
        G_join -.->|"hopeless #8804; 3"| ABORT
        G_join -.->|"fail #8804; 3"| node_join
        classDef kind_queued fill:#eef1f5,stroke:#5b6b7f,color:#1b2430
        class plan,left,right,node_join kind_queued
        classDef kind_parked fill:#ececec,stroke:#707070,color:#2a2a2a
        class G_left,G_join,tag kind_parked
        classDef kind_done fill:#d8f3dc,stroke:#1f7a3a,color:#0d331a
        class DONE kind_done
        classDef kind_cancelled fill:#f3eaea,stroke:#8a6a6a,color:#352727
        class ABORT kind_cancelled
        classDef elsewhere stroke-dasharray:2 3
        class tag elsewhere
    "##);
}

#[test]
fn mermaid_of_a_flow_under_way() {
    insta::assert_snapshot!(mermaid(&tests_then_code(), &under_way()), @r##"
    flowchart TD
        X_1["#10003; X-1<br/>write-tests<br/>test-writer<br/>complete #183; attempt 2, 3m"]
        XG_1_2{"XG-1-2<br/>notify"}
        X_2["#9758; X-2<br/>implement<br/>implementor<br/>gate(human) #183; since 10#58;40"]
        XG_2_end{"#9758; XG-2-end<br/>human #183; gate(human)"}
        DONE(["#9675; DONE<br/>not every step has passed"])
        X_1 --> XG_1_2
        XG_1_2 -->|"pass"| X_2
        XG_1_2 -.->|"fail #8804; 2"| X_1
        X_2 --> XG_2_end
        XG_2_end -->|"pass"| DONE
        XG_2_end -.->|"fail #8804; 3"| X_2
        classDef kind_queued fill:#eef1f5,stroke:#5b6b7f,color:#1b2430
        class DONE kind_queued
        classDef kind_waiting fill:#fff0c9,stroke:#9a6a00,color:#3d2a00
        class X_2,XG_2_end kind_waiting
        classDef kind_parked fill:#ececec,stroke:#707070,color:#2a2a2a
        class XG_1_2 kind_parked
        classDef kind_done fill:#d8f3dc,stroke:#1f7a3a,color:#0d331a
        class X_1 kind_done
    "##);
}

#[test]
fn several_reviewers_are_counted_at_their_gate() {
    let mut flow = tests_then_code();
    for step in &mut flow.steps {
        let gate = step.gate.as_mut().expect("both have one");
        gate.reviewers = ["custodiet", "critic"].map(str::to_owned).to_vec();
    }
    let drawn = mermaid(&flow, &no_marks());
    assert!(drawn.contains("{\"XG-1-2<br/>notify #183; 2 reviewers\"}"), "{drawn}");
    assert!(drawn.contains("{\"XG-2-end<br/>human\"}"), "a person decides: {drawn}");
    assert!(svg(&flow, &no_marks()).contains("notify · 2 reviewers"));
}

#[test]
fn picture_of_tests_then_code() {
    insta::assert_snapshot!(svg_body(&tests_then_code(), &no_marks()));
}

#[test]
fn picture_of_a_diamond() {
    insta::assert_snapshot!(svg_body(&diamond(), &no_marks()));
}

#[test]
fn picture_of_a_flow_under_way() {
    insta::assert_snapshot!(svg_body(&tests_then_code(), &under_way()));
}

#[test]
fn every_kind_has_a_word_and_a_sign() {
    let flow = flow(vec![step("a", &[], Some(gate("g", 2, &[("", Some("a"))])))]);
    let plain = svg(&flow, &no_marks());
    for kind in StateKind::ALL {
        // Without a word, the kind's own word is shown.
        let marks = marked(&[("a", kind, " ", "")]);
        let (picture, text) = (svg(&flow, &marks), mermaid(&flow, &marks));
        assert!(picture.contains(&format!(">{kind}</text>")), "{kind}");
        let signs = |picture: &str| picture.matches("<path class=\"lc-sign\"").count();
        let added = signs(&picture) - signs(&plain);
        let is_at_gate = marks["a"].is_at_gate();
        assert_eq!(added, if is_at_gate { 2 } else { 1 }, "{kind}");
        assert!(text.contains(&format!("<br/>{kind}\"]")), "{text}");
        let members = if is_at_gate { "a,g" } else { "a" };
        assert!(text.contains(&format!("class {members}")), "{text}");
    }
}

#[test]
fn the_end_is_reached_when_every_step_has_passed() {
    let flow = tests_then_code();
    let done = |marks: &StepMarks| svg(&flow, marks).contains(">every step has passed<");
    assert!(done(&no_marks()) && !done(&under_way()));
    let passed = |id: &'static str| (id, StateKind::Done, "complete", "");
    assert!(!done(&marked(&[passed("X-1")])) && done(&marked(&[passed("X-1"), passed("X-2")])));
}

#[test]
fn a_picture_needs_nothing_from_outside() {
    let picture = svg(&diamond(), &under_way());
    for foreign in ["<script", "href", "url(", "@import", "<image", "<foreignObject"] {
        assert!(!picture.contains(foreign), "{foreign}");
    }
    assert_eq!(picture.matches("http").count(), 1, "only the namespace of SVG itself");
    assert!(picture.contains("prefers-color-scheme: dark"));
    assert!(!picture.contains("banksman-drawing"), "the style applies only to this picture");
}

#[test]
fn text_cannot_leave_its_place() {
    let bad = "</text><script>alert('&')</script>\"]; x --> y\u{1}\n";
    let mut back = gate(bad, 2, &[(bad, Some(bad)), ("", None)]);
    back.name = bad.to_owned();
    let mut hostile = step(bad, &[], Some(back));
    (hostile.name, hostile.role) = (bad.to_owned(), bad.to_owned());
    hostile.needs.push(Need::Elsewhere { workflow: bad.to_owned(), step: bad.to_owned() });
    let mut flow = flow(vec![hostile]);
    (flow.id, flow.name, flow.about) = (bad.to_owned(), bad.to_owned(), bad.to_owned());
    let marks = marked(&[(bad, StateKind::Waiting, bad, bad)]);

    let picture = svg(&flow, &marks);
    assert!(!picture.contains("<script") && !picture.contains('\u{1}'));
    let text = mermaid(&flow, &marks);
    for forbidden in ["<script", "&", ";\"];", "x -->", "\u{1}"] {
        assert!(!text.contains(forbidden), "{forbidden}: {text}");
    }
    // No name begins a line of its own: a head, 5 nodes, 5 edges, and the classes.
    let nodes = text.lines().filter(|line| line.contains("\"]") || line.contains("\"}")).count();
    let ways = text.lines().filter(|line| line.contains("> ") || line.contains(">|")).count();
    assert_eq!((nodes, ways, text.lines().count()), (5, 5, 21), "{text}");
}

#[test]
fn mermaid_ids_are_words_and_differ() {
    let names = ["end", "a[1,2]", "a/1/2", "graph", "v", "1st"];
    let text = mermaid(&flow(names.map(|name| step(name, &[], None)).to_vec()), &no_marks());
    for id in ["node_end", "a_1_2", "a_1_2_2", "node_graph", "node_v", "node_1st"] {
        assert!(text.contains(&format!("\n    {id}[\"")), "{id}: {text}");
    }
}

#[test]
fn what_a_step_needs_is_above_it() {
    // The file names the last step first, and its gate sends back over all others.
    let mut flow = diamond();
    flow.steps.reverse();
    let picture = svg(&flow, &no_marks());
    let tops: Vec<i64> =
        ["plan", "left", "join", DONE].iter().map(|id| top_of(&picture, id)).collect();
    assert!(tops.is_sorted(), "{tops:?}");
}

fn top_of(picture: &str, name: &str) -> i64 {
    let end = format!(">{name}</text>");
    let line = picture.lines().find(|line| line.contains("lc-name") && line.ends_with(&end));
    let (_, rest) = line.expect("it is drawn").split_once(" y=\"").expect("it has a position");
    rest.split('"').next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn a_large_flow_is_drawn() {
    let flow = chain(500, 3);
    let picture = svg(&flow, &no_marks());
    assert_eq!(picture.matches("class=\"lc-name").count(), 1_001);
    assert!(picture.len() < 4_000_000, "{} bytes", picture.len());
    assert_eq!(mermaid(&flow, &no_marks()).matches(" -.->").count(), 500);
}

#[test]
fn flows_that_no_file_can_have_are_drawn() {
    let circle = flow(vec![
        step("a", &["b"], Some(gate("g", 2, &[("", Some("nowhere"))]))),
        step("b", &["a", "nowhere"], None),
        step("c", &["c"], None),
    ]);
    for flow in [circle, flow(Vec::new())] {
        let (picture, text) = (svg(&flow, &no_marks()), mermaid(&flow, &no_marks()));
        for step in &flow.steps {
            assert!(picture.contains(&format!(">{}</text>", step.id)), "{picture}");
        }
        assert!(picture.ends_with("</svg>\n") && text.contains("DONE"), "{text}");
    }
}

/// Any steps with any needs before them and gates that lead anywhere.
fn any_flow() -> impl Strategy<Value = Workflow> {
    let one = (prop::collection::vec(0..9_usize, 0..3), prop::collection::vec(0..11_usize, 0..3));
    prop::collection::vec(one, 0..9).prop_map(|drawn| {
        let named = |place: &usize| format!("s{place}");
        let steps = drawn.iter().enumerate().map(|(place, (needs, backs))| {
            let needs: Vec<String> =
                needs.iter().filter(|need| **need < place).map(named).collect();
            let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
            let backs: Vec<String> = backs.iter().map(named).collect();
            let ways: Vec<(&str, Option<&str>)> =
                backs.iter().map(|to| ("why", (to != "s10").then_some(to.as_str()))).collect();
            step(
                &format!("s{place}"),
                &needs,
                (place % 3 > 0).then(|| gate(&format!("g{place}"), 2, &ways)),
            )
        });
        flow(steps.collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn every_way_is_in_both_drawings(flow in any_flow()) {
        let net = graph(&flow, &no_marks());
        let (picture, text) = (svg(&flow, &no_marks()), mermaid(&flow, &no_marks()));
        for edge in &net.edges {
            let title = format!("<title>{}</title>", net.edge_title(edge));
            // A line that goes round also has a row.
            let shown = picture.matches(&title).count();
            prop_assert!((1..=2).contains(&shown), "{} {} times", title, shown);
        }
        let back = net.edges.iter().filter(|edge| edge.is_back).count();
        prop_assert_eq!(text.matches(" -.->").count(), back);
        prop_assert_eq!(text.matches(" -->").count(), net.edges.len() - back);
        prop_assert_eq!(picture.matches("<g class=\"lc-edge lc-dashed").count(), back);
        prop_assert_eq!(svg(&flow.clone(), &no_marks()), picture);
    }
}
