//! The guard language: small, pure and total.
//!
//! A text becomes an [`Expr`] only by [`Expr::check`]: `lex` splits it into tokens, `parse` builds
//! the syntax, `typing` resolves every name through a [`NameScope`] and proves the types. A checked
//! expression has a value in every environment: it never fails, loops or panics when a task moves.
//! Nothing here reads the clock or a task; both are passed in through [`Env`].

mod eval;
mod lex;
mod parse;
mod shape;
#[cfg(test)]
mod tests;
mod truth;
mod typing;

use std::borrow::Cow;

/// The value of a field or of an expression. It is JSON, as history records store it.
pub use serde_json::Value;

use super::CounterId;
use parse::Operator;

pub(super) use shape::number_value;
pub use shape::{Type, is_present};
pub use truth::KnownValues;

/// The fields of a task, or some of them, by name.
pub type Fields = serde_json::Map<String, Value>;

/// Longest text of an expression, in bytes. A guard that needs more should be several guards.
pub const MAX_BYTES: usize = 2_000;

/// Deepest nesting of parentheses, lists, calls and `not`. It bounds every recursion over the tree.
pub const MAX_DEPTH: usize = 32;

/// Longest text that `+` makes, in bytes. What is longer is cut: a field holds a message, not a
/// log.
pub const MAX_JOINED_BYTES: usize = 64 * 1024;

/// A record of the program as the value of a field.
pub fn value_of(record: &impl serde::Serialize) -> Value {
    serde_json::to_value(record).expect("records of the program are plain data")
}

/// What is wrong with an expression, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    /// Byte in the text of the expression.
    pub offset: usize,
    pub message: String,
}

impl ExprError {
    fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into() }
    }
}

/// The names that an expression may use.
pub trait NameScope {
    /// Resolves a dotted path. The message of an error is shown as it is, so it should say which
    /// names there are.
    fn resolve(&self, path: &[&str]) -> Result<(ResolvedName, Type), String>;
}

/// A name that was resolved.
#[derive(Debug, Clone, PartialEq)]
pub enum ResolvedName {
    /// A field of the task, or a member of a record field.
    Field(Vec<String>),
    Counter(CounterId),
    /// A setting: its value is part of the checked lifecycle.
    Constant(Value),
    ActorRole,
    ActorName,
    Now,
    Title,
    Tags,
    Priority,
    /// All that was spent as a record, or one of its members.
    Spent(Option<String>),
    /// How the activity that caused the move ended; null when none did.
    Outcome,
    Detail,
}

impl ResolvedName {
    /// The path of a field, if it is one.
    pub fn field(&self) -> Option<&[String]> {
        if let Self::Field(path) = self { Some(path) } else { None }
    }

    /// The value of a setting, if it is one.
    pub fn constant(&self) -> Option<&Value> {
        if let Self::Constant(value) = self { Some(value) } else { None }
    }
}

/// The values of the names at one moment. A value that is missing is null.
pub trait Env {
    fn value(&self, name: &ResolvedName) -> Cow<'_, Value>;
}

/// An expression whose names and types were checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    root: CheckedExpr,
}

impl Expr {
    /// Parses a text, resolves its names and proves its types.
    pub fn check(text: &str, scope: &dyn NameScope) -> Result<(Self, Type), ExprError> {
        let syntax = parse::parse(text)?;
        let (root, value_type) = typing::check(&syntax, scope)?;
        Ok((Self { root }, value_type))
    }

    /// `set(field)`, as a requirement that names only a field means it.
    pub fn is_set(path: Vec<String>) -> Self {
        Self { root: CheckedExpr::IsSet(Box::new(CheckedExpr::Name(ResolvedName::Field(path)))) }
    }

    pub fn eval(&self, env: &dyn Env) -> Value {
        eval::eval(&self.root, env).into_owned()
    }

    /// Whether it evaluates to true. Null and values of other types do not hold.
    pub fn holds(&self, env: &dyn Env) -> bool {
        matches!(*eval::eval(&self.root, env), Value::Bool(true))
    }

    /// Whether it holds as far as some values are known; none if that depends on others.
    pub fn truth(&self, known: &dyn KnownValues) -> Option<bool> {
        truth::truth(&self.root, known)
    }

    /// Every name that it uses, as often as it does.
    pub fn names(&self) -> impl Iterator<Item = &ResolvedName> {
        self.nodes().into_iter().filter_map(CheckedExpr::name)
    }

    /// The names that it compares with a text that is written out, by themselves or as a part of
    /// what is compared.
    pub fn names_compared_with_text(&self) -> Vec<&ResolvedName> {
        self.nodes().into_iter().flat_map(CheckedExpr::compared_with_text).collect()
    }

    /// The numbers that it compares names with. None if it adds, subtracts or compares two names:
    /// then a few numbers do not stand for all.
    pub fn thresholds(&self) -> Option<Vec<f64>> {
        let nodes = self.nodes();
        let is_simple = !nodes.iter().any(|node| node.calculates());
        let literals = nodes.iter().filter_map(|node| node.literal());
        is_simple.then(|| literals.filter_map(Value::as_f64).collect())
    }

    /// All nodes, in the order of the text.
    fn nodes(&self) -> Vec<&CheckedExpr> {
        let mut nodes = Vec::new();
        self.root.collect(&mut nodes);
        nodes
    }

    /// The path of the field when the expression is exactly `set(field)`.
    pub fn as_set(&self) -> Option<&[String]> {
        let CheckedExpr::IsSet(inner) = &self.root else {
            return None;
        };
        let CheckedExpr::Name(ResolvedName::Field(path)) = &**inner else {
            return None;
        };
        Some(path)
    }
}

/// The checked tree.
#[derive(Debug, Clone, PartialEq)]
enum CheckedExpr {
    Literal(Value),
    Name(ResolvedName),
    List(Vec<CheckedExpr>),
    Not(Box<CheckedExpr>),
    All(Vec<CheckedExpr>),
    Any(Vec<CheckedExpr>),
    /// An order needs no `same`.
    Compare {
        operator: Operator,
        same: Sameness,
        left: Box<CheckedExpr>,
        right: Box<CheckedExpr>,
    },
    Sum {
        first: Box<CheckedExpr>,
        rest: Vec<(Additive, CheckedExpr)>,
    },
    IsSet(Box<CheckedExpr>),
    Count(Box<CheckedExpr>),
    Has {
        elements: Elements,
        list: Box<CheckedExpr>,
        member: String,
        value: Box<CheckedExpr>,
        same: Sameness,
    },
}

/// How many elements of a list must have the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Elements {
    Some,
    /// At least one, and no other: nothing holds of an empty list.
    All,
}

/// What makes two values equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sameness {
    Value,
    /// Both are times: `12:00+01:00` is `11:00Z`.
    Instant,
}

/// What `+` and `-` do, as far as the types of both sides tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Additive {
    Add,
    Subtract,
    Join,
    /// A time and a span give a time.
    Later,
    /// A side is of type `any`: joins if either value is a text, adds otherwise.
    AddOrJoin,
}

impl CheckedExpr {
    fn name(&self) -> Option<&ResolvedName> {
        if let Self::Name(name) = self { Some(name) } else { None }
    }

    fn compared_with_text(&self) -> Vec<&ResolvedName> {
        let Self::Compare { left, right, .. } = self else { return Vec::new() };
        let mut nodes = Vec::new();
        [left, right].into_iter().for_each(|side| side.collect(&mut nodes));
        let is_written = |node: &&Self| node.literal().is_some_and(Value::is_string);
        let is_with_text = nodes.iter().any(is_written);
        nodes.into_iter().filter(|_| is_with_text).filter_map(Self::name).collect()
    }

    /// Adds the node and all below it.
    fn collect<'a>(&'a self, nodes: &mut Vec<&'a Self>) {
        nodes.push(self);
        match self {
            Self::Literal(_) | Self::Name(_) => {}
            Self::List(parts) | Self::All(parts) | Self::Any(parts) => {
                parts.iter().for_each(|part| part.collect(nodes));
            }
            Self::Not(inner) | Self::IsSet(inner) | Self::Count(inner) => inner.collect(nodes),
            Self::Compare { left, right, .. } | Self::Has { list: left, value: right, .. } => {
                left.collect(nodes);
                right.collect(nodes);
            }
            Self::Sum { first, rest } => {
                first.collect(nodes);
                rest.iter().for_each(|(_, part)| part.collect(nodes));
            }
        }
    }

    /// Whether its value depends on several numbers at once.
    fn calculates(&self) -> bool {
        match self {
            Self::Sum { .. } => true,
            Self::Compare { left, right, .. } => left.name().and(right.name()).is_some(),
            Self::Literal(_)
            | Self::Name(_)
            | Self::List(_)
            | Self::Not(_)
            | Self::All(_)
            | Self::Any(_)
            | Self::IsSet(_)
            | Self::Count(_)
            | Self::Has { .. } => false,
        }
    }

    fn literal(&self) -> Option<&Value> {
        if let Self::Literal(value) = self { Some(value) } else { None }
    }
}
