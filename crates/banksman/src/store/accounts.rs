//! Provider accounts: which are paused, until when, and which one run is probing.

use banksman_core::time::Instant;

use super::conn::{DbError, Row};
use super::notices::{NewNotice, NoticeKind, write_notice};
use super::tx::{Tx, params};
use super::{Result, Store, sql};

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
    pub fn accounts(&self) -> Result<Vec<(String, AccountRow)>> {
        self.rows(sql::ACCOUNTS, &params![ACCOUNTS], account)
    }

    /// Ends a pause for a person, without a probe. Returns whether the account has a row.
    pub fn resume_account(&self, name: &str) -> Result<bool> {
        let name = params![name];
        self.write(move |tx| {
            tx.notify();
            tx.has(sql::RESUME_ACCOUNT, &name)
        })
    }

    /// Ends the pauses that are due, each once, with a notice. Then one run probes the account.
    pub fn end_pauses(&self, now: Instant) -> Result<Vec<String>> {
        self.write(move |tx| {
            let mut names = tx.all(sql::END_PAUSES, &params![now], |row| row.get::<String>(0))?;
            names.sort();
            for name in &names {
                let text = format!("the pause of account {name} is over; one run tries first");
                let notice = NewNotice::new(NoticeKind::AccountResumed, None, text);
                write_notice(tx, &notice, now)?;
            }
            Ok(names)
        })
    }
}

pub(super) fn pause(tx: &mut Tx<'_>, pause: &PauseRequest) -> Result<()> {
    let reason: String = pause.reason.chars().take(REASON_CHARS).collect();
    tx.write(sql::PAUSE_ACCOUNT, &params![&pause.account, pause.until, reason, pause.hits])
}

pub(super) fn account(row: &Row) -> Result<(String, AccountRow), DbError> {
    let account = AccountRow {
        paused_until: row.get(1)?,
        reason: row.get(2)?,
        hits: u32::try_from(row.int(3)?).unwrap_or(u32::MAX),
        probing: row.get(4)?,
    };
    Ok((row.get(0)?, account))
}
