//! Reads YAML and keeps the position of every name; lifecycles, workflows, policies and registries
//! use it.
//!
//! It only reads and reports syntax errors in plain words; the modules that use it check the
//! content.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
pub(crate) use serde_saphyr::Spanned;
use serde_saphyr::{Error, Location};

use crate::lifecycle::problem::{Problem, suggestion};

pub(crate) type Name = Spanned<String>;

/// A mapping in the order of the file, each key with its position.
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
                std::iter::from_fn(|| map.next_entry().transpose())
                    .collect::<Result<_, _>>()
                    .map(Entries)
            }
        }
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

/// A name or a list of names.
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

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<OneOrMany, A::Error> {
                let list = serde::de::value::SeqAccessDeserializer::new(seq);
                Vec::deserialize(list).map(OneOrMany::Many)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// A word of a closed set, or the text that stands in its place, which whoever uses it reports.
#[derive(Debug)]
pub(crate) struct WordOr<T>(pub(crate) Result<T, Name>);

impl<'de, T: FromStr> Deserialize<'de> for WordOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Name::deserialize(deserializer)?;
        Ok(Self(text.value.parse().map_err(|_| text)))
    }
}

/// A mapping that has an id.
pub(crate) trait HasId {
    fn id(&mut self) -> &mut Name;
}

/// Such a mapping. An id that is missing is empty, at the place of the mapping.
pub(crate) fn with_id<'de, T: Deserialize<'de> + HasId, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Spanned::deserialize(deserializer).map(placed)
}

pub(crate) fn with_ids<'de, T: Deserialize<'de> + HasId, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(deserializer)?;
    Ok(list.into_iter().map(placed).collect())
}

fn placed<T: HasId>(mut item: Spanned<T>) -> T {
    let here = at(&item, "");
    let id = item.value.id();
    if id.value.is_empty() {
        *id = here;
    }
    item.value
}

/// What stands for a name that is missing.
pub(crate) fn nameless() -> Name {
    Spanned::new(String::new(), Location::UNKNOWN, Location::UNKNOWN)
}

/// Either the short form, one text, or the full form, a mapping.
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

/// Parses a text of at most `most` bytes. An error carries the position in the text. `manual` is
/// the document that shows every key.
pub(crate) fn read<T: DeserializeOwned>(
    text: &str,
    most: usize,
    manual: &str,
    former: &[FormerKey],
) -> Result<T, Problem> {
    if text.len() > most {
        let message = format!("the file is larger than {} KiB", most / 1024);
        return Err(Problem::of_whole(message, None));
    }
    // Only `true` and `false` are booleans, so that `no` and `y` stay the texts that were written.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let (mut line, column) = error.location().map_or((0, 0), |location| numbers(&location));
        if matches!(error.without_snippet(), Error::SerdeMissingField { .. }) && column == 1 {
            // A key of the whole document is missing where the document begins.
            let is_content = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
            line = text.lines().zip(1..).find(|(line, _)| is_content(line)).map_or(1, |it| it.1);
        }
        let (message, help) = describe_error(error.without_snippet(), manual, former);
        Problem { line, column, message, help: Some(help) }
    })
}

/// A key of an earlier version of a language, a key of today that is known in the same place, and
/// what to write instead.
pub(crate) type FormerKey = (&'static str, &'static str, &'static str);

/// The parser's error as a message and a help text.
fn describe_error(error: &Error, manual: &str, former: &[FormerKey]) -> (String, String) {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            let mut former = former.iter();
            let former = former.find(|(key, beside, _)| key == field && expected.contains(beside));
            let help = former.map_or_else(
                || suggestion(field, expected.iter().copied()),
                |(_, _, help)| (*help).to_owned(),
            );
            (format!("unknown key `{field}`"), help)
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            let is_former = |word: &&str| former.iter().any(|(key, ..)| key == word);
            let known = expected.iter().copied().filter(|word| !is_former(word));
            (format!("unknown value `{variant}`"), suggestion(variant, known))
        }
        Error::SerdeMissingField { field, .. } => {
            (format!("missing key `{field}`"), format!("add `{field}: …`"))
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("a key");
            (format!("duplicate key `{key}`"), "remove one of them".to_owned())
        }
        Error::Unexpected { expected: "mapping start", .. } => (
            "expected a mapping".to_owned(),
            format!("write `key: value`; {manual} shows every key"),
        ),
        Error::Unexpected { expected: "sequence start", .. } => {
            ("expected a list".to_owned(), "write `[a, b]`".to_owned())
        }
        Error::InvalidScalar { ty: "u32", .. } => {
            ("expected a whole number".to_owned(), "write a number, 0 or more".to_owned())
        }
        Error::NullIntoString { .. } => {
            ("missing value".to_owned(), "write a value, or remove the key".to_owned())
        }
        other => {
            let message = other.to_string();
            let message = message.lines().next().unwrap_or_default();
            let message = message.split(" at line ").next().unwrap_or_default();
            (message.to_owned(), format!("{manual} shows every key"))
        }
    }
}

/// Another value at the same position.
pub(crate) fn at<T, U>(place: &Spanned<T>, value: impl Into<U>) -> Spanned<U> {
    Spanned::new(value.into(), place.referenced, place.defined)
}

/// The line and column of a value.
pub(crate) fn place<T>(at: &Spanned<T>) -> (u32, u32) {
    numbers(&at.referenced)
}

fn numbers(location: &Location) -> (u32, u32) {
    let number = |value: u64| u32::try_from(value).unwrap_or(0);
    (number(location.line()), number(location.column()))
}

/// A problem at the position of a value; an empty help means none.
pub(crate) fn problem_at<T>(
    at: &Spanned<T>,
    message: impl Into<String>,
    help: impl Into<String>,
) -> Problem {
    let (line, column) = place(at);
    Problem { column, ..Problem::in_line(line, message, help) }
}
