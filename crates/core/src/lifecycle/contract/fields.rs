//! The fields of the contract: their types, and how the program sets their values.

use std::fmt;

use super::Purpose::{Budget, Review, Step, Subtask, Task, Workflow};
use super::{
    ANY, ApprovalType, ContractRow, DrivenBy, EscalationLevel, LaunchMode, NO_GATE, Purpose,
    Trigger, WORKED_ON,
};
use crate::lifecycle::expr::Type;
use crate::lifecycle::{Activity, Lifecycle, Outcome, RoleId};

/// The type that a contract field must be declared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldShape {
    /// A type, as a lifecycle writes it.
    Type(&'static str),
    /// At least these words.
    Words(&'static [&'static str]),
    /// A record of exactly these members, each with its type.
    Record(&'static [(&'static str, &'static str)]),
    /// A text, or whatever words the lifecycle lists.
    Name,
}

impl FieldShape {
    pub fn describe(self) -> String {
        match self {
            Self::Type(name) => name.to_owned(),
            Self::Words(words) => format!("[{}]", words.join(", ")),
            Self::Record(members) => {
                let members: Vec<String> =
                    members.iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
                format!("{{ {} }}", members.join(", "))
            }
            Self::Name => "text".to_owned(),
        }
    }

    /// The type, for a field that the lifecycle does not declare.
    pub fn kind(self) -> Type {
        match self {
            Self::Type(name) => Type::named(name).expect("a test reads every type of the contract"),
            Self::Words(words) => Type::OneOf(words.iter().map(ToString::to_string).collect()),
            Self::Record(members) => {
                let own = |(name, kind): &(&str, &'static str)| {
                    (name.to_string(), Self::Type(kind).kind())
                };
                Type::Record(members.iter().map(own).collect())
            }
            Self::Name => Type::Text,
        }
    }

    pub fn fits(self, declared: &Type) -> bool {
        match (self, declared) {
            (Self::Words(words), Type::OneOf(known)) => {
                words.iter().all(|word| known.iter().any(|known| known == word))
            }
            (Self::Name, Type::OneOf(_)) => true,
            (own, declared) => own.kind() == *declared,
        }
    }
}

/// How the program sets a contract field. The lifecycle's own transitions and the roles that the
/// field names may set it as well, unless it is a fact or a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldSource {
    /// With the end of this activity.
    Activity(Activity),
    /// A fact: what the system sees for itself when this activity ends.
    Evidence(Activity),
    /// A fact as well, which an agent from outside reports of its own work.
    Report(Activity),
    /// A fact that this outcome proves, so a transition that only it leads to may set it too.
    Outcome(Outcome),
    /// With the answer of a run that plans.
    Planner,
    /// Together with this trigger.
    Trigger(Trigger),
    /// The operation that creates the task.
    Creator,
    /// A record that the system keeps about facts.
    Record,
}

use FieldShape::{Record, Words};

const TEXT: FieldShape = FieldShape::Type("text");
const NAME: FieldShape = FieldShape::Name;
const NUMBER: FieldShape = FieldShape::Type("number");
const FLAG: FieldShape = FieldShape::Type("flag");
const TIME: FieldShape = FieldShape::Type("time");
const LIST: FieldShape = FieldShape::Type("list");
const TEXTS: FieldShape = FieldShape::Type("texts");
const LEVELS: FieldShape = {
    let [auto, notify, human] = EscalationLevel::NAMES;
    Words(&[NO_GATE, auto, notify, human])
};
const WORK_PLAN: FieldShape =
    Record(&[("bullets", "texts"), ("estimatedCost", "number"), ("estimatedDuration", "text")]);
const DELIVERABLE: FieldShape = Record(&[("content", "text"), ("artifacts", "list")]);
const CHECKLIST: FieldShape = Record(&[("type", "text"), ("items", "list")]);
/// Plain data with a Rust type of its own.
const DATA: FieldShape = FieldShape::Type("any");

impl FieldSource {
    /// What a lifecycle needs for the field to be set, if callers do not set it.
    pub fn needs(self) -> Option<String> {
        match self {
            Self::Activity(activity) | Self::Evidence(activity) | Self::Report(activity) => {
                Some(format!("the activity `{}`", activity.as_str()))
            }
            Self::Outcome(outcome) => Some(format!("the outcome `{outcome}`")),
            Self::Planner => {
                Some("an agent of the role `planner` that produces an answer".to_owned())
            }
            Self::Trigger(trigger) => Some(format!("the trigger `{trigger}`")),
            Self::Creator | Self::Record => None,
        }
    }
}

type Written = (FieldShape, &'static [FieldSource]);

use FieldSource::{Creator, Evidence, Planner, Report};

const AGENT: FieldSource = FieldSource::Activity(Activity::Agent);
const PANEL: FieldSource = FieldSource::Activity(Activity::Panel);
const CHILDREN: &[FieldSource] = &[FieldSource::Trigger(Trigger::ChildrenMoved)];
/// A workflow counts its steps while it waits for them.
const COUNTED: &[FieldSource] =
    &[FieldSource::Trigger(Trigger::ChildrenMoved), FieldSource::Activity(Activity::Wait)];

contract! {
    /// A field that the program reads or writes.
    pub enum Field: Written {
        // Results of a run.
        PrUrl = "pr_url", (TEXT, &[Report(Activity::Agent), FieldSource::Trigger(Trigger::ChildrenMoved)]), WORKED_ON, &[], "The pull request that a run filed, or the local branch that stands for one.";
        PrHead = "pr_head", (TEXT, &[Evidence(Activity::Agent), Evidence(Activity::Check)]), WORKED_ON, &[], "The commit that was reviewed, where a local branch stands for the pull request.";
        Verified = "verified", (FLAG, &[Evidence(Activity::Agent)]), WORKED_ON, &[], "Whether all checks passed on exactly the commit of the run.";
        Findings = "findings", (TEXT, &[AGENT]), &[Subtask], &[Subtask], "What a spike found out.";
        SessionId = "session_id", (TEXT, &[AGENT]), WORKED_ON, &[], "The agent's session, for whoever resumes it.";
        QuotaResetsAt = "quota_resets_at", (TIME, &[AGENT]), WORKED_ON, &[], "When the provider's quota comes back.";
        RetryAt = "retry_at", (TIME, &[AGENT]), WORKED_ON, &[], "When the failure policy lets it be tried again.";
        Merged = "merged", (FLAG, &[FieldSource::Outcome(Outcome::Merged), FieldSource::Trigger(Trigger::ChildrenMoved)]), &[Task, Subtask, Workflow], &[Workflow], "Whether the work is on the base branch.";
        // Assigned work.
        AssigneeIds = "assigneeIds", (TEXTS, &[]), &[Task], &[], "The names of the only workers that may do the work.";
        WorkPlan = "workPlan", (WORK_PLAN, &[AGENT]), &[Task], &[], "What an assignee is going to do, which the agent of a state that produces an answer writes.";
        Deliverable = "deliverable", (DELIVERABLE, &[AGENT]), &[Task], &[], "What an assignee hands in; the system adds its branch and commit.";
        ReviewChecklist = "reviewChecklist", (CHECKLIST, &[AGENT]), &[Task], &[], "What an assignee has looked at before it hands in its work.";
        Looped = "looped", (FLAG, &[AGENT]), &[Task], &[], "Whether the last run went round in circles.";
        Clarification = "clarification", (TEXT, &[]), &[Task], &[], "What a person says has to be clear before the next run.";
        // Words for people and for the next run.
        Diagnostic = "diagnostic", (TEXT, &[]), ANY, &[Step], "Why it failed or waits.";
        Reason = "reason", (TEXT, &[]), ANY, &[Workflow, Step], "Why it ended.";
        Problem = "problem", (TEXT, &[FieldSource::Trigger(Trigger::Trip), Creator]), &[Task, Subtask, Workflow, Budget], &[Workflow, Budget], "What a person has to decide about.";
        Feedback = "feedback", (TEXT, &[]), ANY, &[Step], "What has to change before the next attempt.";
        Note = "note", (TEXT, &[]), ANY, &[], "A person's words with an answer.";
        UnblockCondition = "unblock_condition", (TEXT, &[]), &[Task, Subtask], &[], "What has to happen before it goes on.";
        Error = "error", (TEXT, &[]), &[Task], &[], "What went wrong in the last run.";
        Confirmation = "confirmation", (TEXT, &[]), &[Task, Subtask], &[], "Why one more retry is worth it.";
        ApprovalType = "approval_type", (Words(&ApprovalType::NAMES), &[]), &[Task], &[], "Whether the question is an escalation.";
        // Shown in the daily note, where a lifecycle keeps them.
        Tests = "tests", (TEXT, &[]), &[Task, Subtask], &[], "How the tests went.";
        Risk = "risk", (TEXT, &[]), &[Task, Subtask], &[], "How risky the work is.";
        Estimate = "estimate", (TEXT, &[Planner, Creator]), &[Task, Subtask], &[], "How long it was expected to take.";
        Learnings = "learnings", (LIST, &[]), &[Task, Subtask], &[], "What was learned.";
        FollowUps = "follow_ups", (LIST, &[]), &[Task, Subtask], &[], "Tasks that came out of it.";
        // Panels.
        Verdicts = "verdicts", (LIST, &[Report(Activity::Panel)]), &[Task, Subtask, Step], &[Step], "What each reviewer said.";
        Concerns = "concerns", (LIST, &[PANEL]), &[Task, Subtask, Step], &[Step], "Objections that stand.";
        ReviewSummary = "review_summary", (TEXT, &[PANEL]), &[Task, Subtask, Step], &[Step], "What a panel could not settle, for the person who does.";
        PrComments = "pr_comments", (TEXT, &[]), &[Task, Subtask], &[], "What reviewers want changed.";
        Demands = "demands", (TEXT, &[]), &[Task, Subtask], &[], "What reviewers or a person wanted changed, for the next reviewers.";
        Objection = "objection", (TEXT, &[]), &[Task, Subtask], &[], "A person's objection after the review.";
        // Plans.
        Plan = "plan", (DATA, &[Planner]), &[Task], &[], "The planner's answer.";
        PlanVersion = "plan_version", (NUMBER, &[Planner, Creator]), &[Task, Subtask], &[Subtask], "The iteration that the plan is of.";
        PlanHistory = "plan_history", (LIST, &[Planner]), &[Task], &[], "What each iteration came to.";
        Subtasks = "subtasks", (LIST, &[Planner]), &[Task], &[], "The subtasks of the plan with their sizes.";
        Irreducible = "irreducible", (TEXT, &[Planner]), &[Task], &[], "Why the planner cannot break it down.";
        Split = "split", (FLAG, &[Planner]), &[Task], &[], "Whether subtasks do the work.";
        LeftOut = "left_out", (LIST, &[]), &[Task], &[], "Subtasks that a person goes on without.";
        GivenUp = "given_up", (LIST, CHILDREN), &[Task], &[], "Subtasks that failed or were cancelled.";
        ChildrenAsked = "children_asked" formerly "parts_asked", (FLAG, &[]), &[Task], &[], "Set while a person is asked about subtasks.";
        ChildrenOpen = "children_open" formerly "parts_open", (NUMBER, COUNTED), &[Task, Workflow], &[Workflow], "Children at work or before it.";
        ChildrenGivenUp = "children_given_up" formerly "parts_given_up", (NUMBER, COUNTED), &[Task, Workflow], &[Workflow], "Children that failed or were cancelled.";
        ChildrenInReview = "children_in_review" formerly "parts_in_review", (NUMBER, CHILDREN), &[Task], &[], "Subtasks under review.";
        ChildrenWaiting = "children_waiting" formerly "parts_waiting", (NUMBER, CHILDREN), &[Task], &[], "Subtasks that wait for their merge.";
        ChildrenDone = "children_done" formerly "parts_done", (NUMBER, CHILDREN), &[Task], &[], "Subtasks that are done, with a change or without.";
        ChildrenMerged = "children_merged", (NUMBER, CHILDREN), &[Task], &[], "Subtasks whose work is on the base branch.";
        ChildrenCancelled = "children_cancelled", (NUMBER, CHILDREN), &[Task], &[], "Of those that were given up, the cancelled ones, which cannot start again.";
        ChildrenProblem = "children_problem" formerly "parts_problem", (TEXT, CHILDREN), &[Task], &[], "What happened to the subtasks that were given up.";
        Subtask = "subtask", (TEXT, &[Creator]), &[Subtask], &[Subtask], "Its name in the plan.";
        Spike = "spike", (FLAG, &[Creator]), &[Subtask], &[Subtask], "Whether it answers a question instead of changing code.";
        // Workflows.
        Workflow = "workflow", (TEXT, &[Creator]), &[Workflow, Step], &[Workflow, Step], "The id of the workflow.";
        Spec = "spec", (DATA, &[Creator]), &[Workflow, Step], &[Workflow, Step], "What the file says about it.";
        Led = "led", (FLAG, &[]), &[Workflow], &[Workflow], "Whether the engine has told the steps that the workflow runs.";
        ForgivenFailures = "forgiven_failures", (NUMBER, &[FieldSource::Trigger(Trigger::Led)]), &[Workflow], &[Workflow], "Failures that no longer count for the breaker, because a person resumed the workflow.";
        ForgivenCost = "forgiven_cost", (NUMBER, &[FieldSource::Trigger(Trigger::Led)]), &[Workflow], &[Workflow], "Cost that no longer counts for the breaker, because a person resumed the workflow, in millionths of a dollar.";
        Merges = "merges", (FLAG, &[Creator]), &[Workflow], &[Workflow], "Whether its work goes into the base branch.";
        Step = "step", (TEXT, &[Creator]), &[Step], &[Step], "The id of the step.";
        Level = "level", (LEVELS, &[Creator]), &[Step], &[Step], "Who decides at the gate.";
        RunsCommand = "runs_command", (FLAG, &[Creator]), &[Step], &[], "Whether a command does the step instead of an agent.";
        Launch = "launch", (Words(&LaunchMode::NAMES), &[Creator]), &[Step], &[Step], "How the step is started.";
        StepDriver = "driver", (Words(&DrivenBy::NAMES), &[Creator]), &[Step], &[Step], "Who drives the workflow.";
        Proof = "proof", (FLAG, &[Creator]), &[Step], &[Step], "Whether a manual step can be checked.";
        DoneIn = "done_in", (TEXT, &[]), &[Step], &[Step], "The folder in which a manual step was done.";
        DoneOn = "done_on", (TEXT, &[]), &[Step], &[Step], "The node that has that folder.";
        RetryContext = "retry_context", (TEXT, &[FieldSource::Trigger(Trigger::Reset)]), &[Step], &[Step], "All feedback of gates so far.";
        FailedFor = "failed_for", (TEXT, &[PANEL]), &[Step], &[Step], "The reason that chooses the way back.";
        SentBack = "sent_back", (FLAG, &[]), &[Step], &[Step], "Whether its gate failed and it has not been sent back yet.";
        Skipped = "is_skipped", (FLAG, &[]), &[Step], &[], "Whether a person goes on without its work.";
        OpenToVeto = "open_to_veto", (FLAG, &[]), &[Step], &[Step], "Whether a person may still object.";
        // Reviews.
        AskedAt = "asked_at", (NUMBER, &[Creator]), &[Review], &[Review], "The record of the parent that opened the panel.";
        Reviewer = "reviewer" formerly "seat", (TEXT, &[Creator]), &[Review], &[Review], "The reviewer's name on the panel.";
        Brief = "brief", (TEXT, &[Creator]), &[Review], &[Review], "What the reviewer looks at.";
        Round = "round", (NUMBER, &[Creator]), &[Review], &[Review], "The round of the debate; 0 is the first pass.";
        Answer = "answer", (DATA, &[AGENT]), &[Review], &[Review], "The checked answer of the reviewer.";
        // Budget requests.
        Scope = "scope", (TEXT, &[Creator]), &[Budget], &[Budget], "The day or batch whose budget is used up.";
        Node = "node", (TEXT, &[Creator]), &[Budget], &[Budget], "The node whose settings bound the day.";
        Used = "used", (DATA, &[Creator]), &[Budget], &[Budget], "What was used.";
        Limit = "limit", (DATA, &[Creator]), &[Budget], &[Budget], "What the bounds were.";
        More = "more", (DATA, &[Creator]), &[Budget], &[Budget], "What a yes adds.";
        Refused = "refused", (FLAG, &[]), &[Budget], &[Budget], "Whether a person said no.";
        // Every lifecycle has these; `declare` adds them.
        TargetArea = "target_area", (TEXT, &[Creator]), ANY, &[], "The area that no other run may work on meanwhile.";
        Touches = "touches", (TEXTS, &[Creator]), ANY, &[], "Paths that the work is expected to change.";
        AllowedPaths = "allowed_paths", (TEXTS, &[Creator]), ANY, &[], "Paths that the work may change.";
        DeniedPaths = "denied_paths", (TEXTS, &[Creator]), ANY, &[], "Paths that the work must not change.";
        Role = "role", (NAME, &[Creator]), ANY, &[], "The role that its worker must have, in place of those that its queue is for.";
        Model = "model", (TEXT, &[Creator]), ANY, &[], "The name or the model of the worker that it is for.";
        Overridden = "overridden", (DATA, &[FieldSource::Record]), ANY, &[], "The facts that a person gave without proof, with the name and the reason.";
        MergedAs = "merged_as", (DATA, &[FieldSource::Record]), ANY, &[], "The base branch and its commit that have the work.";
        Verify = "verify", (TEXTS, &[Creator]), ANY, &[], "Commands that must pass on the task's head.";
    }
}

impl Field {
    /// What the system writes from evidence, and a person may override.
    pub fn is_fact(self) -> bool {
        let is_seen = |source: &FieldSource| match source {
            Evidence(_) | Report(_) | FieldSource::Outcome(_) => true,
            FieldSource::Activity(_) | Planner | FieldSource::Trigger(_) | Creator => false,
            FieldSource::Record => false,
        };
        self.sources().iter().any(is_seen)
    }

    pub fn facts() -> impl Iterator<Item = Self> {
        Self::RULES.iter().map(|rule| rule.item).filter(|field| field.is_fact())
    }

    /// What the system keeps about facts. Nobody sets or overrides it.
    pub fn is_record(self) -> bool {
        self.sources().contains(&FieldSource::Record)
    }

    /// Whether a caller of this role may give the field, if the lifecycle names the role: facts
    /// only if agents report them, and then no person.
    pub fn is_for(self, role: RoleId) -> bool {
        let is_reported = self.sources().iter().any(|source| matches!(source, Report(_)));
        let is_typed = !self.is_fact() && !self.is_record();
        role == RoleId::SYSTEM || is_typed || is_reported && role != RoleId::HUMAN
    }

    pub fn shape(self) -> FieldShape {
        self.detail().0
    }

    /// Whether the program calculates with it in lifecycles of this purpose.
    pub fn counts_in(self, purpose: Purpose) -> bool {
        self.shape() == NUMBER && self.rule().purposes.contains(&purpose)
    }

    /// Whether whoever creates a task of this purpose must set it, because nothing else does.
    pub fn is_owed_to(self, purpose: Purpose) -> bool {
        let is_elsewhere = |source: &FieldSource| match source {
            Creator => true,
            Planner => !Self::Plan.rule().purposes.contains(&purpose),
            FieldSource::Trigger(trigger) => !trigger.rule().purposes.contains(&purpose),
            Evidence(_) | Report(_) | FieldSource::Activity(_) | FieldSource::Outcome(_) => false,
            FieldSource::Record => false,
        };
        let (rule, sources) = (self.rule(), self.sources());
        // A flag that is not set is false.
        rule.demanded_by.contains(&purpose)
            && self.shape() != FLAG
            && sources.contains(&Creator)
            && sources.iter().all(is_elsewhere)
    }

    pub fn sources(self) -> &'static [FieldSource] {
        self.detail().1
    }
}
