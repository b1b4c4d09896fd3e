//! Whatever is written: it is checked or refused, never a panic, and has the type that was proven.

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Answers every name with the same value, whatever its type promised.
struct Everywhere(Value);

impl Env for Everywhere {
    fn value(&self, _name: &ResolvedName) -> Cow<'_, Value> {
        Cow::Borrowed(&self.0)
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        Just(json!("2024-02-12T12:00:00Z")),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("(id|at|x)", inner, 0..3)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

/// Expressions that keep the grammar, so that many of them pass the check.
fn any_expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "text",
        "number",
        "flag",
        "noon",
        "later",
        "list",
        "records",
        "plan",
        "any_number",
        "any_text",
        "complexity",
        "rounds",
        "max_rounds",
        "actor.role",
        "now",
        "tags",
        "spent.totalCost",
        "outcome",
        "'a'",
        "'2024-02-12T12:00:00Z'",
        "1",
        "-2.5",
        "true",
        "null",
        "[]",
    ]);
    let leaf = leaf.prop_map(str::to_owned);
    let operator =
        prop::sample::select(vec!["or", "and", "==", "!=", "<", "<=", ">", ">=", "in", "+", "-"]);
    leaf.prop_recursive(4, 24, 3, move |inner| {
        prop_oneof![
            4 => (inner.clone(), operator.clone(), inner.clone())
                .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
            1 => inner.clone().prop_map(|value| format!("not {value}")),
            1 => inner.clone().prop_map(|value| format!("set({value})")),
            1 => inner.clone().prop_map(|value| format!("count({value})")),
            1 => (inner.clone(), inner.clone())
                .prop_map(|(list, value)| format!("has({list}, 'id', {value})")),
            1 => prop::collection::vec(inner, 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
        ]
    })
}

fn any_tokens() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "or",
        "and",
        "not",
        "in",
        "true",
        "null",
        "text",
        "flag",
        "plan.bullets",
        "set",
        "count",
        "has",
        "'a'",
        "'",
        "1",
        "1.5",
        ".",
        "==",
        "!=",
        "<",
        "<=",
        "+",
        "-",
        "(",
        ")",
        "[",
        "]",
        ",",
        "ö",
        "=",
    ]);
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.join(" "))
}

/// Checks a text; what passes must have a value of the type that was proven, or none.
fn exercise(text: &str, value: Value) -> Result<(), TestCaseError> {
    match Expr::check(text, &World) {
        Err(error) => {
            prop_assert!(text.is_char_boundary(error.offset), "{} in {text}", error.offset);
        }
        Ok((expr, value_type)) => {
            let own = expr.eval(&World);
            prop_assert_eq!(value_type.accepts(&own), Ok(()), "{} gave {}", text, own);
            let env = Everywhere(value);
            let held = expr.eval(&env) == Value::Bool(true);
            prop_assert_eq!(expr.holds(&env), held);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_checked_or_refused(text in "\\PC{0,60}", value in any_value()) {
        exercise(&text, value)?;
    }

    #[test]
    fn any_tokens_are_checked_or_refused(text in any_tokens(), value in any_value()) {
        exercise(&text, value)?;
    }

    #[test]
    fn what_is_checked_evaluates_everywhere(text in any_expression(), value in any_value()) {
        exercise(&text, value)?;
    }
}
