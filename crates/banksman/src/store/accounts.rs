//! Provider accounts: which are paused, until when, and which one run is probing.

use banksman_core::time::Instant;

use super::conn::{Conn, Row};
use super::notices::{NewNotice, NoticeKind, write_notice};
use super::{Store, StoreError, sql};

/// Accounts that one query reads.
pub(super) const ACCOUNTS: i64 = 1_000;
/// The stored length of a reason, in characters: it is shown on one line.
const REASON_CHARS: usize = 500;

/// An account that was paused at least once; other accounts have no row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountRow {
    pub paused_until: Option<Instant>,
    pub reason: String,
    /// Pauses since the provider last answered.
    pub hits: u32,
    /// After a pause one run probes the account, until the provider answers again.
    pub probing: bool,
}

/// A pause that a provider asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseRequest {
    pub account: String,
    pub until: Instant,
    pub reason: String,
    pub hits: u32,
}

impl Store {
    pub fn accounts(&self) -> Result<Vec<(String, AccountRow)>, StoreError> {
        self.read(|conn| {
            conn.query(sql::ACCOUNTS, &[ACCOUNTS.into()])?.iter().map(account).collect()
        })
    }

    /// Ends a pause for a person, without a probe. Returns whether the account has a row.
    pub fn resume_account(&self, name: &str) -> Result<bool, StoreError> {
        let name = [name.into()];
        self.write(move |conn| {
            conn.notify();
            Ok(!conn.query(sql::RESUME_ACCOUNT, &name)?.is_empty())
        })
    }

    /// Ends the pauses that are due, each once, with a notice. Then one run probes the account.
    pub fn end_pauses(&self, now: Instant) -> Result<Vec<String>, StoreError> {
        self.write(move |conn| {
            let rows = conn.query(sql::END_PAUSES, &[now.0.into()])?;
            let names: Result<Vec<String>, _> =
                rows.iter().map(|row| row.text(0).map(str::to_owned)).collect();
            let mut names = names?;
            names.sort();
            for name in &names {
                let text = format!("the pause of account {name} is over; one run tries first");
                let notice = NewNotice::new(NoticeKind::AccountResumed, None, text);
                write_notice(conn, &notice, now)?;
            }
            Ok(names)
        })
    }
}

pub(super) fn pause(conn: &mut dyn Conn, pause: &PauseRequest) -> Result<(), StoreError> {
    let reason: String = pause.reason.chars().take(REASON_CHARS).collect();
    let columns = [
        pause.account.as_str().into(),
        pause.until.0.into(),
        reason.into(),
        i64::from(pause.hits).into(),
    ];
    Ok(conn.write(sql::PAUSE_ACCOUNT, &columns)?)
}

pub(super) fn account(row: &Row) -> Result<(String, AccountRow), StoreError> {
    let account = AccountRow {
        paused_until: row.opt_int(1)?.map(Instant),
        reason: row.text(2)?.to_owned(),
        hits: u32::try_from(row.int(3)?).unwrap_or(u32::MAX),
        probing: row.int(4)? != 0,
    };
    Ok((row.text(0)?.to_owned(), account))
}
