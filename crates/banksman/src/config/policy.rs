//! The project's policy file: its text is read with the settings, and made sense of where it is needed.
//!
//! A file that cannot be understood allows nothing: no agent is started under it, and `banksman policy lint` says why.

use std::path::{Path, PathBuf};

use banksman_core::lifecycle::problem::Problems;
use banksman_core::policy::{self, Policy};

use super::{ConfigError, FOLDER, layer};

const FILE: &str = "policy.yaml";

/// Ranks as settings name them.
pub(super) const RANKS: &[&str] = &["intern", "specialist", "lead"];

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyFile {
    pub path: PathBuf,
    /// None where the project has none; the built-in rules hold then.
    pub text: Option<String>,
}

impl PolicyFile {
    pub(super) fn of(root: &Path) -> Result<Self, ConfigError> {
        let path = root.join(FOLDER).join(FILE);
        let text = layer::read(&path)?;
        Ok(Self { path, text })
    }

    /// The policy that holds, or everything that is wrong with the file.
    pub fn read(&self) -> Result<Policy, Box<Problems>> {
        match &self.text {
            None => Ok(policy::builtin()),
            Some(text) => policy::read(text, &self.path.display().to_string()),
        }
    }

    /// Whether a lead may say that work is done. A file that cannot be understood gives no such right.
    #[must_use]
    pub fn lets_leads_close(&self) -> bool {
        self.text.is_some() && self.read().is_ok_and(|policy| policy.lead_may_close)
    }
}
