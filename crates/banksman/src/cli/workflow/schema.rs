//! `banksman workflow schema`: prints the JSON schema of workflow files.

use clap::Args;

use crate::cli::{Context, Exit, Result};

/// The documentation has the same text; a test compares them.
const SCHEMA: &str = include_str!("../../../workflow.schema.json");

/// Print the JSON schema of workflow files, for editors
///
/// Editors with a YAML language server complete and explain the keys of a file that starts with `#
/// yaml-language-server: $schema=workflow.schema.json`.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman workflow schema > .workflow/workflow.schema.json
")]
pub(in crate::cli) struct SchemaArgs {}

pub(super) fn run(context: &Context, _: &SchemaArgs) -> Result<Exit> {
    context.out.text(SCHEMA)
}
