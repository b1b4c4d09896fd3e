//! Changes of the store and notices, as JSON.

use banksman_core::time::Instant;
use serde::Serialize;

use crate::store::feed::{Change as FeedChange, ChangeDetail};
use crate::store::notices::Notice as StoredNotice;

documents! {
    /// One line of `banksman changes --json`. It has one of the four details.
    Change<'a>(change: &'a FeedChange) {
        /// Pass it to `--after` to go on behind this change.
        cursor: String = change.cursor.to_string(),
        at: Instant = change.at,
        kind: &'static str = change.kind.as_str(),
        task: Option<String> = change.task.map(|task| task.to_string()),
        #[serde(flatten)]
        detail: Detail<'a> = detail(&change.detail),
    }

    Notice<'a>(notice: &'a StoredNotice) {
        id: i64 = notice.id,
        kind: &'static str = notice.kind.as_str(),
        task: Option<String> = notice.task.map(|task| task.to_string()),
        decision: Option<String> = notice.decision.map(|decision| decision.to_string()),
        urgent: bool = notice.urgent,
        text: &'a str = &notice.text,
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Detail<'a> {
    /// A record of the task's history; `history` has its fields.
    Record {
        seq: i64,
        from: Option<&'a str>,
        to: &'a str,
        trigger: &'a str,
        actor: &'a str,
    },
    Run {
        id: String,
        worker: &'a str,
        outcome: Option<&'a str>,
    },
    Decision {
        id: String,
        asks: &'a str,
        settled_by: Option<&'a str>,
    },
    Notice(Notice<'a>),
}

fn detail(detail: &ChangeDetail) -> Detail<'_> {
    match detail {
        ChangeDetail::Record { seq, from, to, trigger, actor } => {
            Detail::Record { seq: *seq, from: from.as_deref(), to, trigger, actor }
        }
        ChangeDetail::Run { run, worker, outcome } => {
            Detail::Run { id: run.to_string(), worker, outcome: outcome.as_deref() }
        }
        ChangeDetail::Decision { id, asks, settled_by } => {
            Detail::Decision { id: id.to_string(), asks, settled_by: settled_by.as_deref() }
        }
        ChangeDetail::Notice(notice) => Detail::Notice(Notice::new(notice)),
    }
}
