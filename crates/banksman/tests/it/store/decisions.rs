//! Questions and kept values: opened, settled and kept in the transaction of the move that asks,
//! answers or keeps.

use banksman::ops::OpsError;
use banksman::ops::decisions::{
    self, AnswerRequest, DecisionError, DecisionRef, UNDO_WINDOW, answer, has_way_back, undo,
};
use banksman::store::hex;
use banksman::store::query::{Decision, DecisionEnd};
use banksman::store::{Add, Definition, Store};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::Note;
use banksman_core::lifecycle::expr::Fields;
use banksman_core::lifecycle::{Outcome, builtin};
use banksman_core::machine::{Event, Finish};
use banksman_core::time::Span;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::acts::{
    DAY, HOUR, MINUTE, NOON, actor, add, added, apply, arriving, ask, ask_under, at_once,
    claim_first, definition, fields, finish, load, refused, session, state, to_asking,
};
use super::on_both;
use super::world::World;

on_both!(
    a_question_is_opened_with_the_state_that_asks,
    an_answer_settles_the_question,
    a_deadline_settles_the_question,
    kept_values_stay_as_they_were,
    the_inbox_begins_with_what_is_due_first,
    a_settled_question_says_how,
    a_question_that_is_put_off_reminds_once_and_is_due_as_before,
    what_is_settled_is_not_put_off,
    an_answer_holds_for_the_version_that_was_seen,
    a_record_that_changes_nothing_does_not_stand_against_an_answer,
    one_of_two_answers_at_the_same_moment_counts,
    an_answer_with_a_key_is_given_once,
    words_go_where_the_row_asks_for_them,
    an_answer_is_undone_by_a_move_that_people_may_make,
    gates_of_steps_are_answered_in_their_own_words,
    a_workflow_that_goes_on_can_be_halted_again,
);

fn a_question_is_opened_with_the_state_that_asks(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let other = to_asking(&store, "another");
    let open = store.decisions(0).unwrap();
    let [first, second] = open.as_slice() else { panic!("{open:?}") };
    let expected = Decision {
        id: first.id,
        task: id,
        title: "lift".to_owned(),
        seq: 4,
        asks: "Shall it be set down?".to_owned(),
        question: None,
        answer: None,
        offers: vec![
            ("yes".to_owned(), "approve".to_owned()),
            ("no".to_owned(), "changes".to_owned()),
        ],
        opened_at: NOON,
        deadline: Some(NOON.plus(Span(7 * DAY.0))),
        snoozed_until: None,
        settled: None,
    };
    assert_eq!(*first, expected);
    assert_eq!(second.task, other);
    assert_eq!(store.detail(id).unwrap().decision.as_ref(), Some(first));
    assert_eq!(store.decisions(first.id.0).unwrap(), open[1..]);
    assert_eq!(store.overview().unwrap().open_decisions, 2);
}

fn an_answer_settles_the_question(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    refused(store.apply(id, ask("human:kim", "lifting", &[]), None, NOON));
    assert_eq!(store.decisions(0).unwrap().len(), 1);
    let later = NOON.plus(MINUTE);
    apply(&store, id, ask("human:kim", "lifting", &[("feedback", "higher")]), later);
    assert_eq!(store.decisions(0).unwrap(), []);
    assert_eq!(store.detail(id).unwrap().decision, None);
    let settled = "SELECT settled_at, settled_by, settled_seq FROM decisions";
    let text = |text: &str| Some(text.to_owned());
    let row = [Some(later.0.to_string()), text("human:kim"), text("5")];
    assert_eq!(world.raw().rows(settled)[0], row);
    // Asked again, it is a new question, about the new version.
    apply(&store, id, ask("worker:w1", "checking", &[]), later);
    apply(&store, id, ask("crane:c1", "asking", &[]), later);
    let [decision] = store.decisions(0).unwrap().try_into().expect("one question");
    assert_eq!(decision.seq, 7);
    assert_eq!(world.raw().rows(settled)[0], row);
    apply(&store, id, ask("human:kim", "done", &[]), later);
    assert_eq!(store.overview().unwrap().open_decisions, 0);
}

fn a_deadline_settles_the_question(world: &World) {
    let store = world.open();
    to_asking(&store, "lift");
    store.fire_due(NOON.plus(Span(7 * DAY.0)), 10).unwrap();
    assert_eq!(store.decisions(0).unwrap(), []);
    let by = world.raw().value("SELECT settled_by FROM decisions");
    assert_eq!(by.as_deref(), Some("system"));
}

fn kept_values_stay_as_they_were(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let lift = |url: &str, label: &str| {
        let epoch = claim_first(&store, id, NOON);
        let mut given = fields(&[("pr_url", url)]);
        given.insert("crate".to_owned(), json!({ "label": label, "count": 1 }));
        let end = Finish { fields: given, ..finish(epoch, Outcome::Succeeded) };
        apply(&store, id, Event::Finished(end), NOON);
    };
    lift("https://forge/1", "größe");
    apply(&store, id, ask("crane:c1", "lifting", &[]), NOON);
    lift("https://forge/2", "b");
    let artifacts = world.open().detail(id).unwrap().artifacts;
    let kept: Vec<_> =
        artifacts.iter().map(|kept| (kept.seq, kept.name.as_str(), kept.value.clone())).collect();
    let crate_of = |label: &str| json!({ "label": label, "count": 1 });
    let expected = [
        (3, "crate", crate_of("größe")),
        (3, "pr_url", json!("https://forge/1")),
        (6, "crate", crate_of("b")),
        (6, "pr_url", json!("https://forge/2")),
    ];
    assert_eq!(kept, expected);
    for artifact in artifacts {
        let text = artifact.value.to_string();
        assert_eq!(artifact.hash, hex(&Sha256::digest(text.as_bytes())), "{text}");
    }
}

/// What kim answers.
fn kim(which: DecisionRef, word: &str) -> AnswerRequest {
    AnswerRequest {
        which,
        word: word.to_owned(),
        note: None,
        fields: fields(&[]),
        seen: None,
        key: None,
        grace: Span(0),
    }
}

fn open_one(store: &Store, task: TaskId) -> DecisionRef {
    let open = store.detail(task).unwrap().decision.expect("a question is open");
    DecisionRef::Decision(open.id)
}

fn because<T: std::fmt::Debug>(result: Result<T, OpsError>) -> DecisionError {
    match result {
        Err(OpsError::Decision(error)) => error,
        other => panic!("expected a refusal of the inbox, got {other:?}"),
    }
}

fn the_inbox_begins_with_what_is_due_first(world: &World) {
    let store = world.open();
    let gate = Definition::clone(&PATIENT);
    let patient = added(&store, Add { definition: gate, ..load("no deadline") }).stored.task.id;
    let first = to_asking(&store, "first");
    let second = to_asking(&store, "second");
    world.raw().run(&format!(
        "UPDATE decisions SET deadline = {} WHERE task = {}",
        NOON.0 + 1,
        second.0
    ));
    let order: Vec<TaskId> = store.inbox().unwrap().iter().map(|decision| decision.task).collect();
    assert_eq!(order, [second, first, patient]);
}

fn a_settled_question_says_how(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let DecisionRef::Decision(decision) = open_one(&store, id) else { panic!("an id") };
    apply(&store, id, ask("human:kim", "done", &[]), NOON.plus(MINUTE));
    let settled = store.decision(decision).unwrap().expect("it is kept").settled;
    let expected = DecisionEnd { at: NOON.plus(MINUTE), by: "human:kim".to_owned(), seq: 5 };
    assert_eq!(settled, Some(expected));
    assert_eq!(store.last_decision(id).unwrap().map(|last| last.id), Some(decision));
    let kim = actor("human:kim");
    let last = |not_before| store.last_answer(&kim, not_before).unwrap().map(|last| last.id);
    assert_eq!(last(NOON), Some(decision));
    assert_eq!(last(NOON.plus(HOUR)), None);
    assert_eq!(store.last_answer(&actor("human:robin"), NOON).unwrap(), None);
}

/// The harness reminds after one day and after three, and is due after seven.
fn a_question_that_is_put_off_reminds_once_and_is_due_as_before(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let reminders = |store: &Store, at| {
        store.fire_due(at, 10).unwrap();
        world.raw().number("SELECT count(*) FROM notices WHERE kind = 'reminder'")
    };
    let until = NOON.plus(Span(5 * DAY.0));
    let open = store.detail(id).unwrap().decision.expect("a question is open");
    assert!(store.snooze_if_open(&open, until).unwrap());
    let snoozed = Decision { snoozed_until: Some(until), ..open };
    assert_eq!(store.detail(id).unwrap().decision, Some(snoozed));
    assert_eq!(reminders(&store, NOON.plus(Span(4 * DAY.0))), 0);
    assert_eq!(reminders(&store, until), 1, "one for both");
    assert_eq!(reminders(&store, NOON.plus(Span(6 * DAY.0))), 1, "and no more");
    store.fire_due(NOON.plus(Span(7 * DAY.0)), 10).unwrap();
    assert_eq!(state(&store, id), "failed");
}

fn what_is_settled_is_not_put_off(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let which = open_one(&store, id);
    let late = because(decisions::snooze(
        &session(&store, &actor("human:kim")),
        which,
        Span(8 * DAY.0),
        NOON,
    ));
    assert!(matches!(late, DecisionError::DueBefore { .. }), "{late}");
    apply(&store, id, ask("human:kim", "done", &[]), NOON);
    let settled =
        because(decisions::snooze(&session(&store, &actor("human:kim")), which, HOUR, NOON));
    assert!(matches!(settled, DecisionError::Settled { .. }), "{settled}");
    assert_eq!(store.last_decision(id).unwrap().and_then(|last| last.snoozed_until), None);
}

/// Records of something that has changed the task: refused answers are in the history, too.
pub(crate) fn moves(store: &Store, id: TaskId) -> usize {
    let entries = store.history(id, 0).unwrap();
    entries.iter().filter(|entry| entry.record.trigger != Note::AnswerRefused.as_str()).count()
}

fn an_answer_holds_for_the_version_that_was_seen(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let first = open_one(&store, id);
    let robin = actor("human:robin");
    let changes = AnswerRequest { note: Some("higher".to_owned()), ..kim(first, "no") };
    answer(&session(&store, &robin), &changes, NOON).unwrap();
    let late = because(answer(&session(&store, &actor("human:kim")), &kim(first, "yes"), NOON));
    let DecisionError::Settled { since, .. } = &late else { panic!("{late}") };
    assert!(since[0].starts_with("lifting by human:robin (changes) at 20"), "{since:?}");
    // Asked again, the old question stays settled, and whoever saw the old version is refused too.
    apply(&store, id, ask("worker:w1", "checking", &[]), NOON);
    apply(&store, id, ask("crane:c1", "asking", &[]), NOON);
    because(answer(&session(&store, &robin), &kim(first, "yes"), NOON));
    let old = AnswerRequest { seen: Some(4), ..kim(DecisionRef::Task(id), "yes") };
    let moved = because(answer(&session(&store, &robin), &old, NOON));
    assert!(matches!(moved, DecisionError::MovedOn { seen: 4, .. }), "{moved}");
    assert_eq!((state(&store, id).as_str(), moves(&store, id)), ("asking", 7));
    let shown = store.task(id).unwrap().task.version;
    assert_eq!(shown, 10, "each refusal is on record");
    let bogus = AnswerRequest { seen: Some(70), ..kim(DecisionRef::Task(id), "yes") };
    because(answer(&session(&store, &robin), &bogus, NOON));
    // The refusal of the bogus one, which has come since, does not stand against it.
    let seen = AnswerRequest { seen: Some(shown), ..kim(DecisionRef::Task(id), "yes") };
    answer(&session(&store, &robin), &seen, NOON).unwrap();
    assert_eq!(state(&store, id), "done");
}

fn a_record_that_changes_nothing_does_not_stand_against_an_answer(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let which = open_one(&store, id);
    refused(store.apply(id, ask_under(1, "worker:w1", "checking", &[]), None, NOON));
    assert_eq!(store.task(id).unwrap().task.version, 5, "the late writer is on record");
    answer(&session(&store, &actor("human:kim")), &kim(which, "yes"), NOON).unwrap();
    assert_eq!(state(&store, id), "done");
}

fn one_of_two_answers_at_the_same_moment_counts(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let which = open_one(&store, id);
    let given = at_once(4, |number| {
        let who = actor(&format!("human:h{number}"));
        let word = if number % 2 == 0 { "yes" } else { "no" };
        let said =
            AnswerRequest { note: (word == "no").then(|| "x".to_owned()), ..kim(which, word) };
        answer(&session(&store, &who), &said, NOON).map(|_| ())
    });
    assert_eq!(given.iter().filter(|given| given.is_ok()).count(), 1, "{given:?}");
    for refused in given.into_iter().filter(Result::is_err) {
        let error = because(refused);
        assert!(matches!(error, DecisionError::Settled { .. }), "{error}");
    }
    assert_eq!(moves(&store, id), 5);
}

fn an_answer_with_a_key_is_given_once(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let which = open_one(&store, id);
    let kims = actor("human:kim");
    let keyed = AnswerRequest { key: Some("k1".to_owned()), ..kim(which, "yes") };
    let first = answer(&session(&store, &kims), &keyed, NOON).unwrap();
    let again = answer(&session(&store, &kims), &keyed, NOON.plus(MINUTE)).unwrap();
    assert!(!first.applied.replayed && again.applied.replayed);
    assert_eq!(again.applied.stored.task.version, 5);
    let other = AnswerRequest { word: "no".to_owned(), ..keyed };
    let taken = answer(&session(&store, &kims), &other, NOON).unwrap_err();
    assert!(matches!(taken, OpsError::Store(_)), "{taken}");
}

fn words_go_where_the_row_asks_for_them(world: &World) {
    let store = world.open();
    let kims = actor("human:kim");
    let id = to_asking(&store, "lift");
    let other = to_asking(&store, "another");
    let which = open_one(&store, id);
    let silent = because(answer(&session(&store, &kims), &kim(which, "no"), NOON));
    assert!(matches!(silent, DecisionError::NeedsWords { .. }), "{silent}");
    // The word of people, the action of the lifecycle and its trigger mean the same.
    let said = AnswerRequest { note: Some("higher".to_owned()), ..kim(which, "changes") };
    answer(&session(&store, &kims), &said, NOON).unwrap();
    assert_eq!(store.task(id).unwrap().task.fields["feedback"], "higher");
    let which = open_one(&store, other);
    let odd = because(answer(&session(&store, &kims), &kim(which, "merge"), NOON));
    assert_eq!(
        odd.to_string(),
        format!("this decision does not offer `merge`; {which} offers yes, no")
    );
    let run = because(answer(&session(&store, &actor("worker:w1")), &kim(which, "yes"), NOON));
    assert!(matches!(run, DecisionError::NotAPerson(_)), "{run}");
    answer(&session(&store, &kims), &kim(which, "approve"), NOON).unwrap();
    assert_eq!(state(&store, other), "done");
}

/// Asks at once and for ever; `wait` has a way back for people, `go` has none.
static PATIENT: std::sync::LazyLock<Definition> = std::sync::LazyLock::new(|| {
    definition(
        "lifecycle: patient
purpose: task
initial: asking
fields: { wish: { type: text, by: anyone }, note: { type: text, by: anyone } }
states:
  asking: { kind: waiting, does: { activity: human, asks: Well?, offers: { go: go_on go, wait: end wait } } }
  aside: { kind: parked }
  done: { kind: done }
transitions:
  - { from: asking, to: done, on: go, by: [human] }
  - { from: asking, to: aside, on: wait, by: [human], clear: [wish] }
  - { from: aside, to: asking, on: return, by: [human] }
",
    )
});

fn an_answer_is_undone_by_a_move_that_people_may_make(world: &World) {
    let store = world.open();
    let kims = actor("human:kim");
    let wishing = |title: &str| {
        let mut add = Add { definition: Definition::clone(&PATIENT), ..load(title) };
        add.new.fields = fields(&[("wish", "a crane")]);
        added(&store, add).stored.task.id
    };
    let id = wishing("later");
    let which = open_one(&store, id);
    let said = AnswerRequest { note: Some("not today".to_owned()), ..kim(which, "wait") };
    let answered = answer(&session(&store, &kims), &said, NOON).unwrap();
    assert!(has_way_back(&answered));
    let stranger =
        because(undo(&session(&store, &actor("human:robin")), Some(which), UNDO_WINDOW, NOON));
    assert!(matches!(stranger, DecisionError::NotYours { .. }), "{stranger}");
    let shift = |by: i64| format!("UPDATE decisions SET settled_at = settled_at + {by}");
    world.raw().run(&shift(-UNDO_WINDOW.0 - 1));
    let late = because(undo(&session(&store, &kims), Some(which), UNDO_WINDOW, NOON));
    assert!(matches!(late, DecisionError::TooLate { .. }), "{late}");
    world.raw().run(&shift(UNDO_WINDOW.0 + 1));
    let undone = undo(&session(&store, &kims), None, UNDO_WINDOW, NOON).unwrap();
    let task = store.task(id).unwrap().task;
    assert_eq!((state(&store, id).as_str(), &task.fields["wish"]), ("asking", &json!("a crane")));
    assert!(!task.fields.contains_key("note"), "what the answer has brought is gone with it");
    let key = undone.applied.entry.and_then(|entry| entry.key);
    assert_eq!(key.as_deref(), Some(format!("undo-{which}").as_str()));
    assert_ne!(open_one(&store, id), which, "it is asked anew");

    let gone = wishing("gone");
    let which = open_one(&store, gone);
    let answered = answer(&session(&store, &kims), &kim(which, "go"), NOON).unwrap();
    assert!(!has_way_back(&answered));
    let none = because(undo(&session(&store, &kims), Some(which), UNDO_WINDOW, NOON));
    assert!(matches!(none, DecisionError::NoWayBack { .. }), "{none}");
    assert_eq!(state(&store, gone), "done");
}

/// A task of a built-in lifecycle that arrives in the middle of its life.
fn arrived(store: &Store, lifecycle: &str, at: &str, given: &[(&str, &str)]) -> TaskId {
    let source = builtin::source(lifecycle).expect("built in");
    let mut add = arriving(&definition(source), at, None);
    // What the engine gives a task of its own, where a test does not care.
    let step = json!({
        "id": "tests", "name": "tests", "role": "worker", "worker": null, "launch": "headless",
        "worktree": null, "prompt": "", "context": [], "inputs": [], "outputs": [],
        "criterion": null, "signal": { "type": "stdout_exit" }, "needs": [], "gate": null, "timeout": null,
        "line": 1,
    });
    let flow = json!({
        "id": "phase-4", "name": "phase-4", "about": "", "context_files": [], "parallel": null,
        "merge": true, "breaker": {}, "params": {}, "steps": [],
    });
    let spec = if lifecycle == "step" { step } else { flow };
    let own = json!({
        "spec": spec, "workflow": "phase-4", "step": "tests", "merges": false, "level": "human",
        "launch": "headless", "driver": "engine", "proof": false,
    });
    let own = Fields::from_iter(own.as_object().expect("an object").clone());
    let has = |name: &String| add.definition.lifecycle.fields.contains_key(name);
    add.new.fields = own.into_iter().filter(|(name, _)| has(name)).chain(fields(given)).collect();
    added(store, add).stored.task.id
}

fn gates_of_steps_are_answered_in_their_own_words(world: &World) {
    let store = world.open();
    let kims = actor("human:kim");
    let step = [];
    let failed = arrived(&store, "step", "gate(human)", &step);
    let which = open_one(&store, failed);
    let said = AnswerRequest { note: Some("no test fails".to_owned()), ..kim(which, "changes") };
    assert_eq!(answer(&session(&store, &kims), &said, NOON).unwrap().action, "fail");
    let task = store.task(failed).unwrap().task;
    assert_eq!(state(&store, failed), "sent_back");
    assert_eq!(task.fields["feedback"], "no test fails");

    let passed = arrived(&store, "step", "gate(human)", &step);
    let said = AnswerRequest {
        note: Some("well".to_owned()),
        ..kim(DecisionRef::Task(passed), "approve")
    };
    assert_eq!(answer(&session(&store, &kims), &said, NOON).unwrap().action, "pass");
    assert_eq!(store.task(passed).unwrap().task.fields["note"], "well");

    let vetoed = arrived(&store, "step", "gate(veto)", &step);
    let said = AnswerRequest {
        note: Some("too slow".to_owned()),
        ..kim(DecisionRef::Task(vetoed), "veto")
    };
    answer(&session(&store, &kims), &said, NOON).unwrap();
    assert_eq!(state(&store, vetoed), "sent_back");

    let ended = arrived(&store, "step", "gate(human)", &step);
    let said = AnswerRequest {
        note: Some("not needed".to_owned()),
        ..kim(DecisionRef::Task(ended), "cancel")
    };
    assert_eq!(answer(&session(&store, &kims), &said, NOON).unwrap().action, "abort");
    assert_eq!(store.task(ended).unwrap().task.fields["reason"], "not needed");
}

fn a_workflow_that_goes_on_can_be_halted_again(world: &World) {
    let store = world.open();
    let kims = actor("human:kim");
    let id = arrived(&store, "workflow", "waiting", &[("problem", "a step was given up")]);
    let items = decisions::inbox(&session(&store, &actor("human:kim")), None, NOON).unwrap();
    assert!(items[0].escalated, "something went wrong");
    let which = DecisionRef::Decision(items[0].decision.id);
    answer(&session(&store, &kims), &kim(which, "resume"), NOON).unwrap();
    assert!(!store.task(id).unwrap().task.fields.contains_key("problem"));
    undo(&session(&store, &kims), Some(which), UNDO_WINDOW, NOON).unwrap();
    assert_eq!(state(&store, id), "waiting");
    assert_eq!(store.task(id).unwrap().task.fields["problem"], "a step was given up");
    // Whoever looked before the answer was taken back saw another question.
    let late = because(answer(&session(&store, &kims), &kim(which, "resume"), NOON));
    assert!(matches!(late, DecisionError::Settled { .. }), "{late}");
}
