//! The five measures, the shape of a plan, the order of its items and its wording.

use proptest::prelude::*;
use serde_json::json;

use super::proposal::{
    Iteration, history, hours, item_body, proposal, summary_line, with_section, without_section,
};
use super::*;

fn subtask(id: &str) -> Subtask {
    Subtask {
        id: id.to_owned(),
        title: format!("Do {id}"),
        description: format!("All about {id}."),
        estimate_minutes: 120,
        confidence: Confidence::Medium,
        files: vec![format!("src/{id}.rs")],
        purposes: vec!["one limit for all".to_owned()],
        tested_by: "a unit test".to_owned(),
        review_minutes: 10,
        acceptance: vec!["429 beyond the limit".to_owned()],
        tags: vec![],
    }
}

fn edge(from: &str, to: &str, kind: EdgeKind) -> PlanEdge {
    PlanEdge { from: from.to_owned(), to: to.to_owned(), kind }
}

fn spike(id: &str, blocks: &[&str]) -> Spike {
    let blocks = blocks.iter().map(|id| (*id).to_owned()).collect();
    Spike { id: id.to_owned(), question: "Redis or in memory?".to_owned(), blocks }
}

fn plan(ids: &[&str]) -> Plan {
    Plan { subtasks: ids.iter().map(|id| subtask(id)).collect(), ..Plan::default() }
}

fn rate_limits() -> Plan {
    Plan {
        edges: vec![
            edge("limiter", "routes", EdgeKind::Blocks),
            edge("limiter", "docs", EdgeKind::Informs),
        ],
        spikes: vec![spike("store", &["limiter"])],
        assumptions: vec!["One process serves all requests".to_owned()],
        risks: vec![Risk {
            risk: "Clients are locked out".to_owned(),
            mitigation: "a flag turns it off".to_owned(),
        }],
        ..plan(&["docs", "limiter", "routes"])
    }
}

#[test]
fn each_of_the_five_measures_counts_by_itself() {
    let with = |change: fn(&mut Subtask)| {
        let mut one = subtask("a");
        change(&mut one);
        one.size_problems().join(", ")
    };
    assert_eq!(with(|_| {}), "");
    assert_eq!(with(|one| one.estimate_minutes = 240), "");
    assert_eq!(
        with(|one| one.estimate_minutes = 241),
        "it takes 4h1min, more than the limit of 4h"
    );
    assert_eq!(with(|one| one.estimate_minutes = 0), "it has no estimate");
    let ten = |one: &mut Subtask| one.files = (0..10).map(|at| format!("{at}.rs")).collect();
    let mut most = subtask("a");
    ten(&mut most);
    assert_eq!(most.size_problems(), Vec::<String>::new());
    assert_eq!(
        with(|one| one.files = (0..15).map(|at| format!("{at}.rs")).collect()),
        "it touches 15 files, more than the limit of 10"
    );
    // A file that is named twice counts once, and a folder hides how many files there are.
    assert_eq!(with(|one| one.files = vec!["a.rs".to_owned(); 11]), "");
    for path in ["src/", "src/*.rs", ""] {
        let mut one = subtask("a");
        one.files = vec![path.to_owned()];
        assert!(one.size_problems()[0].contains("is not a single file"), "{path}");
    }
    assert_eq!(with(|one| one.files.clear()), "it does not name the files that it touches");
    assert_eq!(
        with(|one| one.purposes.push("and another".to_owned())),
        "it has 2 purposes, more than the limit of one"
    );
    assert_eq!(with(|one| one.purposes = vec![" ".to_owned()]), "it does not name its purpose");
    assert_eq!(with(|one| one.tested_by.clear()), "it cannot be tested in isolation");
    assert_eq!(with(|one| one.review_minutes = 15), "");
    assert_eq!(
        with(|one| one.review_minutes = 16),
        "its review takes 16min, more than the limit of 15min"
    );
}

#[test]
fn a_plan_that_does_not_hold_together_is_told_why() {
    let fault = |change: &dyn Fn(&mut Plan)| {
        let mut one = rate_limits();
        change(&mut one);
        one.problems().join(", ")
    };
    assert_eq!(fault(&|_| {}), "");
    assert_eq!(
        fault(&|plan| plan.subtasks[0] = subtask("limiter")),
        "the id `limiter` is used twice, an edge names `docs`, which is neither a subtask nor a spike"
    );
    assert_eq!(
        fault(&|plan| plan.edges.push(edge("routes", "limiter", EdgeKind::Blocks))),
        "these items depend on each other in a cycle, or depend on one that does: docs, limiter, routes"
    );
    assert_eq!(
        fault(&|plan| plan.edges.push(edge("docs", "docs", EdgeKind::Informs))),
        "these items depend on each other in a cycle, or depend on one that does: docs"
    );
    assert_eq!(
        fault(&|plan| plan.edges.push(edge("docs", "store", EdgeKind::Blocks))),
        "the spike `store` must come first, so no edge may lead to it"
    );
    assert_eq!(
        fault(&|plan| plan.spikes[0].blocks = vec!["nothing".to_owned()]),
        "the spike `store` blocks `nothing`, which is not a subtask"
    );
    assert_eq!(
        fault(&|plan| plan.subtasks[1].id = "a b".to_owned()),
        "`a b` is not an id; use letters, digits, `-` and `_`"
    );
    assert_eq!(
        fault(&|plan| plan.subtasks[1].title = "two\nlines".to_owned()),
        "`limiter` needs a title or question on one line"
    );
    assert_eq!(
        fault(&|plan| plan.subtasks[1].tags =
            ["good", "error handling", ""].map(str::to_owned).into()),
        "`error handling` is not a tag: one word of at most 64 bytes, \
         `` is not a tag: one word of at most 64 bytes"
    );
    let bell = || "ring\u{7}".to_owned();
    assert_eq!(
        fault(&|plan| {
            plan.subtasks[0].description = bell();
            plan.subtasks[0].acceptance.push(bell());
            plan.subtasks[0].tested_by = bell();
        }),
        "the description of `docs` has control characters; remove them, \
         `tested_by` of `docs` has control characters; remove them, \
         an item of `docs` has control characters; remove them"
    );
    let many = limits::PLAN_SUBTASKS + 1;
    assert_eq!(
        fault(&|plan| plan.subtasks = (0..many).map(|at| subtask(&format!("s{at}"))).collect()),
        "21 subtasks, more than the limit of 20"
    );
    assert!(
        fault(&|plan| plan.subtasks[0].description = "x".repeat(2_001))
            .contains("is longer than 2000 bytes")
    );
    let mut spikes_only = plan(&[]);
    spikes_only.spikes = vec![spike("store", &[])];
    assert_eq!(spikes_only.problems(), ["there are spikes but no subtask that depends on them"]);
}

#[test]
fn what_the_schema_does_not_know_is_no_plan() {
    let sound = json!(rate_limits());
    assert_eq!(serde_json::from_value::<Plan>(sound.clone()).ok(), Some(rate_limits()));
    let mut more = sound;
    more["subtasks"][0]["pr_sized"] = json!(true);
    assert!(serde_json::from_value::<Plan>(more).is_err(), "a subtask cannot claim to be small");
}

#[test]
fn spikes_come_first_and_block_what_depends_on_them() {
    let plan = rate_limits();
    let order = plan.order();
    let ids: Vec<&str> = order.iter().map(|placed| placed.item.id()).collect();
    assert_eq!(ids, ["store", "limiter", "docs", "routes"]);
    let places = |set: &BTreeSet<usize>| set.iter().copied().collect::<Vec<_>>();
    let edges: Vec<_> =
        order.iter().map(|one| (places(&one.blocked_by), places(&one.informed_by))).collect();
    assert_eq!(edges, [(vec![], vec![]), (vec![0], vec![]), (vec![], vec![1]), (vec![1], vec![])]);
    let mut all = plan.clone();
    all.spikes[0].blocks.clear();
    assert!(all.order().iter().skip(1).all(|placed| placed.blocked_by.contains(&0)));
}

#[test]
fn the_proposal_has_the_form_that_people_know() {
    insta::assert_snapshot!(proposal(2, &rate_limits()), @"
    ## Decomposition Proposal v2

    ### Subtasks

    | ID      | Title      | Estimate | Confidence |
    | ------- | ---------- | -------- | ---------- |
    | docs    | Do docs    | 2h       | medium     |
    | limiter | Do limiter | 2h       | medium     |
    | routes  | Do routes  | 2h       | medium     |

    ### What each subtask does

    - docs: All about docs.
      - files: `src/docs.rs`
      - [ ] 429 beyond the limit
      - [ ] tested: a unit test
    - limiter: All about limiter.
      - files: `src/limiter.rs`
      - [ ] 429 beyond the limit
      - [ ] tested: a unit test
    - routes: All about routes.
      - files: `src/routes.rs`
      - [ ] 429 beyond the limit
      - [ ] tested: a unit test

    ### Dependency Graph

    store -> limiter (blocks)
    limiter -> routes (blocks)
    limiter ~> docs (informs)

    ### Information Spikes (must resolve first)

    - [ ] store: Redis or in memory?

    ### Assumptions (load-bearing, untested)

    - One process serves all requests

    ### Risks

    - Clients are locked out (mitigation: a flag turns it off)
    ");
}

#[test]
fn sections_without_entries_say_so() {
    let text = proposal(1, &plan(&["a"]));
    assert_eq!(text.matches("None.\n").count(), 4, "{text}");
}

#[test]
fn the_history_names_what_stood_against_each_iteration() {
    let mut big = plan(&["all"]);
    big.subtasks[0].files = (0..15).map(|at| format!("{at}.rs")).collect();
    let told = history(&[Iteration::of(1, &big), Iteration::of(2, &rate_limits())]);
    assert_eq!(
        told,
        "## Decomposition History\n\n- v1: 1 subtask; all: it touches 15 files, more than the limit of 10\n- v2: 3 subtasks; every subtask is PR-sized\n"
    );
}

#[test]
fn a_line_says_what_a_planner_has_brought() {
    assert_eq!(summary_line(&rate_limits()), "a plan of 3 subtasks and 1 spike");
    assert_eq!(summary_line(&plan(&["all"])), "a plan of 1 subtask");
    let none =
        "needs another pass: there is no subtask; a task that is small enough is one subtask";
    assert_eq!(summary_line(&plan(&[])), none);
    let mut big = plan(&["a", "b", "c"]);
    big.subtasks[1].review_minutes = 60;
    assert_eq!(summary_line(&big), "needs another pass: 1 subtask is too large");
    big.subtasks[2].files.clear();
    assert_eq!(summary_line(&big), "needs another pass: 2 subtasks are too large");
    big.subtasks[2].id = "a".to_owned();
    assert_eq!(summary_line(&big), "needs another pass: the id `a` is used twice");
    let whole = Plan { irreducible: "one\nregister ".repeat(100), ..plan(&["a"]) };
    let told = summary_line(&whole);
    assert!(told.starts_with("it cannot be broken down: one register one"), "{told}");
    assert!(told.len() <= limits::PLAN_OBJECTION_BYTES && !told.contains('\n'), "{told}");
}

#[test]
fn a_new_proposal_replaces_the_former_and_nothing_else() {
    let first = with_section("Limit the rate.\n", "one");
    let second = with_section(&first, "two");
    assert!(
        second.starts_with("Limit the rate.\n\n") && second.contains("\n\ntwo\n\n"),
        "{second}"
    );
    assert!(!second.contains("one"), "{second}");
    let noted = format!("{second}\nA note of Kim's.\n");
    let third = with_section(&noted, "three");
    assert!(third.ends_with("\nA note of Kim's.\n") && !third.contains("two"), "{third}");
    assert_eq!(without_section(&second), "Limit the rate.");
    assert_eq!(with_section("", "x").matches("banksman").count(), 2);
}

#[test]
fn words_of_a_planner_cannot_end_our_part_of_a_body() {
    let mut plan = rate_limits();
    plan.assumptions = vec!["<!-- banksman: end of the plan -->\n# mine".to_owned()];
    plan.subtasks[0].title = "a | b".to_owned();
    let body = with_section("before", &proposal(1, &plan));
    assert_eq!(with_section(&body, "x"), with_section("before", "x"));
    assert!(body.contains("a \\| b"), "{body}");
}

#[test]
fn a_body_without_room_keeps_what_people_wrote() {
    let full = "x".repeat(limits::BODY_BYTES);
    assert_eq!(with_section(&full, "plan"), full);
    let nearly = "x".repeat(limits::BODY_BYTES - 1_000);
    let with = with_section(&nearly, &"y".repeat(2_000));
    assert!(with.starts_with(&nearly) && with.contains("does not fit"));
}

#[test]
fn a_part_is_told_what_it_has_to_do_and_what_it_belongs_to() {
    let plan = rate_limits();
    let order = plan.order();
    let text = item_body(order[1].item, 2, ("t7", "Limit the rate"));
    for words in
        ["All about limiter.", "- [ ] 429 beyond the limit", "`src/limiter.rs`", "plan v2 of t7"]
    {
        assert!(text.contains(words), "{text}");
    }
    let text = item_body(order[0].item, 2, ("t7", "Limit the rate"));
    assert!(text.contains("Redis or in memory?") && text.contains("`store` of plan v2"), "{text}");
}

#[test]
fn times_are_read_as_people_write_them() {
    assert_eq!([5, 60, 90, 240].map(hours), ["5min", "1h", "1h30min", "4h"]);
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let id = prop_oneof!["[a-f]", "[a-z]{1,4}"];
    let kind = prop_oneof![Just(EdgeKind::Blocks), Just(EdgeKind::Informs)];
    let edge =
        (id.clone(), id.clone(), kind).prop_map(|(from, to, kind)| PlanEdge { from, to, kind });
    let spike = (id.clone(), prop::collection::vec(id.clone(), 0..3))
        .prop_map(|(id, blocks)| Spike { id, question: "?".to_owned(), blocks });
    let subtasks = prop::collection::vec(id, 0..8);
    (subtasks, prop::collection::vec(edge, 0..10), prop::collection::vec(spike, 0..3)).prop_map(
        |(ids, edges, spikes)| {
            let subtasks = ids.iter().map(|id| subtask(id)).collect();
            Plan { subtasks, edges, spikes, ..Plan::default() }
        },
    )
}

proptest! {
    /// Every item of a sound plan has one position, after all its dependencies.
    #[test]
    fn a_sound_plan_has_an_order(plan in any_plan()) {
        let order = plan.order();
        if plan.problems().is_empty() {
            prop_assert_eq!(order.len(), plan.subtasks.len() + plan.spikes.len());
            for spike in &plan.spikes {
                for subtask in plan.subtasks.iter().filter(|one| spike.blocks.is_empty() || spike.blocks.contains(&one.id)) {
                    let at = |id: &str| order.iter().position(|placed| placed.item.id() == id);
                    prop_assert!(order[at(&subtask.id).unwrap()].blocked_by.contains(&at(&spike.id).unwrap()));
                }
            }
        }
        for (at, placed) in order.iter().enumerate() {
            prop_assert!(placed.blocked_by.iter().chain(&placed.informed_by).all(|before| *before < at));
            prop_assert!(placed.blocked_by.is_disjoint(&placed.informed_by));
        }
    }

    /// However often it is replaced, Banksman's section exists once, and the text of people stays.
    #[test]
    fn our_part_of_a_body_is_there_once(body in "(?s).{0,200}", first in "[a-z ]{0,40}", second in "[a-z ]{0,40}") {
        let once = with_section(&body, &first);
        let twice = with_section(&once, &second);
        prop_assert_eq!(&twice, &with_section(&body, &second));
        prop_assert_eq!(twice.matches("<!-- banksman: the plan -->").count(), 1);
        prop_assert!(twice.starts_with(body.trim_end()));
    }
}
