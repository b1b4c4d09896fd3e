//! `banksman lifecycle show`: prints one lifecycle as tables.

use banksman_core::lifecycle::{Lifecycle, Since, Transition};
use clap::Args;

use crate::api::lifecycle::{Lifecycle as LifecycleDocument, SettingValue};
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::{Cell, sanitize, table};
use crate::cli::symbols::style;

/// Show a lifecycle: its states, transitions, roles, fields and settings
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman lifecycle show autonomous
  banksman lifecycle show mission --json
")]
pub(super) struct ShowArgs {
    /// The lifecycle
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn run(context: &Context, args: &ShowArgs) -> Result<Exit, Failure> {
    let definition = context.library().definition(&args.name)?;
    let lifecycle = &definition.lifecycle;
    context.out.answer(|| LifecycleDocument::new(lifecycle), || text(context, lifecycle))?;
    let id = &lifecycle.id;
    context.out.next(&[&format!("lifecycle graph {id}"), &format!("add 'TITLE' --lifecycle {id}")]);
    Ok(Exit::Done)
}

fn text(context: &Context, lifecycle: &Lifecycle) -> String {
    let initial = &lifecycle.state(lifecycle.initial).name;
    let parts = [
        format!("{} {}\n{}\n", lifecycle.id, lifecycle.version, sanitize(&lifecycle.about)),
        format!("starts in {initial}; roles: {}\n", lifecycle.roles.join(", ")),
        states(context, lifecycle),
        moves(lifecycle),
        counters(lifecycle),
        fields(lifecycle),
        settings(lifecycle),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn states(context: &Context, lifecycle: &Lifecycle) -> String {
    let row = |state: &banksman_core::lifecycle::State| -> Vec<Cell> {
        let does = state.does.as_ref().map_or("", |does| does.activity.as_str());
        let required: Vec<&str> =
            state.requires.iter().map(|requirement| requirement.field.as_str()).collect();
        let name = Cell { style: style(state.kind), ..state.name.as_str().into() };
        let sign = context.out.symbols.symbol_cell(state.kind);
        vec![
            sign,
            name,
            state.kind.as_str().into(),
            does.into(),
            required.join(", ").into(),
            state.about.as_str().into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = lifecycle.states.iter().map(row).collect();
    table(&["", "STATE", "KIND", "DOES", "NEEDS", "ABOUT"], &rows)
}

fn moves(lifecycle: &Lifecycle) -> String {
    let row = |row: &Transition| -> Vec<Cell> {
        let roles: Vec<&str> = row.roles.iter().map(|role| lifecycle.role_name(*role)).collect();
        let from = lifecycle.state(row.from).name.as_str();
        vec![
            from.into(),
            lifecycle.target_name(row.to).into(),
            row.trigger.as_str().into(),
            roles.join(", ").into(),
            when(row).into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = lifecycle.transitions.iter().map(row).collect();
    table(&["FROM", "TO", "TRIGGER", "ROLES", "WHEN"], &rows)
}

fn when(row: &Transition) -> String {
    let Some(bound) = row.timeout else {
        let needed: Vec<&str> = row.guards.iter().map(|guard| guard.field.as_str()).collect();
        return if needed.is_empty() {
            String::new()
        } else {
            format!("depends on {}", needed.join(", "))
        };
    };
    match bound.since {
        Since::Entry => format!("after {}", bound.time),
        Since::Progress => format!("after {} without progress", bound.time),
    }
}

fn counters(lifecycle: &Lifecycle) -> String {
    if lifecycle.counters.is_empty() {
        return String::new();
    }
    let row = |counter: &banksman_core::lifecycle::Counter| -> Vec<Cell> {
        let limit = counter.limit.map(|limit| limit.to_string()).unwrap_or_default();
        let then = counter.then.map_or("", |id| lifecycle.state(id).name.as_str());
        vec![counter.name.as_str().into(), limit.into(), then.into()]
    };
    table(&["COUNTER", "LIMIT", "THEN"], &lifecycle.counters.iter().map(row).collect::<Vec<_>>())
}

fn fields(lifecycle: &Lifecycle) -> String {
    if lifecycle.fields.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<Cell>> = lifecycle
        .fields
        .iter()
        .map(|(name, field)| vec![name.as_str().into(), field.kind.describe().into()])
        .collect();
    table(&["FIELD", "HOLDS"], &rows)
}

fn settings(lifecycle: &Lifecycle) -> String {
    if lifecycle.settings.is_empty() {
        return String::new();
    }
    let row = |(name, setting): (&String, &banksman_core::lifecycle::Setting)| -> Vec<Cell> {
        vec![name.as_str().into(), SettingValue::from(setting).to_string().into()]
    };
    table(&["SETTING", "VALUE"], &lifecycle.settings.iter().map(row).collect::<Vec<_>>())
}
