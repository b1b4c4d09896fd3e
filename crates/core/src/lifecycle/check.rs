//! Turns the source of a lifecycle into its checked table, or into all problems with it.
//!
//! This file holds what the others need to resolve names and to report; `declare` reads the
//! declarations and `rows` lists the transitions; `prove` then shows that the lifecycle is sound.
//! Nothing is guessed: a faulty source yields no lifecycle.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::contract::Field;
use super::expr::{Expr, Type, Value};
use super::names::{ExprScope, Names, NamesFor};
use super::problem::{Problem, Problems, suggestion};
use super::source::{LifecycleSource, RequirementSource};
use super::{
    CounterId, FieldDecl, Lifecycle, Requirement, RoleId, Setting, State, StateId, Transition,
    prove, rows, source,
};
use crate::limits;
use crate::text::clip;
use crate::time::Span;
use crate::yaml::{self, Entries, Name, Spanned, place, problem_at};

/// Values from a project's configuration that replace a lifecycle's settings.
pub type Overrides = BTreeMap<String, Setting>;

/// Checks a source and proves it sound. `origin` names it in messages.
pub fn check(text: &str, origin: &str, overrides: &Overrides) -> Result<Lifecycle, Problems> {
    let fail = |problem| Problems::new(origin, text, vec![problem]);
    let source = source::read(text).map_err(fail)?;
    let lifecycle = resolve(text, origin, &source, overrides)?;
    let problems = prove::problems(&lifecycle);
    if problems.is_empty() { Ok(lifecycle) } else { Err(Problems::new(origin, text, problems)) }
}

/// Reads a source that was proven when it was first used. A later version of the program may demand
/// more, and must still let the tasks of that lifecycle finish.
pub fn read_again(text: &str, origin: &str, overrides: &Overrides) -> Result<Lifecycle, Problems> {
    let fail = |problem| Problems::new(origin, text, vec![problem]);
    let source = source::read_any(text).map_err(fail)?;
    resolve(text, origin, &source, overrides)
}

fn resolve(
    text: &str,
    origin: &str,
    source: &LifecycleSource,
    overrides: &Overrides,
) -> Result<Lifecycle, Problems> {
    let mut checker = Checker::new(text);
    let lifecycle = checker.lifecycle(source, overrides);
    let problems = checker.problems;
    if problems.is_empty() { Ok(lifecycle) } else { Err(Problems::new(origin, text, problems)) }
}

/// The hash of everything that a lifecycle is made from.
fn version(text: &str, overrides: &Overrides) -> String {
    let mut hash = Sha256::new();
    hash.update(text.as_bytes());
    for (name, setting) in overrides {
        hash.update(format!("\0{name}={setting:?}").as_bytes());
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

pub(super) struct Checker<'a> {
    text: &'a str,
    pub(super) problems: Vec<Problem>,
    pub(super) names: Names,
    pub(super) roles: Vec<String>,
    pub(super) state_names: Vec<String>,
}

/// What a name consists of.
pub(super) const WORD: &str = "use letters, digits, `_` and `-`, beginning with a letter";

impl<'a> Checker<'a> {
    fn new(text: &'a str) -> Self {
        let roles = vec!["human".to_owned(), "system".to_owned()];
        Self { text, problems: Vec::new(), names: Names::default(), roles, state_names: Vec::new() }
    }

    fn lifecycle(&mut self, source: &LifecycleSource, overrides: &Overrides) -> Lifecycle {
        self.word(&source.lifecycle, "a lifecycle's id");
        self.declare_roles(&source.roles);
        self.declare_settings(&source.settings, overrides);
        self.declare_fields(&source.fields);
        self.declare_counters(&source.counters);
        self.standard_fields();
        self.declare_states(&source.states);
        // More states have been reported already, and their numbers would not fit.
        let declared = source.states.0.iter().take(limits::LIFECYCLE_STATES);
        let mut states: Vec<State> =
            declared.map(|(name, state)| self.state(name, state)).collect();
        let counters =
            source.counters.0.iter().map(|(name, counter)| self.counter(name, counter)).collect();
        let initial = self.state_named(&source.initial).unwrap_or(StateId(0));
        let transitions = rows::spell_out(self, source, &states);
        if self.problems.is_empty() {
            self.roles_are_used(&source.roles, &transitions);
        }
        rows::finish_states(&mut states, &transitions);
        for (name, field) in &mut self.names.fields {
            let known = Field::named(name).filter(|_| !source.legacy);
            field.whole = known.is_some_and(|known| known.counts_in(source.purpose.value));
        }
        Lifecycle {
            id: source.lifecycle.value.clone(),
            purpose: source.purpose.value,
            version: version(self.text, overrides),
            about: source.about.trim().to_owned(),
            initial,
            roles: self.roles.clone(),
            settings: self.names.settings(),
            fields: self.names.fields.clone(),
            counters,
            states,
            transitions,
            legacy: source.legacy,
            line: place(&source.purpose).0,
        }
    }

    /// A role that no transition names is a typing mistake.
    fn roles_are_used(&mut self, declared: &[Name], transitions: &[Transition]) {
        for role in declared {
            let id = self.role_named(role);
            if !transitions.iter().any(|row| row.roles.iter().any(|by| Some(*by) == id)) {
                let message = format!("no transition names the role `{}`", role.value);
                self.problem(role, message, "name it in some `by`, or remove it from `roles`");
            }
        }
    }

    pub(super) fn problem<T>(
        &mut self,
        at: &Spanned<T>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.problems.push(problem_at(at, message, help));
    }

    /// A name that people type: letters, digits, `_` and `-`.
    pub(super) fn word(&mut self, name: &Name, what: &str) {
        if !is_word(&name.value) {
            self.problem(name, format!("`{}` cannot be {what}", clip(&name.value)), WORD);
        }
    }

    pub(super) fn requirement(
        &mut self,
        source: &Spanned<RequirementSource>,
        state: &str,
        scope: ExprScope,
    ) -> Option<Requirement> {
        let (field, that, message) = match &source.value {
            RequirementSource::Text(name) => (yaml::at(source, name), None, None),
            RequirementSource::Full(full) => {
                (full.field.clone(), full.that.as_ref(), full.message.as_ref())
            }
        };
        let path: Vec<String> = field.value.split('.').map(str::to_owned).collect();
        let known = self.expression(&field, scope)?;
        let that = match that {
            Some(that) => self.guard(that, scope)?,
            None if known.1 == Type::Flag => known.0,
            None => Expr::is_set(path),
        };
        let message =
            message.cloned().unwrap_or_else(|| format!("{} required for {state}", field.value));
        Some(Requirement { field: field.value, that, message })
    }

    /// An expression that is true or false.
    pub(super) fn guard(&mut self, text: &Name, scope: ExprScope) -> Option<Expr> {
        let (expr, kind) = self.expression(text, scope)?;
        if kind == Type::Flag {
            return Some(expr);
        }
        let message = format!("this is {}, but it must be true or false", kind.describe());
        self.problem(text, message, "compare it with something, or write `set(…)`");
        None
    }

    fn expression(&mut self, text: &Name, scope: ExprScope) -> Option<(Expr, Type)> {
        match Expr::check(&text.value, &NamesFor { names: &self.names, scope }) {
            Ok(checked) => Some(checked),
            Err(error) => {
                let (line, column) = place(text);
                let quoted = self.char_at(line, column).is_some_and(|c| c == '"' || c == '\'');
                let inside =
                    text.value.get(..error.offset).map_or(0, |before| before.chars().count());
                let column = column + u32::from(quoted) + u32::try_from(inside).unwrap_or(0);
                self.problems.push(Problem { line, column, message: error.message, help: None });
                None
            }
        }
    }

    fn char_at(&self, line: u32, column: u32) -> Option<char> {
        let text = self.text.lines().nth(line.checked_sub(1)? as usize)?;
        text.chars().nth(column.checked_sub(1)? as usize)
    }

    pub(super) fn literals(&mut self, entries: &Entries<Value>) -> BTreeMap<String, Value> {
        let mut literals = BTreeMap::new();
        for (name, value) in &entries.0 {
            if let Some(field) = self.field(name)
                && let Err(message) = field.accepts(value)
            {
                self.problem(name, format!("`{}`: {message}", name.value), "");
            }
            literals.insert(name.value.clone(), value.clone());
        }
        literals
    }

    pub(super) fn computed(&mut self, entries: &Entries<Name>) -> BTreeMap<String, Expr> {
        let mut computed = BTreeMap::new();
        for (name, text) in &entries.0 {
            let declared = self.field(name);
            let Some((expr, kind)) = self.expression(text, ExprScope::Transition) else {
                continue;
            };
            if let Some(declared) = declared
                && !fits(&declared.kind, &kind)
            {
                let (is, given) = (declared.kind.describe(), kind.describe());
                let message = format!("`{}` is {is}, but this is {given}", name.value);
                self.problem(text, message, "");
            }
            computed.insert(name.value.clone(), expr);
        }
        computed
    }

    pub(super) fn field(&mut self, name: &Name) -> Option<FieldDecl> {
        let found = self.names.fields.get(&name.value).cloned();
        if found.is_none() {
            let help = suggestion(&name.value, self.names.fields.keys().map(String::as_str));
            self.problem(name, format!("the field `{}` is not declared", clip(&name.value)), help);
        }
        found
    }

    pub(super) fn span(&mut self, text: &Name) -> Option<Span> {
        let (message, help) = match self.names.setting(&text.value) {
            Some(Setting::Time(span)) => return Some(*span),
            Some(Setting::Number(_) | Setting::Flag(_) | Setting::Text(_)) => {
                let message = format!("the setting `{}` is not a duration", text.value);
                (message, "give it a value such as 7d")
            }
            None => match text.value.parse::<Span>() {
                Ok(span) => return Some(span),
                Err(error) => (error.to_string(), "or write the name of a duration setting"),
            },
        };
        self.problem(text, message, help);
        None
    }

    pub(super) fn state_named(&mut self, name: &Name) -> Option<StateId> {
        self.position("state", name, |checker| &checker.state_names).map(StateId)
    }

    pub(super) fn role_named(&mut self, name: &Name) -> Option<RoleId> {
        self.position("role", name, |checker| &checker.roles).map(RoleId)
    }

    pub(super) fn counter_named(&mut self, name: &Name) -> Option<CounterId> {
        self.position("counter", name, |checker| &checker.names.counters).map(CounterId)
    }

    fn position(
        &mut self,
        what: &str,
        name: &Name,
        list: impl Fn(&Self) -> &Vec<String>,
    ) -> Option<u16> {
        let known = list(self);
        let Some(found) = known.iter().position(|known| *known == name.value) else {
            let help = suggestion(&name.value, known.iter().map(String::as_str));
            self.problem(name, format!("there is no {what} `{}`", clip(&name.value)), help);
            return None;
        };
        u16::try_from(found).ok()
    }
}

/// Whether a computed value may go into a field. A text goes into a closed list of words only by
/// `set`.
fn fits(declared: &Type, computed: &Type) -> bool {
    match (declared, computed) {
        (Type::Any, _) | (_, Type::Any) | (Type::Text, Type::OneOf(_)) => true,
        (Type::Record(_), Type::Record(_)) | (Type::Texts, Type::List) => true,
        (declared, computed) => declared == computed,
    }
}

pub(super) fn is_word(text: &str) -> bool {
    let mut chars = text.chars();
    text.len() <= limits::NAME_BYTES
        && chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
