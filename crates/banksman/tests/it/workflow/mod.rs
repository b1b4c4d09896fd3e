//! Workflows, seen from outside: files of steps and gates, run by the real program with real git
//! and scripted agents.
//!
//! [`Bench`] is a repository with one workflow. Its turns are made by an engine in this process,
//! whose clock a test can move, or by an `up` that it can kill; people speak through the program's
//! own commands.

mod advising;
mod answers;
mod back;
mod breaker;
mod by_hand;
mod commands;
mod dag;
mod driven;
mod example;
mod experiments;
mod gates;
mod joining;
mod judged;
mod killing;
mod logged;
mod nodes;
mod panels;
mod places;
mod proving;
mod pull_request;
mod resting;
mod shared;
mod signals;
mod skipping;
mod stage;
mod telling;
mod veto;

use std::collections::BTreeMap;
use std::fs;
use std::process::Output;

use banksman::clock;
use banksman::store::{NodeTime, Store, Stored};
use banksman_core::ids::TaskId;
use banksman_core::time::{Instant, Span};
use serde_json::Value;

use crate::engine::driver::{Driver, NODE, Told};
use crate::engine::harness::{Harness, Up, state_of, tasks};
use crate::engine::processes::wait_until;
use crate::scripted::scripted_agent;

/// Failures are tried again after this time at most.
pub(crate) const PATIENCE: Span = Span(100);
/// Plays the script of the attempt (`A.2`, the second run of the step or gate A), else that of all
/// its attempts (`A`), else the one for all steps or all gates. Of several reviewers each has a
/// name of its own: `G-critic`. A run that is spoken to again goes on under its name.
const AGENT: &str = r#"run=${BANKSMAN_RUN%%:*} prompt=$(cat) harness=$2
first=$(printf '%s\n' "$prompt" | head -n 1)
case $first in
"You do step "*) kind=steps name=${first#"You do step "} ;;
*" at the gate "*) kind=gates name=${first#*" at the gate "} ;;
esac
name=${name%% *}
case $first in
*"one of several reviewers"*) who=${first#"You are "} name=$name-${who%%,*} ;;
esac
if [ -f "$harness/names/$run" ]; then
    read -r kind STEP ATTEMPT <"$harness/names/$run"
else
    STEP=$name
    ATTEMPT=$STEP.$(($(grep -c "^$STEP\." "$harness/starts") + 1))
    echo "$kind $STEP $ATTEMPT" >"$harness/names/$run"
fi
printf '%s\n' "$prompt" >>"$harness/prompts/$ATTEMPT"
echo "$ATTEMPT $run" >>"$harness/starts"
export SCRIPTED_STATE="$harness/state" YARD="$harness" STEP ATTEMPT
for script in "$ATTEMPT" "$STEP" "$kind"; do
    [ ! -f "$harness/scripts/$script" ] || exec "$1" "$harness/scripts/$script"
done
"#;
/// One commit of its own, told of.
pub(crate) const WORK: &str = r#"run echo "$ATTEMPT" >>"work-$STEP"
run git add -A && git commit -qm "work of ${BANKSMAN_RUN%%:*}" && echo "${BANKSMAN_RUN%%:*} $(git rev-parse HEAD)" >>"$YARD/commits"
"#;
/// What is done is done.
pub(crate) const DONE: &str = "success it is written\n";
/// Until the test says `go`.
pub(crate) const WAIT: &str = "run until [ -f \"$YARD/go-$ATTEMPT\" ]; do sleep 0.02; done\n";

/// A repository with one workflow.
pub(crate) struct Bench {
    pub(crate) harness: Harness,
    pub(crate) driver: Driver,
}

impl Bench {
    pub(crate) fn new(spec: &str) -> Self {
        Self::with(&[], spec)
    }

    /// With the settings that differ from those of most tests, as TOML. The workflow is started,
    /// and nothing else.
    pub(crate) fn with(settings: &[(&str, &str)], spec: &str) -> Self {
        Self::in_harness(Harness::new(&[]), settings, spec)
    }

    pub(crate) fn in_harness(harness: Harness, settings: &[(&str, &str)], spec: &str) -> Self {
        fs::create_dir(harness.path("names")).expect("a folder");
        fs::write(harness.path("starts"), "").expect("written");
        fs::write(harness.path("bench-agent.sh"), AGENT).expect("written");
        fs::write(harness.path("w.yaml"), spec).expect("written");
        let command = format!(
            "[\"sh\", {:?}, {:?}, {:?}]",
            harness.path("bench-agent.sh").display().to_string(),
            scripted_agent().display().to_string(),
            harness.root().display().to_string()
        );
        harness.set(&[("workers.scripted.command", &command)]);
        harness.set(settings);
        harness.script("steps", &format!("{WORK}{DONE}"));
        harness.script("gates", &verdict("APPROVE", ""));
        let driver = Driver::on(harness.root(), harness.store(), PATIENCE);
        let bench = Self { harness, driver };
        bench.harness.ok(&["workflow", "run", "--detach", "../w.yaml"]);
        bench
    }

    /// What the agent of a step or gate does, in one attempt (`A.2`) or in all (`A`).
    pub(crate) fn script(&self, name: &str, script: &str) {
        self.harness.script(name, script);
    }

    /// The reviewer says no in this attempt, with these words.
    pub(crate) fn fails(&self, attempt: &str, words: &str) {
        self.script(attempt, &verdict("BLOCK", words));
    }

    pub(crate) fn fails_for(&self, attempt: &str, reason: &str, words: &str) {
        self.script(attempt, &reasoned("BLOCK", words, reason));
    }

    /// The agent of this attempt works, and then waits until the test lets it go on.
    pub(crate) fn holds(&self, attempt: &str) {
        self.script(attempt, &format!("{WORK}{WAIT}{DONE}"));
    }

    pub(crate) fn go(&self, attempt: &str) {
        fs::write(self.harness.path(&format!("go-{attempt}")), "").expect("written");
    }

    /// Turns until something is so, and answers with what they told.
    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) -> Told {
        let what = format!("{what}\n{}", self.harness.root().display());
        self.driver.turn_until(&what, |_| is_so(self))
    }

    pub(crate) fn until_state(&self, step: &str, state: &str) -> Told {
        self.until(&format!("{step} is {state}"), |bench| bench.state(step) == state)
    }

    pub(crate) fn until_started(&self, attempt: &str) -> Told {
        self.until(&format!("{attempt} has started"), |bench| bench.has_started(attempt))
    }

    /// Until the workflow is over and everything is put away.
    pub(crate) fn until_over(&self, state: &str) -> Told {
        let told = self.until(&format!("it is {state}"), |bench| {
            bench.workflow_state() == state && bench.is_put_away()
        });
        self.assert_clean();
        told
    }

    /// Some turns, after which all that can happen by itself has happened.
    pub(crate) fn settle(&self) -> Told {
        let mut told = Told::default();
        wait_until("nothing more happens", || {
            // Asked before the turn: a keeper that ends during it has left what only the next
            // one collects.
            let nobody_works = self.harness.keepers().is_empty();
            let pulse = self.driver.turn();
            let moved = pulse.effects + pulse.timers + pulse.ended.len() + pulse.started.len();
            told.add(pulse, self.driver.notices());
            moved == 0 && nobody_works
        });
        told
    }

    /// The same while agents are at work.
    pub(crate) fn settle_but_running(&self) {
        wait_until("nothing more happens but what agents do", || {
            let pulse = self.driver.turn();
            pulse.effects + pulse.timers + pulse.ended.len() + pulse.started.len() == 0
        });
    }

    pub(crate) fn is_put_away(&self) -> bool {
        let is_over = |stored: &Stored| stored.lifecycle.state(stored.task.state).terminal;
        tasks(&self.driver.store).iter().all(is_over)
            && self.harness.jobs(NODE).is_empty()
            && self.harness.worktrees().is_empty()
    }

    pub(crate) fn assert_clean(&self) {
        self.harness.assert_clean(&[NODE]);
        assert_eq!(self.harness.worktrees(), Vec::<String>::new());
    }

    pub(crate) fn up(&self) -> Up {
        self.harness.up()
    }

    /// What a person or an agent reports about a step or gate.
    pub(crate) fn report(&self, args: &[&str]) -> Output {
        self.harness.run(&[&["workflow", "report"], args].concat())
    }

    pub(crate) fn says(&self, args: &[&str]) {
        self.harness.ok(&[&["workflow", "report"], args].concat());
    }

    /// A person answers a gate by a file, when no agent can have written it.
    pub(crate) fn answers(&self, file: &str, text: &str) {
        until_agents_are_gone(&self.driver.store);
        self.leaves(file, text);
    }

    /// A file in the folder of signals, by whomever.
    pub(crate) fn leaves(&self, file: &str, text: &str) {
        let signals = self.harness.path("repo/.workflow/signals");
        fs::create_dir_all(&signals).expect("a folder");
        fs::write(signals.join(file), text).expect("written");
    }

    /// What a person says about the workflow as a whole.
    pub(crate) fn parent_says(&self, trigger: &str, more: &[&str]) {
        self.harness.ok(&[&["move", "t1", "--on", trigger], more].concat());
    }

    /// The state of the workflow itself.
    pub(crate) fn workflow_state(&self) -> String {
        state_of(&self.driver.store.task(TaskId(1)).expect("a workflow")).to_owned()
    }

    pub(crate) fn problem(&self) -> String {
        let parent = self.driver.store.task(TaskId(1)).expect("a workflow");
        field(&parent, "problem")
    }

    pub(crate) fn step(&self, id: &str) -> Stored {
        let steps = self.driver.store.children(TaskId(1)).expect("steps");
        steps.into_iter().find(|step| field(step, "step") == id).expect("a step of this name")
    }

    pub(crate) fn state(&self, step: &str) -> String {
        state_of(&self.step(step)).to_owned()
    }

    /// All steps with their states, in an order in which they can start.
    pub(crate) fn states(&self) -> Vec<String> {
        let steps = self.driver.store.children(TaskId(1)).expect("steps");
        steps.iter().map(|step| format!("{} {}", field(step, "step"), state_of(step))).collect()
    }

    pub(crate) fn diagnostic(&self, step: &str) -> String {
        field(&self.step(step), "diagnostic")
    }

    /// The attempts that were started, in order, one for each start.
    pub(crate) fn starts(&self) -> Vec<String> {
        self.harness.starts()
    }

    pub(crate) fn has_started(&self, attempt: &str) -> bool {
        self.starts().iter().any(|start| start == attempt)
    }

    /// What the agent of an attempt was told.
    pub(crate) fn prompt(&self, attempt: &str) -> String {
        self.harness.file(&format!("prompts/{attempt}"))
    }

    /// The files of feedback, by name.
    pub(crate) fn feedback(&self) -> BTreeMap<String, String> {
        let folder = self.harness.path("repo/.workflow/retry-context");
        let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
        let files = entries.map(|entry| entry.expect("a file"));
        let read = |file: fs::DirEntry| {
            let name = file.file_name().into_string().expect("a name");
            (name, fs::read_to_string(file.path()).expect("a text"))
        };
        files.map(read).collect()
    }

    /// The lines of the workflow's log, without their times and marks.
    pub(crate) fn log(&self) -> Vec<String> {
        let log = self.harness.file("repo/.workflow/audit/w.log");
        let line = |line: &str| {
            let text = line.split_once(' ').map_or(line, |(_, text)| text);
            text.rsplit_once(" [").map_or(text, |(text, _)| text).to_owned()
        };
        log.lines().map(line).collect()
    }

    pub(crate) fn logged(&self, words: &str) -> usize {
        self.log().iter().filter(|line| line.contains(words)).count()
    }

    /// Tasks of reviewers with their states, in the order in which they were asked.
    pub(crate) fn assignments(&self) -> Vec<String> {
        let mut assignments: Vec<Stored> = tasks(&self.driver.store);
        assignments.retain(|stored| stored.lifecycle.id == "review");
        assignments.sort_by_key(|stored| stored.task.id);
        assignments.iter().map(|review| state_of(review).to_owned()).collect()
    }

    /// The run of an attempt that was started.
    pub(crate) fn run_of(&self, attempt: &str) -> String {
        let starts = self.harness.file("starts");
        let line = starts.lines().find_map(|line| line.strip_prefix(&format!("{attempt} ")));
        line.expect("it was started").to_owned()
    }

    /// Whether an agent of the attempt's run lives.
    pub(crate) fn is_at_work(&self, attempt: &str) -> bool {
        let run = self.run_of(attempt);
        self.harness.agents().iter().any(|agent| agent.job() == Some(run.as_str()))
    }

    pub(crate) fn history(&self, id: TaskId) -> Vec<String> {
        let entries = self.driver.store.history(id, 0).expect("a history");
        let line = |entry: &banksman::store::HistoryEntry| {
            let record = &entry.record;
            format!("{} -> {}", record.trigger, record.to)
        };
        entries.iter().map(line).collect()
    }
}

/// A gate behind A, whose feedback A reads, and B behind it.
pub(crate) fn two_steps(reviewer: &str, more: &str) -> String {
    format!(
        "workflow: {{ id: w, name: Two steps }}
steps:
  - {{ id: A, name: Write, inputs: ['.workflow/retry-context/G-*.md'], gate: G }}
  - {{ id: B, name: Use it }}
gates:
  - id: G
    reviewer: {{ {reviewer} }}
    on_pass: {{ next_step: B }}
    {more}
"
    )
}

/// Until nobody can take a file of a person for one of an agent.
pub(crate) fn until_agents_are_gone(store: &Store) {
    wait_until("no agent has been at work for a while", || {
        let now = clock::now();
        let from = Instant(now.0 - 1_100);
        let when = NodeTime { node: NODE, from, until: now, lingers: Span(0) };
        store.runs_at_work("repo", &when).expect("runs").is_empty()
    });
}

/// A reviewer's script; each line of the feedback is a concern.
pub(crate) fn verdict(word: &str, feedback: &str) -> String {
    format!("answer {}\nsuccess looked\n", answer(word, feedback))
}

/// The same at a gate that has ways back by reasons.
pub(crate) fn reasoned(word: &str, feedback: &str, reason: &str) -> String {
    let mut answer = answer(word, feedback);
    answer["reason"] = reason.into();
    format!("answer {answer}\nsuccess looked\n")
}

fn answer(word: &str, feedback: &str) -> Value {
    let concerns: Vec<&str> = feedback.lines().collect();
    serde_json::json!({
        "verdict": word, "rationale": format!("it says {word}"), "concerns": concerns, "suggestions": [],
    })
}

pub(crate) fn field(stored: &Stored, name: &str) -> String {
    stored.task.fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// What a person sees of a refusal: the exit code, and that nothing has changed.
pub(crate) fn assert_refused(bench: &Bench, args: &[&str], word: &str) {
    let before = bench.states();
    let output = bench.report(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(word), "{said}");
    assert_eq!(bench.states(), before);
}

/// How many runs a step has had.
pub(crate) fn runs(store: &Store, id: TaskId) -> i64 {
    store.task(id).expect("a task").task.spent.runs
}
