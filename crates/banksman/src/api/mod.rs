//! The JSON contract with scripts and other surfaces: the only place where domain types become
//! JSON.
//!
//! Keys and types are a contract: keys may be added; renames, removals and type changes need a note
//! in the change log. Times are RFC 3339 in UTC, ids are strings such as `t12`. Members are declared
//! in the order in which they are printed, in most documents that of the alphabet.

/// Declares documents: each member with its type and where it comes from.
macro_rules! documents {
    ($(
        $(#[$meta:meta])* $name:ident$(<$life:lifetime>)?($($from:ident: $kind:ty),+) {
            $($(#[$about:meta])* $member:ident: $type:ty = $value:expr,)+
        }
    )+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name$(<$life>)? {
            $($(#[$about])* pub $member: $type,)+
        }

        impl$(<$life>)? $name$(<$life>)? {
            #[must_use]
            pub fn new($($from: $kind),+) -> Self {
                Self { $($member: $value,)+ }
            }
        }
    )+};
}

pub mod agent;
pub mod batch;
pub mod changes;
pub mod daily;
pub mod decision;
pub mod error;
pub mod lifecycle;
pub mod policy;
pub mod project;
pub mod prompt;
pub mod report;
pub mod run;
pub mod settings;
pub mod status;
pub mod store;
pub mod task;
pub mod worker;
pub mod workflow;

use std::collections::BTreeMap;

use banksman_core::lifecycle::problem;
use banksman_core::prompt::TemplateProblem;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

/// A document that is one list.
pub fn list<T>(
    name: &'static str,
    items: impl IntoIterator<Item = T>,
) -> BTreeMap<&'static str, Vec<T>> {
    BTreeMap::from([(name, items.into_iter().collect())])
}

/// A document about things that were checked: whether all are valid, and what was found.
pub fn checked<T>(
    ok: bool,
    name: &'static str,
    items: impl IntoIterator<Item = T>,
) -> BTreeMap<&'static str, Checked<T>> {
    let items = items.into_iter().collect();
    BTreeMap::from([("ok", Checked::Ok(ok)), (name, Checked::Found(items))])
}

/// A member of a document about things that were checked.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Checked<T> {
    Ok(bool),
    Found(Vec<T>),
}

/// Prints all members in the order of the alphabet, however they are declared.
#[derive(Debug, Clone)]
pub struct Sorted<T>(pub T);

impl<T: Serialize> Serialize for Sorted<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::to_value(&self.0).map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// An error or a warning in a file.
#[derive(Debug, Clone, Serialize)]
pub struct Problem<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// Unless the document names it once for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub help: Option<&'a str>,
    pub line: usize,
    pub message: &'a str,
}

impl<'a> From<&'a problem::Problem> for Problem<'a> {
    fn from(problem: &'a problem::Problem) -> Self {
        Self {
            column: Some(problem.column),
            file: None,
            help: problem.help.as_deref(),
            line: problem.line as usize,
            message: &problem.message,
        }
    }
}

impl<'a> Problem<'a> {
    /// A problem of this file.
    pub fn at(file: &impl ToString, problem: impl Into<Self>) -> Self {
        Self { file: Some(file.to_string()), ..problem.into() }
    }
}

impl<'a> From<&'a TemplateProblem> for Problem<'a> {
    fn from(problem: &'a TemplateProblem) -> Self {
        let TemplateProblem { line, message, help } = problem;
        Self { column: None, file: None, help: Some(help), line: *line, message }
    }
}

/// The problems of one file; none if it is valid.
fn problems(problems: Option<&problem::Problems>) -> Vec<Problem<'_>> {
    problems.into_iter().flat_map(|problems| &problems.list).map(Problem::from).collect()
}
