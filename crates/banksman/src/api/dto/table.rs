//! A lifecycle as JSON. The contract of `dto` covers it as well.

use banksman_core::lifecycle::{Lifecycle, Setting, State, Transition};
use serde_json::{Map, Value, json};

/// A lifecycle as a table. Timeouts are transitions of the role `system` with an `after`.
#[must_use]
pub fn lifecycle(lifecycle: &Lifecycle) -> Value {
    let fields: Map<String, Value> = lifecycle
        .fields
        .iter()
        .map(|(name, field)| (name.clone(), json!(field.kind.describe())))
        .collect();
    let settings: Map<String, Value> =
        lifecycle.settings.iter().map(|(name, value)| (name.clone(), setting(value))).collect();
    let counters = lifecycle.counters.iter().map(|counter| {
        let then = counter.then.map(|id| lifecycle.state(id).name.as_str());
        json!({ "id": counter.name, "limit": counter.limit, "then": then })
    });
    json!({
        "id": lifecycle.id,
        "version": lifecycle.version,
        "about": lifecycle.about,
        "initial": lifecycle.state(lifecycle.initial).name,
        "roles": lifecycle.roles,
        "settings": settings,
        "fields": fields,
        "counters": counters.collect::<Vec<_>>(),
        "states": lifecycle.states.iter().map(state).collect::<Vec<_>>(),
        "transitions": lifecycle.transitions.iter().map(|row| transition(lifecycle, row)).collect::<Vec<_>>(),
    })
}

/// A setting as it is written in YAML and TOML.
#[must_use]
pub fn setting(setting: &Setting) -> Value {
    match setting {
        #[expect(clippy::cast_possible_truncation, reason = "the number is whole and small")]
        Setting::Number(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            json!(*number as i64)
        }
        Setting::Number(number) => json!(number),
        Setting::Flag(flag) => json!(flag),
        Setting::Text(text) => json!(text),
        Setting::Time(span) => json!(span.to_string()),
    }
}

fn state(state: &State) -> Value {
    let requires: Vec<Value> = state
        .requires
        .iter()
        .map(|required| json!({ "field": required.field, "message": required.message }))
        .collect();
    json!({
        "id": state.name,
        "kind": state.kind.as_str(),
        "group": state.group,
        "terminal": state.terminal,
        "about": state.about,
        "does": state.does.as_ref().map(|does| does.activity.as_str()),
        "requires": requires,
    })
}

fn transition(lifecycle: &Lifecycle, row: &Transition) -> Value {
    let roles: Vec<&str> = row.roles.iter().map(|role| lifecycle.role_name(*role)).collect();
    let mut value = json!({
        "from": lifecycle.state(row.from).name,
        "to": lifecycle.target_name(row.to),
        "trigger": row.trigger,
        "roles": roles,
    });
    if let Some(timeout) = row.timeout {
        value["after"] = json!(timeout.time.to_string());
        value["since"] = json!(timeout.since);
    }
    value
}
