//! `banksman workflow schema`: prints the JSON schema of workflow files.

use crate::cli::{Context, Exit, NoArgs, Result};

/// The documentation has the same text; a test compares them.
const SCHEMA: &str = include_str!("../../../workflow.schema.json");

pub(super) fn run(context: &Context, _: &NoArgs) -> Result<Exit> {
    context.out.text(SCHEMA)
}
