//! Reads the feed of changes: to its end, up to a number, or continuously.

use std::time::Duration;

use super::principal::Operation;
use super::{OpsError, Session};
use crate::store::StoreError;
use crate::store::feed::{Change, Cursor, PAGE};

/// A follower polls after this time even if nothing woke it: on PostgreSQL a change becomes
/// readable when an older transaction ends, which may belong to another program.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The changes to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// None means from the oldest change that is kept.
    pub after: Option<Cursor>,
    pub limit: Option<u64>,
    /// Whether to wait for more at the end.
    pub follow: bool,
}

/// The cursor of a change.
pub fn cursor(text: &str) -> Result<Cursor, OpsError> {
    Ok(text.parse::<Cursor>().map_err(StoreError::from)?)
}

/// The cursor of the latest change; none before the first.
pub fn end(session: &Session) -> Result<Option<Cursor>, OpsError> {
    Ok(session.may(Operation::ReadStore)?.feed_end()?)
}

/// Passes the changes on in pages. `each` is called with at least one change.
pub fn read<E: From<OpsError>>(
    session: &Session,
    request: Request,
    mut each: impl FnMut(&[Change]) -> Result<(), E>,
) -> Result<(), E> {
    let store = session.may(Operation::ReadStore)?;
    let Request { mut after, follow, .. } = request;
    let mut left = request.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let mark = store.mark();
        let at_most = i64::try_from(left).unwrap_or(i64::MAX).min(PAGE);
        let page = store.changes(after, at_most).map_err(OpsError::from)?;
        if let Some(last) = page.last() {
            after = Some(last.cursor);
            left -= page.len() as u64;
            each(&page)?;
        } else if follow {
            store.wait(mark, LOOK_AGAIN);
        } else {
            break;
        }
    }
    Ok(())
}
