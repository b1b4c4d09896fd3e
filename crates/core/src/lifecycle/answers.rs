//! The roles of a decision's answers, and the order and the keys that follow from them: a key means
//! the same on every card, whatever a lifecycle calls its actions.

use super::check::is_word;
use super::contract::{AnswerEffect, AnswerName, AnswerRole, Trigger};
use super::problem::Problem;
use super::{Lifecycle, RoleId, StateId, StateKind, TransitionTarget};
use crate::text::clip;

/// The keys of each role: the first offer has the first one, further ones the next.
const KEYS: [(AnswerRole, &str); 3] =
    [(AnswerRole::GoOn, "aefgij"), (AnswerRole::SendBack, "cbklmn"), (AnswerRole::End, "xzyvwp")];

/// An offer in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankedOffer {
    pub action: String,
    pub trigger: String,
    pub role: AnswerRole,
    /// None if the role has more offers than keys.
    pub key: Option<char>,
}

impl RankedOffer {
    /// An offer by itself.
    pub fn of(lifecycle: &Lifecycle, from: StateId, action: &str, trigger: &str) -> Self {
        let role = lifecycle.answer_role(from, action, trigger);
        Self { action: action.to_owned(), trigger: trigger.to_owned(), role, key: None }
    }
}

impl AnswerRole {
    /// The number that stands for the first offer of the role.
    pub fn digit(self) -> char {
        match self {
            Self::GoOn => '1',
            Self::SendBack => '2',
            Self::End => '3',
        }
    }

    /// The key of the first offer of the role.
    pub fn first_key(self) -> Option<char> {
        self.keys().next()
    }

    fn keys(self) -> impl Iterator<Item = char> {
        KEYS.iter().filter(move |(role, _)| *role == self).flat_map(|(_, keys)| keys.chars())
    }
}

/// Whether work in such a state has ended without success, or rests.
pub(super) fn is_end(kind: StateKind) -> bool {
    matches!(kind, StateKind::Cancelled | StateKind::Failed | StateKind::Parked)
}

impl Lifecycle {
    /// The role of an action: of the contract, else as the state says. A source from before roles
    /// does not say it; then the state decides to which the answer leads.
    pub fn answer_role(&self, from: StateId, action: &str, trigger: &str) -> AnswerRole {
        let stated = || self.state(from).does.as_ref()?.offer_roles.get(action).copied();
        let known = AnswerName::named(action).map(|name| name.detail().role);
        known.or_else(stated).unwrap_or_else(|| {
            let ends = self.answer_kinds(from, trigger).next().is_some_and(is_end);
            if ends { AnswerRole::End } else { AnswerRole::GoOn }
        })
    }

    /// The kinds of the states to which people lead the task with a trigger.
    pub(super) fn answer_kinds(
        &self,
        from: StateId,
        trigger: &str,
    ) -> impl Iterator<Item = StateKind> {
        let rows = self.exits(from).filter(move |row| row.trigger == trigger);
        let rows = rows.filter(|row| row.timeout.is_none() && row.roles.contains(&RoleId::HUMAN));
        rows.filter_map(|row| match row.to {
            TransitionTarget::State(to) => Some(self.state(to).kind),
            TransitionTarget::Prior => None,
        })
    }

    /// What tries a task again where it stands: the answer to its question that continues the work,
    /// what ends a rest by itself later, a retry, or an end of what blocks it.
    pub fn retry_trigger(&self, from: StateId) -> &str {
        let offers = self.state(from).does.iter().flat_map(|does| &does.offers);
        let answer = offers.filter_map(|(action, trigger)| {
            let effect = AnswerName::named(action)?.detail().effect;
            (effect == AnswerEffect::Continues).then_some(trigger)
        });
        let rests = self.state(from).kind == StateKind::Blocked;
        let timers = self.exits(from).filter(|row| rests && row.timeout.is_some());
        let later = timers.map(|row| &row.trigger).filter(|trigger| {
            let mut kinds = self.answer_kinds(from, trigger).peekable();
            kinds.peek().is_some() && !kinds.any(is_end)
        });
        let ways = [Trigger::Retry, Trigger::Unblock];
        let way = ways.into_iter().find(|way| self.has_exit(from, *way)).unwrap_or(Trigger::Retry);
        answer.chain(later).next().map_or(way.name_in(self), String::as_str)
    }

    /// The role of an answer decides its key, so every action has one, and it is the right one.
    pub(super) fn answers_without_roles(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        for (state, id) in self.states.iter().zip((0_u16..).map(StateId)) {
            let Some(does) = &state.does else { continue };
            for (action, trigger) in does.offers.iter().filter(|(action, _)| is_word(action)) {
                let stated = does.offer_roles.get(action).copied();
                let problem = self.role_problem(id, (action, trigger), stated);
                let problem = problem.map(|(what, help)| {
                    let message =
                        format!("the answer `{}` in `{}` {what}", clip(action), state.name);
                    Problem::in_line(state.line, message, help)
                });
                found.extend(problem);
            }
        }
        found
    }

    /// What is wrong with the role of an answer, and what to write.
    fn role_problem(
        &self,
        from: StateId,
        (action, trigger): (&str, &str),
        stated: Option<AnswerRole>,
    ) -> Option<(String, String)> {
        let known = AnswerName::named(action).map(|name| name.detail().role);
        let role = self.answer_role(from, action, trigger);
        let mut kinds = self.answer_kinds(from, trigger);
        if known.is_none() && stated.is_none() {
            let roles = AnswerRole::NAMES.join(", ");
            let help = format!("write `{action}: ROLE {trigger}`, where ROLE is one of {roles}");
            return Some(("has no role".to_owned(), help));
        }
        if known.zip(stated).is_some_and(|(known, stated)| known != stated) {
            let help = format!("write `{action}: {trigger}`, or use another word");
            return Some((format!("always means `{role}`"), help));
        }
        let wrong = kinds.find(|kind| is_end(*kind) != (role == AnswerRole::End))?;
        let help = "`end` leads to a state of kind cancelled, failed or parked; no other role does";
        let what = format!("means `{role}` and leads to a state of kind {wrong}");
        Some((what, help.to_owned()))
    }

    /// Offers by role, each with its key. Within a role the contract's order comes first, then that
    /// of the file.
    pub fn ranked(&self, from: StateId, offers: &[(String, String)]) -> Vec<RankedOffer> {
        let rank = |action: &str| {
            AnswerName::named(action).map_or(AnswerName::RULES.len(), |name| name as usize)
        };
        let role = |(action, trigger): &(String, String)| self.answer_role(from, action, trigger);
        let mut ranked: Vec<RankedOffer> = Vec::new();
        for of in AnswerRole::ALL {
            let mut own: Vec<_> = offers.iter().filter(|offer| role(offer) == of).collect();
            own.sort_by_key(|(action, _)| rank(action));
            let keys = of.keys().map(Some).chain(std::iter::repeat(None));
            ranked.extend(own.into_iter().zip(keys).map(|((action, trigger), key)| RankedOffer {
                action: action.clone(),
                trigger: trigger.clone(),
                role: of,
                key,
            }));
        }
        ranked
    }
}
