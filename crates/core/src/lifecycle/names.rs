//! The names that the expressions of one lifecycle may use.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::expr::{NameScope, ResolvedName, Type, Value};
use super::problem::suggestion;
use super::{CounterId, FieldDecl, Setting, SettingDecl};

/// The names of a lifecycle that are known so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) fields: BTreeMap<String, FieldDecl>,
    pub(super) counters: Vec<String>,
    pub(super) settings: BTreeMap<String, SettingDecl>,
    /// The settings that something reads.
    read: RefCell<BTreeSet<String>>,
}

impl Names {
    /// The value of a setting, which counts as read from then on.
    pub(super) fn setting(&self, name: &str) -> Option<&Setting> {
        let setting = self.settings.get(name)?;
        self.read.borrow_mut().insert(name.to_owned());
        Some(&setting.value)
    }

    /// The settings, each with whether something reads it.
    pub(super) fn settings(&self) -> BTreeMap<String, SettingDecl> {
        let (read, mut settings) = (self.read.borrow(), self.settings.clone());
        for (name, setting) in &mut settings {
            setting.is_read = read.contains(name);
        }
        settings
    }
}

/// What an expression may use: only the task, or the transition as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExprScope {
    Task,
    Transition,
}

pub(super) struct NamesFor<'a> {
    pub(super) names: &'a Names,
    pub(super) scope: ExprScope,
}

const OF_THE_TASK: [&str; 4] = ["title", "tags", "priority", "spent"];
const OF_THE_TRANSITION: [&str; 4] = ["actor", "now", "outcome", "detail"];

/// Attributes of every task; the history keeps them beside its fields.
const ATTRIBUTES: [&str; 9] =
    ["body", "project", "batch", "parent", "prior", "lifecycle", "lease", "epoch", "needs"];
const WORDS: [&str; 12] =
    ["and", "or", "not", "in", "true", "false", "null", "set", "any", "count", "has", "every"];

/// The words that a field, counter or setting may not take.
pub(super) fn reserved(name: &str) -> bool {
    [&OF_THE_TASK[..], &OF_THE_TRANSITION, &ATTRIBUTES, &WORDS]
        .iter()
        .any(|words| words.contains(&name))
}

impl NameScope for NamesFor<'_> {
    fn resolve(&self, path: &[&str]) -> Result<(ResolvedName, Type), String> {
        let (first, rest) = path.split_first().ok_or("a name is missing")?;
        if OF_THE_TRANSITION.contains(first) && self.scope == ExprScope::Task {
            return Err(format!(
                "`{first}` is only known during a transition, but a state's requirements must stay true; put it into the `guards` of the transition"
            ));
        }
        match (*first, rest) {
            ("actor", ["role"]) => Ok((ResolvedName::ActorRole, Type::Text)),
            ("actor", ["name"]) => Ok((ResolvedName::ActorName, Type::Text)),
            ("actor", _) => Err("write `actor.role` or `actor.name`".to_owned()),
            ("now", []) => Ok((ResolvedName::Now, Type::Time)),
            ("outcome", []) => Ok((ResolvedName::Outcome, Type::Text)),
            ("detail", []) => Ok((ResolvedName::Detail, Type::Text)),
            ("title", []) => Ok((ResolvedName::Title, Type::Text)),
            ("tags", []) => Ok((ResolvedName::Tags, Type::List)),
            ("priority", []) => Ok((ResolvedName::Priority, Type::Number)),
            ("spent", rest) => self.spent(rest),
            (first, rest) => self.own(first, rest),
        }
    }
}

impl NamesFor<'_> {
    fn spent(&self, rest: &[&str]) -> Result<(ResolvedName, Type), String> {
        const MEMBERS: [&str; 3] = ["totalCost", "runCount", "tokenCount"];
        match rest {
            [] => {
                let members =
                    MEMBERS.iter().map(|member| ((*member).to_owned(), Type::Number)).collect();
                Ok((ResolvedName::Spent(None), Type::Record(members)))
            }
            [member] if MEMBERS.contains(member) => {
                Ok((ResolvedName::Spent(Some((*member).to_owned())), Type::Number))
            }
            rest => {
                let name = rest.join(".");
                Err(format!("`spent` has no `{name}`; {}", suggestion(&name, MEMBERS)))
            }
        }
    }

    fn own(&self, first: &str, rest: &[&str]) -> Result<(ResolvedName, Type), String> {
        if let Some(field) = self.names.fields.get(first) {
            let kind = member_type(first, &field.kind, rest)?;
            let path =
                std::iter::once(first).chain(rest.iter().copied()).map(str::to_owned).collect();
            return Ok((ResolvedName::Field(path), kind));
        }
        if let Some(index) = self.names.counters.iter().position(|counter| counter == first)
            && rest.is_empty()
        {
            let id = CounterId(u16::try_from(index).map_err(|_| "there are too many counters")?);
            return Ok((ResolvedName::Counter(id), Type::Number));
        }
        if rest.is_empty()
            && let Some(setting) = self.names.setting(first)
        {
            return Ok(constant(setting));
        }
        let known =
            self.names.fields.keys().chain(&self.names.counters).chain(self.names.settings.keys());
        let known =
            known.map(String::as_str).chain(OF_THE_TASK).chain(["actor.name", "actor.role", "now"]);
        Err(format!("`{first}` is not known; {}", suggestion(first, known)))
    }
}

fn member_type(field: &str, kind: &Type, rest: &[&str]) -> Result<Type, String> {
    let Some((member, rest)) = rest.split_first() else {
        return Ok(kind.clone());
    };
    if *kind == Type::Any {
        return Ok(Type::Any);
    }
    let Type::Record(members) = kind else {
        return Err(format!("`{field}` is {}, it has no `{member}`", kind.describe()));
    };
    match members.get(*member) {
        Some(kind) => member_type(member, kind, rest),
        None => {
            let known = members.keys().map(String::as_str);
            Err(format!("`{field}` has no `{member}`; {}", suggestion(member, known)))
        }
    }
}

fn constant(setting: &Setting) -> (ResolvedName, Type) {
    let (value, kind) = match setting {
        Setting::Number(_) => (setting.to_json(), Type::Number),
        Setting::Flag(_) => (setting.to_json(), Type::Flag),
        Setting::Text(_) => (setting.to_json(), Type::Text),
        Setting::Time(span) => (Value::from(span.0), Type::Span),
    };
    (ResolvedName::Constant(value), kind)
}
