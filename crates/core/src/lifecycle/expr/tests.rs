//! The world that expressions are tried in, the bounds of the language, and what can be read back
//! from an expression. What it means, what it refuses and what always holds are the files beside
//! this one.

mod laws;
mod refusals;
mod values;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

/// One name of every type. `*_missing` has a type and no value.
struct World;

impl NameScope for World {
    fn resolve(&self, path: &[&str]) -> Result<(ResolvedName, Type), String> {
        let field = || ResolvedName::Field(path.iter().map(|part| (*part).to_owned()).collect());
        let plan = BTreeMap::from([("bullets".to_owned(), Type::List)]);
        Ok(match path {
            ["text" | "empty" | "blank" | "stamp" | "text_missing"] => (field(), Type::Text),
            ["number" | "number_missing"] => (field(), Type::Number),
            ["flag"] => (field(), Type::Flag),
            ["noon" | "same_noon" | "later" | "time_missing"] => (field(), Type::Time),
            ["list" | "records" | "times"] => (field(), Type::List),
            ["plan", "bullets"] => (field(), Type::List),
            ["plan"] => (field(), Type::Record(plan)),
            ["any_number" | "any_text" | "any_list" | "any_blanks" | "any_missing"] => {
                (field(), Type::Any)
            }
            ["complexity"] => (field(), Type::OneOf(vec!["standard".into(), "escalated".into()])),
            ["rounds"] => (ResolvedName::Counter(CounterId(0)), Type::Number),
            ["max_rounds"] => (ResolvedName::Constant(json!(3)), Type::Number),
            ["default_complexity"] => (ResolvedName::Constant(json!("odd")), Type::Text),
            ["actor", "role"] => (ResolvedName::ActorRole, Type::Text),
            ["actor", "name"] => (ResolvedName::ActorName, Type::Text),
            ["now"] => (ResolvedName::Now, Type::Time),
            ["title"] => (ResolvedName::Title, Type::Text),
            ["tags"] => (ResolvedName::Tags, Type::List),
            ["priority"] => (ResolvedName::Priority, Type::Number),
            ["spent", member] => (ResolvedName::Spent(Some((*member).to_owned())), Type::Number),
            ["outcome"] => (ResolvedName::Outcome, Type::Text),
            ["detail"] => (ResolvedName::Detail, Type::Text),
            other => return Err(format!("there is no `{}`", other.join("."))),
        })
    }
}

impl Env for World {
    fn value(&self, name: &ResolvedName) -> Cow<'_, Value> {
        let value = match name {
            ResolvedName::Field(path) => field_value(&path.join(".")),
            ResolvedName::Counter(_) | ResolvedName::Priority => json!(2),
            ResolvedName::Constant(value) => value.clone(),
            ResolvedName::ActorRole => json!("worker"),
            ResolvedName::ActorName => json!("ann"),
            ResolvedName::Now => json!("2024-02-12T12:00:01Z"),
            ResolvedName::Title => json!("Fix it"),
            ResolvedName::Tags => json!(["small", "web"]),
            ResolvedName::Spent(_) => json!(1.25),
            ResolvedName::Outcome | ResolvedName::Detail => Value::Null,
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
        "any_blanks" => json!([null, " ", {}, "a"]),
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
        fn value(&self, _name: &ResolvedName) -> Cow<'_, Value> {
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
    let names: Vec<ResolvedName> = expr.names().cloned().collect();
    let bullets = vec!["plan".to_owned(), "bullets".to_owned()];
    let wanted = vec![
        ResolvedName::Field(bullets.clone()),
        ResolvedName::Counter(CounterId(0)),
        ResolvedName::Constant(json!(3)),
        ResolvedName::ActorRole,
        ResolvedName::Title,
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
