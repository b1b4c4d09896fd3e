//! The contract between the program and a lifecycle: every name that Rust says to a lifecycle or
//! reads from one.
//!
//! Rust fires a [`Trigger`], reads and writes a [`Field`], counts by a [`CounterName`] and asks for
//! a [`SettingName`]; a lifecycle declares with its [`Purpose`] which of them the engine may
//! expect. `obligations` proves both directions when a lifecycle is checked. No other file of the
//! program spells such a name. A new purpose is one variant and its rows below.

use std::fmt;

use super::{
    Activity, Lifecycle, Outcome, RoleId, Route, Setting, State, StateId, StateKind, Transition,
    TransitionTarget,
};
use crate::closed::closed;
use crate::time::Span;

closed! {
    /// What a lifecycle is for, which decides what the engine demands of it.
    pub enum Purpose {
        /// Work that people and planners add.
        Task = "task",
        /// A subtask of an approved plan, created by the engine.
        Subtask = "subtask",
        /// A workflow; its steps are its children.
        Workflow = "workflow",
        /// One step of a workflow with the gate behind it.
        Step = "step",
        /// The review of one reviewer of a panel.
        Review = "review",
        /// A question to people about a budget that is used up.
        Budget = "budget",
    }
}

use Purpose::{Budget, Review, Step, Subtask, Task, Workflow};

impl Purpose {
    /// The built-in lifecycle that the engine uses where it creates tasks of this purpose itself. A
    /// project may replace it only by one of the same purpose.
    pub fn engine_lifecycle(self) -> Option<&'static str> {
        match self {
            Task => None,
            Subtask => Some("leaf"),
            Workflow => Some("workflow"),
            Step => Some("step"),
            Review => Some("review"),
            Budget => Some("budget"),
        }
    }

    /// The purpose of a source from before purposes were declared, by the lifecycle's id and a
    /// field that the engine gave its tasks. At that time, a project could use every name,
    /// including those that the engine uses today.
    pub(super) fn of_legacy(id: &str, has_field: impl Fn(&str) -> bool) -> Self {
        match id {
            "leaf" if has_field("subtask") || has_field("plan_version") => Subtask,
            "workflow" if has_field("spec") => Workflow,
            "step" if has_field("spec") => Step,
            "seat" if has_field("asked_at") => Review,
            "allowance" if has_field("scope") => Budget,
            _ => Task,
        }
    }
}

closed! {
    /// A role that the engine knows; a lifecycle may name others.
    pub enum AgentRole {
        /// The default of a workflow's steps.
        Worker = "worker",
        Planner = "planner",
        Evaluator = "evaluator",
        Reviewer = "reviewer",
        /// Runs the command of a workflow's step. Every node plays it, and no agent does.
        Command = "shell",
        /// The role of a run whose state names none.
        Agent = "agent",
        /// May answer decisions where [`SettingName::LeadMayApprove`] says so.
        Lead = "lead",
    }
}

closed! {
    /// Who drives a workflow, in [`Field::StepDriver`].
    pub enum DrivenBy {
        Engine = "engine",
        Person = "person" formerly "hand",
    }
}

closed! {
    /// How a step is started, in [`Field::Launch`].
    pub enum LaunchMode {
        /// A worker claims it.
        Headless = "headless",
        /// A person, or an agent that works with one, does it and signals.
        Interactive = "interactive",
        /// The agent that drives the workflow delegates it to its own subagent; without such an
        /// agent, a worker takes it.
        Subagent = "subagent",
    }
}

closed! {
    /// Who decides at the gate of a step, in [`Field::Level`].
    pub enum EscalationLevel {
        /// Agents decide.
        Auto = "auto",
        /// Agents decide; people are notified and may veto.
        Notify = "notify",
        Human = "human",
    }
}

/// What [`Field::Level`] says of a step without a gate.
pub const NO_GATE: &str = "none";

closed! {
    /// What a person is asked for, in [`Field::ApprovalType`].
    pub enum ApprovalType {
        Standard = "standard",
        Escalated = "escalated",
    }
}

closed! {
    /// A record that the program writes into the history without a transition.
    pub enum Note {
        /// The first record of a task.
        Create = "create",
        /// The first record of a task from another store.
        Import = "import",
        /// A refused stale write.
        StaleWrite = "stale_write" formerly "came_late",
        /// What a stopped run has used, reported after its end.
        LateCost = "late_cost",
        /// A delay that a person skipped.
        DelaySkipped = "delay_skipped" formerly "hastened",
        /// A budget that a person has raised.
        Raised = "raised",
        /// A fault of one task, which did not stop the turn.
        EngineFault = "engine_fault",
        /// A permission, where the lifecycle has no answer that grants it.
        Allow = "allow",
        /// A fact that a person gave without proof.
        Override = "override",
        AnswerRefused = "answer_refused",
        /// A person's answer that takes effect later.
        AnswerGiven = "answer_given",
        /// The same, taken back before it took effect.
        AnswerTakenBack = "answer_taken_back",
        /// The same, after the task has changed meanwhile.
        AnswerLapsed = "answer_lapsed",
        /// Timers, a decision or a place in the queue that `check --repair` made again.
        Repaired = "repaired",
    }
}

/// Every purpose whose tasks agents may work on.
const WORKED_ON: &[Purpose] = &[Task, Subtask, Step, Review];
const ANY: &[Purpose] = &Purpose::ALL;

/// One row of the contract, for lint and for the generated reference.
#[derive(Debug, Clone, Copy)]
pub struct ContractRow<T> {
    pub item: T,
    pub name: &'static str,
    /// The name in sources from before the rename.
    pub former: Option<&'static str>,
    pub about: &'static str,
    /// The purposes for which the program uses it. Other lifecycles may not use the name.
    pub purposes: &'static [Purpose],
    /// Lifecycles that must have it.
    pub demanded_by: &'static [Purpose],
}

macro_rules! contract {
    (
        $(#[$meta:meta])*
        pub enum $Item:ident: $Detail:ty {
            $($Variant:ident = $name:literal $(formerly $former:literal)?, $detail:expr, $purposes:expr, $demanded:expr, $about:literal;)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Item { $(#[doc = $about] $Variant,)+ }

        impl $Item {
            pub const RULES: &'static [ContractRow<Self>] = &[$(ContractRow {
                item: Self::$Variant,
                name: $name,
                former: contract!(@former $($former)?),
                about: $about,
                purposes: $purposes,
                demanded_by: $demanded,
            },)+];

            pub fn rule(self) -> &'static ContractRow<Self> {
                &Self::RULES[self as usize]
            }

            pub fn detail(self) -> $Detail {
                match self { $(Self::$Variant => $detail,)+ }
            }

            /// The name in present lifecycles.
            pub fn name(self) -> &'static str {
                self.rule().name
            }

            /// The name in this lifecycle, whose source may be from before a rename.
            pub fn name_in(self, lifecycle: &Lifecycle) -> &'static str {
                let rule = self.rule();
                rule.former.filter(|_| lifecycle.legacy).unwrap_or(rule.name)
            }

            /// The item of this name in present lifecycles.
            pub fn named(name: &str) -> Option<Self> {
                Self::RULES.iter().find(|rule| rule.name == name).map(|rule| rule.item)
            }
        }

        impl fmt::Display for $Item {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
    (@former) => { None };
    (@former $former:literal) => { Some($former) };
}

mod fields;

pub use fields::{Field, FieldShape, FieldSource};

/// What the engine needs to fire a trigger, besides the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineNeed {
    /// A transition that takes the text of a question, which would be lost otherwise.
    Question,
    /// The same, and no transition before it asks.
    FirstQuestion,
    /// A lifecycle that plans, because no other has subtasks.
    Planner,
    /// A transition that the engine does not take again at once.
    Throttle,
}

const TAKE_DETAIL: &str =
    "add `compute: { FIELD: detail }`, where FIELD is what a person reads; or remove it";

impl EngineNeed {
    /// The need in words, and what to write.
    pub const fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Question => ("by a transition that computes a field from `detail`", TAKE_DETAIL),
            Self::FirstQuestion => (
                "by the first transition of the state that computes a field from `detail`",
                TAKE_DETAIL,
            ),
            Self::Planner => (
                "in a lifecycle with the field `plan` and an agent that plans",
                "declare `plan: any` and do `agent` with `role: planner, produces: answer`; or remove it",
            ),
            Self::Throttle => (
                "by a transition that counts `unserved` or leads to where no worker is needed",
                "declare the counter `unserved` and add `count: [unserved]`; or remove it",
            ),
        }
    }
}

/// When the engine fires a trigger: in the states of some kinds and in those that do something, if
/// it has what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FiredIn {
    pub kinds: &'static [StateKind],
    pub activities: &'static [Activity],
    pub needs: Option<EngineNeed>,
}

impl FiredIn {
    const fn kinds(kinds: &'static [StateKind]) -> Self {
        Self { kinds, activities: &[], needs: None }
    }

    const fn doing(activities: &'static [Activity]) -> Self {
        Self { kinds: &[], activities, needs: None }
    }

    const fn with(self, need: EngineNeed) -> Self {
        Self { needs: Some(need), ..self }
    }

    pub fn fits(self, state: &State) -> bool {
        let is_done = |activity| self.activities.contains(&activity);
        self.kinds.contains(&state.kind) || state.activity().is_some_and(is_done)
    }
}

impl fmt::Display for FiredIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.as_str()).collect();
        let does = self.activities.iter().map(|does| format!("that does `{}`", does.as_str()));
        let kinds = (!kinds.is_empty()).then(|| format!("of kind {}", kinds.join(", ")));
        f.write_str(&kinds.into_iter().chain(does).collect::<Vec<_>>().join(" or "))
    }
}

/// A task in such a state waits for the dispatcher.
const BEFORE_A_RUN: FiredIn =
    FiredIn { kinds: &[StateKind::Queued], activities: &[Activity::Agent], needs: None };
const ASKS_FOR_BUDGET: FiredIn = BEFORE_A_RUN.with(EngineNeed::FirstQuestion);
const NOT_OVER: FiredIn = {
    use StateKind::{Blocked, Parked, Queued, Reviewing, Waiting, Working};
    FiredIn::kinds(&[Queued, Working, Reviewing, Waiting, Blocked, Parked])
};
/// A child that is done provisionally or has failed is also moved by its parent.
const NOT_CANCELLED: FiredIn = {
    use StateKind::{Blocked, Done, Failed, Parked, Queued, Reviewing, Waiting, Working};
    FiredIn::kinds(&[Queued, Working, Reviewing, Waiting, Blocked, Parked, Done, Failed])
};

/// Who fires a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FiredBy {
    /// The engine alone, as the role `system`.
    Engine(FiredIn),
    /// The engine, and any caller that asks for such a move.
    Both(FiredIn),
    /// A command or a signal file, for the person or run that it comes from.
    Caller,
}

impl FiredBy {
    /// The states in which the engine fires it, if it does.
    pub fn engine(self) -> Option<FiredIn> {
        match self {
            Self::Engine(states) | Self::Both(states) => Some(states),
            Self::Caller => None,
        }
    }
}

use FiredBy::{Both, Caller, Engine};

contract! {
    /// A trigger that the program fires. A lifecycle's other triggers are fired by the outcomes of
    /// its activities, by its timeouts, or by callers that ask for a move.
    pub enum Trigger: FiredBy {
        Claim = "claim", Both(FiredIn::kinds(&[StateKind::Queued])), ANY, &[], "The dispatcher gives a queued task to a worker.";
        NoWorker = "no_worker", Engine(BEFORE_A_RUN.with(EngineNeed::Throttle)), &[Task, Subtask], &[], "No worker of any node can take the queued task.";
        WorkerAvailable = "worker_available", Engine(FiredIn::kinds(&[StateKind::Blocked])), &[Task, Subtask], &[], "A worker that could take the blocked task has appeared.";
        OverBudget = "over_budget", Engine(ASKS_FOR_BUDGET), &[Task, Subtask, Workflow, Step], &[], "The task's own budget is used up before its next run.";
        ChildrenMoved = "children_moved" formerly "parts_moved", Engine(NOT_OVER.with(EngineNeed::Planner)), &[Task], &[], "A subtask has moved; the fields about subtasks are up to date.";
        Reset = "reset", Engine(NOT_CANCELLED), &[Subtask, Step], &[Subtask, Step], "A person or a failed gate has the task start again.";
        TakeUp = "take_up", Engine(FiredIn::kinds(&[StateKind::Failed])), &[Step], &[Step], "The workflow goes on, and with it a step that was given up.";
        Close = "close", Both(NOT_CANCELLED), ANY, &[Subtask, Step, Review, Budget], "The parent has ended, or the question is moot.";
        Trip = "trip", Both(FiredIn::doing(&[Activity::Wait])), &[Workflow], &[Workflow], "The workflow's breaker has tripped.";
        TakenUp = "taken_up", Engine(FiredIn::doing(&[Activity::Human])), &[Workflow], &[Workflow], "A person has decided about every step that was given up.";
        Led = "led", Engine(FiredIn::kinds(&[StateKind::Working])), &[Workflow], &[Workflow], "The engine has told the steps that the workflow runs.";
        Followed = "followed", Engine(FiredIn::kinds(&[StateKind::Done])), &[Step], &[Step], "A later step has ended, so the veto window is over.";
        Abort = "abort", Both(NOT_OVER), &[Workflow, Step], &[Workflow, Step], "A person, or a gate without a way back, gives the work up.";
        Open = "open", Caller, &[Step], &[Step], "Somebody begins a manual step.";
        Signal = "signal", Caller, &[Step], &[Step], "The step's completion signal has arrived.";
        Pass = "pass", Caller, &[Step], &[Step], "The gate lets the step pass.";
        Fail = "fail", Caller, &[Step], &[Step], "The gate sends the step back.";
        Resume = "resume", Caller, &[Workflow], &[Workflow], "A person has the workflow go on.";
        Accept = "accept", Caller, &[Workflow], &[Workflow], "A person takes the work as it stands.";
        Veto = "veto", Caller, &[Step], &[Step], "A person objects to a step that an agent let pass.";
        Skip = "skip", Caller, &[Step], &[], "A person goes on without the step.";
        Proven = "proven", Engine(FiredIn::doing(&[Activity::Check])), &[Step], &[Step], "The checks verified a manual step.";
        Escalate = "escalate", Both(NOT_OVER.with(EngineNeed::Question)), WORKED_ON, &[], "A person, an agent, a permission request or a used-up budget asks a person.";
        Retry = "retry", Caller, ANY, &[], "A person has a failed or waiting task tried again.";
        Unblock = "unblock", Caller, ANY, &[], "A person lets a blocked task go on.";
        Cancel = "cancel", Caller, ANY, &[], "A person abandons the task.";
    }
}

contract! {
    /// A counter that the program reads.
    pub enum CounterName: () {
        Unserved = "unserved", (), &[Task, Subtask], &[], "How often no worker could take the task.";
        Rounds = "rounds", (), &[Step], &[Step], "How often the gate has failed.";
    }
}

/// The type of a setting, with an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingShape {
    pub name: &'static str,
    pub example: &'static str,
}

const A_TIME: SettingShape = SettingShape { name: "time", example: "30min" };
const A_NUMBER: SettingShape = SettingShape { name: "number", example: "3" };
const A_FLAG: SettingShape = SettingShape { name: "flag", example: "true" };

contract! {
    /// A setting that the program reads or overrides.
    pub enum SettingName: SettingShape {
        IterationTimeout = "iteration_timeout", A_TIME, &[Task], &[], "The time of one planning iteration.";
        AnswerTimeout = "answer_timeout", A_TIME, &[Workflow, Step, Review], &[Step, Review], "The time that an answer may take.";
        TimeLimit = "time_limit", A_TIME, &[Workflow], &[Workflow], "The time that a workflow may take.";
        VetoWindow = "veto_window", A_TIME, &[Step], &[Step], "How long a person may object.";
        MaxRetries = "max_retries", A_NUMBER, &[Task, Step], &[Step], "How often a failed run is tried again, whatever its class; at a gate, how often it may fail before a person decides.";
        GateTimeout = "gate_timeout", A_TIME, &[Step], &[Step], "The time that reviewers have at a gate.";
        Patience = "patience", A_TIME, &[Review, Budget], &[Review, Budget], "How long the question waits.";
        MaxMisses = "max_misses", A_NUMBER, &[Review], &[Review], "How often a reviewer may miss its answer.";
        FirstRest = "first_rest", A_TIME, &[Review], &[Review], "The rest before the second question.";
        SecondRest = "second_rest", A_TIME, &[Review], &[Review], "The rest before the last question.";
        LeadMayApprove = "lead_may_approve", A_FLAG, &[Task], &[], "Whether a lead may approve a mission.";
    }
}

closed! {
    /// What an answer says about the request that it answers.
    pub enum AnswerEffect {
        Grants = "grants a request",
        /// "Find another way" also continues.
        Continues = "continues",
        Other = "other",
    }
}

closed! {
    /// What an answer does with the work, which decides its key and its place in every list.
    pub enum AnswerRole {
        /// The work goes on or is accepted.
        GoOn = "go_on",
        /// The work, or a part of it, is done again.
        SendBack = "send_back",
        /// The task ends, or is put aside.
        End = "end",
    }
}

/// What an answer says about a request, and what it does with the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerMeaning {
    pub effect: AnswerEffect,
    pub role: AnswerRole,
}

const GRANTS: AnswerMeaning =
    AnswerMeaning { effect: AnswerEffect::Grants, role: AnswerRole::GoOn };
const CONTINUES: AnswerMeaning =
    AnswerMeaning { effect: AnswerEffect::Continues, role: AnswerRole::GoOn };
const ACCEPTS: AnswerMeaning =
    AnswerMeaning { effect: AnswerEffect::Other, role: AnswerRole::GoOn };
const SENDS_BACK: AnswerMeaning =
    AnswerMeaning { effect: AnswerEffect::Other, role: AnswerRole::SendBack };
const ENDS: AnswerMeaning = AnswerMeaning { effect: AnswerEffect::Other, role: AnswerRole::End };

contract! {
    /// An action that the program knows among the offers of a decision; the clearest first.
    pub enum AnswerName: AnswerMeaning {
        Approve = "approve", GRANTS, ANY, &[], "A person agrees.";
        Allow = "allow", GRANTS, ANY, &[], "A person permits what the agent asked for.";
        Yes = "yes", GRANTS, ANY, &[], "The same as `approve`.";
        Pass = "pass", GRANTS, ANY, &[], "A gate lets the work pass.";
        Resume = "resume", CONTINUES, ANY, &[], "The work goes on.";
        Unblock = "unblock", CONTINUES, ANY, &[], "The obstacle is gone, or there is another way.";
        Retry = "retry", CONTINUES, ANY, &[], "The work is tried again.";
        Merge = "merge", ACCEPTS, ANY, &[], "The work is merged; the daily note lists such decisions by themselves.";
        Accept = "accept", ACCEPTS, ANY, &[], "The work is taken as it stands.";
        Without = "without", ACCEPTS, ANY, &[], "The work goes on without the part that failed.";
        Skip = "skip", ACCEPTS, ANY, &[], "The work goes on without this step.";
        Changes = "changes", SENDS_BACK, ANY, &[], "The work has to be changed.";
        Fail = "fail", SENDS_BACK, ANY, &[], "A gate sends the work back.";
        Veto = "veto", SENDS_BACK, ANY, &[], "A person objects to work that passed.";
        Back = "back", SENDS_BACK, ANY, &[], "The task goes back to where it came from.";
        Block = "block", SENDS_BACK, ANY, &[], "The work stops until a person lets it go on.";
        Cancel = "cancel", ENDS, ANY, &[], "The task is abandoned.";
        Abort = "abort", ENDS, ANY, &[], "The work is given up.";
        Backburner = "backburner", ENDS, ANY, &[], "The task is put aside.";
    }
}

impl AnswerName {
    /// The clearest of the offers with one of these effects.
    pub fn clearest<'o>(
        offers: &'o [(String, String)],
        effects: &[AnswerEffect],
    ) -> Option<&'o (String, String)> {
        let mut rules =
            Self::RULES.iter().filter(|rule| effects.contains(&rule.item.detail().effect));
        rules.find_map(|rule| offers.iter().find(|(action, _)| action == rule.name))
    }
}

impl Lifecycle {
    /// Whether the lifecycle declares the field.
    pub fn has_field(&self, field: Field) -> bool {
        self.fields.contains_key(field.name_in(self))
    }

    /// Whether a transition with this trigger leaves the state.
    pub fn has_exit(&self, from: StateId, trigger: Trigger) -> bool {
        let name = trigger.name_in(self);
        self.exits(from).any(|row| row.trigger == name)
    }

    /// When the engine fires a trigger in this lifecycle.
    fn fired_in(&self, trigger: &str) -> impl Iterator<Item = FiredIn> {
        let known = Trigger::named(trigger);
        let known = known.filter(|known| known.rule().purposes.contains(&self.purpose));
        // A question about a budget may also go where a run leads that has used it up.
        let routed = self.states.iter().filter_map(|state| state.does.as_ref()).any(|does| {
            let route = does.outcomes.get(&Outcome::OverBudget);
            matches!(route, Some(Route::Trigger(own)) if own == trigger)
        });
        let known = known.and_then(|known| known.detail().engine());
        known.into_iter().chain(routed.then_some(ASKS_FOR_BUDGET))
    }

    /// Whether the engine fires the row's trigger in its state.
    pub(super) fn is_fired(&self, row: &Transition) -> bool {
        let fits = |fired: FiredIn| {
            let has_need = fired.needs.is_none_or(|need| match need {
                EngineNeed::Question => row.takes_detail().is_some(),
                EngineNeed::FirstQuestion => {
                    let question = self.budget_question(row.from);
                    question.is_some_and(|(trigger, _)| trigger == row.trigger)
                }
                EngineNeed::Planner => {
                    self.has_field(Field::Plan) && self.states.iter().any(State::plans)
                }
                EngineNeed::Throttle => {
                    let counted = row.changes.count.iter().map(|id| &self.counter(*id).name);
                    counted.into_iter().any(|name| name == CounterName::Unserved.name())
                        || matches!(row.to, TransitionTarget::State(to) if !fired.fits(self.state(to)))
                }
            });
            has_need && fired.fits(self.state(row.from))
        };
        self.fired_in(&row.trigger).any(fits)
    }

    /// The trigger by which the engine asks a person when a task in this state cannot go on, such
    /// as when it has used up its budget, and the field that takes the text.
    pub fn budget_question(&self, from: StateId) -> Option<(&str, &str)> {
        let asks = |need| matches!(need, Some(EngineNeed::Question | EngineNeed::FirstQuestion));
        let is_asked = |row: &&Transition| {
            row.timeout.is_none()
                && row.roles.contains(&RoleId::SYSTEM)
                && self.fired_in(&row.trigger).any(|fired| asks(fired.needs))
        };
        let taking = self.exits(from).filter_map(|row| Some((row, row.takes_detail()?)));
        let mut questions = taking.filter(|(row, _)| is_asked(row));
        questions.next().map(|(row, field)| (row.trigger.as_str(), field))
    }

    /// The value of a duration setting.
    pub fn time(&self, setting: SettingName) -> Option<Span> {
        match self.setting(setting)? {
            Setting::Time(time) => Some(*time),
            Setting::Number(_) | Setting::Flag(_) | Setting::Text(_) => None,
        }
    }

    /// Whether a flag setting is on.
    pub fn flag(&self, setting: SettingName) -> bool {
        self.setting(setting) == Some(&Setting::Flag(true))
    }

    /// How often failed runs of a task are tried again at most, whatever their class. A step has a
    /// setting of this name for its gate.
    pub fn max_retries(&self) -> Option<u32> {
        let is_of_runs = matches!(self.purpose, Task | Subtask);
        match self.setting(SettingName::MaxRetries).filter(|_| is_of_runs)? {
            Setting::Number(number) => number.to_string().parse().ok(),
            Setting::Time(_) | Setting::Flag(_) | Setting::Text(_) => None,
        }
    }

    fn setting(&self, setting: SettingName) -> Option<&Setting> {
        self.settings.get(setting.name_in(self)).map(|setting| &setting.value)
    }
}
