//! Proves that a lifecycle is sound: every state is reachable, no task is stranded, every task can
//! end.
//!
//! Each proof is one function over the table; a failed proof is a problem at the line that causes
//! it. The cost is at most states × transitions.

use std::collections::{BTreeMap, BTreeSet};

use super::check::{WORD, is_word};
use super::contract::{Note, Trigger};
use super::expr::Type;
use super::problem::Problem;
use super::{
    Activity, Lifecycle, Outcome, RoleId, Route, State, StateActivity, StateId, StateKind,
    Transition, TransitionTarget, state_id,
};
use crate::limits;
use crate::text::clip;

pub(super) fn problems(lifecycle: &Lifecycle) -> Vec<Problem> {
    let proof = Proof { lifecycle, priors: priors(lifecycle) };
    let mut found = Vec::new();
    proof.reachable(&mut found);
    proof.ends(&mut found);
    proof.provisional_is_done(&mut found);
    proof.bounded(&mut found);
    proof.times_are_bounds(&mut found);
    proof.triggers_are_words(&mut found);
    proof.agents_are_served(&mut found);
    proof.outcomes_lead_somewhere(&mut found);
    found.extend(lifecycle.answers_without_roles());
    proof.panels_lead_away(&mut found);
    proof.children_lead_on(&mut found);
    proof.queue_is_served(&mut found);
    proof.prior_makes_sense(&mut found);
    proof.automatic_moves_end(&mut found);
    proof.automatic_moves_meet_requirements(&mut found);
    proof.nothing_is_shadowed(&mut found);
    proof.roles_are_named_once(&mut found);
    proof.choices_differ(&mut found);
    proof.contract_is_kept(&mut found);
    found
}

pub(super) struct Proof<'a> {
    pub(super) lifecycle: &'a Lifecycle,
    /// For each state that remembers, the states that `[prior]` can mean.
    priors: Vec<BTreeSet<StateId>>,
}

/// The states that a task can come back to by `[prior]`: those that lead into a remembering state,
/// and for a remembering state that leads into another one, what it remembers itself.
fn priors(lifecycle: &Lifecycle) -> Vec<BTreeSet<StateId>> {
    let mut priors = vec![BTreeSet::new(); lifecycle.states.len()];
    loop {
        let mut grown = false;
        for (from, to) in entries(lifecycle) {
            if !lifecycle.state(to).remembers || from == to {
                continue;
            }
            let new: Vec<StateId> = if lifecycle.state(from).remembers {
                priors[usize::from(from.0)].iter().copied().collect()
            } else {
                vec![from]
            };
            let known = &mut priors[usize::from(to.0)];
            for state in new {
                grown |= known.insert(state);
            }
        }
        if !grown {
            return priors;
        }
    }
}

/// Every way into a state except `[prior]`.
fn entries(lifecycle: &Lifecycle) -> impl Iterator<Item = (StateId, StateId)> {
    lifecycle.transitions.iter().flat_map(move |row| {
        row_targets(lifecycle, row).filter_map(|target| match target {
            TransitionTarget::State(to) => Some((row.from, to)),
            TransitionTarget::Prior => None,
        })
    })
}

/// Where a transition leads, and where its counters divert it.
fn row_targets(lifecycle: &Lifecycle, row: &Transition) -> impl Iterator<Item = TransitionTarget> {
    let diverted = row.changes.count.iter().filter_map(|id| lifecycle.counter(*id).then);
    [row.to].into_iter().chain(diverted.map(TransitionTarget::State))
}

impl Proof<'_> {
    pub(super) fn states(&self) -> impl Iterator<Item = (StateId, &State)> {
        self.lifecycle.states.iter().enumerate().map(|(index, state)| (state_id(index), state))
    }

    pub(super) fn targets(&self, row: &Transition) -> Vec<StateId> {
        let targets = row_targets(self.lifecycle, row);
        targets.flat_map(|target| self.states_of(row.from, target)).collect()
    }

    /// The states that a target means for the transitions out of a state.
    pub(super) fn states_of(&self, from: StateId, target: TransitionTarget) -> Vec<StateId> {
        match target {
            TransitionTarget::State(to) => vec![to],
            TransitionTarget::Prior => self.priors[usize::from(from.0)].iter().copied().collect(),
        }
    }

    pub(super) fn successors(&self) -> BTreeMap<StateId, BTreeSet<StateId>> {
        let mut successors: BTreeMap<StateId, BTreeSet<StateId>> = BTreeMap::new();
        for row in self.lifecycle.transitions.iter().filter(|row| self.can_be_taken(row)) {
            successors.entry(row.from).or_default().extend(self.targets(row));
        }
        successors
    }

    fn ends(&self, found: &mut Vec<Problem>) {
        let mut predecessors: BTreeMap<StateId, BTreeSet<StateId>> = BTreeMap::new();
        for (from, targets) in self.successors() {
            for to in targets {
                predecessors.entry(to).or_default().insert(from);
            }
        }
        let mut ending = BTreeSet::new();
        for (id, state) in self.states().filter(|(_, state)| state.terminal) {
            if state.kind.may_end() {
                ending.extend(closure(id, &predecessors));
            } else {
                let message = format!(
                    "nothing leads out of `{}`, but a task cannot end in a state of kind {}",
                    state.name, state.kind
                );
                let help = "add a transition out of it, or make its kind done, failed or cancelled";
                found.push(Problem::in_line(state.line, message, help));
            }
        }
        for (id, state) in self.states() {
            if !state.terminal && !ending.contains(&id) {
                let message = format!("from `{}` a task can never come to an end", state.name);
                let help = "add a way to a state of kind done, failed or cancelled";
                found.push(Problem::in_line(state.line, message, help));
            }
            // Other tasks rely on a task staying in such a state.
            let is_final = matches!(state.kind, StateKind::Done | StateKind::Cancelled);
            if !state.terminal && !state.provisional && is_final {
                let row = self.lifecycle.exits(id).next();
                let line = row.map_or(state.line, |row| row.line);
                let message =
                    format!("`{}` is {}, so nothing may lead out of it", state.name, state.kind);
                found.push(Problem::in_line(line, message, "other tasks depend on a finished task; use the kind `waiting` for what may go on, or `provisional: true` for a child that its parent may send back"));
            }
        }
    }

    /// Only a done state can be provisional, and the parent must be able to make it final.
    fn provisional_is_done(&self, found: &mut Vec<Problem>) {
        for (id, state) in self.states().filter(|(_, state)| state.provisional) {
            let final_by_system = self.lifecycle.exits(id).any(|row| {
                let stays_done = |to: &StateId| {
                    let state = self.lifecycle.state(*to);
                    state.kind == StateKind::Done && !state.provisional
                };
                row.roles.contains(&RoleId::SYSTEM) && self.targets(row).iter().any(stays_done)
            });
            if state.kind != StateKind::Done {
                let message = format!("`{}` is provisional and of kind {}", state.name, state.kind);
                let help = "only a state of kind done can be provisional";
                found.push(Problem::in_line(state.line, message, help));
            } else if !final_by_system {
                let message = format!("nothing makes the provisional state `{}` final", state.name);
                let help = "add a transition to a state of kind done that is not provisional, with `system` in its `by`";
                found.push(Problem::in_line(state.line, message, help));
            }
        }
    }

    fn bounded(&self, found: &mut Vec<Problem>) {
        for (id, state) in self.states().filter(|(_, state)| !state.terminal) {
            let timed = self.lifecycle.exits(id).any(|row| row.timeout.is_some());
            let person = self
                .lifecycle
                .exits(id)
                .any(|row| row.timeout.is_none() && row.roles.contains(&RoleId::HUMAN));
            let (is_sound, nor, help) = match state.kind {
                StateKind::Queued | StateKind::Done | StateKind::Cancelled => continue,
                StateKind::Working => {
                    (timed, "", "add `timeouts: [{ after: 24h, since: progress, to: … }]`")
                }
                StateKind::Reviewing
                | StateKind::Waiting
                | StateKind::Blocked
                | StateKind::Parked
                | StateKind::Failed => (
                    timed || person,
                    " and no person to wait for",
                    "add `timeouts: [{ after: 7d, to: … }]`, or a transition `by: [human]`",
                ),
            };
            if !is_sound {
                let message =
                    format!("a task can stay in `{}` for ever: no timeout{nor}", state.name);
                found.push(Problem::in_line(state.line, message, help));
            }
        }
    }

    /// Settings are times, too, and a project may override them.
    fn times_are_bounds(&self, found: &mut Vec<Problem>) {
        for (id, state) in self.states() {
            let rows = self.lifecycle.exits(id);
            let timeouts = rows.filter_map(|row| Some((row.line, row.timeout?.time)));
            let reminders = state.remind.iter().flat_map(|remind| &remind.after);
            let times = timeouts.chain(reminders.map(|time| (state.line, *time)));
            for (line, time) in times {
                let (message, help) = match time.0 {
                    0 => ("a timeout cannot be zero", "write a time such as 30s"),
                    time if time > limits::LONGEST_TIMEOUT.0 => {
                        ("a timeout of more than 3650d bounds nothing", "write a shorter time")
                    }
                    _ => continue,
                };
                found.push(Problem::in_line(line, message, help));
            }
        }
    }

    /// People type triggers and actions, and the history names notes of the program like triggers.
    fn triggers_are_words(&self, found: &mut Vec<Problem>) {
        let rows = self.lifecycle.transitions.iter();
        let triggers = rows.map(|row| (row.line, row.trigger.as_str(), "a trigger"));
        let actions = self.lifecycle.states.iter().flat_map(|state| {
            let offers = state.does.iter().flat_map(|does| &does.offers);
            offers.map(|(action, _)| (state.line, action.as_str(), "an action"))
        });
        let words = triggers.clone().chain(actions).filter(|it| !is_word(it.1));
        let notes = triggers.filter(|it| it.1.parse::<Note>().is_ok());
        let notes = notes.map(|it| (it, "the program writes notes of this name; choose another"));
        for ((line, name, what), help) in words.map(|it| (it, WORD)).chain(notes) {
            found.push(Problem::in_line(line, format!("`{}` cannot be {what}", clip(name)), help));
        }
    }

    /// The dispatcher finds workers by the role that the state names.
    fn agents_are_served(&self, found: &mut Vec<Problem>) {
        let states = self.lifecycle.states.iter();
        for state in states.filter(|state| state.activity() == Some(Activity::Agent)) {
            let State { name, kind, line, does, .. } = state;
            let why = if does.as_ref().is_some_and(|does| does.role.is_none()) {
                "it has no `role`".to_owned()
            } else if !matches!(kind, StateKind::Working | StateKind::Reviewing) {
                format!("its kind is {kind}")
            } else {
                continue;
            };
            let help = "an agent needs a `role`, in a state of kind working or reviewing";
            let message = format!("no worker serves the agent of `{name}`: {why}");
            found.push(Problem::in_line(*line, message, help));
        }
    }

    fn outcomes_lead_somewhere(&self, found: &mut Vec<Problem>) {
        for (id, state) in self.states() {
            let Some(does) = &state.does else { continue };
            if !does.activity.is_available() {
                let message =
                    format!("the activity `{}` is not available in this version", does.activity);
                let help = "use another activity, or ask people to do it with `human`";
                found.push(Problem::in_line(state.line, message, help));
            }
            for (action, trigger) in &does.offers {
                if !self.takes(id, trigger, RoleId::HUMAN) {
                    let message = format!(
                        "`{}` offers people `{action}`, but they may not take `{trigger}` from there",
                        state.name
                    );
                    let help = "add a transition with that trigger `by: [human]`";
                    found.push(Problem::in_line(state.line, message, help));
                }
            }
            if does.activity == Activity::Human {
                continue;
            }
            for (outcome, route) in routes(does) {
                match route.map(Route::trigger) {
                    Some(_) if outcome == Outcome::Exhausted && is_retry(route) => {
                        let message = format!(
                            "`{}` does not say what follows when the failure policy gives up",
                            state.name
                        );
                        let help = "map `exhausted` under `outcomes`";
                        found.push(Problem::in_line(state.line, message, help));
                    }
                    Some(None) => {}
                    None => {
                        let message = format!(
                            "the outcome `{outcome}` of `{}` in `{}` leads nowhere",
                            does.activity.as_str(),
                            state.name
                        );
                        let help = "map it under `outcomes`, or add `otherwise: trigger`";
                        found.push(Problem::in_line(state.line, message, help));
                    }
                    Some(Some(trigger)) if !self.takes(id, trigger, RoleId::SYSTEM) => {
                        let message = format!(
                            "the outcome `{outcome}` leads to `{trigger}`, which the system may not take from `{}`",
                            state.name
                        );
                        let help = "add a transition with that trigger, with `system` in its `by`";
                        found.push(Problem::in_line(state.line, message, help));
                    }
                    Some(Some(_)) => {}
                }
            }
        }
    }

    /// A panel is convened when its state is entered. A move that stays there would leave the task
    /// without a panel.
    fn panels_lead_away(&self, found: &mut Vec<Problem>) {
        let panels =
            self.states().filter_map(|(id, state)| Some((id, state, state.does.as_ref()?)));
        for (id, state, does) in panels.filter(|(_, _, does)| does.activity == Activity::Panel) {
            let triggers: BTreeSet<&str> = routed(does).collect();
            let ends = |row: &&Transition| {
                row.timeout.is_none()
                    && triggers.contains(row.trigger.as_str())
                    && row.roles.contains(&RoleId::SYSTEM)
            };
            for row in self.lifecycle.exits(id).filter(ends) {
                if self.targets(row).contains(&id) {
                    let message =
                        format!("the panel of `{}` ends, but stays where it is", state.name);
                    let help = "write another state as its target";
                    found.push(Problem::in_line(row.line, message, help));
                }
            }
        }
    }

    pub(super) fn takes(&self, from: StateId, trigger: &str, role: RoleId) -> bool {
        self.lifecycle
            .exits(from)
            .any(|row| row.timeout.is_none() && row.trigger == trigger && row.roles.contains(&role))
    }

    fn queue_is_served(&self, found: &mut Vec<Problem>) {
        for (id, state) in self.states().filter(|(_, state)| state.kind == StateKind::Queued) {
            let (claims, others): (Vec<&Transition>, Vec<&Transition>) =
                self.lifecycle.exits(id).partition(|row| row.trigger == Trigger::Claim.name());
            let served =
                claims.iter().any(|row| row.roles.iter().any(|role| *role != RoleId::HUMAN));
            let has_others = others.iter().any(|row| row.timeout.is_none());
            if !claims.is_empty() && !served {
                let message = format!("no worker may claim a task from `{}`", state.name);
                let help = "add `system` or a worker's role to its `by`";
                found.push(Problem::in_line(claims[0].line, message, help));
            }
            for (row, role) in claims.iter().flat_map(|row| self.others_than_claim(row)) {
                let message = format!(
                    "this claim starts an agent of the role `{role}`, which may not claim it"
                );
                let help = format!("add `{role}` to its `by`, or lead to a state for another role");
                found.push(Problem::in_line(row.line, message, help));
            }
            if claims.is_empty() && !has_others {
                let message = format!("nobody takes tasks out of the queue `{}`", state.name);
                found.push(Problem::in_line(state.line, message, "add a transition `on: claim`"));
            }
        }
    }

    /// The roles of the agents that a claim starts, without those that may claim. The worker that
    /// the dispatcher gives the task is one that may claim it.
    fn others_than_claim<'r>(&'r self, row: &'r Transition) -> Option<(&'r Transition, &'r str)> {
        let claims = |name: &&str| {
            let role = self.lifecycle.find_role(name);
            role.is_some_and(|role| row.roles.contains(&role))
        };
        let TransitionTarget::State(to) = row.to else { return None };
        let does = self.lifecycle.state(to).does.as_ref()?;
        let role = does.role.as_deref().filter(|_| does.activity == Activity::Agent)?;
        let is_open = row.roles.iter().all(|role| [RoleId::SYSTEM, RoleId::HUMAN].contains(role));
        (!is_open && !claims(&role)).then_some((row, role))
    }

    fn prior_makes_sense(&self, found: &mut Vec<Problem>) {
        for row in self.lifecycle.transitions.iter().filter(|row| row.to == TransitionTarget::Prior)
        {
            let from = self.lifecycle.state(row.from);
            let pauses =
                matches!(from.kind, StateKind::Blocked | StateKind::Parked | StateKind::Waiting);
            if !pauses {
                let message = format!(
                    "`[prior]` cannot lead out of `{}`, which is of kind {}",
                    from.name, from.kind
                );
                let help = "only a blocked, parked or waiting task goes back to where it was";
                found.push(Problem::in_line(row.line, message, help));
            } else if self.priors[usize::from(row.from.0)].is_empty() {
                let message = format!("`[prior]` of `{}` can mean no state", from.name);
                found.push(Problem::in_line(row.line, message, "let some transition lead into it"));
            }
        }
    }

    /// A word of a type that stands there twice, or an answer with two actions, is a slip.
    fn choices_differ(&self, found: &mut Vec<Problem>) {
        let types = self.lifecycle.fields.values().map(|field| {
            let words = if let Type::OneOf(words) = &field.kind { words.as_slice() } else { &[] };
            (field.line, words.iter().map(String::as_str).collect::<Vec<_>>())
        });
        let offers = self.lifecycle.states.iter().map(|state| {
            let offers = state.does.iter().flat_map(|does| &does.offers);
            (state.line, offers.map(|(_, trigger)| trigger.as_str()).collect())
        });
        for (line, words) in types.chain(offers) {
            let mut known = BTreeSet::new();
            for word in words.into_iter().filter(|word| !known.insert(*word)) {
                let message = format!("`{word}` is named twice here");
                found.push(Problem::in_line(line, message, "name it once"));
            }
        }
    }

    fn roles_are_named_once(&self, found: &mut Vec<Problem>) {
        let rows = self.lifecycle.transitions.iter().map(|row| (row.line, row.roles.as_slice()));
        let fields = self.lifecycle.fields.values().map(|field| (field.line, field.by.roles()));
        for (line, roles) in rows.chain(fields) {
            let mut named = BTreeSet::new();
            for role in roles.iter().filter(|role| !named.insert(**role)) {
                let name = self.lifecycle.role_name(*role);
                let message = format!("`by` names the role `{name}` twice");
                found.push(Problem::in_line(line, message, "name it once"));
            }
        }
    }

    fn nothing_is_shadowed(&self, found: &mut Vec<Problem>) {
        let is_met = |row: &Transition| {
            let mut targets = self.targets(row).into_iter();
            targets.all(|to| self.unmet(row.from, to, &[&row.changes]).is_empty())
        };
        let mut open: Vec<&Transition> = Vec::new();
        for row in self.lifecycle.transitions.iter().filter(|row| row.timeout.is_none()) {
            let covers = |earlier: &&Transition| {
                // Only a caller may name the target as well; the system names the trigger alone.
                earlier.from == row.from
                    && (earlier.to == row.to || row.is_of_system())
                    && earlier.trigger == row.trigger
                    && row.roles.iter().all(|role| earlier.roles.contains(role))
            };
            if let Some(earlier) = open.iter().find(|earlier| covers(earlier)) {
                let message = format!(
                    "this transition is never taken: line {} always comes first",
                    earlier.line
                );
                let help = "remove it, or give the earlier one `guards`";
                found.push(Problem::in_line(row.line, message, help));
            } else if row.guards.is_empty() && row.changes.count.is_empty() && is_met(row) {
                open.push(row);
            }
        }
    }
}

/// Every outcome that an activity can have here, with the route that it takes.
pub(super) fn routes(does: &StateActivity) -> impl Iterator<Item = (Outcome, Option<&Route>)> {
    let all = does.outcomes.values().chain(&does.otherwise);
    let repeats = all.into_iter().any(|route| is_retry(Some(route)));
    let exhausted = repeats.then_some(Outcome::Exhausted);
    let looked = does.only_checks().then_some(Outcome::NotMerged);
    let known = does.activity.outcomes().iter().copied().chain(exhausted).chain(looked);
    known.map(|outcome| (outcome, does.route(outcome)))
}

fn is_retry(route: Option<&Route>) -> bool {
    matches!(route, Some(Route::Again(_)))
}

/// The triggers that outcomes lead to.
pub(super) fn routed(does: &StateActivity) -> impl Iterator<Item = &str> {
    routes(does).filter_map(|(_, route)| route?.trigger())
}

/// All states that can be reached from a state, including itself.
pub(super) fn closure(
    start: StateId,
    successors: &BTreeMap<StateId, BTreeSet<StateId>>,
) -> BTreeSet<StateId> {
    let mut reached = BTreeSet::from([start]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        for next in successors.get(&state).into_iter().flatten() {
            if reached.insert(*next) {
                open.push(*next);
            }
        }
    }
    reached
}
