//! The JSON contract with scripts and other surfaces: the only place where domain types become
//! JSON.
//!
//! Keys and types are a contract: keys may be added; renames, removals and type changes need a note
//! in the change log. Times are RFC 3339 in UTC, ids are strings such as `t12`. Members are printed
//! in declaration order, in most documents alphabetically.

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

use error::FieldMessage;
use serde::Serialize;

/// A document that is one list.
pub fn list<T>(
    name: &'static str,
    items: impl IntoIterator<Item = T>,
) -> BTreeMap<&'static str, Vec<T>> {
    BTreeMap::from([(name, items.into_iter().collect())])
}

/// Files in which no problem was found. Otherwise the answer is an
/// [`ErrorDocument`](error::ErrorDocument) with all of the problems.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// The names of what was checked.
    pub checked: Vec<String>,
    /// Parameters that were checked with a value that stands in for the one to be chosen.
    pub placeholders: Vec<String>,
    pub success: bool,
    pub warnings: Vec<FieldMessage>,
}

impl Checked {
    pub fn new(checked: Vec<String>) -> Self {
        Self { checked, success: true, ..Self::default() }
    }
}
