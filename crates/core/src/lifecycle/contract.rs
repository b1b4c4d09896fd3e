//! The contract between the program and a lifecycle: every name that Rust says to a lifecycle or
//! reads from one.
//!
//! Rust fires a [`Trigger`], reads and writes a [`Field`], counts by a [`CounterName`] and asks for
//! a [`SettingName`]; a lifecycle declares with its [`Purpose`] which of them the engine may expect.
//! `obligations` proves both directions when a lifecycle is checked. No other file of the program
//! spells such a name. A new purpose is one variant and its rows below.

use std::fmt;

use super::expr::Type;
use super::{Lifecycle, Outcome, Route, Setting, StateActivity, StateId};
use crate::closed::closed;
use crate::time::Span;

closed! {
    /// What a lifecycle is for, and so what the engine demands of it.
    pub enum Purpose {
        /// Work that people and planners add.
        Task = "task",
        /// One part of an approved plan, created by the engine.
        Subtask = "subtask",
        /// A workflow file that runs; its steps are its children.
        Workflow = "workflow",
        /// One step of a workflow with the gate behind it.
        Step = "step",
        /// One reviewer's part in a panel.
        Review = "review",
        /// A question to people about a budget that is used up.
        Budget = "budget",
    }
}

use Purpose::{Budget, Review, Step, Subtask, Task, Workflow};

impl Purpose {
    /// The built-in lifecycle that the engine uses where it creates tasks of this purpose itself. A
    /// project may replace it only by one of the same purpose.
    #[must_use]
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

    /// The purpose of a source from before purposes were declared, by the lifecycle's id. A project
    /// could use every other name then, also those that the engine has taken since.
    pub(super) fn of_legacy(id: &str) -> Self {
        match id {
            "leaf" => Subtask,
            "workflow" => Workflow,
            "step" => Step,
            "seat" => Review,
            "allowance" => Budget,
            _ => Task,
        }
    }
}

closed! {
    /// A role that the engine knows by itself; a lifecycle may name any others.
    pub enum AgentRole {
        Planner = "planner",
        Evaluator = "evaluator",
        Reviewer = "reviewer",
    }
}

closed! {
    /// Who drives a workflow, in [`Field::StepDriver`].
    pub enum DrivenBy {
        Engine = "engine",
        Person = "hand",
    }
}

closed! {
    /// How a step is started, in [`Field::Launch`].
    pub enum LaunchMode {
        /// A worker takes it.
        Headless = "headless",
        /// A person, or an agent that works with one, does it and signals.
        Interactive = "interactive",
        /// The agent that drives the workflow delegates it to its own subagent; without such an
        /// agent, a worker takes it.
        Subagent = "subagent",
    }
}

closed! {
    /// A record in the history that the program writes by itself and no transition leaves.
    pub enum Note {
        /// The refusal of a stale write.
        StaleWrite = "came_late",
        /// The end of a delay that a person asked for.
        DelaySkipped = "hastened",
        /// A budget that a person has raised.
        Raised = "raised",
        /// A fault of one task that a turn went on without.
        EngineFault = "engine_fault",
        /// A permission, where the lifecycle has no answer that grants it.
        Allow = "allow",
        AnswerRefused = "answer_refused",
    }
}

/// Every purpose whose tasks agents may work on.
const WORKED_ON: &[Purpose] = &[Task, Subtask, Step, Review];
const ANY: &[Purpose] = &Purpose::ALL;

/// The type that a contract field must be declared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldShape {
    /// A type, as a lifecycle writes it.
    Type(&'static str),
    /// At least these words.
    Words(&'static [&'static str]),
}

impl FieldShape {
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Type(name) => name.to_owned(),
            Self::Words(words) => format!("[{}]", words.join(", ")),
        }
    }

    #[must_use]
    pub fn fits(self, declared: &Type) -> bool {
        match (self, declared) {
            (Self::Type(name), declared) => Type::named(name).as_ref() == Some(declared),
            (Self::Words(words), Type::OneOf(known)) => {
                words.iter().all(|word| known.iter().any(|known| known == word))
            }
            (Self::Words(_), _) => false,
        }
    }
}

/// Who gives a contract field its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The engine, while the task lives.
    Engine,
    /// The operation that creates the task.
    Creator,
    /// The lifecycle's own rows, or the roles that the field names. Rust only reads it.
    Lifecycle,
}

/// One row of the contract, for lint and for the generated reference.
#[derive(Debug, Clone, Copy)]
pub struct ContractRow<T> {
    pub item: T,
    pub name: &'static str,
    /// How sources from before the rename spell it.
    pub former: Option<&'static str>,
    pub about: &'static str,
    /// Lifecycles in which the program uses it. Elsewhere the name is not for use.
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

            #[must_use]
            pub fn rule(self) -> &'static ContractRow<Self> {
                &Self::RULES[self as usize]
            }

            pub fn detail(self) -> $Detail {
                match self { $(Self::$Variant => $detail,)+ }
            }

            /// The name in a lifecycle of today.
            #[must_use]
            pub fn name(self) -> &'static str {
                self.rule().name
            }

            /// The name in this lifecycle, whose source may be from before a rename.
            #[must_use]
            pub fn name_in(self, lifecycle: &Lifecycle) -> &'static str {
                let rule = self.rule();
                rule.former.filter(|_| lifecycle.legacy).unwrap_or(rule.name)
            }

            /// What a lifecycle of today means by a name.
            #[must_use]
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

/// Who fires a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FiredBy {
    /// The engine, as the role `system`.
    Engine,
    /// A command or a signal file, for the person or run that gave it.
    Caller,
}

use FiredBy::{Caller, Engine};

contract! {
    /// A trigger that the program fires. A lifecycle's other triggers are fired by the outcomes of
    /// its activities, by its timeouts, or by whoever asks for a move.
    pub enum Trigger: FiredBy {
        Claim = "claim", Engine, ANY, &[], "The dispatcher gives a queued task to a worker.";
        NoWorker = "no_worker", Engine, &[Task, Subtask], &[], "No worker of any node can take the queued task.";
        WorkerAvailable = "worker_available", Engine, &[Task, Subtask], &[], "A worker that could take the blocked task has appeared.";
        OverBudget = "over_budget", Engine, &[Task, Subtask, Step], &[], "The task's own budget is used up before its next run.";
        ChildrenMoved = "children_moved" formerly "parts_moved", Engine, &[Task], &[], "A subtask has moved; the fields about subtasks are up to date.";
        Reset = "reset", Engine, &[Subtask, Step], &[Subtask, Step], "A person or a failed gate has the task start again.";
        Resume = "take_up", Engine, &[Step], &[Step], "The workflow goes on, and with it a step that was given up.";
        Close = "close", Engine, &[Subtask, Step, Review, Budget], &[Subtask, Step, Review, Budget], "The parent has ended, or the question is moot.";
        Trip = "trip", Engine, &[Workflow], &[Workflow], "The workflow's breaker has tripped.";
        Decided = "taken_up", Engine, &[Workflow], &[Workflow], "A person has decided about every step that was given up.";
        Led = "led", Engine, &[Workflow], &[Workflow], "The steps know that the workflow runs.";
        Followed = "followed", Engine, &[Step], &[Step], "A later step has ended, so the veto window is over.";
        Abort = "abort", Engine, &[Workflow, Step], &[Workflow, Step], "A person, or a gate without a way back, gives the work up.";
        Open = "open", Caller, &[Step], &[Step], "Somebody begins a manual step.";
        Signal = "signal", Caller, &[Step], &[Step], "The step's completion signal has arrived.";
        Pass = "pass", Caller, &[Step], &[Step], "The gate lets the step pass.";
        Fail = "fail", Caller, &[Step], &[Step], "The gate sends the step back.";
        Veto = "veto", Caller, &[Step], &[Step], "A person objects to a step that an agent let pass.";
        Skip = "skip", Caller, &[Step], &[], "A person goes on without the step.";
        Proven = "proven", Engine, &[Step], &[Step], "The checks verified a manual step.";
        Escalate = "escalate", Engine, WORKED_ON, &[], "A person, an agent or a used-up budget asks a person.";
        Retry = "retry", Caller, ANY, &[], "A person has a failed or waiting task tried again.";
        Unblock = "unblock", Caller, ANY, &[], "A person lets a blocked task go on.";
        Cancel = "cancel", Caller, ANY, &[], "A person abandons the task.";
    }
}

use FieldShape::Words;

const TEXT: FieldShape = FieldShape::Type("text");
const NUMBER: FieldShape = FieldShape::Type("number");
const FLAG: FieldShape = FieldShape::Type("flag");
const TIME: FieldShape = FieldShape::Type("time");
const LIST: FieldShape = FieldShape::Type("list");
/// Plain data with a Rust type of its own.
const DATA: FieldShape = FieldShape::Type("any");

type Written = (FieldShape, Writer);

contract! {
    /// A field that the program reads or writes.
    pub enum Field: Written {
        // What a run leaves behind.
        PrUrl = "pr_url", (TEXT, Writer::Engine), WORKED_ON, &[], "The pull request that a run filed, or the local branch that stands for one.";
        PrHead = "pr_head", (TEXT, Writer::Engine), WORKED_ON, &[], "The commit that was reviewed, where a local branch stands for the pull request.";
        Findings = "findings", (TEXT, Writer::Engine), &[Subtask], &[Subtask], "What a spike found out.";
        SessionId = "session_id", (TEXT, Writer::Engine), WORKED_ON, &[], "The agent's session, for whoever resumes it.";
        QuotaResetsAt = "quota_resets_at", (TIME, Writer::Engine), WORKED_ON, &[], "When the provider's quota comes back.";
        Merged = "merged", (FLAG, Writer::Engine), &[Task, Subtask, Workflow], &[Workflow], "Whether the work is on the base branch.";
        // Words for people and for the next run.
        Diagnostic = "diagnostic", (TEXT, Writer::Lifecycle), ANY, &[Step], "Why it failed or waits.";
        Reason = "reason", (TEXT, Writer::Lifecycle), ANY, &[Workflow, Step], "Why it ended.";
        Problem = "problem", (TEXT, Writer::Engine), &[Task, Subtask, Workflow, Budget], &[Workflow, Budget], "What a person has to decide about.";
        Feedback = "feedback", (TEXT, Writer::Lifecycle), ANY, &[Step], "What has to change before the next attempt.";
        Note = "note", (TEXT, Writer::Lifecycle), ANY, &[], "A person's words with an answer.";
        UnblockCondition = "unblock_condition", (TEXT, Writer::Lifecycle), &[Task, Subtask], &[], "What has to happen before it goes on.";
        Error = "error", (TEXT, Writer::Lifecycle), &[Task], &[], "What went wrong in the last run.";
        Confirmation = "confirmation", (TEXT, Writer::Lifecycle), &[Task, Subtask], &[], "Why one more retry is worth it.";
        ApprovalType = "approval_type", (Words(&["standard", "escalated"]), Writer::Lifecycle), &[Task], &[], "Whether the question is an escalation.";
        // Shown in the daily note, where a lifecycle keeps them.
        Tests = "tests", (TEXT, Writer::Lifecycle), &[Task, Subtask], &[], "How the tests went.";
        Risk = "risk", (TEXT, Writer::Lifecycle), &[Task, Subtask], &[], "How risky the work is.";
        Estimate = "estimate", (TEXT, Writer::Lifecycle), &[Task, Subtask], &[], "How long it was expected to take.";
        Learnings = "learnings", (LIST, Writer::Lifecycle), &[Task, Subtask], &[], "What was learned.";
        FollowUps = "follow_ups", (LIST, Writer::Lifecycle), &[Task, Subtask], &[], "Tasks that came out of it.";
        // Panels.
        Verdicts = "verdicts", (LIST, Writer::Engine), &[Task, Subtask, Step], &[Step], "What each reviewer said.";
        Concerns = "concerns", (LIST, Writer::Engine), &[Task, Subtask, Step], &[Step], "Objections that stand.";
        ReviewSummary = "review_summary", (TEXT, Writer::Engine), &[Task, Subtask, Step], &[Step], "What a panel could not settle, for the person who does.";
        PrComments = "pr_comments", (TEXT, Writer::Lifecycle), &[Task, Subtask], &[], "What reviewers want changed.";
        Objection = "objection", (TEXT, Writer::Lifecycle), &[Task, Subtask], &[], "A person's objection after the review.";
        // Plans.
        Plan = "plan", (DATA, Writer::Engine), &[Task], &[], "The planner's answer.";
        PlanVersion = "plan_version", (NUMBER, Writer::Engine), &[Task, Subtask], &[Subtask], "The iteration that the plan is of.";
        PlanHistory = "plan_history", (LIST, Writer::Engine), &[Task], &[], "What each iteration came to.";
        Subtasks = "subtasks", (LIST, Writer::Engine), &[Task], &[], "The subtasks of the plan with their sizes.";
        Irreducible = "irreducible", (TEXT, Writer::Engine), &[Task], &[], "Why the planner cannot break it down.";
        Split = "split", (FLAG, Writer::Engine), &[Task], &[], "Whether subtasks do the work.";
        LeftOut = "left_out", (LIST, Writer::Lifecycle), &[Task], &[], "Subtasks that a person goes on without.";
        GivenUp = "given_up", (LIST, Writer::Engine), &[Task], &[], "Subtasks that failed or were cancelled.";
        ChildrenAsked = "children_asked" formerly "parts_asked", (FLAG, Writer::Lifecycle), &[Task], &[], "Set while a person is asked about subtasks.";
        ChildrenOpen = "children_open" formerly "parts_open", (NUMBER, Writer::Engine), &[Task, Workflow], &[Workflow], "Children at work or before it.";
        ChildrenGivenUp = "children_given_up" formerly "parts_given_up", (NUMBER, Writer::Engine), &[Task, Workflow], &[Workflow], "Children that failed or were cancelled.";
        ChildrenInReview = "children_in_review" formerly "parts_in_review", (NUMBER, Writer::Engine), &[Task], &[], "Subtasks under review.";
        ChildrenWaiting = "children_waiting" formerly "parts_waiting", (NUMBER, Writer::Engine), &[Task], &[], "Subtasks that wait for their merge.";
        ChildrenDone = "children_done" formerly "parts_done", (NUMBER, Writer::Engine), &[Task], &[], "Subtasks that are merged.";
        ChildrenProblem = "children_problem" formerly "parts_problem", (TEXT, Writer::Engine), &[Task], &[], "What happened to the subtasks that were given up.";
        Subtask = "subtask", (TEXT, Writer::Creator), &[Subtask], &[Subtask], "Its name in the plan.";
        Spike = "spike", (FLAG, Writer::Creator), &[Subtask], &[Subtask], "Whether it answers a question instead of changing code.";
        // Workflows.
        Workflow = "workflow", (TEXT, Writer::Creator), &[Workflow, Step], &[Workflow, Step], "The id of the workflow.";
        Spec = "spec", (DATA, Writer::Creator), &[Workflow, Step], &[Workflow, Step], "What the file says about it.";
        Led = "led", (FLAG, Writer::Lifecycle), &[Workflow], &[Workflow], "Whether the steps know that the workflow runs.";
        ForgivenFailures = "forgiven_failures", (NUMBER, Writer::Engine), &[Workflow], &[Workflow], "Failures that a person has forgiven the breaker.";
        ForgivenCost = "forgiven_cost", (NUMBER, Writer::Engine), &[Workflow], &[Workflow], "Cost that a person has forgiven the breaker, in millionths of a dollar.";
        Merges = "merges", (FLAG, Writer::Creator), &[Workflow], &[Workflow], "Whether its work goes into the base branch.";
        Step = "step", (TEXT, Writer::Creator), &[Step], &[Step], "The id of the step.";
        Level = "level", (Words(&["none", "auto", "notify", "human"]), Writer::Creator), &[Step], &[Step], "Who decides at the gate.";
        Launch = "launch", (Words(&LaunchMode::NAMES), Writer::Creator), &[Step], &[Step], "How the step is started.";
        StepDriver = "driver", (Words(&DrivenBy::NAMES), Writer::Creator), &[Step], &[Step], "Who drives the workflow.";
        Proof = "proof", (FLAG, Writer::Creator), &[Step], &[Step], "Whether a manual step can be checked.";
        DoneIn = "done_in", (TEXT, Writer::Lifecycle), &[Step], &[Step], "The folder in which a manual step was done.";
        DoneOn = "done_on", (TEXT, Writer::Lifecycle), &[Step], &[Step], "The node that has that folder.";
        RetryContext = "retry_context", (TEXT, Writer::Engine), &[Step], &[Step], "All feedback of gates so far.";
        FailedFor = "failed_for", (TEXT, Writer::Engine), &[Step], &[Step], "The reason that chooses the way back.";
        SentBack = "sent_back", (FLAG, Writer::Lifecycle), &[Step], &[Step], "Whether its gate failed and nobody has led it back yet.";
        OpenToVeto = "open_to_veto", (FLAG, Writer::Lifecycle), &[Step], &[Step], "Whether a person may still object.";
        // Reviews.
        AskedAt = "asked_at", (NUMBER, Writer::Creator), &[Review], &[Review], "The record of the parent that opened the panel.";
        Reviewer = "reviewer" formerly "seat", (TEXT, Writer::Creator), &[Review], &[Review], "The reviewer's name on the panel.";
        Brief = "brief", (TEXT, Writer::Creator), &[Review], &[Review], "What the reviewer looks at.";
        Round = "round", (NUMBER, Writer::Creator), &[Review], &[Review], "The round of the debate; 0 is the first pass.";
        Answer = "answer", (DATA, Writer::Engine), &[Review], &[Review], "The checked answer of the reviewer.";
        // Budget requests.
        Scope = "scope", (TEXT, Writer::Creator), &[Budget], &[Budget], "The day or batch whose budget is used up.";
        Node = "node", (TEXT, Writer::Creator), &[Budget], &[Budget], "The node whose settings bound the day.";
        Used = "used", (DATA, Writer::Creator), &[Budget], &[Budget], "What was used.";
        Limit = "limit", (DATA, Writer::Creator), &[Budget], &[Budget], "What the bounds were.";
        More = "more", (DATA, Writer::Creator), &[Budget], &[Budget], "What a yes adds.";
        Refused = "refused", (FLAG, Writer::Lifecycle), &[Budget], &[Budget], "Whether a person said no.";
        // Every lifecycle has these; `declare` adds them.
        TargetArea = "target_area", (TEXT, Writer::Creator), ANY, &[], "The area that no other run may work on meanwhile.";
        Touches = "touches", (LIST, Writer::Creator), ANY, &[], "Paths that the work is expected to change.";
        AllowedPaths = "allowed_paths", (LIST, Writer::Creator), ANY, &[], "Paths that the work may change.";
        DeniedPaths = "denied_paths", (LIST, Writer::Creator), ANY, &[], "Paths that the work must not change.";
        Verify = "verify", (LIST, Writer::Creator), ANY, &[], "Commands that must pass on the task's head.";
    }
}

impl Field {
    #[must_use]
    pub fn shape(self) -> FieldShape {
        self.detail().0
    }

    #[must_use]
    pub fn writer(self) -> Writer {
        self.detail().1
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
        MaxRetries = "max_retries", A_NUMBER, &[Task, Step], &[Step], "How often a gate may fail before a person decides.";
        GateTimeout = "gate_timeout", A_TIME, &[Step], &[Step], "The time that reviewers have at a gate.";
        Patience = "patience", A_TIME, &[Review, Budget], &[Review, Budget], "How long the question waits.";
        MaxMisses = "max_misses", A_NUMBER, &[Review], &[Review], "How often a reviewer may miss its answer.";
        FirstRest = "first_rest", A_TIME, &[Review], &[Review], "The rest before the second question.";
        SecondRest = "second_rest", A_TIME, &[Review], &[Review], "The rest before the last question.";
        LeadMayApprove = "lead_may_approve", A_FLAG, &[Task], &[], "Whether a lead may approve a mission.";
    }
}

impl Lifecycle {
    /// Whether it declares the field.
    #[must_use]
    pub fn has_field(&self, field: Field) -> bool {
        self.fields.contains_key(field.name_in(self))
    }

    /// Whether a row with this trigger leads out of the state.
    #[must_use]
    pub fn has_exit(&self, from: StateId, trigger: Trigger) -> bool {
        let name = trigger.name_in(self);
        self.exits(from).any(|row| row.trigger == name)
    }

    /// Whether the dispatcher fires the trigger when a task's budget is used up: it is called like the
    /// outcome, or it is where a run of the lifecycle leads that ends so.
    #[must_use]
    pub fn asks_for_budget(&self, trigger: &str) -> bool {
        let routed = |does: &StateActivity| {
            let route = does.outcomes.get(&Outcome::OverBudget);
            matches!(route, Some(Route::Trigger(own)) if own == trigger)
        };
        trigger == Trigger::OverBudget.name()
            || self.states.iter().filter_map(|state| state.does.as_ref()).any(routed)
    }

    /// The value of a setting that is a time.
    #[must_use]
    pub fn time(&self, setting: SettingName) -> Option<Span> {
        match self.settings.get(setting.name_in(self)) {
            Some(Setting::Time(time)) => Some(*time),
            Some(Setting::Number(_) | Setting::Flag(_) | Setting::Text(_)) | None => None,
        }
    }

    /// Whether a setting that is a flag is on.
    #[must_use]
    pub fn flag(&self, setting: SettingName) -> bool {
        self.settings.get(setting.name_in(self)) == Some(&Setting::Flag(true))
    }

    /// The place of the counter, if it is declared.
    #[must_use]
    pub fn counter_at(&self, counter: CounterName) -> Option<usize> {
        let name = counter.name_in(self);
        self.counters.iter().position(|own| own.name == name)
    }
}
