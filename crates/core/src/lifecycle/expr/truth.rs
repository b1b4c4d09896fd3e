//! What is known about a condition before there is a task.

use std::borrow::Cow;

use serde_json::Value;

use super::{CheckedExpr, Env, ResolvedName, eval, is_present};

/// The known values of names; any other name may have every value of its type.
pub trait KnownValues {
    fn value<'a>(&'a self, name: &'a ResolvedName) -> Option<&'a Value>;

    /// Whether a name has a value, which may be known when the value is not.
    fn is_set(&self, name: &ResolvedName) -> Option<bool> {
        self.value(name).map(is_present)
    }
}

/// An environment for expressions that use only known values.
struct KnownOnly<'a>(&'a dyn KnownValues);

impl Env for KnownOnly<'_> {
    fn value(&self, name: &ResolvedName) -> Cow<'_, Value> {
        Cow::Owned(self.0.value(name).cloned().unwrap_or_default())
    }
}

/// Whether an expression holds; none if that depends on unknown values.
pub(super) fn truth(node: &CheckedExpr, known: &dyn KnownValues) -> Option<bool> {
    let all = |parts: &[CheckedExpr], wanted: bool| {
        let mut truths = parts.iter().map(|part| truth(part, known));
        // One decisive operand is enough, whatever the others are.
        if truths.clone().any(|truth| truth == Some(!wanted)) {
            return Some(!wanted);
        }
        truths.all(|truth| truth == Some(wanted)).then_some(wanted)
    };
    match node {
        CheckedExpr::Not(inner) => truth(inner, known).map(|truth| !truth),
        CheckedExpr::All(parts) => all(parts, true),
        CheckedExpr::Any(parts) => all(parts, false),
        CheckedExpr::IsSet(inner) if inner.name().is_some() => {
            inner.name().and_then(|name| known.is_set(name))
        }
        CheckedExpr::Literal(_)
        | CheckedExpr::Name(_)
        | CheckedExpr::List(_)
        | CheckedExpr::Compare { .. }
        | CheckedExpr::Sum { .. }
        | CheckedExpr::IsSet(_)
        | CheckedExpr::Count(_)
        | CheckedExpr::Has { .. } => {
            let mut nodes = Vec::new();
            node.collect(&mut nodes);
            let mut names = nodes.into_iter().filter_map(CheckedExpr::name);
            let is_known = names.all(|name| known.value(name).is_some());
            is_known.then(|| eval::holds(node, &KnownOnly(known)))
        }
    }
}
