//! Lifecycles: what may happen to a task, as a checked table.
//!
//! `source` reads the YAML with its positions, `check` proves it sound and turns it into the
//! [`Lifecycle`] of this file, `expr` is the small language of guards, `graph` builds the drawing.
//! The rest of the program sees only checked lifecycles, and matches on kinds, activities and
//! outcomes, never on the name of a state.

mod answers;
mod automatic;
pub mod builtin;
pub mod check;
mod conditions;
pub mod contract;
mod declare;
pub mod expr;
pub mod graph;
mod legacy;
mod names;
mod obligations;
pub mod problem;
mod prove;
mod reach;
mod rows;
mod source;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::closed::closed;
use crate::failure::Deliverable;
use crate::lifecycle::expr::Value;
use crate::time::Span;
pub use source::compose;

pub use answers::RankedOffer;
use contract::{AgentRole, AnswerRole, Purpose};
use expr::{Expr, ResolvedName, Type, number_value};

/// Index of a state in its lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId(pub u16);

/// Index of a counter in its lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(pub u16);

/// Index of a role in its lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleId(pub u16);

impl RoleId {
    /// A person.
    pub const HUMAN: Self = Self(0);
    /// Banksman itself.
    pub const SYSTEM: Self = Self(1);
}

closed! {
    /// Everything that the program knows about a state.
    pub enum StateKind {
        /// Waits in the queue for a worker.
        Queued = "queued",
        /// An agent is at work, or about to be.
        Working = "working",
        /// The work is under review.
        Reviewing = "reviewing",
        /// A person has to answer.
        Waiting = "waiting",
        /// Something outside has to happen first.
        Blocked = "blocked",
        /// Put aside by a person.
        Parked = "parked",
        Done = "done",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl StateKind {
    /// Whether a task may end in a state of this kind.
    pub fn may_end(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

closed! {
    /// What Banksman does while a task is in a state: the closed set that the program implements.
    pub enum Activity {
        Agent = "agent",
        Panel = "panel",
        Human = "human",
        Check = "check",
        PullRequest = "pull_request",
        Merge = "merge",
        Capture = "capture",
        Wait = "wait",
    }
}

impl Activity {
    /// Whether this version of the program can do it. A task of an earlier one may still ask for
    /// it.
    pub fn is_available(self) -> bool {
        !matches!(self, Self::PullRequest | Self::Capture)
    }

    /// How the activity can end. The lifecycle offers a person's answers, so `human` has none here.
    pub fn outcomes(self) -> &'static [Outcome] {
        use Outcome::*;
        match self {
            Self::Agent => &[
                Succeeded,
                NothingToDo,
                VerifyFailed,
                Policy,
                Quota,
                Auth,
                Transient,
                Stalled,
                Crashed,
                NeedsPerson,
                OverBudget,
            ],
            Self::Panel => &[Approved, Blocked, Escalated, Unresolved, Unavailable],
            Self::Human => &[],
            Self::Check => &[Passed, Failed],
            Self::PullRequest => &[Approved, ChangesRequested, Merged, Closed],
            Self::Merge => &[Merged, Conflict, Rejected],
            Self::Capture => &[Captured],
            Self::Wait => &[Met],
        }
    }
}

closed! {
    /// How an activity ended.
    pub enum Outcome {
        Succeeded = "succeeded",
        NothingToDo = "nothing_to_do",
        VerifyFailed = "verify_failed",
        Policy = "policy",
        Quota = "quota",
        Auth = "auth",
        Transient = "transient",
        Stalled = "stalled",
        Crashed = "crashed",
        NeedsPerson = "needs_person",
        OverBudget = "over_budget",
        /// The failure policy has given up on an outcome that leads to `again`.
        Exhausted = "exhausted",
        Approved = "approved",
        Blocked = "blocked",
        Escalated = "escalated",
        Unresolved = "unresolved",
        Unavailable = "unavailable",
        Passed = "passed",
        Failed = "failed",
        ChangesRequested = "changes_requested",
        Merged = "merged",
        /// The outcome of a `merge` that only checks.
        NotMerged = "not_merged",
        Closed = "closed",
        Conflict = "conflict",
        Rejected = "rejected",
        Captured = "captured",
        Met = "met",
        /// The task was moved on before its run had ended. No activity reports this.
        Stopped = "stopped",
    }
}

/// Where an outcome leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// The system takes the transition with this trigger.
    Trigger(String),
    /// The activity is tried again as long as the failure policy allows it: after the transition
    /// with this trigger, or without one in the same state.
    Again(Option<String>),
}

impl Route {
    pub(crate) fn trigger(&self) -> Option<&str> {
        match self {
            Self::Trigger(trigger) => Some(trigger),
            Self::Again(trigger) => trigger.as_deref(),
        }
    }
}

/// What a state does, and where each outcome leads.
#[derive(Debug, Clone)]
pub struct StateActivity {
    pub activity: Activity,
    /// The role whose prompt and workers an `agent` uses.
    pub role: Option<String>,
    /// What an `agent` must deliver before its claim counts.
    pub produces: Deliverable,
    /// The question of a `human`.
    pub asks: Option<String>,
    /// The actions of people and their triggers, in the order of the file.
    pub offers: Vec<(String, String)>,
    /// The roles that the file states, of actions that the contract does not name.
    pub offer_roles: BTreeMap<String, AnswerRole>,
    /// The condition of a `wait`.
    pub until: Option<Expr>,
    /// While this does not hold, the state does nothing: the task's subtasks do the work and move
    /// it on.
    pub when: Option<Expr>,
    pub outcomes: BTreeMap<Outcome, Route>,
    pub otherwise: Option<Route>,
}

impl StateActivity {
    /// Where an outcome leads, if the lifecycle says so.
    pub fn route(&self, outcome: Outcome) -> Option<&Route> {
        self.outcomes.get(&outcome).or(self.otherwise.as_ref())
    }

    /// Whether one of its outcomes leads on with this trigger.
    pub fn ends_with(&self, trigger: &str) -> bool {
        let mut routes = self.outcomes.values().chain(&self.otherwise);
        routes.any(|route| route.trigger() == Some(trigger))
    }

    /// Whether its `merge` only checks whether the work is in its base: it has a transition for
    /// work that is not.
    pub fn only_checks(&self) -> bool {
        self.outcomes.contains_key(&Outcome::NotMerged)
    }
}

/// A condition, and the message for when it does not hold.
#[derive(Debug, Clone)]
pub struct Requirement {
    pub field: String,
    pub that: Expr,
    pub message: String,
}

/// The start of a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Since {
    Entry,
    Progress,
}

/// Reminders at certain ages of a state.
#[derive(Debug, Clone)]
pub struct Reminders {
    pub after: Vec<Span>,
    pub when: Option<Expr>,
}

/// An effect of entering a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryEffect {
    Notify,
    Alert,
    CleanUp,
    /// The parent checks its children.
    TellParent,
    /// The children of this task follow it: they pause, continue or end.
    #[serde(alias = "lead_parts")]
    LeadChildren,
}

#[derive(Debug, Clone)]
pub struct State {
    pub name: String,
    /// `blocked` for `blocked(quota_wait)`.
    pub group: Option<String>,
    pub kind: StateKind,
    pub about: String,
    pub terminal: bool,
    /// Done for the tasks that wait for it, but until its parent has ended it may be taken back.
    pub provisional: bool,
    pub does: Option<StateActivity>,
    pub requires: Vec<Requirement>,
    pub remind: Option<Reminders>,
    pub on_entry: Vec<EntryEffect>,
    /// Whether a `[prior]` leaves it, so that the state it was entered from must be kept.
    pub remembers: bool,
    /// Line of its name in the source.
    pub line: u32,
}

impl State {
    pub fn activity(&self) -> Option<Activity> {
        self.does.as_ref().map(|does| does.activity)
    }

    /// Whether an agent makes a plan in it.
    pub fn plans(&self) -> bool {
        self.does.as_ref().is_some_and(|does| {
            does.role.as_deref() == Some(AgentRole::Planner.as_str())
                && does.produces == Deliverable::Answer
        })
    }
}

/// Where a transition leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransitionTarget {
    State(StateId),
    /// The state that the task was in before it was blocked or parked.
    Prior,
}

/// When the system takes a transition by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout {
    pub time: Span,
    pub since: Since,
}

/// How a transition changes the fields and counters of a task.
#[derive(Debug, Clone, Default)]
pub struct FieldUpdates {
    pub set: BTreeMap<String, Value>,
    pub compute: BTreeMap<String, Expr>,
    pub clear: Vec<String>,
    pub count: Vec<CounterId>,
    pub reset: Vec<CounterId>,
    pub keeps: Vec<String>,
}

/// One transition: from one state, by one trigger. A timeout is one too.
#[derive(Debug, Clone)]
pub struct Transition {
    pub from: StateId,
    pub to: TransitionTarget,
    pub trigger: String,
    pub roles: Vec<RoleId>,
    pub guards: Vec<Requirement>,
    pub changes: FieldUpdates,
    pub timeout: Option<Timeout>,
    pub line: u32,
}

impl Transition {
    /// The field that it fills with the text of what causes it.
    pub fn takes_detail(&self) -> Option<&str> {
        let is_detail = |name: &ResolvedName| matches!(name, ResolvedName::Detail);
        let mut computed = self.changes.compute.iter();
        computed.find(|(_, expr)| expr.names().any(is_detail)).map(|(field, _)| field.as_str())
    }

    /// Whether nobody but the system may take it.
    pub(crate) fn is_of_system(&self) -> bool {
        self.roles.iter().all(|role| *role == RoleId::SYSTEM)
    }
}

#[derive(Debug, Clone)]
pub struct Counter {
    pub name: String,
    pub limit: Option<u32>,
    /// The limit is a setting, which a project may override.
    pub is_setting: bool,
    /// Where the move that reaches the limit, or the one beyond it, leads instead.
    pub then: Option<StateId>,
    pub diverts: CounterOverflow,
    pub changes: FieldUpdates,
    pub line: u32,
}

/// The transition that a counter diverts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterOverflow {
    /// The one that reaches the limit: `then`.
    AtLimit,
    /// The one that would go beyond it: `beyond`.
    BeyondLimit,
}

/// A value that a project may override in its configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    Number(f64),
    Flag(bool),
    Text(String),
    Time(Span),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_json() {
            Value::String(text) => f.write_str(&text),
            other => other.fmt(f),
        }
    }
}

impl Setting {
    /// Its value as JSON; a duration as it is written.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Number(number) => number_value(*number),
            Self::Flag(flag) => Value::from(*flag),
            Self::Text(text) => Value::from(text.as_str()),
            Self::Time(span) => Value::from(span.to_string()),
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Number(_) => "number",
            Self::Flag(_) => "flag",
            Self::Text(_) => "text",
            Self::Time(_) => "time",
        }
    }
}

/// A setting as a lifecycle declares it, with its effective value.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingDecl {
    pub value: Setting,
    /// Whether something in the source reads it.
    pub is_read: bool,
    /// Line of its name in the source.
    pub line: u32,
}

/// A checked lifecycle. It is immutable; its version is the hash of its source and settings.
#[derive(Debug, Clone)]
pub struct Lifecycle {
    pub id: String,
    pub purpose: Purpose,
    pub version: String,
    pub about: String,
    pub initial: StateId,
    /// `human` and `system` first, then the lifecycle's own.
    pub roles: Vec<String>,
    pub settings: BTreeMap<String, SettingDecl>,
    pub fields: BTreeMap<String, FieldDecl>,
    pub counters: Vec<Counter>,
    pub states: Vec<State>,
    pub transitions: Vec<Transition>,
    /// Whether its source is from before purposes were declared, with the names of that time.
    pub legacy: bool,
    /// Line of its purpose in the source.
    pub line: u32,
}

/// A field as a lifecycle declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldDecl {
    pub kind: Type,
    /// The roles that may set it; `system` always may.
    pub by: FieldWriters,
    /// Whether a blank value is refused.
    pub not_blank: bool,
    /// Whether a number must be whole, because the program calculates with it.
    pub whole: bool,
    /// Line of its name in the source; 0 for a field of every lifecycle.
    pub line: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldWriters {
    Anyone,
    /// These roles and the system.
    Roles(Vec<RoleId>),
    /// No role: the program or a `compute` of the lifecycle sets it.
    Computed,
}

impl FieldWriters {
    /// The roles that are listed.
    pub fn roles(&self) -> &[RoleId] {
        match self {
            Self::Roles(roles) => roles,
            Self::Anyone | Self::Computed => &[],
        }
    }
}

impl FieldDecl {
    pub fn may_be_given_by(&self, role: RoleId) -> bool {
        let is_open = role == RoleId::SYSTEM || self.by == FieldWriters::Anyone;
        is_open || self.by.roles().contains(&role)
    }

    /// Whether a role other than the system may set it.
    pub fn is_given(&self) -> bool {
        let others = |role: &RoleId| *role != RoleId::SYSTEM;
        self.by == FieldWriters::Anyone || self.by.roles().iter().any(others)
    }

    /// Whether only fields that people and agents give with a move change it.
    pub fn is_given_by_callers(&self) -> bool {
        let roles = self.by.roles();
        !roles.is_empty() && !roles.contains(&RoleId::SYSTEM)
    }

    /// Whether the field may have a value. The message does not name the field.
    pub fn accepts(&self, value: &Value) -> Result<(), String> {
        self.kind.accepts(value)?;
        if self.whole && value.is_number() && value.as_i64().is_none() {
            return Err("must be a whole number".to_owned());
        }
        if self.not_blank && !value.is_null() && has_blank(value) {
            return Err("must not be blank".to_owned());
        }
        Ok(())
    }
}

/// Whether a text is blank, or a list or record has no item or a blank one.
fn has_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty() || items.iter().any(has_blank),
        Value::Object(members) => members.is_empty() || members.values().any(has_blank),
    }
}

/// How `[prior]` is written.
pub const PRIOR: &str = "[prior]";

impl Lifecycle {
    pub fn state(&self, id: StateId) -> &State {
        &self.states[usize::from(id.0)]
    }

    pub fn counter(&self, id: CounterId) -> &Counter {
        &self.counters[usize::from(id.0)]
    }

    /// Finds a state by its name, or by the inner name of a group when only one state has it.
    pub fn find_state(&self, name: &str) -> Option<StateId> {
        let find = |fits: &dyn Fn(&str) -> bool| {
            let states = self.states.iter().enumerate();
            let mut found = states.filter(|(_, state)| fits(&state.name)).map(|(index, _)| index);
            found.next().filter(|_| found.next().is_none()).map(state_id)
        };
        find(&|known| known == name).or_else(|| find(&|known| split_group(known).1 == Some(name)))
    }

    pub fn find_role(&self, name: &str) -> Option<RoleId> {
        let index = self.roles.iter().position(|role| role == name)?;
        u16::try_from(index).ok().map(RoleId)
    }

    pub fn role_name(&self, id: RoleId) -> &str {
        &self.roles[usize::from(id.0)]
    }

    /// The roles of agents, in the order of the source.
    pub fn agent_roles(&self) -> impl Iterator<Item = &str> {
        let own = self.roles.iter().zip(0_u16..).map(|(name, id)| (name, RoleId(id)));
        own.filter(|(_, id)| ![RoleId::HUMAN, RoleId::SYSTEM].contains(id)).map(|(name, _)| &**name)
    }

    /// Whether one of its states has this activity.
    pub fn does(&self, activity: Activity) -> bool {
        self.states.iter().any(|state| state.activity() == Some(activity))
    }

    /// The transitions that leave a state, in the order of the file.
    pub fn exits(&self, from: StateId) -> impl Iterator<Item = &Transition> {
        self.transitions.iter().filter(move |transition| transition.from == from)
    }

    /// The name of a transition's target, `[prior]` included.
    pub fn target_name(&self, target: TransitionTarget) -> &str {
        match target {
            TransitionTarget::State(id) => &self.state(id).name,
            TransitionTarget::Prior => PRIOR,
        }
    }
}

pub(crate) fn state_id(index: usize) -> StateId {
    StateId(u16::try_from(index).expect("the check bounds the number of states"))
}

/// `blocked` and `quota_wait` of `blocked(quota_wait)`.
fn split_group(name: &str) -> (&str, Option<&str>) {
    match name.split_once('(') {
        Some((outer, rest)) => (outer, Some(rest.strip_suffix(')').unwrap_or("?"))),
        None => (name, None),
    }
}
