//! YAML with the place of every name: what lifecycles and workflows are both read with. No
//! judgement here: it reads, and says in plain words what could not be read.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Error;
pub(crate) use serde_saphyr::Spanned;

use crate::lifecycle::problem::{Problem, suggestion};
use crate::limits;

pub(crate) type Name = Spanned<String>;

/// A mapping in the order of the file, each key with its place.
#[derive(Debug)]
pub(crate) struct Entries<T>(pub(crate) Vec<(Name, T)>);

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

/// A word or a list of words.
#[derive(Debug)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<Name>),
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name, or a list of them")
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

/// The short form of something, which is one text, or the mapping that says all of it.
#[derive(Debug)]
pub(crate) enum TextOr<T> {
    Text(String),
    Full(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = TextOr<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a mapping")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<TextOr<T>, E> {
                Ok(TextOr::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextOr<T>, A::Error> {
                let entries = serde::de::value::MapAccessDeserializer::new(map);
                T::deserialize(entries).map(TextOr::Full)
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}

/// Reads a text of at most so many bytes; the error carries the place that the YAML reader named.
/// `manual` is the document that shows every key.
pub(crate) fn read<T: DeserializeOwned>(
    text: &str,
    most: usize,
    manual: &str,
) -> Result<T, Problem> {
    if text.len() > most {
        let message = format!("the file is larger than {} KiB", most / 1024);
        return Err(Problem { line: 0, column: 0, message, help: None });
    }
    // Only these two, so that a value such as `no` or `y` is the word that was written.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location();
        let number = |value: u64| u32::try_from(value).unwrap_or(0);
        let (message, help) = plain(error.without_snippet(), manual);
        Problem {
            line: place.map_or(0, |place| number(place.line())),
            column: place.map_or(0, |place| number(place.column())),
            message,
            help: Some(help),
        }
    })
}

/// What the reader says, in the words of this language.
fn plain(error: &Error, manual: &str) -> (String, String) {
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
        Error::Unexpected { expected: "mapping start", .. } => (
            "this must be a mapping".to_owned(),
            format!("write `key: value`; {manual} shows every key"),
        ),
        Error::Unexpected { expected: "sequence start", .. } => {
            ("this must be a list".to_owned(), "write `[a, b]`".to_owned())
        }
        Error::InvalidScalar { ty: "u32", .. } => {
            ("this must be a whole number".to_owned(), "write a number from 0 on".to_owned())
        }
        Error::NullIntoString { .. } => {
            ("there is nothing here".to_owned(), "write a text, or remove the key".to_owned())
        }
        other => {
            let message = other.to_string();
            let message = message.lines().next().unwrap_or_default();
            let message = message.split(" at line ").next().unwrap_or_default();
            (message.to_owned(), format!("{manual} shows every key"))
        }
    }
}

/// Line and column.
pub(crate) fn place<T>(at: &Spanned<T>) -> (u32, u32) {
    let number = |value: u64| u32::try_from(value).unwrap_or(0);
    (number(at.referenced.line()), number(at.referenced.column()))
}

/// A problem at the place of a value; an empty help is none.
pub(crate) fn problem_at<T>(
    at: &Spanned<T>,
    message: impl Into<String>,
    help: impl Into<String>,
) -> Problem {
    let (line, column) = place(at);
    let help = help.into();
    let help = (!help.is_empty()).then_some(help);
    Problem { line, column, message: message.into(), help }
}

/// A name as it may stand in a message.
pub(crate) fn clip(text: &str) -> String {
    text.chars()
        .take(limits::NAME_BYTES)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
