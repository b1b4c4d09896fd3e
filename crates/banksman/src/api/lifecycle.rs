//! Lifecycles as JSON.

use std::collections::BTreeMap;

use banksman_core::lifecycle::expr::Value;
use banksman_core::lifecycle::{self, Lifecycle as Table, Since};
use serde::Serialize;

use super::error::FieldMessage;

/// A lifecycle in the list of all.
#[derive(Debug, Serialize)]
pub struct ListedLifecycle {
    pub about: String,
    pub id: String,
    pub ok: bool,
    pub origin: String,
    pub version: Option<String>,
}

documents! {
    /// A lifecycle as a table. Timeouts are transitions of the role `system` with an `after`.
    Lifecycle<'a>(table: &'a Table) {
        about: &'a str = &table.about,
        counters: Vec<Counter<'a>> =
            table.counters.iter().map(|counter| Counter::new(table, counter)).collect(),
        fields: BTreeMap<&'a str, String> =
            table.fields.iter().map(|(name, field)| (&**name, field.kind.describe())).collect(),
        id: &'a str = &table.id,
        initial: &'a str = &table.state(table.initial).name,
        roles: &'a [String] = &table.roles,
        settings: BTreeMap<&'a str, Value> =
            table.settings.iter().map(|(name, value)| (&**name, value.value.to_json())).collect(),
        states: Vec<State<'a>> = table.states.iter().map(State::new).collect(),
        transitions: Vec<Transition<'a>> =
            table.transitions.iter().map(|row| Transition::new(table, row)).collect(),
        version: &'a str = &table.version,
    }

    Counter<'a>(table: &'a Table, counter: &'a lifecycle::Counter) {
        id: &'a str = &counter.name,
        limit: Option<u32> = counter.limit,
        then: Option<&'a str> = counter.then.map(|id| table.state(id).name.as_str()),
    }

    State<'a>(state: &'a lifecycle::State) {
        about: &'a str = &state.about,
        does: Option<&'static str> = state.does.as_ref().map(|does| does.activity.as_str()),
        group: Option<&'a str> = state.group.as_deref(),
        id: &'a str = &state.name,
        kind: &'static str = state.kind.as_str(),
        requires: Vec<FieldMessage> = state
            .requires
            .iter()
            .map(|required| FieldMessage::new(&required.field, &required.message))
            .collect(),
        terminal: bool = state.terminal,
    }

    Transition<'a>(table: &'a Table, row: &'a lifecycle::Transition) {
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<String> = row.timeout.map(|timeout| timeout.time.to_string()),
        from: &'a str = &table.state(row.from).name,
        roles: Vec<&'a str> = row.roles.iter().map(|role| table.role_name(*role)).collect(),
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Since> = row.timeout.map(|timeout| timeout.since),
        to: &'a str = table.target_name(row.to),
        trigger: &'a str = &row.trigger,
    }
}
