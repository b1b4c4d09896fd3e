//! What expressions are worth, and of which type they are.

use serde_json::{Value, json};

use super::*;

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
        ("count(any_blanks)", json!(1)),
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
