//! Sources from before purposes were declared, translated when they are loaded. A stored source is
//! never rewritten: its hash is in the history.

use serde::Deserialize;

use super::contract::Purpose;
use super::declare::{ANYONE, BY, TYPE};
use super::expr::{Fields, Value};
use super::problem::Problem;
use super::source::{
    CounterSource, DoesSource, LifecycleSource, RemindSource, RequirementSource, StateSource,
    TimeoutSource, TransitionSource,
};
use super::{Activity, EntryEffect, Since, StateKind};
use crate::failure::Deliverable;
use crate::limits;
use crate::yaml::{self, Entries, Name, OneOrMany, Spanned};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OldSource {
    lifecycle: Name,
    #[serde(default)]
    about: String,
    initial: Name,
    #[serde(default)]
    roles: Vec<Name>,
    #[serde(default)]
    settings: Entries<Spanned<Value>>,
    #[serde(default)]
    fields: Entries<Spanned<Value>>,
    #[serde(default)]
    only: Entries<Vec<Name>>,
    #[serde(default)]
    counters: Entries<CounterSource>,
    states: Entries<OldState>,
    transitions: Vec<Spanned<OldTransition>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OldState {
    kind: StateKind,
    #[serde(default)]
    about: String,
    does: Option<Spanned<OldDoes>>,
    #[serde(default)]
    requires: Vec<Spanned<RequirementSource>>,
    #[serde(default)]
    within: Vec<Spanned<OldTimeout>>,
    remind: Option<RemindSource>,
    #[serde(default)]
    on_entry: Vec<EntryEffect>,
    #[serde(default)]
    provisional: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OldDoes {
    activity: Activity,
    role: Option<String>,
    brings: Option<Deliverable>,
    asks: Option<String>,
    #[serde(default)]
    offers: Entries<Name>,
    until: Option<Name>,
    when: Option<Name>,
    #[serde(default)]
    outcomes: Entries<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OldTimeout {
    time: Name,
    since: Option<Since>,
    to: Name,
    on: Option<String>,
    #[serde(default)]
    set: Entries<Value>,
    #[serde(default)]
    compute: Entries<Name>,
    #[serde(default)]
    count: Vec<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OldTransition {
    from: OneOrMany,
    to: OneOrMany,
    on: Name,
    by: Vec<Name>,
    #[serde(default)]
    guards: Vec<Spanned<RequirementSource>>,
    #[serde(default)]
    set: Entries<Value>,
    #[serde(default)]
    compute: Entries<Name>,
    #[serde(default)]
    clear: Vec<Name>,
    #[serde(default)]
    count: Vec<Name>,
    #[serde(default)]
    renew: Vec<Name>,
    #[serde(default)]
    keeps: Vec<Name>,
}

pub(super) fn read(text: &str, manual: &str) -> Result<LifecycleSource, Problem> {
    let old: OldSource = yaml::read(text, limits::LIFECYCLE_BYTES, manual, &[])?;
    let has_field = |name: &str| old.fields.0.iter().any(|(field, _)| field.value == name);
    let purpose = Purpose::of_legacy(&old.lifecycle.value, has_field);
    let mut fields = old.fields;
    for (name, declared) in &mut fields.0 {
        let only = old.only.0.iter().find(|(known, _)| known.value == name.value);
        let by = only.map_or(Value::from(ANYONE), |(_, roles)| {
            roles.iter().map(|role| Value::from(role.value.as_str())).collect()
        });
        let kind = declared.value.take();
        declared.value =
            Value::Object(Fields::from_iter([(TYPE.to_owned(), kind), (BY.to_owned(), by)]));
    }
    Ok(LifecycleSource {
        purpose: yaml::at(&old.lifecycle, purpose),
        lifecycle: old.lifecycle,
        about: old.about,
        initial: old.initial,
        roles: old.roles,
        include: Vec::new(),
        settings: old.settings,
        fields,
        counters: old.counters,
        states: Entries(old.states.0.into_iter().map(|(name, old)| (name, state(old))).collect()),
        transitions: old.transitions.into_iter().map(|old| into(old, transition)).collect(),
        legacy: true,
    })
}

fn state(mut old: OldState) -> StateSource {
    let when = old.does.as_mut().and_then(|does| does.value.when.take());
    StateSource {
        kind: Some(old.kind),
        about: Some(old.about),
        does: old.does.map(|old| into(old, does)),
        when,
        requires: Some(old.requires),
        timeouts: Some(old.within.into_iter().map(|old| into(old, timeout)).collect()),
        remind: old.remind,
        on_entry: Some(old.on_entry),
        provisional: Some(old.provisional),
    }
}

fn does(old: OldDoes) -> DoesSource {
    let OldDoes { activity, role, brings, asks, offers, until, when: _, outcomes } = old;
    DoesSource { activity, role, produces: brings, asks, offers, until, outcomes }
}

fn timeout(old: OldTimeout) -> TimeoutSource {
    let OldTimeout { time, since, to, on, set, compute, count } = old;
    TimeoutSource { after: time, since, to, on, set, compute, count }
}

fn transition(old: OldTransition) -> TransitionSource {
    let OldTransition { from, to, on, by, guards, set, compute, clear, count, renew, keeps } = old;
    TransitionSource { from, to, on, by, guards, set, compute, clear, count, reset: renew, keeps }
}

fn into<A, B>(spanned: Spanned<A>, change: impl FnOnce(A) -> B) -> Spanned<B> {
    let (referenced, defined) = (spanned.referenced, spanned.defined);
    Spanned::new(change(spanned.value), referenced, defined)
}
