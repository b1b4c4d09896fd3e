//! Whether a step is done of which somebody says so who drives its workflow by hand: its files are looked for and its command is run
//! where they work, while they wait. Nothing is committed, merged or moved here.

use std::path::Path;

use crate::config::Environment;
use crate::exec::evidence::run_command;
use crate::exec::files;
use crate::exec::plan::Checks;
use crate::exec::process::Plain;
use crate::store::Stored;

use super::plan::passed;
use super::{Engine, EngineError, errand};

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
        if !missing.is_empty() {
            return Ok(Some(format!("it has not left what it should: {}", missing.join(", "))));
        }
        let env = Environment::passed(&passed(agents, None));
        for command in &commands {
            match run_command(&mut Plain, folder, (command, timeout_ms), &env) {
                Ok(check) if check.passed() => {}
                Ok(check) => return Ok(Some(format!("`{command}` fails: {}", check.tail))),
                Err(error) => return Ok(Some(error.to_string())),
            }
        }
        Ok(None)
    }
}
