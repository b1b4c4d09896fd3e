//! The YAML of a lifecycle as it is written, with the place of every name. No judgement here:
//! `check` does that.

use serde::Deserialize;
use serde_json::Value;

use super::problem::Problem;
use super::{Activity, EntryEffect, Since, StateKind};
use crate::failure::Deliverable;
use crate::limits;
use crate::yaml::{self, Entries, Name, OneOrMany, Spanned, TextOr};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    pub(super) lifecycle: Name,
    #[serde(default)]
    pub(super) about: String,
    pub(super) initial: Name,
    #[serde(default)]
    pub(super) roles: Vec<Name>,
    #[serde(default)]
    pub(super) settings: Entries<Spanned<Value>>,
    #[serde(default)]
    pub(super) fields: Entries<Spanned<Value>>,
    #[serde(default)]
    pub(super) only: Entries<Vec<Name>>,
    #[serde(default)]
    pub(super) counters: Entries<CounterSource>,
    pub(super) states: Entries<StateSource>,
    pub(super) transitions: Vec<Spanned<TransitionSource>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CounterSource {
    pub(super) limit: Option<Spanned<Value>>,
    pub(super) then: Option<Name>,
    pub(super) beyond: Option<Name>,
    #[serde(default)]
    pub(super) set: Entries<Value>,
    #[serde(default)]
    pub(super) compute: Entries<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StateSource {
    pub(super) kind: StateKind,
    #[serde(default)]
    pub(super) about: String,
    pub(super) does: Option<Spanned<DoesSource>>,
    #[serde(default)]
    pub(super) requires: Vec<Spanned<RequirementSource>>,
    #[serde(default)]
    pub(super) within: Vec<Spanned<BoundSource>>,
    pub(super) remind: Option<RemindSource>,
    #[serde(default)]
    pub(super) on_entry: Vec<EntryEffect>,
    #[serde(default)]
    pub(super) provisional: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DoesSource {
    pub(super) activity: Activity,
    pub(super) role: Option<String>,
    #[serde(alias = "brings")]
    pub(super) produces: Option<Deliverable>,
    pub(super) asks: Option<String>,
    #[serde(default)]
    pub(super) offers: Entries<Name>,
    pub(super) until: Option<Name>,
    pub(super) when: Option<Name>,
    #[serde(default)]
    pub(super) outcomes: Entries<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BoundSource {
    pub(super) time: Name,
    pub(super) since: Option<Since>,
    pub(super) to: Name,
    pub(super) on: Option<String>,
    #[serde(default)]
    pub(super) set: Entries<Value>,
    #[serde(default)]
    pub(super) compute: Entries<Name>,
    #[serde(default)]
    pub(super) count: Vec<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemindSource {
    pub(super) after: Vec<Name>,
    pub(super) when: Option<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TransitionSource {
    pub(super) from: OneOrMany,
    pub(super) to: OneOrMany,
    pub(super) on: Name,
    pub(super) by: Vec<Name>,
    #[serde(default)]
    pub(super) guards: Vec<Spanned<RequirementSource>>,
    #[serde(default)]
    pub(super) set: Entries<Value>,
    #[serde(default)]
    pub(super) compute: Entries<Name>,
    #[serde(default)]
    pub(super) clear: Vec<Name>,
    #[serde(default)]
    pub(super) count: Vec<Name>,
    #[serde(default)]
    pub(super) renew: Vec<Name>,
    #[serde(default)]
    pub(super) keeps: Vec<Name>,
}

/// `pr_url`, or `{ field: pr_url, that: …, message: … }`.
pub(super) type RequirementSource = TextOr<FullRequirement>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FullRequirement {
    pub(super) field: Name,
    pub(super) that: Option<Name>,
    pub(super) message: Option<String>,
}

pub(super) fn read(text: &str) -> Result<Source, Problem> {
    yaml::read(text, limits::LIFECYCLE_BYTES, "docs/lifecycles.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_places() {
        let text = "lifecycle: x\ninitial: a\nstates:\n  a: { kind: done }\ntransitions:\n  - { from: [prior], to: a, on: go, by: [human] }\n";
        let source = read(text).expect("reads");
        let (name, _) = &source.states.0[0];
        assert_eq!((name.referenced.line(), name.referenced.column()), (4, 3));
        assert_eq!(source.transitions[0].referenced.line(), 6);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let problem = read("lifecycle: x\ninitial: a\nstates:\n  a: { kind: done, colour: red }\ntransitions: []\n")
            .expect_err("unknown key");
        assert_eq!(problem.line, 4);
        assert!(problem.message.contains("colour"), "{}", problem.message);
    }

    #[test]
    fn a_repeated_state_is_refused() {
        let text = "lifecycle: x\ninitial: a\nstates:\n  a: { kind: done }\n  a: { kind: done }\ntransitions: []\n";
        let problem = read(text).expect_err("repeated");
        assert_eq!((problem.line, problem.message.as_str()), (5, "duplicate key `a`"));
    }
}
