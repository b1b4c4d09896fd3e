//! A harness in which workflows are played: every step and every gate has a script of its own, by
//! its id in the file.
//!
//! It asks the program and looks at files, as a person would; it never writes to the store.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use banksman::store::Stored;
use banksman_core::ids::TaskId;
use serde_json::{Value, json};

use super::until_agents_are_gone;
use crate::engine::harness::{Harness, Up, state_of};
use crate::engine::processes::{rest, wait_until};
use crate::programs;
use crate::scripted::scripted_agent;

/// Plays the script of the step or the gate that the first line of the prompt names, else what is
/// usual for one. Every start is written down with its prompt. An id is a file's name once its odd
/// letters are gone.
const ACTOR: &str = r#"run=${BANKSMAN_RUN%%:*}
cat >"$2/prompts/$run"
part=$(sed -n -e '1s/^You join the work .*/join end/p' -e '1s/^You do step \([^ ]*\) .*/step \1/p' -e '1s/^You are [^,]*, .* at the gate \([^ ]*\) .*/gate \1/p' "$2/prompts/$run")
kind=${part%% *}
export PART="$(echo "${part#* }" | tr -c 'A-Za-z0-9.\n-' _)" SCRIPTED_STATE="$2/state" YARD="$2" REPO="$2/repo"
echo "$run $PART" >>"$2/starts"
for name in "$kind-$PART" "$kind"; do
    [ ! -f "$2/scripts/$name" ] || exec "$1" "$2/scripts/$name"
done
"#;
/// A file of its own in a commit of its own, and the signal that it is done.
pub(super) const WORK: &str = r#"run mkdir -p made && echo "$PART" >>"made/$PART" && git add made && git commit -qm "work of $PART"
success it is made
"#;
pub(super) const PASS: &str = r#"answer {"verdict":"APPROVE","rationale":"it is fine","concerns":[],"suggestions":[]}
success looked at it
"#;

/// An agent that joins the branches that its prompt names, and keeps what all of them say.
pub(super) const JOIN: &str = r#"run for branch in $(sed -n 's/^- `\(banksman[^`]*\)` conflicts.*/\1/p' "$YARD/prompts/${BANKSMAN_RUN%%:*}"); do git merge --quiet --no-edit "$branch" || { sed -i '/^[<=>]\{7\}/d' same.txt && git commit -qam "join $branch"; }; done
success it is joined
"#;

/// A script that leaves the usual file and the step's sentinel where it works.
pub(super) fn work_with_sentinel(path: &str) -> String {
    let (folder, _) = path.rsplit_once('/').unwrap_or((".", path));
    format!("run mkdir -p {folder} && echo '{{\"status\":\"done\"}}' >{path}\n{WORK}")
}

pub(super) struct Stage {
    harness: Harness,
}

impl Deref for Stage {
    type Target = Harness;

    fn deref(&self) -> &Harness {
        &self.harness
    }
}

impl Stage {
    pub(super) fn new() -> Self {
        Self::with(&[])
    }

    pub(super) fn with(settings: &[(&str, &str)]) -> Self {
        let harness = Harness::new(&[]);
        fs::create_dir(harness.path("bin")).expect("a folder");
        fs::write(harness.path("actor.sh"), ACTOR).expect("written");
        let words = [harness.path("actor.sh"), scripted_agent(), harness.root().to_owned()];
        let words = words.map(|word| format!("{:?}", word.display().to_string()));
        harness.set(&[("workers.scripted.command", &format!("[\"sh\", {}]", words.join(", ")))]);
        harness.set(settings);
        harness.script("step", WORK);
        harness.script("gate", PASS);
        Self { harness }
    }

    /// What the agents of a step do; attempts are counted for each step by itself.
    pub(super) fn step(&self, id: &str, script: &str) {
        self.harness.script(&format!("step-{id}"), &format!("count-as step-{id}\n{script}"));
    }

    /// What the reviewers at a gate do.
    pub(super) fn gate(&self, id: &str, script: &str) {
        self.harness.script(&format!("gate-{id}"), &format!("count-as gate-{id}\n{script}"));
    }

    /// A program that is found before those of the system.
    pub(super) fn program(&self, name: &str, script: &str) {
        let path = self.harness.path("bin").join(name);
        fs::write(&path, script).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be run");
    }

    /// Writes a workflow to where workflows are kept, and answers with its path from the root of
    /// the repository.
    pub(super) fn spec(&self, name: &str, text: &str) -> String {
        let path = format!(".workflow/specs/{name}.yaml");
        self.put(&path, text);
        path
    }

    /// Writes a file into the repository, as a person would.
    pub(super) fn put(&self, path: &str, text: &str) {
        let full = self.repo(path);
        fs::create_dir_all(full.parent().expect("it is below the root")).expect("a folder");
        fs::write(full, text).expect("written");
    }

    pub(super) fn repo(&self, path: &str) -> PathBuf {
        self.harness.path("repo").join(path)
    }

    /// All files with the texts that are in main are there.
    pub(super) fn commit_all(&self, message: &str) {
        self.harness.git(&["add", "--all"]);
        self.harness.git(&["commit", "--quiet", "--message", message]);
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.harness.command(args);
        let own = self.harness.path("bin");
        command.env("PATH", format!("{}:{}", own.display(), programs::path()));
        command
    }

    pub(super) fn banksman(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program starts")
    }

    /// Runs what must succeed and answers with its output.
    pub(super) fn ok(&self, args: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.banksman(args);
        let (text, said) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{args:?}: {status}\n{text}\n{said}");
        text.into_owned()
    }

    /// Runs what must be refused and answers with what it says.
    pub(super) fn refused(&self, args: &[&str]) -> String {
        let output = self.banksman(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{args:?} was taken: {said}");
        said
    }

    pub(super) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[args, &["--json"]].concat())).expect("a document")
    }

    /// Runs a workflow until it ends or only people can move it on.
    pub(super) fn play(&self, args: &[&str]) -> Value {
        let output = self.banksman(&[&["workflow", "run", "--json"], args].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{}: {said}", output.status);
        serde_json::from_slice(&output.stdout).expect("a document")
    }

    /// Only makes the tasks; whoever is up does the rest.
    pub(super) fn announce(&self, args: &[&str]) -> Value {
        self.json(&[&["workflow", "run", "--detach"], args].concat())
    }

    /// A running `up` that finds the stage's programs.
    pub(super) fn up(&self) -> Up {
        Up::start(self.command(&["up"]), &self.path("up-here.log"))
    }

    /// The program with these words, beside the test.
    pub(super) fn beside(&self, args: &[&str]) -> Up {
        Up::start(self.command(args), &self.path("up-here.log"))
    }

    /// The task of the workflow that was started last of a name, and those of its steps.
    fn tasks_of(&self, workflow: &str) -> Vec<Stored> {
        let word = |stored: &Stored| stored.task.fields.get("workflow").cloned();
        let mut all = self.harness.tasks();
        all.retain(|stored| word(stored) == Some(json!(workflow)));
        let heads = all.iter().filter(|stored| stored.task.parent.is_none());
        let Some(head) = heads.map(|stored| stored.task.id).max() else { return Vec::new() };
        all.retain(|stored| stored.task.id == head || stored.task.parent == Some(head));
        all
    }

    /// The task of a workflow.
    pub(super) fn head(&self, workflow: &str) -> TaskId {
        let tasks = self.tasks_of(workflow);
        let head = tasks.iter().find(|stored| stored.task.parent.is_none());
        head.expect("it was started").task.id
    }

    /// The state of a workflow; empty before it is started.
    pub(super) fn stands(&self, workflow: &str) -> String {
        let tasks = self.tasks_of(workflow);
        let head = tasks.iter().find(|stored| stored.task.parent.is_none());
        head.map(|head| state_of(head).to_owned()).unwrap_or_default()
    }

    /// The states of the steps of a workflow, by their ids.
    pub(super) fn states(&self, workflow: &str) -> BTreeMap<String, String> {
        let tasks = self.tasks_of(workflow);
        let named = tasks.iter().filter_map(|stored| Some((step_of(stored)?, stored)));
        named.map(|(step, stored)| (step, state_of(stored).to_owned())).collect()
    }

    pub(super) fn step_is(&self, workflow: &str, step: &str, state: &str) -> bool {
        self.states(workflow).get(step).is_some_and(|found| found == state)
    }

    pub(super) fn stored(&self, workflow: &str, step: &str) -> Stored {
        let tasks = self.tasks_of(workflow);
        let found = tasks.into_iter().find(|stored| step_of(stored).as_deref() == Some(step));
        found.expect("the step was started")
    }

    pub(super) fn task_of(&self, workflow: &str, step: &str) -> TaskId {
        self.stored(workflow, step).task.id
    }

    /// Changes with everything that happens to the step's task.
    pub(super) fn version(&self, workflow: &str, step: &str) -> i64 {
        self.stored(workflow, step).task.version
    }

    /// Waits until a step is in a state.
    pub(super) fn until_step(&self, workflow: &str, step: &str, state: &str) {
        wait_until(&format!("{step} of {workflow} is {state}"), || {
            self.step_is(workflow, step, state)
        });
    }

    pub(super) fn until_stands(&self, workflow: &str, state: &str) {
        wait_until(&format!("{workflow} is {state}"), || self.stands(workflow) == state);
    }

    /// Pulses, as cron would, until something is so.
    pub(super) fn pulse_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        wait_until(what, || {
            self.ok(&["pulse", "--quiet"]);
            is_so() || {
                rest();
                false
            }
        });
    }

    /// The words of a signal, put there by a rename, so that nobody sees half of it.
    pub(super) fn signal(&self, name: &str, text: &str) {
        self.put(&format!(".workflow/{name}.draft"), text);
        let to = self.repo(&format!(".workflow/signals/{name}"));
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::rename(self.repo(&format!(".workflow/{name}.draft")), to).expect("moved");
    }

    /// The same by a person who answers a gate, when no agent can have written it.
    pub(super) fn answer(&self, name: &str, text: &str) {
        until_agents_are_gone(&self.open());
        self.signal(name, text);
    }

    /// What the workflow's log says.
    pub(super) fn log(&self, workflow: &str) -> String {
        self.harness.file(&format!("repo/.workflow/audit/{workflow}.log"))
    }

    /// The lines of the log that hold these words.
    pub(super) fn logged(&self, workflow: &str, words: &str) -> usize {
        self.log(workflow).lines().filter(|line| line.contains(words)).count()
    }

    /// Names of the files in a folder of the mailbox.
    pub(super) fn listed(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.repo(&format!(".workflow/{folder}"))) else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> =
            names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// What the agents of a step or a gate were told, one text for each start.
    pub(super) fn prompts_of(&self, part: &str) -> Vec<String> {
        let starts = self.harness.file("starts");
        let starts = starts.lines().filter_map(|line| line.split_once(' '));
        let runs = starts.filter(|(_, played)| *played == part);
        runs.map(|(run, _)| self.harness.file(&format!("prompts/{run}"))).collect()
    }

    /// The steps and gates whose agents were started, in order.
    pub(super) fn played(&self) -> Vec<String> {
        let starts = self.harness.file("starts");
        let parts = starts.lines().filter_map(|line| line.split_once(' '));
        parts.map(|(_, part)| part.to_owned()).collect()
    }

    /// The text of a file in the main branch.
    pub(super) fn main(&self, path: &str) -> String {
        self.harness.git(&["show", &format!("main:{path}")])
    }

    pub(super) fn main_files(&self) -> Vec<String> {
        let listed = self.harness.git(&["ls-tree", "-r", "--name-only", "main"]);
        listed.lines().map(str::to_owned).collect()
    }

    /// The worktree of a step that works in one of its own.
    pub(super) fn worktree(&self, workflow: &str, step: &str) -> PathBuf {
        let id = self.task_of(workflow, step).to_string();
        let all = self.harness.worktrees();
        let mine = all.iter().find(|path| path.rsplit('/').next() == Some(&id));
        mine.unwrap_or_else(|| panic!("{id} has none of {all:?}")).into()
    }

    /// After the end of all workflows: everything is put away, the store is sound, and nothing is
    /// left over.
    pub(super) fn assert_put_away(&self) {
        // A clean-up that fails between the worktree and its branch begins again.
        self.pulse_until("worktrees and merged branches are put away", || {
            self.harness.jobs("here").is_empty()
                && self.harness.worktrees().is_empty()
                && self.harness.git(&["branch", "--list", "banksman/*"]).is_empty()
        });
        self.harness.assert_clean(&["here"]);
    }
}

fn step_of(stored: &Stored) -> Option<String> {
    stored.task.fields.get("step").and_then(Value::as_str).map(str::to_owned)
}
