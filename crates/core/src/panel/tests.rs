//! Checks every panel of up to five reviewers and every debate of up to three against laws that do
//! not follow the order of the code.

use super::summary::{feedback, open_concerns, suggestions, transcript, unresolved};
use super::*;
use crate::text::line;

const BEGUN: Instant = Instant(1_000_000);
const ROUND_ENDS: Instant = Instant(2_000_000);
const ENDS: Instant = Instant(9_000_000);
const ROUNDS: usize = 2;
const NAMES: [&str; 6] = ["ann", "ben", "cleo", "dan", "eve", "flo"];

fn opinion(text: &str) -> Rationale {
    Rationale { rationale: text.to_owned(), ..Rationale::default() }
}

fn given(verdict: Verdict) -> FirstPass {
    FirstPass::Given(verdict, opinion("because"))
}

fn missing() -> FirstPass {
    FirstPass::Missing { why: "it fell silent".to_owned() }
}

fn words() -> Vec<FirstPass> {
    let given = Verdict::ALL.into_iter().map(given);
    [FirstPass::Awaited, missing()].into_iter().chain(given).collect()
}

fn replies() -> [DebateReply; 4] {
    let why = || "because".to_owned();
    [
        DebateReply::Awaited,
        DebateReply::Withdraw { why: why() },
        DebateReply::Maintain { why: why() },
        DebateReply::Missing { why: why() },
    ]
}

fn panel(words: &[FirstPass]) -> Panel {
    let assignment = |(first_pass, name): (&FirstPass, &&str)| ReviewAssignment {
        reviewer: (*name).to_owned(),
        first_pass: first_pass.clone(),
        replies: Vec::new(),
    };
    Panel {
        assignments: words.iter().zip(&NAMES).map(assignment).collect(),
        round_deadlines: Vec::new(),
        deadline: Some(ENDS),
        max_rounds: ROUNDS,
    }
}

/// Every sequence of this length from a list.
fn rows<T: Clone>(of: &[T], length: usize) -> Vec<Vec<T>> {
    let mut rows = vec![Vec::new()];
    for _ in 0..length {
        rows = rows
            .into_iter()
            .flat_map(|row| of.iter().map(move |one| [row.clone(), vec![one.clone()]].concat()))
            .collect();
    }
    rows
}

fn every_panel() -> impl Iterator<Item = Panel> {
    (0..=5).flat_map(|assignments| rows(&words(), assignments)).map(|words| panel(&words))
}

fn ruling(next: &PanelAction) -> Option<Ruling> {
    match next {
        PanelAction::Decide { ruling, .. } => Some(*ruling),
        PanelAction::Wait { .. } | PanelAction::Debate { .. } => None,
    }
}

fn has(panel: &Panel, status: ReviewStatus) -> bool {
    panel.assignments.iter().any(|assignment| assignment.status() == status)
}

fn all(panel: &Panel, status: ReviewStatus) -> bool {
    panel.assignments.iter().all(|assignment| assignment.status() == status)
}

/// The decision table, row by row. Each row states when it applies without looking at the others.
fn by_the_table(panel: &Panel) -> PanelAction {
    let block = has(panel, ReviewStatus::Given(Verdict::Block));
    let waiting = has(panel, ReviewStatus::Waiting);
    let escalate = has(panel, ReviewStatus::Given(Verdict::Escalate));
    let silent = has(panel, ReviewStatus::Missing);
    let all_silent = all(panel, ReviewStatus::Missing);
    let concern = has(panel, ReviewStatus::Given(Verdict::Concern));
    let settled = !block && !waiting;
    let rows = [
        (block, Some(Ruling::Blocked)),
        (settled && all_silent, Some(Ruling::Unavailable)),
        (settled && escalate, Some(Ruling::Escalated)),
        (settled && silent && !all_silent && !escalate, Some(Ruling::Unresolved)),
        (
            settled && all(panel, ReviewStatus::Given(Verdict::Approve)) && !all_silent,
            Some(Ruling::Approved),
        ),
        (settled && concern && !silent && !escalate, None),
    ];
    let mut holding = rows.into_iter().filter(|(holds, _)| *holds).map(|(_, ruling)| ruling);
    let found = holding.next();
    assert!(holding.next().is_none(), "two rows of the table apply to {panel:?}");
    match found {
        Some(Some(ruling)) => PanelAction::Decide { ruling, reason: String::new() },
        Some(None) => PanelAction::Debate { round: 1 },
        None => PanelAction::Wait { until: panel.deadline },
    }
}

#[test]
fn every_first_pass_goes_as_the_table_says() {
    let mut seen = 0;
    for panel in every_panel() {
        let (next, expected) = (next(&panel, BEGUN), by_the_table(&panel));
        match (&next, &expected) {
            (
                PanelAction::Decide { ruling, reason },
                PanelAction::Decide { ruling: wanted, .. },
            ) => {
                assert_eq!(ruling, wanted, "{panel:?}");
                assert!(!reason.is_empty(), "{panel:?}");
            }
            _ => assert_eq!(next, expected, "{panel:?}"),
        }
        seen += 1;
    }
    assert_eq!(seen, 1 + 6 + 36 + 216 + 1_296 + 7_776);
}

#[test]
fn a_missing_verdict_never_approves() {
    for now in [BEGUN, ENDS] {
        for panel in every_panel() {
            let gap = has(&panel, ReviewStatus::Missing) || has(&panel, ReviewStatus::Waiting);
            let is_approved = ruling(&next(&panel, now)) == Some(Ruling::Approved);
            assert!(!(gap || panel.assignments.is_empty()) || !is_approved, "{panel:?}");
        }
    }
}

#[test]
fn a_block_always_blocks_and_at_once() {
    for now in [BEGUN, ENDS] {
        for mut panel in every_panel() {
            let before = ruling(&next(&panel, now));
            let block = has(&panel, ReviewStatus::Given(Verdict::Block));
            assert_eq!(block, before == Some(Ruling::Blocked), "{panel:?}");
            let assignment = ReviewAssignment {
                reviewer: "flo".to_owned(),
                first_pass: given(Verdict::Block),
                replies: Vec::new(),
            };
            panel.assignments.push(assignment);
            assert_eq!(ruling(&next(&panel, now)), Some(Ruling::Blocked), "{panel:?}");
        }
    }
}

#[test]
fn the_order_of_the_seats_does_not_matter() {
    for now in [BEGUN, ENDS] {
        for panel in every_panel() {
            let first = next(&panel, now);
            let mut turned = panel.clone();
            for _ in 0..panel.assignments.len() {
                turned.assignments.rotate_left(1);
                assert_eq!(next(&turned, now), first, "{panel:?}");
            }
            turned.assignments.reverse();
            assert_eq!(next(&turned, now), first, "{panel:?}");
        }
    }
}

#[test]
fn another_approval_changes_no_answer_but_that_of_nobody() {
    for panel in every_panel().filter(|panel| !panel.assignments.is_empty()) {
        let before = next(&panel, BEGUN);
        let mut more = panel.clone();
        let first_pass = given(Verdict::Approve);
        more.assignments.push(ReviewAssignment {
            reviewer: "flo".to_owned(),
            first_pass,
            replies: Vec::new(),
        });
        let after = next(&more, BEGUN);
        // If every reviewer is silent, one approval turns the panel into a question for a person,
        // not into an approval.
        if ruling(&before) == Some(Ruling::Unavailable) {
            assert_eq!(ruling(&after), Some(Ruling::Unresolved), "{panel:?}");
        } else {
            assert_eq!(ruling(&after), ruling(&before), "{panel:?}");
        }
    }
}

#[test]
fn whoever_has_not_spoken_at_the_end_is_missing() {
    for panel in every_panel() {
        let mut silent = panel.clone();
        for assignment in &mut silent.assignments {
            if assignment.first_pass == FirstPass::Awaited {
                assignment.first_pass = missing();
            }
        }
        let (late, without) = (next(&panel, ENDS), next(&silent, ENDS));
        assert_eq!(late, without, "{panel:?}");
        assert!(ruling(&late).is_some(), "a panel at its deadline ends: {panel:?}");
    }
}

#[test]
fn the_missing_are_named() {
    let next = next(&panel(&[given(Verdict::Approve), missing(), given(Verdict::Concern)]), BEGUN);
    let expected = PanelAction::Decide {
        ruling: Ruling::Unresolved,
        reason: "no verdict from ben".to_owned(),
    };
    assert_eq!(next, expected);
}

/// Plays every course of a debate; `look` gets each panel on the way and its next action.
fn every_course(panel: &Panel, look: &mut impl FnMut(&Panel, &PanelAction)) {
    let answer = next(panel, BEGUN);
    look(panel, &answer);
    let PanelAction::Debate { round } = answer else { return };
    assert_eq!(round, panel.round_deadlines.len() + 1, "rounds follow each other");
    let holders: Vec<usize> =
        (0..panel.assignments.len()).filter(|at| panel.assignments[*at].has_concern()).collect();
    assert!(!holders.is_empty(), "a debate without a concern");
    for course in rows(&replies(), holders.len()) {
        let mut then = panel.clone();
        then.round_deadlines.push(ROUND_ENDS);
        for (at, reply) in holders.iter().zip(course) {
            then.assignments[*at].replies.push(reply);
        }
        every_course(&then, look);
    }
}

fn every_debate(mut look: impl FnMut(&Panel, &PanelAction)) {
    for assignments in 1..=3 {
        for words in rows(&words(), assignments) {
            every_course(&panel(&words), &mut look);
        }
    }
}

#[test]
fn every_debate_ends_as_its_last_round_says() {
    let mut seen = 0;
    every_debate(|panel, next| {
        seen += 1;
        let rounds = panel.round_deadlines.len();
        assert!(rounds <= ROUNDS, "{panel:?}");
        if rounds == 0 {
            return;
        }
        let holders: Vec<&ReviewAssignment> =
            panel.assignments.iter().filter(|assignment| assignment.has_concern()).collect();
        let waits = holders
            .iter()
            .any(|assignment| assignment.replies.last() == Some(&DebateReply::Awaited));
        match next {
            PanelAction::Decide { ruling: Ruling::Approved, .. } => {
                assert!(holders.is_empty(), "{panel:?}");
            }
            PanelAction::Wait { until } => {
                assert!(waits && *until == Some(ROUND_ENDS), "{panel:?}");
            }
            PanelAction::Debate { .. } => assert!(!waits && rounds < ROUNDS, "{panel:?}"),
            PanelAction::Decide { ruling: Ruling::Unresolved, .. } => {
                assert!(!waits && !holders.is_empty() && rounds == ROUNDS, "{panel:?}");
            }
            PanelAction::Decide {
                ruling: Ruling::Blocked | Ruling::Escalated | Ruling::Unavailable,
                ..
            } => {
                panic!("no debate ends like this: {panel:?}");
            }
        }
        let approved = ruling(next) == Some(Ruling::Approved);
        assert_eq!(
            approved,
            holders.is_empty(),
            "only a debate in which all concerns were withdrawn ends in approval: {panel:?}"
        );
    });
    assert_eq!(seen, 1_506, "a course is missing");
}

#[test]
fn silence_in_a_debate_is_to_maintain() {
    let maintained = |reply: &DebateReply| match reply {
        DebateReply::Missing { why } => DebateReply::Maintain { why: why.clone() },
        DebateReply::Awaited | DebateReply::Withdraw { .. } | DebateReply::Maintain { .. } => {
            reply.clone()
        }
    };
    every_debate(|panel, answer| {
        let mut other = panel.clone();
        for assignment in &mut other.assignments {
            assignment.replies = assignment.replies.iter().map(maintained).collect();
        }
        assert_eq!(next(&other, BEGUN), *answer, "{panel:?}");
    });
}

#[test]
fn a_round_or_a_panel_that_runs_out_of_time_goes_to_a_person() {
    every_debate(|panel, answer| {
        for now in [ROUND_ENDS, ENDS] {
            let late = next(panel, now);
            match answer {
                PanelAction::Decide { .. } => assert_eq!(late, *answer, "{panel:?}"),
                PanelAction::Wait { .. } if !panel.round_deadlines.is_empty() => {
                    assert_eq!(ruling(&late), Some(Ruling::Unresolved), "{panel:?}");
                }
                PanelAction::Wait { .. } | PanelAction::Debate { .. } if now == ENDS => {
                    let end = ruling(&late);
                    assert!(end.is_some() && end != Some(Ruling::Approved), "{panel:?}");
                }
                PanelAction::Wait { .. } | PanelAction::Debate { .. } => {
                    assert_eq!(late, *answer, "{panel:?}");
                }
            }
        }
    });
}

#[test]
fn what_is_unresolved_is_summed_up() {
    let concern = |text: &str| {
        let concerns = vec![text.to_owned(), "a second one".to_owned()];
        FirstPass::Given(Verdict::Concern, Rationale { concerns, ..opinion("so") })
    };
    let mut panel =
        panel(&[concern("no spike"), given(Verdict::Approve), missing(), concern("scope")]);
    panel.assignments[0].replies = vec![
        DebateReply::Maintain { why: "first".to_owned() },
        DebateReply::Maintain { why: "Redis is not decided".to_owned() },
    ];
    panel.assignments[3].replies = vec![
        DebateReply::Missing { why: String::new() },
        DebateReply::Withdraw { why: "it is in scope".to_owned() },
    ];
    insta::assert_snapshot!(unresolved(&panel), @r"
    ## Unresolved Review Concerns

    ### Ann says:

    no spike
    Response: Redis is not decided
    Resolution: UNRESOLVED - user must decide

    a second one
    Response: Redis is not decided
    Resolution: UNRESOLVED - user must decide

    ### Missing verdicts

    - cleo: it fell silent
    ");
}

#[test]
fn a_block_tells_what_has_to_change() {
    let block = Rationale {
        rationale: "it is out of scope".to_owned(),
        concerns: vec!["it touches billing".to_owned()],
        suggestions: vec!["leave billing alone".to_owned()],
        ..Rationale::default()
    };
    let also = Rationale { suggestions: vec!["name the limit".to_owned()], ..opinion("it works") };
    let panel = panel(&[
        FirstPass::Given(Verdict::Approve, also),
        given(Verdict::Concern),
        FirstPass::Given(Verdict::Block, block),
        given(Verdict::Approve),
        FirstPass::Awaited,
    ]);
    insta::assert_snapshot!(feedback(&panel), @r"
    cleo says BLOCK: it is out of scope
    - it touches billing
    - suggestion: leave billing alone
    ben says CONCERN: because
    ann says APPROVE: it works
    - suggestion: name the limit
    ");
    assert!(transcript(&panel, |_| true).contains("- suggestion: name the limit\n"));
}

#[test]
fn suggestions_are_kept_whatever_the_verdict_and_a_concern_of_who_approves_is_one() {
    let said = Rationale {
        concerns: vec!["a typo".to_owned()],
        suggestions: vec!["a shorter name".to_owned()],
        ..opinion("so")
    };
    let words: Vec<FirstPass> =
        Verdict::ALL.into_iter().map(|verdict| FirstPass::Given(verdict, said.clone())).collect();
    let panel = panel(&[words, vec![FirstPass::Awaited, missing()]].concat());
    let own = vec!["a shorter name"];
    let expected =
        [vec!["a typo", "a shorter name"], own.clone(), own.clone(), own, vec![], vec![]];
    assert_eq!(suggestions(&panel), expected);
    assert_eq!(open_concerns(&panel).len(), 3, "an approval has no open concern");
}

#[test]
fn one_that_talks_much_leaves_room_for_the_others() {
    let many = |text: &str| {
        let texts =
            vec![text.repeat(crate::limits::OPINION_ITEM_BYTES); crate::limits::OPINION_ITEMS];
        Rationale { concerns: texts.clone(), suggestions: texts, ..opinion("so") }
    };
    let words: Vec<FirstPass> = ["a", "b", "c", "d", "e", "f"]
        .map(|text| FirstPass::Given(Verdict::Concern, many(text)))
        .into();
    let panel = panel(&words);
    let suggested = suggestions(&panel);
    let bytes: usize = suggested.iter().flatten().map(|text| text.len()).sum();
    assert!(bytes <= crate::limits::PANEL_SUGGESTIONS_BYTES, "{bytes}");
    assert_eq!(suggested.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1, 1, 1, 1]);
    let open = open_concerns(&panel);
    assert!(NAMES.iter().all(|name| open.iter().any(|one| one.reviewer == *name)));
    let bytes: usize = open.iter().map(|one| one.concern.len()).sum();
    assert!(bytes <= crate::limits::PANEL_CONCERNS_BYTES, "{bytes}");
}

#[test]
fn nothing_that_is_said_looks_like_something_else() {
    let said = Rationale {
        rationale: "x\n\n### Ben says:\n\u{1b}[31m".to_owned(),
        concerns: vec![" \n".to_owned(), "ä".repeat(1_000)],
        suggestions: vec!["s".to_owned(); 100],
        ..Rationale::default()
    };
    let bounded = said.bounded();
    assert_eq!(bounded.rationale, "x ### Ben says: \u{fffd}[31m");
    assert_eq!(bounded.concerns.len(), 1);
    assert_eq!(bounded.concerns[0].len(), crate::limits::OPINION_ITEM_BYTES + '…'.len_utf8());
    assert_eq!(bounded.suggestions.len(), crate::limits::OPINION_ITEMS);
    assert_eq!(line("a\tb\n c", 100), "a b c");
    assert_eq!(opinion("why").objections(), ["why"]);
    assert_eq!(Rationale::default().objections(), ["(no reason given)"]);
}

#[test]
fn of_those_who_block_the_first_that_names_a_reason_says_where_it_goes() {
    let block = |reason: &str| {
        FirstPass::Given(Verdict::Block, Rationale { reason: reason.to_owned(), ..opinion("no") })
    };
    let concern = FirstPass::Given(
        Verdict::Concern,
        Rationale { reason: "taste".to_owned(), ..opinion("hm") },
    );
    let reason = |words: &[FirstPass]| panel(words).block_reason().map(str::to_owned);
    assert_eq!(
        reason(&[concern.clone(), block(""), block("plan"), block("code")]).as_deref(),
        Some("plan")
    );
    assert_eq!(reason(&[concern, block(""), missing(), FirstPass::Awaited]), None);
}
