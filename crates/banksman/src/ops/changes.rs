//! Reads the feed of changes: to its end, up to a number, or on and on.

use std::time::Duration;

use super::principal::Operation;
use super::{OpsError, Session};
use crate::store::StoreError;
use crate::store::feed::{Change, Cursor, PAGE};

/// A follower looks again after this time even if nothing woke it: on PostgreSQL a change becomes
/// readable when an older transaction ends, which may not be one of ours.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Which changes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// From the oldest that is kept, if none is given.
    pub after: Option<Cursor>,
    pub limit: Option<u64>,
    /// Waits for more at the end.
    pub follow: bool,
}

/// A place in the feed, as a change names it.
pub fn cursor(text: &str) -> Result<Cursor, OpsError> {
    Ok(text.parse::<Cursor>().map_err(StoreError::from)?)
}

/// The place of the latest change; none before the first.
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
