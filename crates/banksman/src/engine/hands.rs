//! Whether a step is done of which somebody says so who drives its workflow by hand: its files are looked for and its command is run
//! where they work, while they wait. Nothing is committed, merged or moved here, and no turn of the engine comes here.

use std::path::Path;

use banksman_core::failure;
use banksman_core::lifecycle::Outcome;
use banksman_core::receipt::Evidence;

use super::{Engine, EngineError, errand};
use crate::config::Environment;
use crate::exec::evidence::run_command;
use crate::exec::files;
use crate::exec::plan::Checks;
use crate::exec::process::Plain;
use crate::store::Stored;

impl Engine<'_> {
    /// What speaks against it; nothing where all is as the step demands. A criterion in prose is left to its gate.
    pub fn doubt_by_hand(
        &self,
        step: &Stored,
        folder: &Path,
    ) -> Result<Option<String>, EngineError> {
        let errand = self.errand(step)?;
        let project = self.projects.find(&step.task.project)?;
        let agents = project.as_ref().map_or(&self.terms.agents, |project| &project.agents);
        let checks = errand::checks(step, &errand, agents, project.as_ref());
        let Checks { outputs, files, commands, timeout_ms, .. } = checks;
        let missing = files::missing(folder, &outputs, &files);
        let mut found = Evidence { missing, ..Evidence::default() };
        let env = Environment::passed(&agents.pass);
        for command in commands.iter().filter(|_| found.missing.is_empty()) {
            match run_command(&mut Plain, folder, (command, timeout_ms), &env) {
                Ok(check) => found.checks.push(check),
                Err(error) => return Ok(Some(error.to_string())),
            }
            if found.checks.last().is_some_and(|check| !check.passed()) {
                break;
            }
        }
        let checked = failure::check(&found, None);
        Ok((checked.outcome != Outcome::Passed).then_some(checked.detail))
    }
}
