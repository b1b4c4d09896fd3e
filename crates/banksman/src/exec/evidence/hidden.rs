//! Files that were hidden from git during a run, where no commit shows it: checks would see them,
//! and nobody else.

use std::path::Path;

use banksman_core::limits::EVIDENCE_PATHS;

use crate::exec::files::{self, AtPath};
use crate::exec::process::Result;
use crate::exec::worktree::WorktreeJob;

/// What the repository's own list of ignored files hides, and did not before.
pub(super) fn hidden(
    job: &mut WorktreeJob<'_>,
    record: &Path,
    then: &[u8],
) -> Result<Option<String>> {
    let list = job.excludes()?;
    if list.is_empty() || list == then {
        return Ok(None);
    }
    let (earlier, now) = (record.join("banksman-exclude"), job.exclude_file());
    files::replace(&earlier, then).during("writing", &earlier)?;
    let mut paths = job.git().hidden_since(&earlier, &now)?;
    paths.truncate(EVIDENCE_PATHS);
    let named = (!paths.is_empty()).then(|| paths.join(", "));
    Ok(named.map(|paths| {
        format!(
            "`.git/info/exclude` hides {paths} since the run began; commit it, or ignore it in \
             `.gitignore`"
        )
    }))
}
