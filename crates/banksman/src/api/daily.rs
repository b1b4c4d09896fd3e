//! A daily note and its answers as JSON.

use banksman_core::daily::EntryOutcome;
use banksman_core::ids::DecisionId;

use crate::ops::daily::{LocalDay, RefreshedNote};

documents! {
    /// `is_new` is whether the file was written; none if the note is only printed.
    DailyNote<'a>(day: &LocalDay, file: String, note: &'a RefreshedNote, is_new: Option<bool>) {
        alerts: usize = note.alerts,
        #[serde(skip_serializing_if = "Option::is_none")]
        answers: Option<Vec<NoteAnswer<'a>>> =
            is_new.map(|_| note.reports.iter().map(NoteAnswer::new).collect()),
        completed: usize = note.completed,
        date: String = day.date.to_string(),
        path: String = file,
        pending: usize = note.pending,
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<&'a str> = is_new.is_none().then_some(&note.text),
        #[serde(skip_serializing_if = "Option::is_none")]
        written: Option<bool> = is_new,
    }

    NoteAnswer<'a>(entry: (&DecisionId, &'a EntryOutcome)) {
        answered: bool = matches!(entry.1, EntryOutcome::Answered(_)),
        decision: String = entry.0.to_string(),
        detail: &'a str = match entry.1 {
            EntryOutcome::Answered(what) => what,
            EntryOutcome::Refused(why) => why,
        },
    }
}
