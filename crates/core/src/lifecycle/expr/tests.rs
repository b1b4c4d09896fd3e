//! What the language means, as tables: values, types, refusals with their places, and that nothing
//! that can be written makes it panic.

use std::borrow::Cow;
use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// One name of every type. `*_missing` has a type and no value.
struct World;

impl Scope for World {
    fn resolve(&self, path: &[&str]) -> Result<(Name, Type), String> {
        let field = || Name::Field(path.iter().map(|part| (*part).to_owned()).collect());
        let plan = BTreeMap::from([("bullets".to_owned(), Type::List)]);
        Ok(match path {
            ["text" | "empty" | "blank" | "stamp" | "text_missing"] => (field(), Type::Text),
            ["number" | "number_missing"] => (field(), Type::Number),
            ["flag"] => (field(), Type::Flag),
            ["noon" | "same_noon" | "later" | "time_missing"] => (field(), Type::Time),
            ["list" | "records" | "times"] => (field(), Type::List),
            ["plan", "bullets"] => (field(), Type::List),
            ["plan"] => (field(), Type::Record(plan)),
            ["any_number" | "any_text" | "any_list" | "any_missing"] => (field(), Type::Any),
            ["complexity"] => (field(), Type::OneOf(vec!["standard".into(), "escalated".into()])),
            ["rounds"] => (Name::Counter(CounterId(0)), Type::Number),
            ["max_rounds"] => (Name::Constant(json!(3)), Type::Number),
            ["default_complexity"] => (Name::Constant(json!("odd")), Type::Text),
            ["actor", "role"] => (Name::ActorRole, Type::Text),
            ["actor", "name"] => (Name::ActorName, Type::Text),
            ["now"] => (Name::Now, Type::Time),
            ["title"] => (Name::Title, Type::Text),
            ["tags"] => (Name::Tags, Type::List),
            ["priority"] => (Name::Priority, Type::Number),
            ["spent", member] => (Name::Spent(Some((*member).to_owned())), Type::Number),
            ["outcome"] => (Name::Outcome, Type::Text),
            ["detail"] => (Name::Detail, Type::Text),
            other => return Err(format!("there is no `{}`", other.join("."))),
        })
    }
}

impl Env for World {
    fn value(&self, name: &Name) -> Cow<'_, Value> {
        let value = match name {
            Name::Field(path) => field_value(&path.join(".")),
            Name::Counter(_) | Name::Priority => json!(2),
            Name::Constant(value) => value.clone(),
            Name::ActorRole => json!("worker"),
            Name::ActorName => json!("ann"),
            Name::Now => json!("2024-02-12T12:00:01Z"),
            Name::Title => json!("Fix it"),
            Name::Tags => json!(["small", "web"]),
            Name::Spent(_) => json!(1.25),
            Name::Outcome | Name::Detail => Value::Null,
        };
        Cow::Owned(value)
    }
}

fn field_value(path: &str) -> Value {
    match path {
        "text" => json!("größe"),
        "empty" => json!(""),
        "blank" => json!(" \n"),
        "stamp" => json!("2024-02-12T13:00:00+01:00"),
        "number" => json!(1.5),
        "flag" => json!(true),
        "noon" => json!("2024-02-12T12:00:00Z"),
        "same_noon" => json!("2024-02-12T13:00:00+01:00"),
        "later" => json!("2024-02-12T12:00:00.5Z"),
        "list" => json!(["a", 1, null]),
        "records" => json!([{ "id": "a", "at": "2024-02-12T12:00:00Z" }, 7, { "id": 1 }]),
        "times" => json!(["2024-02-12T12:00:00Z"]),
        "plan" => json!({ "bullets": ["x"] }),
        "plan.bullets" => json!(["x"]),
        "any_number" => json!(4),
        "any_text" => json!("four"),
        "any_list" => json!([1]),
        "complexity" => json!("escalated"),
        _ => Value::Null,
    }
}

fn checked(text: &str) -> (Expr, Type) {
    match Expr::check(text, &World) {
        Ok(checked) => checked,
        Err(error) => panic!("`{text}` was refused at {}: {error}", error.offset),
    }
}

fn assert_values<const N: usize>(cases: [(&str, Value); N]) {
    for (text, value) in cases {
        assert_eq!(checked(text).0.eval(&World), value, "{text}");
    }
}

#[test]
fn literals_and_names_have_values() {
    assert_values([
        ("'it''s'", json!("it's")),
        ("12", json!(12)),
        ("-1.5", json!(-1.5)),
        ("[1, 'a', [null, true], actor.name]", json!([1, "a", [null, true], "ann"])),
        ("[]", json!([])),
        ("max_rounds", json!(3)),
        ("spent.totalCost", json!(1.25)),
        ("outcome", json!(null)),
        ("detail", json!(null)),
        ("title", json!("Fix it")),
        ("plan.bullets", json!(["x"])),
    ]);
}

#[test]
fn flags_bind_as_usual() {
    assert_values([
        ("true or false and false", json!(true)),
        ("(true or false) and false", json!(false)),
        ("not true or true", json!(true)),
        ("not (true or true)", json!(false)),
        ("not not flag", json!(true)),
        ("not 1 == 2", json!(true)),
        ("any_missing or flag", json!(true)),
        ("any_text and flag", json!(false)),
    ]);
}

#[test]
fn equality_is_of_values_and_instants() {
    assert_values([
        ("number == 1.5", json!(true)),
        ("1 == 1.0", json!(true)),
        ("text != 'größe'", json!(false)),
        ("text_missing == null", json!(true)),
        ("text_missing == ''", json!(false)),
        ("number_missing != 1", json!(true)),
        ("complexity == 'escalated'", json!(true)),
        ("list == ['a', 1.0, null]", json!(true)),
        ("list == ['a', 1]", json!(false)),
        ("noon == same_noon", json!(true)),
        ("noon == '2024-02-12T13:00:00+01:00'", json!(true)),
        ("text == stamp", json!(false)),
        ("'2024-02-12T12:00:00Z' == stamp", json!(false)),
        ("time_missing == null", json!(true)),
        ("any_number == 4", json!(true)),
        ("any_text == 4", json!(false)),
        ("plan == plan", json!(true)),
    ]);
}

#[test]
fn order_is_of_numbers_and_times() {
    assert_values([
        ("rounds < max_rounds", json!(true)),
        ("2 <= rounds", json!(true)),
        ("rounds > 2", json!(false)),
        ("rounds >= 2", json!(true)),
        ("now > later", json!(true)),
        ("same_noon < later", json!(true)),
        ("noon <= same_noon", json!(true)),
        ("noon >= '2024-02-12T12:00:01Z'", json!(false)),
        ("number_missing < 1", json!(false)),
        ("number_missing >= 1", json!(false)),
        ("not number_missing < 1", json!(true)),
        ("now > time_missing", json!(false)),
        ("any_text < 5", json!(false)),
        ("any_number < 5", json!(true)),
    ]);
}

#[test]
fn membership_is_equality_with_an_item() {
    assert_values([
        ("'web' in tags", json!(true)),
        ("'desk' in tags", json!(false)),
        ("actor.role in ['human', 'worker']", json!(true)),
        ("complexity in ['standard']", json!(false)),
        ("noon in [same_noon, null]", json!(true)),
        ("same_noon in times", json!(true)),
        ("null in list", json!(true)),
        ("1 in any_missing", json!(false)),
        ("1.0 in any_list", json!(true)),
    ]);
}

#[test]
fn sums_add_numbers_and_join_text() {
    assert_values([
        ("1 + 2 - 4", json!(-1)),
        ("0.5 + number", json!(2)),
        ("number_missing + 1", json!(null)),
        ("number_missing + 1 < 5", json!(false)),
        ("'round ' + rounds + ' of ' + max_rounds", json!("round 2 of 3")),
        ("'a' + text_missing + 1.5 + true", json!("a1.5true")),
        ("text_missing + 1", json!("1")),
        ("'at ' + noon", json!("at 2024-02-12T12:00:00Z")),
        ("1 + 1 + ' of ' + 1 + 1", json!("2 of 11")),
        ("any_number + 1", json!(5)),
        ("any_text + 1", json!("four1")),
        ("any_missing + 1", json!(null)),
        ("any_list + 1", json!(null)),
        ("any_number - 1", json!(3)),
        ("any_text - 1", json!(null)),
    ]);
}

#[test]
fn functions_look_at_what_is_there() {
    assert_values([
        ("set(text)", json!(true)),
        ("set(empty)", json!(false)),
        ("set(blank)", json!(false)),
        ("set(text_missing)", json!(false)),
        ("set([])", json!(false)),
        ("set(0) and set(false)", json!(true)),
        ("count(text)", json!(5)),
        ("count(tags)", json!(2)),
        ("count(plan)", json!(1)),
        ("count(any_missing)", json!(0)),
        ("count(any_number)", json!(0)),
        ("has(records, 'id', 'a')", json!(true)),
        ("has(records, 'id', 1.0)", json!(true)),
        ("has(records, 'id', 'b')", json!(false)),
        ("has(records, 'at', same_noon)", json!(true)),
        ("has(records, 'at', null)", json!(true)),
        ("has(any_missing, 'id', 1)", json!(false)),
    ]);
}

#[test]
fn expressions_have_types() {
    let cases = [
        ("text", Type::Text),
        ("12", Type::Number),
        ("null", Type::Any),
        ("[1]", Type::List),
        ("flag and set(text)", Type::Flag),
        ("not flag", Type::Flag),
        ("1 == 2", Type::Flag),
        ("rounds < 3", Type::Flag),
        ("1 in list", Type::Flag),
        ("1 + 2", Type::Number),
        ("1 - any_number", Type::Number),
        ("'a' + 1", Type::Text),
        ("1 + any_number", Type::Any),
        ("1 + any_number + 'a'", Type::Text),
        ("count(list)", Type::Number),
        ("has(list, 'a', 1)", Type::Flag),
        ("noon", Type::Time),
    ];
    for (text, value_type) in cases {
        assert_eq!(checked(text).1, value_type, "{text}");
    }
}

/// Each refusal names its place and says what to write instead.
fn assert_refused(cases: &[(&str, usize, &str)]) {
    for (text, offset, message) in cases {
        let error = Expr::check(text, &World).expect_err(text);
        assert_eq!((error.offset, error.message.as_str()), (*offset, *message), "{text}");
        assert_eq!(error.to_string(), *message);
    }
}

#[test]
fn foreign_spellings_are_refused() {
    assert_refused(&[
        ("flag && flag", 5, "write `and` instead of `&&`"),
        ("flag || flag", 5, "write `or` instead of `||`"),
        ("!flag", 0, "write `not` instead of `!`"),
        ("text = 'a'", 5, "write `==` to compare; `=` means nothing here"),
        ("text == \"a\"", 8, "write text in single quotes: 'text'"),
        (
            "2 * 3",
            2,
            "there is no multiplication; compute the value beforehand and keep it in a field",
        ),
        ("2 / 3", 2, "there is no division; compute the value beforehand and keep it in a field"),
        ("größe", 2, "`ö` means nothing in an expression"),
        ("a\u{7}", 1, "`\\u{7}` means nothing in an expression"),
        ("text == 'a", 8, "this text has no end; close it with a single quote"),
        ("7d", 0, "`7d` is not a number; write 12 or 1.5, and keep a span of time in a setting"),
        ("1.", 0, "`1.` is not a number; write 12 or 1.5, and keep a span of time in a setting"),
        ("plan.", 4, "after the dot stands the name of a member: `workPlan.bullets`"),
        ("plan.1", 4, "after the dot stands the name of a member: `workPlan.bullets`"),
    ]);
}

#[test]
fn what_is_missing_is_named() {
    assert_refused(&[
        ("", 0, "a value is missing at the end"),
        ("flag and", 8, "a value is missing at the end"),
        ("and flag", 0, "a value is missing before `and`"),
        ("flag or or flag", 8, "a value is missing before `or`"),
        (
            "1 + * 2",
            4,
            "there is no multiplication; compute the value beforehand and keep it in a field",
        ),
        ("1 == == 2", 5, "a value is missing before `==`"),
        ("[1,]", 3, "a value is missing before `]`"),
        ("[1 2]", 3, "`,` or `]` is missing here"),
        ("set(text", 8, "`,` or `)` is missing here"),
        ("(flag", 5, "`)` is missing here"),
    ]);
}

#[test]
fn what_does_not_fit_is_refused() {
    assert_refused(&[
        ("flag)", 4, "this `)` closes nothing"),
        ("1]", 1, "this `]` closes nothing"),
        ("1, 2", 1, "`,` does not fit here"),
        ("1 2", 2, "an operator is missing before this number"),
        ("text 'a'", 5, "an operator is missing before this text"),
        ("flag flag", 5, "an operator is missing before `flag`"),
        ("flag AND flag", 5, "write `and` in small letters"),
        (
            "1 not in list",
            2,
            "an operator is missing before `not`; for `x not in y` write `not x in y`",
        ),
        ("flag == not flag", 8, "put what follows `not` in parentheses: `x == (not y)`"),
        ("1 < 2 < 3", 6, "comparisons do not chain; join two of them with `and`"),
        ("-number", 0, "a minus stands between two numbers or before a literal one; write `0 - x`"),
    ]);
}

#[test]
fn unknown_names_and_wrong_calls_are_refused() {
    assert_refused(&[
        ("flag and nothing.here", 9, "there is no `nothing.here`"),
        ("set()", 0, "`set` takes one value: `set(x)`"),
        ("1 + count(text, list)", 4, "`count` takes one value: `count(x)`"),
        ("has(list, 'a')", 0, "`has` takes three values: `has(list, 'member', value)`"),
        (
            "lower(text)",
            0,
            "there is no function `lower`; the functions are set(x), count(x) and has(list, 'member', value)",
        ),
        ("has(text, 'a', 1)", 4, "`has` looks into a list of records, and this is text"),
        (
            "has(list, text, 1)",
            10,
            "the member's name is written as text: `has(list, 'member', value)`",
        ),
        ("count(12)", 6, "`count` wants a list, text or a record, and this is a number"),
    ]);
}

#[test]
fn connectives_want_flags() {
    assert_refused(&[
        (
            "flag and text",
            9,
            "`and` wants something true or false, and this is text; write `set(…)` or compare it",
        ),
        (
            "number or flag",
            0,
            "`or` wants something true or false, and this is a number; write `set(…)` or compare it",
        ),
        (
            "not tags",
            4,
            "`not` wants something true or false, and this is a list; write `set(…)` or compare it",
        ),
    ]);
}

#[test]
fn values_of_two_types_are_never_equal() {
    assert_refused(&[
        ("text == 1", 8, "this is a number and can never equal text; compare values of one type"),
        (
            "noon != 'noon'",
            8,
            "this is text and can never equal a time; a time is written as '2024-02-12T10:40:00Z'",
        ),
        (
            "text == noon",
            8,
            "this is a time and can never equal text; a time is written as '2024-02-12T10:40:00Z'",
        ),
    ]);
}

#[test]
fn a_choice_is_compared_with_its_words() {
    assert_refused(&[
        ("complexity == 'easy'", 14, "`easy` is not one of standard, escalated"),
        ("'easy' != complexity", 0, "`easy` is not one of standard, escalated"),
        ("complexity == default_complexity", 14, "`odd` is not one of standard, escalated"),
        ("complexity in ['standard', 'easy']", 27, "`easy` is not one of standard, escalated"),
        (
            "text in ['a', 1]",
            14,
            "this is a number and can never equal text; compare values of one type",
        ),
        ("'a' in text", 7, "`in` wants a list on its right, such as ['a', 'b'], and this is text"),
    ]);
}

#[test]
fn what_has_no_order_or_sum_is_refused() {
    assert_refused(&[
        (
            "text < 'a'",
            0,
            "only numbers and times have an order, and this is text; compare two numbers or two times",
        ),
        (
            "number < flag",
            9,
            "only numbers and times have an order, and this is true or false; compare two numbers or two times",
        ),
        (
            "noon < 12",
            7,
            "this is a number, and it is compared with a time; compare two numbers or two times",
        ),
        ("number > null", 9, "nothing comes before or after null; write `set(…)`"),
        ("1 + list", 4, "`+` adds numbers and joins text, and this is a list; perhaps `count(…)`?"),
        (
            "noon + 1",
            7,
            "`+` cannot add a time and a number; to join them as text begin with `'' + …`",
        ),
        ("later - noon", 0, "`-` takes a number from a number, and this is a time"),
        ("'a' + 1 - 1", 0, "`-` takes a number from a number, and this is text"),
    ]);
}

#[test]
fn length_and_depth_are_bounded() {
    let longest = format!("'{}'", "x".repeat(MAX_BYTES - 2));
    assert_eq!(checked(&longest).1, Type::Text);
    let error = Expr::check(&format!("{longest} "), &World).expect_err("too long");
    assert_eq!(error.offset, MAX_BYTES);

    let nested = |depth: usize| format!("{}flag{}", "(".repeat(depth), ")".repeat(depth));
    assert!(checked(&nested(MAX_DEPTH)).0.holds(&World));
    let error = Expr::check(&nested(MAX_DEPTH + 1), &World).expect_err("too deep");
    assert_eq!(error.offset, MAX_DEPTH + 1);
    for (open, close) in [("not ", ""), ("[", "]"), ("set(", ")")] {
        let text = format!("{}flag{}", open.repeat(MAX_DEPTH + 1), close.repeat(MAX_DEPTH + 1));
        let error = Expr::check(&text, &World).expect_err("too deep");
        assert!(error.message.contains("at most 32 deep"), "{error}");
    }

    let chain = vec!["flag"; 200].join(" and ");
    assert!(checked(&chain).0.holds(&World));
}

#[test]
fn joined_text_is_cut_at_its_limit() {
    struct Long;
    impl Env for Long {
        fn value(&self, _name: &Name) -> Cow<'_, Value> {
            Cow::Owned(Value::String("ö".repeat(MAX_JOINED_BYTES)))
        }
    }
    let value = checked("'a' + text + text").0.eval(&Long);
    assert_eq!(value.as_str().map(str::len), Some(MAX_JOINED_BYTES - 1));
}

#[test]
fn names_and_plain_requirements_can_be_read_back() {
    let (expr, _) =
        checked("set(plan.bullets) and (rounds < max_rounds or actor.role in ['x', title])");
    let names: Vec<Name> = expr.names().cloned().collect();
    let bullets = vec!["plan".to_owned(), "bullets".to_owned()];
    let wanted = vec![
        Name::Field(bullets.clone()),
        Name::Counter(CounterId(0)),
        Name::Constant(json!(3)),
        Name::ActorRole,
        Name::Title,
    ];
    assert_eq!(names, wanted);
    assert_eq!(expr.as_set(), None);

    assert_eq!(checked("set(plan.bullets)").0.as_set(), Some(bullets.as_slice()));
    assert_eq!(Expr::is_set(bullets.clone()).as_set(), Some(bullets.as_slice()));
    assert!(Expr::is_set(bullets).holds(&World));
    assert_eq!(checked("set(title)").0.as_set(), None);
    assert_eq!(checked("not set(plan)").0.as_set(), None);
}

#[test]
fn only_true_holds() {
    for text in ["null", "any_text", "any_missing", "1", "'true'"] {
        assert!(!checked(text).0.holds(&World), "{text}");
    }
    assert!(checked("true").0.holds(&World));
}

/// Answers every name with the same value, whatever its type promised.
struct Everywhere(Value);

impl Env for Everywhere {
    fn value(&self, _name: &Name) -> Cow<'_, Value> {
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
