//! The project's policy file: read with the settings, parsed when it is first needed.
//!
//! An invalid file allows nothing: no agent starts under it, and `banksman policy lint` shows its
//! problems.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use banksman_core::lifecycle::problem::Problems;
use banksman_core::policy::{self, Policy};

use super::{FOLDER, Result, layer};

const FILE: &str = "policy.yaml";

#[derive(Debug, Clone, Default)]
pub struct PolicyFile {
    pub path: PathBuf,
    /// None if the project has no policy file; then only the built-in rules apply.
    pub text: Option<String>,
    /// The parsed policy. Copies share it, because it is needed at every start and end of a run.
    parsed: Arc<OnceLock<Result<Policy, Box<Problems>>>>,
}

impl PartialEq for PolicyFile {
    /// The parsed policy follows from the text.
    fn eq(&self, other: &Self) -> bool {
        (&self.path, &self.text) == (&other.path, &other.text)
    }
}

impl PolicyFile {
    pub(super) fn of(root: &Path) -> Result<Self> {
        let path = root.join(FOLDER).join(FILE);
        let text = layer::read(&path)?;
        Ok(Self { path, text, ..Self::default() })
    }

    /// The policy in effect, or all problems of the file.
    pub fn read(&self) -> Result<&Policy, &Problems> {
        let parsed = self.parsed.get_or_init(|| match &self.text {
            None => Ok(policy::builtin()),
            Some(text) => policy::read(text, &self.path.display().to_string()),
        });
        parsed.as_ref().map_err(AsRef::as_ref)
    }

    /// Reuses the parsed policy of an earlier reading, if the file is unchanged.
    pub fn reuse(&mut self, earlier: &Self) {
        if self == earlier {
            self.parsed = Arc::clone(&earlier.parsed);
        }
    }

    /// Whether a lead may close a task. An invalid file gives no such right.
    pub fn leads_may_close(&self) -> bool {
        self.text.is_some() && self.read().is_ok_and(|policy| policy.lead_may_close)
    }
}
