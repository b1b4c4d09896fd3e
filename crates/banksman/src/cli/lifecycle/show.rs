//! `banksman lifecycle show`: prints one lifecycle as tables.

use banksman_core::lifecycle::{Counter, Lifecycle, Since, State, Transition};
use clap::Args;

use crate::api::lifecycle::Lifecycle as LifecycleDocument;
use crate::cli::output::{cells, sanitize, section};
use crate::cli::symbols::state_cell;
use crate::cli::{Context, Exit, Result};

/// Show a lifecycle: its states, transitions, roles, fields and settings
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman lifecycle show autonomous
  banksman lifecycle show mission --json
")]
pub(in crate::cli) struct ShowArgs {
    /// The lifecycle
    name: String,
}

pub(super) fn run(context: &Context, args: &ShowArgs) -> Result<Exit> {
    let definition = context.library().definition(&args.name)?;
    let lifecycle = &definition.lifecycle;
    context.out.answer(|| LifecycleDocument::new(lifecycle), || text(context, lifecycle))?;
    let id = &lifecycle.id;
    Ok(context
        .out
        .next(&[&format!("lifecycle graph {id}"), &format!("add 'TITLE' --lifecycle {id}")]))
}

fn text(context: &Context, lifecycle: &Lifecycle) -> String {
    let initial = &lifecycle.state(lifecycle.initial).name;
    let parts = [
        format!("{} {}\n{}\n", lifecycle.id, lifecycle.version, sanitize(&lifecycle.about)),
        format!("\nstarts in {initial}; roles: {}\n", lifecycle.roles.join(", ")),
        states(context, lifecycle),
        moves(lifecycle),
        counters(lifecycle),
        fields(lifecycle),
        settings(lifecycle),
    ];
    parts.concat()
}

fn states(context: &Context, lifecycle: &Lifecycle) -> String {
    let row = |state: &State| {
        let does = state.does.as_ref().map_or("", |does| does.activity.as_str());
        let required: Vec<&str> =
            state.requires.iter().map(|requirement| requirement.field.as_str()).collect();
        let (sign, name) = (context.out.symbols.symbol_cell(state.kind), state_cell(state));
        cells([&sign, &name, &state.kind, &does, &required.join(", "), &state.about])
    };
    section(["", "STATE", "KIND", "DOES", "NEEDS", "ABOUT"], lifecycle.states.iter().map(row))
}

fn moves(lifecycle: &Lifecycle) -> String {
    let row = |row: &Transition| {
        let roles: Vec<&str> = row.roles.iter().map(|role| lifecycle.role_name(*role)).collect();
        let (from, to) = (&lifecycle.state(row.from).name, lifecycle.target_name(row.to));
        cells([from, &to, &row.trigger, &roles.join(", "), &when(row)])
    };
    section(["FROM", "TO", "TRIGGER", "ROLES", "WHEN"], lifecycle.transitions.iter().map(row))
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
    let row = |counter: &Counter| {
        let limit = counter.limit.map(|limit| limit.to_string()).unwrap_or_default();
        let then = counter.then.map_or("", |id| lifecycle.state(id).name.as_str());
        cells([&counter.name, &limit, &then])
    };
    section(["COUNTER", "LIMIT", "THEN"], lifecycle.counters.iter().map(row))
}

fn fields(lifecycle: &Lifecycle) -> String {
    let fields = lifecycle.fields.iter();
    section(["FIELD", "HOLDS"], fields.map(|(name, it)| cells([name, &it.kind.describe()])))
}

fn settings(lifecycle: &Lifecycle) -> String {
    let settings = lifecycle.settings.iter();
    let rows = settings.map(|(name, setting)| cells([name, &setting.value]));
    section(["SETTING", "VALUE"], rows)
}
