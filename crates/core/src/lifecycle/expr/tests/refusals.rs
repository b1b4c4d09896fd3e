//! What is refused: where, and in words that say what to write instead.

use super::*;

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
        ("plan.", 4, "write the name of a member after the dot: `workPlan.bullets`"),
        ("plan.1", 4, "write the name of a member after the dot: `workPlan.bullets`"),
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
        (
            "-number",
            0,
            "use a minus only between two numbers or before a literal one; write `0 - x`",
        ),
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
            "there is no function `lower`; the functions are set(x), count(x), has(list, 'member', value) and every(list, 'member', value)",
        ),
        ("has(text, 'a', 1)", 4, "`has` looks into a list of records, and this is text"),
        (
            "has(list, text, 1)",
            10,
            "the member's name is written as text: `has(list, 'member', value)`",
        ),
        ("count(12)", 6, "`count` needs a list, text or a record, and this is a number"),
    ]);
}

#[test]
fn connectives_want_flags() {
    assert_refused(&[
        (
            "flag and text",
            9,
            "`and` needs something true or false, and this is text; write `set(…)` or compare it",
        ),
        (
            "number or flag",
            0,
            "`or` needs something true or false, and this is a number; write `set(…)` or compare it",
        ),
        (
            "not tags",
            4,
            "`not` needs something true or false, and this is a list; write `set(…)` or compare it",
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
        ("'a' in text", 7, "`in` needs a list on its right, such as ['a', 'b'], and this is text"),
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
