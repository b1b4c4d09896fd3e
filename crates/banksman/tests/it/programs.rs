//! Where tests find other programs.

use std::env;

/// The folders that a test gives to what it starts: the one of the git that this test run uses, then the usual ones.
pub(crate) fn path() -> String {
    const USUAL: &str = "/usr/local/bin:/usr/bin:/bin";
    let path = env::var_os("PATH").unwrap_or_default();
    let git = env::split_paths(&path).find(|folder| folder.join("git").is_file());
    git.map_or_else(|| USUAL.to_owned(), |folder| format!("{}:{USUAL}", folder.display()))
}
