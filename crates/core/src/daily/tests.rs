//! Whatever people and titles contain, no text of theirs is lost, and only people answer decisions.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn pending(id: i64, summary: &str, about: PendingDetails) -> PendingDecision {
    let choice =
        |(action, needs_note): (&str, bool)| Choice { action: action.to_owned(), needs_note };
    PendingDecision {
        id: DecisionId(id),
        version: 5,
        task: TaskId(id),
        summary: summary.to_owned(),
        question: None,
        work: Vec::new(),
        answered: None,
        asks: "Shall this plan be carried out?".to_owned(),
        age: Span(2 * 86_400_000),
        lapse: Some((Span(5 * 86_400_000), "failed".to_owned())),
        offers: [("approve", false), ("changes", true), ("back", false)].map(choice).to_vec(),
        about,
    }
}

fn standard(id: i64, summary: &str) -> PendingDecision {
    pending(id, summary, PendingDetails::Standard { risk: "Low".to_owned() })
}

fn page(pending: Vec<PendingDecision>) -> NotePage {
    NotePage { pending, ..NotePage::default() }
}

fn whole() -> NotePage {
    let concern = "critic/custodiet disagree on scope".to_owned();
    let merge = PendingDetails::Merge {
        pr: "https://example.org/pull/123".to_owned(),
        tests: "Pass".to_owned(),
        reviews: "3/3 APPROVE".to_owned(),
    };
    NotePage {
        pending: vec![
            standard(12, "Decompose auth module"),
            pending(13, "Refactor DB layer", PendingDetails::Escalated { concern }),
            pending(14, "Added auth module", merge),
        ],
        left_out: 2,
        completed: vec![Completed {
            task: TaskId(9),
            title: "Auth Module Implementation".to_owned(),
            pr: "https://example.org/pull/7".to_owned(),
            merged: true,
            unproven: None,
            at: "10:30".to_owned(),
            effort: "6h (estimated 4h)".to_owned(),
            learnings: String::new(),
            follow_ups: "1 task created".to_owned(),
        }],
        alerts: vec![Alert {
            condition: "Task stuck > 24h",
            severity: Severity::Warning,
            task: Some(TaskId(3)),
            detail: "Fix the build".to_owned(),
        }],
    }
}

fn merged(text: &str, page: &NotePage) -> String {
    merge(text, "2026-11-15", page, &BTreeMap::new())
}

fn reported(text: &str, page: &NotePage, id: i64, report: EntryOutcome) -> String {
    merge(text, "2026-11-15", page, &BTreeMap::from([(DecisionId(id), report)]))
}

fn said(text: &str) -> Vec<(String, i64, NoteAnswer)> {
    let edited = parse(text).into_iter().filter(|entry| entry.answer != NoteAnswer::Nothing);
    edited.map(|entry| (entry.id.to_string(), entry.version, entry.answer)).collect()
}

fn answer(word: &str, note: Option<&str>) -> NoteAnswer {
    NoteAnswer::Answer { word: word.to_owned(), note: note.map(str::to_owned) }
}

#[test]
fn a_whole_note() {
    insta::assert_snapshot!(merged("", &whole()));
}

#[test]
fn a_title_means_nothing_to_markdown() {
    let title = "a | b <!-- c --> [[t9]] `d` *e* #f\n\u{2028}\u{202e}$g$";
    let note = merged("", &page(vec![standard(1, title)]));
    let escaped = "a \\| b \\<!-- c --\\> \\[\\[t9\\]\\] \\`d\\` \\*e\\* \\#f  \u{fffd}\\$g\\$";
    assert!(note.contains(&format!("| [[t1]] | {escaped} | Low  | 2d  |\n")), "{note}");
    assert!(note.contains(&format!("#### d1 [[t1]] {escaped}\n")), "{note}");
    let link = |pr: &str| {
        let (tests, reviews) = (String::new(), String::new());
        let about = PendingDetails::Merge { pr: pr.to_owned(), tests, reviews };
        merged("", &page(vec![pending(1, "a", about)]))
    };
    assert!(link("https://example.org/pull/7").contains("| [#7](https://example.org/pull/7) |"));
    assert!(link("https://example.org/x)[y](z").contains("| https://example.org/x)\\[y\\](z |"));
    assert!(link("javascript:alert").contains("| javascript:alert |"));
}

#[test]
fn a_note_with_nothing_in_it() {
    insta::assert_snapshot!(merged("", &NotePage::default()));
}

#[test]
fn a_ticked_box_an_edited_action_and_a_note_are_read() {
    let note = merged("", &whole());
    let ticked = note.replacen("- [ ] Approve", "- [x] Approve", 1);
    assert_eq!(said(&ticked), [("d12".to_owned(), 5, answer("Approve", None))]);
    let words = "- [X] Request Changes (needs a note)\n- [ ] Send Back\n- **Action**: changes\n\
                 - **Note**: a spike\n  on X first\n";
    let old = "- [ ] Request Changes (needs a note)\n- [ ] Send Back\n- **Action**:\n- **Note**:\n";
    let edited = note.replacen(old, words, 1);
    let expected = answer("changes", Some("a spike\non X first"));
    assert_eq!(said(&edited), [("d12".to_owned(), 5, expected)]);
}

#[test]
fn lines_that_end_as_on_windows_are_read() {
    let note = merged("", &whole()).replacen("- [ ] Approve", "- [x] Approve", 1);
    let note = note.replace('\n', "\r\n");
    assert_eq!(said(&note), [("d12".to_owned(), 5, answer("Approve", None))]);
    assert_eq!(merged(&note, &whole()).matches("banksman:decisions -->").count(), 1);
}

#[test]
fn two_boxes_are_no_answer() {
    let note = merged("", &page(vec![standard(1, "a")]));
    let note = note.replace("- [ ] Approve", "- [x] Approve").replace("[ ] Send", "[x] Send");
    let [(_, _, NoteAnswer::Unclear(why))] = &said(&note)[..] else { panic!("{note}") };
    assert_eq!(why, "more than one answer: Approve, back");
}

#[test]
fn what_was_not_carried_out_is_told_beside_the_entry_and_stays_as_it_was_seen() {
    let mut page = page(vec![standard(1, "a")]);
    let ticked = merged("", &page).replace("- [ ] Approve", "- [x] Approve");
    page.pending[0].version = 7;
    let refused = EntryOutcome::Refused("t1 has changed".to_owned());
    let note = reported(&ticked, &page, 1, refused.clone());
    assert!(note.contains("> **Not carried out**: t1 has changed\n"), "{note}");
    assert_eq!(said(&note), [("d1".to_owned(), 5, answer("Approve", None))]);
    assert_eq!(reported(&note, &page, 1, refused), note);
    // Without the tick there is no refusal to show, and the next answer applies to the current
    // version.
    let note = merged(&note.replace("[x]", "[ ]"), &page);
    assert!(!note.contains("Not carried out"), "{note}");
    let again = note.replace("- [ ] Approve", "- [x] Approve");
    assert_eq!(said(&again), [("d1".to_owned(), 7, answer("Approve", None))]);
}

#[test]
fn an_answered_entry_is_kept_and_asks_for_nothing() {
    let open = merged("", &page(vec![standard(1, "a")]));
    let ticked = open.replace("- [ ] Approve", "- [x] Approve\nmine");
    let done = EntryOutcome::Answered("approve by human:kim".to_owned());
    let note = reported(&ticked, &NotePage::default(), 1, done);
    insta::assert_snapshot!(note);
    let [entry] = &parse(&note)[..] else { panic!("{note}") };
    assert!(entry.is_processed);
    assert_eq!(merged(&note, &NotePage::default()), note);
    // Another person ticks another box: it is read, and refused.
    let other = note.replace("[x] Approve", "[ ] Approve").replace("[ ] Send", "[x] Send");
    let [entry] = &parse(&other)[..] else { panic!("{other}") };
    assert_eq!((entry.is_processed, &entry.answer), (false, &answer("back", None)));
    let late = EntryOutcome::Refused("d1 is settled".to_owned());
    let note = reported(&other, &NotePage::default(), 1, late);
    assert!(
        note.contains(
            "> **Answered**: approve by human:kim\n> **Not carried out**: d1 is settled\n"
        )
    );
    assert!(parse(&note)[0].is_processed);
}

#[test]
fn an_entry_that_is_gone_leaves_when_nobody_wrote_into_it() {
    let open = merged("", &page(vec![standard(1, "a")]));
    assert_eq!(merged(&open, &NotePage::default()), merged("", &NotePage::default()));
    let with_words = open.replace("- **Note**:", "- **Note**: ask Bo");
    let note = merged(&with_words, &NotePage::default());
    assert!(note.contains("- **Note**: ask Bo\n"), "{note}");
    assert!(note.contains("> **Not carried out**: this decision is no longer open\n"), "{note}");
}

#[test]
fn a_copy_of_an_entry_is_told_of_and_not_read() {
    let page = page(vec![standard(1, "a")]);
    let note = merged("", &page);
    let second = note.replace("- [ ] Approve", "- [x] Approve");
    let both = format!("{note}{second}");
    assert_eq!(said(&both), []);
    let note = merged(&both, &page);
    assert_eq!(note.matches("this entry was in the note twice").count(), 1, "{note}");
    assert_eq!(merged(&note, &page), note);
    assert_eq!(said(&note), []);
}

#[test]
fn a_file_that_was_cut_off_answers_nothing() {
    let note = merged("", &page(vec![standard(1, "a")])).replace("- [ ] Approve", "- [x] Approve");
    let end = note.find("<!-- banksman:decisions:end").unwrap();
    for length in (0..end).filter(|at| note.is_char_boundary(*at)) {
        assert_eq!(said(&note[..length]), [], "{length}");
    }
    assert_eq!(said(&note).len(), 1);
}

#[test]
fn words_between_our_lines_are_moved_below_the_section() {
    let page = page(vec![standard(1, "a")]);
    let note = merged("", &page);
    let edited = note.replace("### Standard Approvals\n", "### Standard Approvals\nI am away.\n");
    let note = merged(&edited, &page);
    assert!(note.contains("<!-- banksman:decisions:end -->\nI am away.\n"), "{note}");
    assert_eq!(merged(&note, &page), note);
    // An entry that lost its end marker gives its lines back.
    let broken = note
        .replace("- **Note**:", "- **Note**: x")
        .replace("- [ ] Approve", "- [x] Approve")
        .replace("<!-- banksman:entry:end d1 -->\n", "");
    assert_eq!(said(&broken), []);
    let mended = merged(&broken, &page);
    assert!(mended.contains("- **Note**: x\n"), "{mended}");
    assert_eq!(said(&mended), []);
}

fn hostile() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        Just("<!-- banksman:entry d2@1 -->".to_owned()),
        Just("<!-- banksman:answer d1 -->".to_owned()),
        Just("<!-- banksman:entry:end d1 -->".to_owned()),
        Just("<!-- banksman:decisions:end -->".to_owned()),
        Just("<!-- banksman:decisions -->".to_owned()),
        Just("<!-- banksman:closed d1@5 00000000 -->".to_owned()),
        Just("- [x] Approve".to_owned()),
        Just("- [ ] Approve".to_owned()),
        Just("- **Action**: approve".to_owned()),
        Just("- **Note**: n".to_owned()),
        Just("### Standard Approvals".to_owned()),
        Just("| a | b |".to_owned()),
        Just("-->".to_owned()),
        Just("\n".to_owned()),
        Just("\r\n".to_owned()),
        "\\PC{0,8}",
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(pieces, 0..30).prop_map(|pieces| pieces.concat())
}

fn hostile_page(texts: &[String; 6]) -> NotePage {
    let [summary, asks, action, concern, pr, title] = texts.clone();
    let merge =
        PendingDetails::Merge { pr: pr.clone(), tests: asks.clone(), reviews: concern.clone() };
    let mut list = vec![
        standard(1, &summary),
        pending(2, &title, PendingDetails::Escalated { concern }),
        pending(3, &summary, merge),
    ];
    for one in &mut list {
        one.asks.clone_from(&asks);
        one.offers.push(Choice { action: action.clone(), needs_note: false });
        one.lapse = Some((Span(0), title.clone()));
    }
    let completed = Completed {
        task: TaskId(4),
        title: title.clone(),
        pr,
        merged: true,
        unproven: Some(title.clone()),
        at: asks.clone(),
        effort: action.clone(),
        learnings: summary,
        follow_ups: title.clone(),
    };
    let alert =
        Alert { condition: "Failure", severity: Severity::Error, task: None, detail: title };
    NotePage { pending: list, left_out: 0, completed: vec![completed], alerts: vec![alert] }
}

proptest! {
    /// A title with markers, boxes and line breaks creates no entry and ticks no box.
    #[test]
    fn nobody_but_people_answers(texts in [hostile(), hostile(), hostile(), hostile(), hostile(), hostile()]) {
        let page = hostile_page(&texts);
        let note = merged("", &page);
        let entries = parse(&note);
        let ids: Vec<i64> = entries.iter().map(|entry| entry.id.0).collect();
        prop_assert_eq!(ids, [1, 2, 3]);
        prop_assert!(entries.iter().all(|entry| entry.answer == NoteAnswer::Nothing && !entry.is_edited));
        prop_assert_eq!(merged(&note, &page), note);
    }

    #[test]
    fn a_reason_or_a_report_forges_nothing(text in hostile()) {
        let page = page(vec![standard(1, "a")]);
        let ticked = merged("", &page).replace("- [ ] Approve", "- [x] Approve");
        for (page, report) in [
            (&page, EntryOutcome::Refused(text.clone())),
            (&NotePage::default(), EntryOutcome::Answered(text.clone())),
        ] {
            let note = reported(&ticked, page, 1, report.clone());
            prop_assert_eq!(said(&note).len(), 1);
            prop_assert_eq!(reported(&note, page, 1, report), note);
        }
    }

    /// Text around the sections survives every change to them.
    #[test]
    fn text_around_the_sections_survives(
        before in "[^<]{0,60}",
        between in "[^<]{0,60}",
        after in "[^<]{0,60}",
        ids in proptest::collection::btree_set(1i64..6, 0..4),
    ) {
        let first = merged("", &whole());
        let at = first.find("<!-- banksman:merge -->").unwrap();
        let own = [format!("{before}\n"), format!("{between}\n"), after];
        let note = format!("{}{}{}{}{}", own[0], &first[..at], own[1], &first[at..], own[2]);
        let page = page(ids.iter().map(|id| standard(*id, "x")).collect());
        let new = merged(&note, &page);
        let sections = pieces_of(&new);
        let old_texts: Vec<String> = pieces_of(&note);
        prop_assert_eq!(sections, old_texts);
        prop_assert_eq!(merged(&new, &page), new);
    }

    /// Any text is accepted: no panic, no line is lost, and a second merge changes nothing.
    #[test]
    fn any_text_is_taken(text in hostile()) {
        let page = page(vec![standard(1, "a")]);
        let note = merged(&text, &page);
        prop_assert!(parse(&text).len() <= text.len());
        let again = merged(&note, &page);
        prop_assert_eq!(&again, &note);
        prop_assert!(parse(&note).iter().any(|entry| entry.id == DecisionId(1)));
        let own = |text: &str| -> Vec<String> {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let lines = lines.filter(|line| !render::is_generated(line) && Marker::parse(line).is_none());
            let is_fresh = |line: &str| ["- [ ] Approve", "- **Action**:", "- **Note**:"].contains(&line);
            lines.filter(|line| !is_fresh(line)).map(str::to_owned).collect()
        };
        let kept = own(&note);
        for line in own(&text) {
            prop_assert!(kept.contains(&line), "{line:?} is gone from {note}");
        }
    }
}

fn pieces_of(note: &str) -> Vec<String> {
    let texts = parse::fragments(note).into_iter().filter_map(|piece| match piece {
        parse::NoteFragment::Text(text) => Some(text.to_owned()),
        parse::NoteFragment::Section(..) => None,
    });
    texts.collect()
}

/// The work grows linearly with the length: a hundred times as many lines of the worst kinds are
/// still read.
#[test]
fn long_files_are_read() {
    let begin = "<!-- banksman:decisions -->\n<!-- banksman:entry d1@1 -->\n".repeat(20_000);
    assert_eq!(parse(&begin), []);
    let entry = "<!-- banksman:entry d1@1 -->\n<!-- banksman:answer d1 -->\n- [x] a\n<!-- banksman:entry:end d1 -->\n";
    let note = format!(
        "<!-- banksman:decisions -->\n{}<!-- banksman:decisions:end -->\n",
        entry.repeat(10_000)
    );
    assert_eq!(parse(&note).len(), 1);
    assert!(merged(&note, &NotePage::default()).len() < 2_000);
}
