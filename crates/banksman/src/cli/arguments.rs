//! Arguments that several commands share, and their parsers.

use banksman_core::lifecycle::expr::Fields;
use banksman_core::machine::Actor;
use banksman_core::time::{Instant, Span};
use clap::Args;

use super::{Failure, Result};

/// Of a command that takes none but the global options.
#[derive(Debug, Args)]
pub(super) struct NoArgs {}

/// The acting role.
#[derive(Debug, Default, Args)]
pub(super) struct ActorArgs {
    /// Act as this role and name, such as human:kim or worker
    #[arg(long = "as", value_name = "ROLE[:NAME]")]
    pub(super) actor: Option<Actor>,
}

/// Field assignments.
#[derive(Debug, Args)]
pub(super) struct FieldArgs {
    /// Set a field of the task; lists and records are JSON, `record.member` sets one member
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = field)]
    set: Vec<(String, String)>,
}

impl FieldArgs {
    pub(super) fn fields(&self) -> Result<Fields> {
        fields_of(&self.set)
    }
}

/// Fields as they were typed; the task's lifecycle says what they mean.
pub(super) fn fields_of(typed: &[(String, String)]) -> Result<Fields> {
    let mut fields = Fields::new();
    for (name, value) in typed {
        if fields.insert(name.clone(), value.as_str().into()).is_some() {
            let message = format!("`{name}` is set twice");
            return Err(Failure::argument(message, "set each field once"));
        }
    }
    Ok(fields)
}

pub(super) fn field(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write FIELD=VALUE".to_owned()),
    }
}

/// A point in time, given directly or as a span from now.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    At(Instant),
    After(Span),
}

impl When {
    pub(super) fn from(self, now: Instant) -> Instant {
        match self {
            Self::At(instant) => instant,
            Self::After(span) => now.plus(span),
        }
    }
}

pub(super) fn when(text: &str) -> Result<When, String> {
    let span = text.parse::<Span>().map(When::After);
    span.or_else(|_| text.parse::<Instant>().map(When::At)).map_err(|_| {
        "write a time such as 2027-01-31T09:00:00Z, or a span such as 30min, 2h or 7d".to_owned()
    })
}
