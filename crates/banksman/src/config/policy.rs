//! The project's policy file: its text is read with the settings, and made sense of where it is
//! first needed.
//!
//! A file that cannot be understood allows nothing: no agent is started under it, and `banksman
//! policy lint` says why.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use banksman_core::lifecycle::problem::Problems;
use banksman_core::policy::{self, Policy};

use super::{ConfigError, FOLDER, layer};

const FILE: &str = "policy.yaml";

/// Ranks as settings name them.
pub(super) const RANKS: &[&str] = &["intern", "specialist", "lead"];

#[derive(Debug, Clone, Default)]
pub struct PolicyFile {
    pub path: PathBuf,
    /// None where the project has none; the built-in rules hold then.
    pub text: Option<String>,
    /// What it says. Copies share it, because every start and every end of a run asks.
    understood: Arc<OnceLock<Result<Policy, Box<Problems>>>>,
}

impl PartialEq for PolicyFile {
    /// What it says follows from the rest.
    fn eq(&self, other: &Self) -> bool {
        (&self.path, &self.text) == (&other.path, &other.text)
    }
}

impl PolicyFile {
    pub(super) fn of(root: &Path) -> Result<Self, ConfigError> {
        let path = root.join(FOLDER).join(FILE);
        let text = layer::read(&path)?;
        Ok(Self { path, text, ..Self::default() })
    }

    /// The policy that holds, or everything that is wrong with the file.
    pub fn read(&self) -> Result<&Policy, &Problems> {
        let understood = self.understood.get_or_init(|| match &self.text {
            None => Ok(policy::builtin()),
            Some(text) => policy::read(text, &self.path.display().to_string()),
        });
        understood.as_ref().map_err(AsRef::as_ref)
    }

    /// Takes over what an earlier reading has understood, if the file still says the same.
    pub fn remember(&mut self, earlier: &Self) {
        if self == earlier {
            self.understood = Arc::clone(&earlier.understood);
        }
    }

    /// Whether a lead may say that work is done. A file that cannot be understood gives no such
    /// right.
    #[must_use]
    pub fn lets_leads_close(&self) -> bool {
        self.text.is_some() && self.read().is_ok_and(|policy| policy.lead_may_close)
    }
}
