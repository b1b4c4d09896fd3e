//! Resolves the names of an expression and proves its types. A checked expression has, in every
//! environment, a value of the returned type, or null.
//!
//! `any` fits everywhere: its type is only known when the expression is evaluated.

use std::collections::BTreeMap;

use serde_json::Value;

use super::parse::{Form, Operator, Sign, Syntax};
use super::shape::shortened;
use super::{Additive, CheckedExpr, Elements, ExprError, NameScope, ResolvedName, Sameness, Type};
use crate::time::Instant;

/// An expression and its type, or why it has none.
type Checked<T = (CheckedExpr, Type)> = Result<T, ExprError>;

/// Records with different members are one type here.
const RECORD: Type = Type::Record(BTreeMap::new());

pub(super) fn check(syntax: &Syntax, scope: &dyn NameScope) -> Checked {
    let offset = syntax.offset;
    match &syntax.form {
        Form::Literal(value) => Ok((CheckedExpr::Literal(value.clone()), literal_type(value))),
        Form::Path(path) => name(path, offset, scope),
        Form::List(items) => {
            let nodes = items.iter().map(|item| Ok(check(item, scope)?.0));
            Ok((CheckedExpr::List(nodes.collect::<Result<_, ExprError>>()?), Type::List))
        }
        Form::Not(inner) => {
            Ok((CheckedExpr::Not(Box::new(flag(inner, "not", scope)?)), Type::Flag))
        }
        Form::And(parts) => Ok((CheckedExpr::All(flags(parts, "and", scope)?), Type::Flag)),
        Form::Or(parts) => Ok((CheckedExpr::Any(flags(parts, "or", scope)?), Type::Flag)),
        Form::Compare { operator, left, right } => {
            Ok((comparison(*operator, left, right, scope)?, Type::Flag))
        }
        Form::Sum { first, rest } => sum(first, rest, scope),
        Form::Call { function, arguments } => call(function, arguments, offset, scope),
    }
}

fn literal_type(value: &Value) -> Type {
    match value {
        Value::Null => Type::Any,
        Value::Bool(_) => Type::Flag,
        Value::Number(_) => Type::Number,
        Value::String(_) => Type::Text,
        Value::Array(_) => Type::List,
        Value::Object(_) => RECORD,
    }
}

fn name(path: &str, offset: usize, scope: &dyn NameScope) -> Checked {
    let parts: Vec<&str> = path.split('.').collect();
    let resolved = scope.resolve(&parts);
    let (name, value_type) = resolved.map_err(|message| ExprError::new(offset, message))?;
    Ok((CheckedExpr::Name(name), value_type))
}

fn flags(parts: &[Syntax], word: &str, scope: &dyn NameScope) -> Checked<Vec<CheckedExpr>> {
    parts.iter().map(|part| flag(part, word, scope)).collect()
}

fn flag(syntax: &Syntax, word: &str, scope: &dyn NameScope) -> Checked<CheckedExpr> {
    let operand = Operand::check(syntax, scope)?;
    if is_one_of(&operand, &[Type::Flag]) {
        return Ok(operand.node);
    }
    let needs = format!("`{word}` needs something true or false");
    operand.unfit(&needs, "; write `set(…)` or compare it")
}

/// An operand whose type is known.
struct Operand {
    offset: usize,
    node: CheckedExpr,
    value_type: Type,
}

impl Operand {
    fn check(syntax: &Syntax, scope: &dyn NameScope) -> Checked<Self> {
        let (node, value_type) = check(syntax, scope)?;
        Ok(Self { offset: syntax.offset, node, value_type })
    }

    /// Its type, as far as operators distinguish types.
    fn family(&self) -> Type {
        match &self.value_type {
            Type::OneOf(_) => Type::Text,
            Type::Texts => Type::List,
            Type::Record(_) => RECORD,
            other => other.clone(),
        }
    }

    /// The text of a literal, or of a setting, which is just as constant.
    fn fixed_text(&self) -> Option<&str> {
        let (CheckedExpr::Literal(Value::String(text))
        | CheckedExpr::Name(ResolvedName::Constant(Value::String(text)))) = &self.node
        else {
            return None;
        };
        Some(text)
    }

    fn is_null(&self) -> bool {
        matches!(self.node, CheckedExpr::Literal(Value::Null))
    }

    /// Whether it can be compared with a time: it is a time, or a constant text that reads as one.
    fn fits_time(&self) -> bool {
        self.family() == Type::Time
            || self.fixed_text().is_some_and(|text| text.parse::<Instant>().is_ok())
    }

    fn refuse<T>(&self, message: String) -> Checked<T> {
        Err(ExprError::new(self.offset, message))
    }

    /// Refuses a value of its type.
    fn unfit<T>(&self, needs: &str, advice: &str) -> Checked<T> {
        self.refuse(format!("{needs}, and this is {}{advice}", self.value_type.describe()))
    }
}

fn comparison(
    operator: Operator,
    left: &Syntax,
    right: &Syntax,
    scope: &dyn NameScope,
) -> Checked<CheckedExpr> {
    let left = Operand::check(left, scope)?;
    let (same, right) = match operator {
        Operator::In => membership(&left, right, scope)?,
        Operator::Equal | Operator::NotEqual => {
            let right = Operand::check(right, scope)?;
            (sameness(&left, &right)?, right.node)
        }
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            (Sameness::Value, ordered(&left, right, scope)?)
        }
    };
    Ok(CheckedExpr::Compare { operator, same, left: Box::new(left.node), right: Box::new(right) })
}

/// How two operands are compared for equality, or why they can never be equal.
fn sameness(left: &Operand, right: &Operand) -> Checked<Sameness> {
    check_word(left, right)?;
    check_word(right, left)?;
    let families = [left.family(), right.family()];
    let timed = families.contains(&Type::Time);
    let fits_time = timed && left.fits_time() && right.fits_time();
    if fits_time || families[0] == families[1] || families.contains(&Type::Any) {
        return Ok(if timed { Sameness::Instant } else { Sameness::Value });
    }
    let advice = if timed {
        "; a time is written as '2024-02-12T10:40:00Z'"
    } else {
        "; compare values of one type"
    };
    let (left_type, right_type) = (left.value_type.describe(), right.value_type.describe());
    right.refuse(format!("this is {right_type} and can never equal {left_type}{advice}"))
}

/// A constant text that is compared with a choice of words must be one of them.
fn check_word(choice: &Operand, literal: &Operand) -> Checked<()> {
    let (Type::OneOf(words), Some(text)) = (&choice.value_type, literal.fixed_text()) else {
        return Ok(());
    };
    if words.iter().any(|word| word == text) {
        return Ok(());
    }
    literal.refuse(format!("`{}` is not {}", shortened(text), choice.value_type.describe()))
}

fn membership(
    left: &Operand,
    right: &Syntax,
    scope: &dyn NameScope,
) -> Checked<(Sameness, CheckedExpr)> {
    let timed = left.family() == Type::Time;
    let same = if timed { Sameness::Instant } else { Sameness::Value };
    if let Form::List(items) = &right.form {
        let mut nodes = Vec::with_capacity(items.len());
        for item in items {
            let item = Operand::check(item, scope)?;
            sameness(left, &item)?;
            nodes.push(item.node);
        }
        return Ok((same, CheckedExpr::List(nodes)));
    }
    let right = Operand::check(right, scope)?;
    if is_one_of(&right, &[Type::List]) {
        return Ok((same, right.node));
    }
    right.unfit("`in` needs a list on its right, such as ['a', 'b']", "")
}

/// The right side of an order comparison: both are numbers, or both are times.
fn ordered(left: &Operand, right: &Syntax, scope: &dyn NameScope) -> Checked<CheckedExpr> {
    let right = Operand::check(right, scope)?;
    for side in [left, &right] {
        if side.is_null() {
            return side.refuse("nothing comes before or after null; write `set(…)`".to_owned());
        }
        if !is_one_of(side, &[Type::Number, Type::Time]) && !side.fits_time() {
            let advice = if side.family() == Type::Span {
                "; write `now + …` to add it to a time"
            } else {
                "; compare two numbers or two times"
            };
            return side.unfit("only numbers and times have an order", advice);
        }
    }
    let one_is_any = left.family() == Type::Any || right.family() == Type::Any;
    if one_is_any || left.family() == right.family() || (left.fits_time() && right.fits_time()) {
        return Ok(right.node);
    }
    let message = format!(
        "this is {}, and it is compared with {}",
        right.value_type.describe(),
        left.value_type.describe()
    );
    right.refuse(format!("{message}; compare two numbers or two times"))
}

fn is_one_of(operand: &Operand, families: &[Type]) -> bool {
    operand.family() == Type::Any || families.contains(&operand.family())
}

fn sum(first: &Syntax, rest: &[(Sign, Syntax)], scope: &dyn NameScope) -> Checked {
    let first = Operand::check(first, scope)?;
    let mut parts = Vec::with_capacity(rest.len());
    let mut so_far = Operand {
        offset: first.offset,
        node: CheckedExpr::Literal(Value::Null),
        value_type: first.value_type,
    };
    for (sign, part) in rest {
        let part = Operand::check(part, scope)?;
        let (how, value_type) = match sign {
            Sign::Plus => plus(&so_far, &part)?,
            Sign::Minus => minus(&so_far, &part)?,
        };
        parts.push((how, part.node));
        so_far.value_type = value_type;
    }
    Ok((CheckedExpr::Sum { first: Box::new(first.node), rest: parts }, so_far.value_type))
}

fn plus(left: &Operand, right: &Operand) -> Checked<(Additive, Type)> {
    for side in [left, right] {
        if [Type::List, RECORD].contains(&side.family()) {
            return side.unfit("`+` adds numbers and joins text", "; perhaps `count(…)`?");
        }
    }
    match (left.family(), right.family()) {
        (Type::Time, Type::Span) => Ok((Additive::Later, Type::Time)),
        (Type::Text, _) | (_, Type::Text) => Ok((Additive::Join, Type::Text)),
        (Type::Number, Type::Number) => Ok((Additive::Add, Type::Number)),
        (Type::Any, _) | (_, Type::Any) => Ok((Additive::AddOrJoin, Type::Any)),
        (_, _) => {
            let (left_type, right_type) = (left.value_type.describe(), right.value_type.describe());
            right.refuse(format!(
                "`+` cannot add {left_type} and {right_type}; to join them as text begin with `'' + …`"
            ))
        }
    }
}

fn minus(left: &Operand, right: &Operand) -> Checked<(Additive, Type)> {
    for side in [left, right] {
        if !is_one_of(side, &[Type::Number]) {
            return side.unfit("`-` takes a number from a number", "");
        }
    }
    Ok((Additive::Subtract, Type::Number))
}

fn call(function: &str, arguments: &[Syntax], offset: usize, scope: &dyn NameScope) -> Checked {
    match (function, arguments) {
        ("set", [value]) => Ok((CheckedExpr::IsSet(Box::new(check(value, scope)?.0)), Type::Flag)),
        ("count", [value]) => count(value, scope),
        ("has", [list, member, value]) => has(Elements::Some, [list, member, value], scope),
        ("every", [list, member, value]) => has(Elements::All, [list, member, value], scope),
        ("set" | "count", _) => {
            Err(ExprError::new(offset, format!("`{function}` takes one value: `{function}(x)`")))
        }
        ("has" | "every", _) => Err(ExprError::new(
            offset,
            format!("`{function}` takes three values: `{function}(list, 'member', value)`"),
        )),
        (unknown, _) => {
            let known = "the functions are set(x), count(x), has(list, 'member', value) and every(list, 'member', value)";
            let message = format!("there is no function `{}`; {known}", shortened(unknown));
            Err(ExprError::new(offset, message))
        }
    }
}

fn count(value: &Syntax, scope: &dyn NameScope) -> Checked {
    let value = Operand::check(value, scope)?;
    if !is_one_of(&value, &[Type::List, Type::Text, RECORD]) {
        return value.unfit("`count` needs a list, text or a record", "");
    }
    Ok((CheckedExpr::Count(Box::new(value.node)), Type::Number))
}

fn has(elements: Elements, [list, member, value]: [&Syntax; 3], scope: &dyn NameScope) -> Checked {
    let list = Operand::check(list, scope)?;
    if !is_one_of(&list, &[Type::List]) {
        let function = if elements == Elements::Some { "has" } else { "every" };
        return list.unfit(&format!("`{function}` looks into a list of records"), "");
    }
    let Form::Literal(Value::String(member)) = &member.form else {
        let message = "the member's name is written as text: `has(list, 'member', value)`";
        return Err(ExprError::new(member.offset, message));
    };
    let value = Operand::check(value, scope)?;
    let same = if value.family() == Type::Time { Sameness::Instant } else { Sameness::Value };
    let (list, member, value) = (Box::new(list.node), member.clone(), Box::new(value.node));
    Ok((CheckedExpr::Has { elements, list, member, value, same }, Type::Flag))
}
