//! Evaluates a checked expression. Evaluation is total: values that do not fit become null, and
//! null never holds.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use super::parse::Operator;
use super::shape::{is_present, number_value};
use super::{Additive, CheckedExpr, Elements, Env, MAX_JOINED_BYTES, ResolvedName, Sameness};
use crate::time::{Instant, Span};

pub(super) fn eval<'a>(node: &'a CheckedExpr, env: &'a dyn Env) -> Cow<'a, Value> {
    match node {
        CheckedExpr::Literal(value) | CheckedExpr::Name(ResolvedName::Constant(value)) => {
            Cow::Borrowed(value)
        }
        CheckedExpr::Name(name) => env.value(name),
        CheckedExpr::List(items) => {
            owned(items.iter().map(|item| eval(item, env).into_owned()).collect::<Vec<_>>())
        }
        CheckedExpr::Not(inner) => owned(!holds(inner, env)),
        CheckedExpr::All(parts) => owned(parts.iter().all(|part| holds(part, env))),
        CheckedExpr::Any(parts) => owned(parts.iter().any(|part| holds(part, env))),
        CheckedExpr::Compare { operator, same, left, right } => {
            owned(compare(*operator, *same, &eval(left, env), &eval(right, env)))
        }
        CheckedExpr::Sum { first, rest } => {
            rest.iter().fold(eval(first, env), |so_far, (how, part)| {
                Cow::Owned(combine(*how, &so_far, &eval(part, env)))
            })
        }
        CheckedExpr::IsSet(inner) => owned(is_present(&eval(inner, env))),
        CheckedExpr::Count(inner) => owned(count(&eval(inner, env))),
        CheckedExpr::Has { elements, list, member, value, same } => {
            let (list, value) = (eval(list, env), eval(value, env));
            let fits =
                |item: &Value| item.is_object() && is_same(*same, &item[member.as_str()], &value);
            let items = list.as_array().map_or(&[][..], Vec::as_slice);
            owned(match elements {
                Elements::Some => items.iter().any(fits),
                Elements::All => !items.is_empty() && items.iter().all(fits),
            })
        }
    }
}

fn owned<'a>(value: impl Into<Value>) -> Cow<'a, Value> {
    Cow::Owned(value.into())
}

pub(super) fn holds(node: &CheckedExpr, env: &dyn Env) -> bool {
    matches!(*eval(node, env), Value::Bool(true))
}

fn compare(operator: Operator, same: Sameness, left: &Value, right: &Value) -> bool {
    match operator {
        Operator::Equal => is_same(same, left, right),
        Operator::NotEqual => !is_same(same, left, right),
        Operator::Less => order(left, right).is_some_and(Ordering::is_lt),
        Operator::LessOrEqual => order(left, right).is_some_and(Ordering::is_le),
        Operator::Greater => order(left, right).is_some_and(Ordering::is_gt),
        Operator::GreaterOrEqual => order(left, right).is_some_and(Ordering::is_ge),
        Operator::In => {
            right.as_array().is_some_and(|items| items.iter().any(|item| is_same(same, left, item)))
        }
    }
}

/// The order of two numbers or of two times; other values have none.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        (Value::String(_), Value::String(_)) => Some(instant(left)?.cmp(&instant(right)?)),
        _ => None,
    }
}

fn is_same(same: Sameness, left: &Value, right: &Value) -> bool {
    match same {
        Sameness::Value => equal(left, right),
        Sameness::Instant => match (instant(left), instant(right)) {
            (Some(left), Some(right)) => left == right,
            (None | Some(_), None) | (None, Some(_)) => equal(left, right),
        },
    }
}

/// Equality in which `1` equals `1.0`. The nesting of the JSON that was read limits the recursion.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let same_member =
                |(name, value)| right.get(name).is_some_and(|other| equal(value, other));
            left.len() == right.len() && left.iter().all(same_member)
        }
        (left, right) => left == right,
    }
}

fn instant(value: &Value) -> Option<Instant> {
    value.as_str()?.parse().ok()
}

fn combine(how: Additive, left: &Value, right: &Value) -> Value {
    match how {
        Additive::Add => on_numbers(left, right, |left, right| left + right),
        Additive::Subtract => on_numbers(left, right, |left, right| left - right),
        Additive::Join => join(left, right),
        Additive::Later => later(left, right),
        Additive::AddOrJoin if left.is_string() || right.is_string() => join(left, right),
        Additive::AddOrJoin => on_numbers(left, right, |left, right| left + right),
    }
}

fn on_numbers(left: &Value, right: &Value, operation: fn(f64, f64) -> f64) -> Value {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => number_value(operation(left, right)),
        (None | Some(_), None) | (None, Some(_)) => Value::Null,
    }
}

/// A span is a number of milliseconds.
fn later(time: &Value, span: &Value) -> Value {
    let span = span.as_i64().map(Span);
    let later = instant(time).zip(span).map(|(time, span)| time.plus(span));
    later.map_or(Value::Null, |time| Value::String(time.to_string()))
}

fn join(left: &Value, right: &Value) -> Value {
    let mut joined = text(left).into_owned();
    joined.push_str(&text(right));
    joined.truncate(joined.floor_char_boundary(MAX_JOINED_BYTES));
    Value::String(joined)
}

fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Cow::Owned(value.to_string())
        }
    }
}

/// How many elements of a list are set, or the length of a text (in characters) or a record; 0 for
/// other values.
fn count(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.iter().filter(|item| is_present(item)).count(),
        Value::Object(members) => members.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
