//! The YAML of a lifecycle as it is written, with the place of every name. No judgement here: `check` does that.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_saphyr::Error;
pub(super) use serde_saphyr::Spanned;

use super::problem::{Problem, suggestion};
use super::{Activity, EntryEffect, Kind, Since};
use crate::failure::Expects;
use crate::limits;

pub(super) type Name = Spanned<String>;

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
    pub(super) kind: Kind,
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
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DoesSource {
    pub(super) activity: Activity,
    pub(super) role: Option<String>,
    pub(super) brings: Option<Expects>,
    pub(super) asks: Option<String>,
    #[serde(default)]
    pub(super) offers: Entries<Name>,
    pub(super) until: Option<Name>,
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
#[derive(Debug)]
pub(super) enum RequirementSource {
    Bare(String),
    Full(FullRequirement),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FullRequirement {
    pub(super) field: Name,
    pub(super) that: Option<Name>,
    pub(super) message: Option<String>,
}

impl<'de> Deserialize<'de> for RequirementSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = RequirementSource;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field's name, or `{ field, that, message }`")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<RequirementSource, E> {
                Ok(RequirementSource::Bare(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RequirementSource, A::Error> {
                let entries = serde::de::value::MapAccessDeserializer::new(map);
                FullRequirement::deserialize(entries).map(RequirementSource::Full)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// A word or a list of words.
#[derive(Debug)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<Name>),
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a state's name, or a list of them")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(name.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMany, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = seq.next_element()? {
                    names.push(name);
                }
                Ok(OneOrMany::Many(names))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// A mapping in the order of the file, each key with its place.
#[derive(Debug)]
pub(super) struct Entries<T>(pub(super) Vec<(Name, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping of names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry::<Name, T>()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

/// Reads the text; the error carries the place that the YAML reader named.
pub(super) fn read(text: &str) -> Result<Source, Problem> {
    if text.len() > limits::LIFECYCLE_BYTES {
        let message = format!("the file is larger than {} KiB", limits::LIFECYCLE_BYTES / 1024);
        return Err(Problem { line: 0, column: 0, message, help: None });
    }
    serde_saphyr::from_str(text).map_err(|error| {
        let place = error.location();
        let number = |value: u64| u32::try_from(value).unwrap_or(0);
        let (message, help) = plain(error.without_snippet());
        Problem {
            line: place.map_or(0, |place| number(place.line())),
            column: place.map_or(0, |place| number(place.column())),
            message,
            help: Some(help),
        }
    })
}

/// What the reader says, in the words of this language.
fn plain(error: &Error) -> (String, String) {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            (format!("there is no key `{field}` here"), suggestion(field, expected.iter().copied()))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => (
            format!("`{variant}` is not known here"),
            suggestion(variant, expected.iter().copied()),
        ),
        Error::SerdeMissingField { field, .. } => {
            (format!("the key `{field}` is missing"), format!("add `{field}: …`"))
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("a key");
            (format!("`{key}` stands here twice"), "keep one of them".to_owned())
        }
        other => {
            let message = other.to_string();
            let message = message.lines().next().unwrap_or_default();
            let message = message.split(" at line ").next().unwrap_or_default();
            (message.to_owned(), "docs/lifecycles.md shows every key".to_owned())
        }
    }
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
        assert_eq!((problem.line, problem.message.as_str()), (5, "`a` stands here twice"));
    }
}
