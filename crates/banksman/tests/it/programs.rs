//! Where tests find other programs. One that needs something which not every machine has is called
//! `needs_…`: `scripts/test` leaves it out where that is missing, and here it is a failure.

use std::env;

/// The folders that a test gives to what it starts: the one of the git that this test run uses,
/// then the usual ones.
pub(crate) fn path() -> String {
    const USUAL: &str = "/usr/local/bin:/usr/bin:/bin";
    let path = env::var_os("PATH").unwrap_or_default();
    let git = env::split_paths(&path).find(|folder| folder.join("git").is_file());
    git.map_or_else(|| USUAL.to_owned(), |folder| format!("{}:{USUAL}", folder.display()))
}

/// The server of the tests called `needs_postgres`.
pub(crate) fn postgres() -> String {
    env::var("BANKSMAN_TEST_PG").ok().filter(|url| url != "skip").expect(
        "BANKSMAN_TEST_PG names no server: run scripts/test, or this command by scripts/pg-server run",
    )
}
