//! The rules of a workflow step: the levels of its gate, retry with feedback, escalation to a
//! person after too many failures, and what a workflow does with its steps.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{
    Activity, Lifecycle, Outcome, Setting, Transition, TransitionTarget,
};
use banksman_core::machine::{Effect, Ending, Event, NewTask, RejectReason, WaitStatus, waits};
use serde_json::{Value, json};

use crate::walk::{born, builtin_with, complaints, fields};
use crate::world::World;

const PARENT: TaskId = TaskId(7);

/// A step of a workflow with additional or other fields.
fn step_with(more: Value, settings: &[(&str, Setting)]) -> World {
    let mut given = fields(json!({ "workflow": "search", "step": "X-1", "spec": { "id": "X-1" } }));
    given.extend(fields(more));
    let new = NewTask { fields: given, parent: Some(PARENT), ..NewTask::default() };
    born(builtin_with("step", settings), new)
}

fn at_gate(level: &str, gate: &str) -> World {
    let mut world = step_with(json!({ "level": level }), &[]);
    signals(&mut world, gate);
    world
}

fn signals(world: &mut World, gate: &str) {
    world.is_claimed_by("agent:writer", "running");
    world.ends(Outcome::Succeeded, "", json!({}), gate);
}

/// Passed without an objection, and so still open to a veto.
fn unopposed() -> World {
    let mut world = at_gate("notify", "gate(notify)");
    world.ends(Outcome::Approved, "fine", json!({}), "gate(veto)");
    world.times_out("15min", "passed");
    world
}

fn led_back(world: &mut World) {
    assert_eq!(world.state(), "sent_back");
    world.goes("system", "on reset", json!({}), "pending");
}

#[test]
fn only_a_workflow_makes_steps() {
    let lifecycle = builtin_with("step", &[]);
    let new = NewTask { title: "write tests".to_owned(), ..NewTask::default() };
    let rejected = World::new(lifecycle, &new).expect_err("it belongs to no workflow");
    assert_eq!(
        complaints(&rejected),
        [
            "spec: Steps are made by `banksman workflow run`",
            "workflow: Steps are made by `banksman workflow run`"
        ]
    );
}

#[test]
fn the_level_of_the_gate_says_who_reviews() {
    let panel = vec![Effect::Start { activity: Activity::Panel }, Effect::TellParent];
    let person = vec![Effect::Notify, Effect::TellParent];
    for (level, gate, effects) in [
        (json!("auto"), "gate(auto)", panel.clone()),
        (json!("notify"), "gate(notify)", panel),
        (json!("human"), "gate(human)", person.clone()),
        (Value::Null, "gate(human)", person),
        (json!("none"), "passed", vec![Effect::TellParent]),
    ] {
        let mut world = step_with(json!({ "level": level }), &[]);
        world.is_claimed_by("agent:writer", "running");
        let step = world.ends(Outcome::Succeeded, "", json!({}), gate);
        assert_eq!(step.effects, effects, "{gate}");
        assert_eq!(world.decision.is_some(), gate == "gate(human)", "{gate}");
    }
}

#[test]
fn an_automatic_gate_needs_nobody() {
    let mut world = at_gate("auto", "gate(auto)");
    let step = world.ends(Outcome::Approved, "well done", json!({}), "passed");
    let effects = vec![Effect::CloseReviews, Effect::TellParent];
    assert_eq!((step.effects, step.ending), (effects, Some(Ending::Done)));
    assert_eq!(world.field("note"), "well done");
    let rejected = world.refused("human:kim", "on veto", json!({ "feedback": "no" }));
    assert_eq!(
        complaints(&rejected),
        [
            "open_to_veto: Only a step that people were told of can be vetoed, until a later step has ended"
        ]
    );
}

#[test]
fn a_notifying_gate_goes_on_unless_a_person_objects() {
    let mut world = at_gate("notify", "gate(notify)");
    let step = world.ends(Outcome::Approved, "", json!({}), "gate(veto)");
    assert_eq!(step.effects, [Effect::CloseReviews, Effect::Notify, Effect::TellParent]);
    assert_eq!(step.ending, None, "nobody goes on before the time for a veto is over");
    let step = world.times_out("15min", "passed");
    assert_eq!(step.ending, Some(Ending::Done));

    let mut world = at_gate("notify", "gate(notify)");
    world.ends(Outcome::Approved, "", json!({}), "gate(veto)");
    let rejected = world.refused("human:kim", "on veto", json!({}));
    assert_eq!(complaints(&rejected), ["feedback: Say what has to change"]);
    let step = world.goes("human:kim", "on veto", json!({ "feedback": "no" }), "sent_back");
    assert_eq!(step.artifacts[0].value, "no");
}

/// A person who has just approved is not asked for a veto.
#[test]
fn a_persons_yes_at_a_notifying_gate_is_final() {
    let mut world = at_gate("notify", "gate(notify)");
    world.goes("human:kim", "on pass", json!({}), "passed");
    world.refused("human:kim", "on veto", json!({ "feedback": "no" }));
}

#[test]
fn a_veto_also_counts_after_the_fact() {
    let mut world = unopposed();
    let step = world.goes("human:kim", "on veto", json!({ "feedback": "look again" }), "sent_back");
    assert_eq!(step.ending, Some(Ending::TakenBack));
    assert_eq!(step.artifacts[0].value, "look again");
    led_back(&mut world);
    signals(&mut world, "gate(notify)");
    world.goes("human:kim", "on pass", json!({}), "passed");

    let mut world = unopposed();
    let step = world.goes("system", "on followed", json!({}), "passed");
    assert_eq!((step.effects, step.ending), (vec![], None), "it was done and stays so");
    for brought in [json!({ "feedback": "no" }), json!({ "feedback": "no", "open_to_veto": true })]
    {
        let rejected = world.refused("human:kim", "on veto", brought);
        let said = complaints(&rejected);
        assert!(
            said.contains(&"open_to_veto: Only a step that people were told of can be vetoed, until a later step has ended".to_owned())
                || said == ["open_to_veto: may be set only by system"],
            "{said:?}"
        );
    }
}

#[test]
fn a_human_gate_waits_for_a_person() {
    let mut world = at_gate("human", "gate(human)");
    assert!(world.after("6d").is_empty(), "it is theirs for a week");
    for who in ["reviewer:rob", "agent:writer", "system"] {
        assert_eq!(world.refused(who, "on pass", json!({})).why, RejectReason::Forbidden, "{who}");
    }
    world.goes("human:kim", "on pass", json!({}), "passed");
}

/// A failed step goes back with the feedback; at the limit a person decides, whatever the level.
#[test]
fn too_many_failures_lead_to_a_person() {
    for (level, gate) in [("auto", "gate(auto)"), ("notify", "gate(notify)")] {
        for max_retries in [1_u32, 2, 3] {
            let limit = [("max_retries", Setting::Number(f64::from(max_retries)))];
            let mut world = step_with(json!({ "level": level }), &limit);
            for failure in 1..=max_retries {
                signals(&mut world, gate);
                let last = failure == max_retries;
                let to = if last { "gate(human)" } else { "sent_back" };
                let said = format!("failure {failure}");
                let step = world.ends(Outcome::Blocked, &said, json!({}), to);
                assert_eq!(step.artifacts[0].value, json!(said), "also what a person will judge");
                assert_eq!(world.field("feedback"), &json!(said));
                assert_eq!(
                    world.field("sent_back"),
                    &json!(!last),
                    "it goes back only below the limit"
                );
                assert_eq!((world.count("failures"), world.count("rounds")), (failure, failure));
                if !last {
                    led_back(&mut world);
                }
            }
            assert!(world.decision.is_some());
            // The person sends it back once more, with a renewed limit.
            world.goes("human:kim", "on fail", json!({ "feedback": "like this" }), "sent_back");
            assert_eq!((world.count("failures"), world.count("rounds")), (0, max_retries + 1));
            led_back(&mut world);
            signals(&mut world, gate);
        }
    }
}

/// A person who lets it pass, or retries it, has intervened: the next failure counts as the first
/// again.
#[test]
fn a_persons_decision_renews_the_allowance() {
    let at_the_limit = || {
        let mut world =
            step_with(json!({ "level": "auto" }), &[("max_retries", Setting::Number(1.0))]);
        signals(&mut world, "gate(auto)");
        world.ends(Outcome::Blocked, "no", json!({ "failed_for": "bad-plan" }), "gate(human)");
        assert_eq!(world.count("failures"), 1);
        world
    };
    let mut world = at_the_limit();
    world.goes("human:kim", "on pass", json!({}), "passed");
    assert_eq!(world.count("failures"), 0);
    for overruled in ["feedback", "failed_for", "diagnostic"] {
        assert_eq!(world.field(overruled), &Value::Null, "{overruled}");
    }
    let mut world = at_the_limit();
    world.goes("human:kim", "on abort", json!({ "reason": "hopeless" }), "given_up");
    world.goes("human:kim", "on retry", json!({}), "pending");
    assert_eq!((world.count("failures"), world.count("rounds")), (0, 1));
    assert_eq!(world.field("feedback"), "no", "the next attempt is told what was wrong");
    // The engine's own transitions renew nothing, or a workflow could loop for ever.
    let mut world = at_the_limit();
    world.goes("system", "on reset", json!({}), "pending");
    assert_eq!(world.count("failures"), 1);
}

/// Feedback survives the way back until the next attempt signals, and feedback on an earlier
/// attempt never fails a later one.
#[test]
fn feedback_is_told_to_the_next_attempt_and_counts_once() {
    let mut world = at_gate("auto", "gate(auto)");
    world.goes("reviewer:rob", "on fail", json!({ "feedback": "no tests" }), "sent_back");
    led_back(&mut world);
    assert_eq!(world.field("feedback"), "no tests");
    world.is_claimed_by("agent:writer", "running");
    assert_eq!(world.field("feedback"), "no tests");
    world.ends(Outcome::Succeeded, "", json!({}), "gate(auto)");
    assert_eq!(world.field("feedback"), &Value::Null);
    for who in ["reviewer:rob", "human:kim"] {
        let rejected = world.refused(who, "on fail", json!({}));
        assert_eq!(complaints(&rejected), ["feedback: Say what has to change"], "{who}");
    }
    // The same feedback may be given again.
    let step =
        world.goes("reviewer:rob", "on fail", json!({ "feedback": "no tests" }), "sent_back");
    assert_eq!(step.artifacts[0].value, "no tests");
}

#[test]
fn an_agent_does_not_judge_itself() {
    let mut world = step_with(json!({ "level": "auto" }), &[]);
    world.is_claimed_by("agent:writer", "running");
    for field in ["feedback", "failed_for", "retry_context"] {
        let rejected = world.refused("agent:writer", "on signal", json!({ field: "all is well" }));
        let wanted = format!("{field}: may be set only by ");
        let is_said = complaints(&rejected).iter().any(|said| said.starts_with(&wanted));
        assert!(is_said, "{rejected}");
    }
    let rejected = world.refused("agent:writer", "on signal", json!({ "level": "none" }));
    let wanted = "level: may be set only by human, system".to_owned();
    assert!(complaints(&rejected).contains(&wanted), "{rejected}");
}

#[test]
fn silence_and_doubt_go_to_a_person() {
    let running = || {
        let mut world = step_with(json!({ "level": "auto" }), &[]);
        world.is_claimed_by("agent:writer", "running");
        world
    };
    let mut world = running();
    world.times_out("24h", "gate(human)");
    for outcome in [Outcome::Auth, Outcome::NeedsPerson, Outcome::OverBudget, Outcome::Exhausted] {
        let mut world = running();
        world.ends(outcome, "what it said", json!({}), "gate(human)");
        assert_eq!(world.field("diagnostic"), "what it said", "{outcome}");
    }
    let mut world = at_gate("auto", "gate(auto)");
    world.times_out("30min", "gate(human)");
    for outcome in [Outcome::Escalated, Outcome::Unresolved, Outcome::Unavailable] {
        let mut world = at_gate("notify", "gate(notify)");
        world.ends(outcome, "", json!({}), "gate(human)");
    }
    let mut world = at_gate("auto", "gate(auto)");
    world.ends(Outcome::Blocked, "no", json!({}), "sent_back");
    world.times_out("3d", "gate(human)");
    assert_eq!(world.field("sent_back"), false);
    world.goes("human:kim", "on fail", json!({}), "sent_back");
}

/// After an attempt that did not signal, nobody judges by the feedback on the attempt before.
#[test]
fn an_attempt_that_ends_otherwise_leaves_no_old_feedback_at_the_gate() {
    let second_attempt = || {
        let mut world = at_gate("auto", "gate(auto)");
        world.ends(Outcome::Blocked, "no tests", json!({}), "sent_back");
        led_back(&mut world);
        world.is_claimed_by("agent:writer", "running");
        world
    };
    let mut stalled = second_attempt();
    stalled.times_out("24h", "gate(human)");
    let mut doubtful = second_attempt();
    doubtful.ends(Outcome::NeedsPerson, "which tests?", json!({}), "gate(human)");
    for mut world in [stalled, doubtful] {
        let rejected = world.refused("human:kim", "on fail", json!({}));
        assert_eq!(complaints(&rejected), ["feedback: Say what has to change"]);
    }
}

#[test]
fn a_step_waits_for_the_steps_before_it() {
    let mut world = step_with(json!({}), &[]);
    world.meet(&Event::NeedsLeft(2)).expect("needs are no refusal");
    assert_eq!(
        complaints(&world.claim("agent:writer").expect_err("too soon")),
        ["task: t1 cannot be claimed now"]
    );
    world.meet(&Event::NeedsLeft(0)).expect("needs are no refusal");
    world.is_claimed_by("agent:writer", "running");
}

/// Nobody can claim a manual step: it opens by itself when its dependencies are done.
#[test]
fn an_interactive_step_opens_by_itself() {
    let by_hand = json!({ "launch": "interactive", "level": "auto" });
    let mut world = step_with(by_hand.clone(), &[]);
    assert_eq!(waits(&world.lifecycle, &world.task, world.now), WaitStatus::Met);
    world.claim("agent:writer").expect_err("it is done by hand");
    let step = world.ends(Outcome::Met, "", json!({}), "interactive");
    assert_eq!(step.effects, [Effect::Notify, Effect::TellParent]);
    assert!(world.decision.is_some());
    assert!(world.after("6d").is_empty(), "it is theirs for a week");
    world.goes("human:kim", "on signal", json!({}), "gate(auto)");

    let mut world = step_with(by_hand, &[]);
    world.meet(&Event::NeedsLeft(1)).expect("needs are no refusal");
    assert_eq!(waits(&world.lifecycle, &world.task, world.now), WaitStatus::Until(None));
    world.meet(&Event::NeedsLeft(0)).expect("needs are no refusal");
    assert_eq!(world.state(), "interactive");
    for launch in [json!("headless"), json!("subagent"), Value::Null] {
        let mut world = step_with(json!({ "launch": launch }), &[]);
        world.is_claimed_by("agent:writer", "running");
    }
}

/// The engine can restart a step in any state; only the feedback of the old attempt remains.
#[test]
fn a_reset_begins_anew() {
    let sent_back = || {
        let mut world = at_gate("auto", "gate(auto)");
        let why = json!({ "failed_for": "bad-plan" });
        world.ends(Outcome::Blocked, "no tests", why, "sent_back");
        world
    };
    let given_up = || {
        let mut world = sent_back();
        world.goes("human:kim", "on abort", json!({ "reason": "hopeless" }), "given_up");
        world
    };
    for (mut world, feedback) in [
        (unopposed(), Value::Null),
        (at_gate("human", "gate(human)"), Value::Null),
        (sent_back(), json!("no tests")),
        (given_up(), json!("no tests")),
    ] {
        let was_done = world.state() == "passed";
        let step = world.goes("system", "on reset", json!({}), "pending");
        assert_eq!(step.ending, was_done.then_some(Ending::TakenBack));
        assert_eq!(world.field("feedback"), &feedback);
        for gone in ["sent_back", "open_to_veto", "failed_for", "diagnostic", "reason", "note"] {
            assert_eq!(world.field(gone), &Value::Null, "{gone}");
        }
        let level = world.field("level").as_str().expect("each has a gate").to_owned();
        signals(&mut world, &format!("gate({level})"));
    }
    let mut world = step_with(json!({}), &[]);
    world.is_claimed_by("agent:writer", "running");
    let step =
        world.goes("system", "on reset", json!({ "feedback": "of a later gate" }), "pending");
    let effects = [Effect::Stop { epoch: 1 }, Effect::TellParent];
    assert_eq!(step.effects, effects, "an agent's step needs no look");
    assert_eq!(world.field("feedback"), "of a later gate");
    for who in ["human:kim", "agent:writer", "reviewer:rob"] {
        assert_eq!(world.refused(who, "on reset", json!({})).why, RejectReason::Forbidden, "{who}");
    }
}

#[test]
fn a_step_that_is_given_up_is_a_persons_to_take_up_or_to_skip() {
    let given_up = || {
        let mut world = at_gate("human", "gate(human)");
        let rejected = world.refused("human:kim", "on abort", json!({}));
        assert_eq!(complaints(&rejected), ["reason: Say why it is given up"]);
        let why = json!({ "reason": "not needed" });
        let step = world.goes("human:kim", "on abort", why, "given_up");
        assert_eq!(
            (step.effects, step.ending),
            (vec![Effect::TellParent], None),
            "nothing has ended yet"
        );
        world
    };
    let mut world = given_up();
    let step = world.goes("human:kim", "on skip", json!({}), "skipped");
    assert_eq!(step.ending, Some(Ending::Done), "what comes after it goes on");
    assert_eq!(world.field("is_skipped"), true);
    world.goes("system", "on close", json!({}), "skipped(for_good)");
    let mut world = given_up();
    world.goes("human:kim", "on skip", json!({}), "skipped");
    world.goes("system", "on reset", json!({}), "pending");
    assert_eq!(world.field("is_skipped"), &Value::Null, "its work counts again");
    let mut world = given_up();
    world.goes("human:kim", "on retry", json!({ "launch": "headless" }), "pending");
    world.is_claimed_by("agent:writer", "running");
    let rejected = world.refused("human:kim", "on abort", json!({}));
    assert_eq!(complaints(&rejected), ["reason: Say why it is given up"], "an old reason is none");
}

#[test]
fn steps_end_with_their_workflow() {
    let mut world = unopposed();
    let step = world.goes("system", "on close", json!({}), "complete");
    assert_eq!((step.effects, step.ending), (vec![Effect::CleanUp], None), "it was done before");
    assert_eq!(world.field("open_to_veto"), &Value::Null);
    for (level, gate) in [("auto", "gate(auto)"), ("human", "gate(human)")] {
        let mut world = at_gate(level, gate);
        let step = world.goes("system", "on close", json!({}), "aborted");
        let mut effects = vec![Effect::TellParent, Effect::CleanUp];
        if level == "auto" {
            effects.insert(0, Effect::CloseReviews);
        }
        assert_eq!((step.effects, step.ending), (effects, Some(Ending::Otherwise)));
    }
}

fn enters(lifecycle: &Lifecycle, row: &Transition, state: &str) -> bool {
    let to = |target: TransitionTarget| matches!(target, TransitionTarget::State(id) if lifecycle.state(id).name == state);
    to(row.to) && lifecycle.state(row.from).name != state
}

fn leaves(lifecycle: &Lifecycle, row: &Transition, state: &str) -> bool {
    lifecycle.state(row.from).name == state && lifecycle.target_name(row.to) != state
}

/// Whether the field is gone, or false, after the row.
fn takes_away(row: &Transition, field: &str) -> bool {
    let set = row.changes.set.get(field);
    row.changes.clear.iter().any(|name| name == field)
        || set.is_some_and(|value| value.is_null() || *value == json!(false))
}

/// A flag that repeats the state must never contradict it.
#[test]
fn the_flags_of_a_step_agree_with_its_state() {
    let lifecycle = builtin_with("step", &[]);
    let rows = || lifecycle.transitions.iter();
    for row in rows().filter(|row| enters(&lifecycle, row, "sent_back")) {
        assert_eq!(row.changes.set.get("sent_back"), Some(&json!(true)), "line {}", row.line);
        for counter in row.changes.count.iter().map(|id| lifecycle.counter(*id)) {
            let elsewhere = counter.then.is_none()
                || counter.changes.set.get("sent_back") == Some(&json!(false));
            assert!(elsewhere, "{} leads elsewhere", counter.name);
        }
    }
    for (state, flag) in [("sent_back", "sent_back"), ("passed", "open_to_veto")] {
        for row in rows().filter(|row| leaves(&lifecycle, row, state)) {
            assert!(takes_away(row, flag), "line {} keeps {flag}", row.line);
        }
    }
    for row in rows().filter(|row| row.changes.set.get("open_to_veto") == Some(&json!(true))) {
        assert!(enters(&lifecycle, row, "passed"), "line {}", row.line);
    }
}

/// Every transition from work to a reviewer removes the old feedback; otherwise only a person who
/// overrules it does.
#[test]
fn feedback_is_lost_only_on_the_way_to_a_gate() {
    let lifecycle = builtin_with("step", &[]);
    let mut seen = 0;
    for row in &lifecycle.transitions {
        let (from, to) = (lifecycle.state(row.from).name.as_str(), lifecycle.target_name(row.to));
        let judged = to == "passed" || to.starts_with("gate(");
        let from_work =
            ["running", "running(command)", "interactive", "checking"].contains(&from) && judged;
        let overruled = (from, to) == ("gate(human)", "passed");
        assert_eq!(takes_away(row, "feedback"), from_work || overruled, "{from} to {to}");
        seen += usize::from(from_work);
    }
    assert_eq!(seen, 22, "four levels from four states, three doubts and three bounds");
}
