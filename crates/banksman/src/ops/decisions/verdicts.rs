//! What reviewers have said about the work that is to be decided on: verdicts and concerns, dissent
//! first.

use banksman_core::lifecycle::contract::Field;
use banksman_core::lifecycle::expr::Value;
use banksman_core::limits;
use banksman_core::panel::fields::{
    CONCERN, RATIONALE, RESPONSE, REVIEWER, SUGGESTIONS, VERDICT, WARNING, WHY,
};
use banksman_core::panel::summary::NO_RESPONSE;
use banksman_core::text::line;

use crate::store::Stored;

/// Verdicts that are listed; a panel has far fewer.
const MOST: usize = 50;
/// Words that mean yes. Anything else needs a look.
const YES: [&str; 6] = ["approve", "approved", "pass", "passed", "withdraw", "withdrawn"];

/// One verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewerVerdict {
    pub who: String,
    pub verdict: String,
    pub words: String,
    /// Suggestions, whatever the verdict.
    pub suggestions: Vec<String>,
    pub dissents: bool,
}

pub(super) fn verdicts(stored: &Stored, children: &[Stored]) -> Vec<ReviewerVerdict> {
    let on_record = stored.list(Field::Verdicts);
    let verdicts = on_record.iter().map(|said| verdict(said, REVIEWER));
    let concerns = stored.list(Field::Concerns).iter().map(concern);
    // A panel that has ended has recorded the verdicts on its task.
    let open = children.iter().filter(|_| on_record.is_empty());
    let reviews = open.filter_map(review);
    let mut verdicts: Vec<ReviewerVerdict> =
        verdicts.chain(concerns).chain(reviews).take(MOST).collect();
    verdicts.sort_by_key(|verdict| !verdict.dissents);
    verdicts
}

/// The answer of an open review.
fn review(child: &Stored) -> Option<ReviewerVerdict> {
    let who = child.text(Field::Reviewer)?;
    match (child.value(Field::Answer), child.text(Field::Diagnostic)) {
        (Some(answer), _) => Some(ReviewerVerdict { who: who.to_owned(), ..verdict(answer, who) }),
        (None, Some(why)) => Some(ReviewerVerdict {
            who: who.to_owned(),
            verdict: "no verdict".to_owned(),
            words: why.to_owned(),
            suggestions: Vec::new(),
            dissents: true,
        }),
        (None, None) => None,
    }
}

/// A concern that a reviewer maintains, and its defence if there was a debate. It is no verdict of
/// its own.
fn concern(said: &Value) -> ReviewerVerdict {
    let text = |key: &str| said.get(key).and_then(Value::as_str).map(str::trim);
    let own = verdict(said, CONCERN);
    let Some(concern) = text(CONCERN) else { return own };
    let words = match text(RESPONSE).filter(|response| !matches!(*response, "" | NO_RESPONSE)) {
        Some(response) => format!("{concern} (response: {response})"),
        None => concern.to_owned(),
    };
    ReviewerVerdict { verdict: String::new(), words, ..own }
}

/// A verdict is a record, whose keys differ between reviewers, or just a sentence.
fn verdict(said: &Value, who: &str) -> ReviewerVerdict {
    let first = |keys: &[&str]| {
        let texts = keys.iter().filter_map(|key| said.get(key).and_then(Value::as_str));
        texts.map(str::trim).find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let who_said = first(&[REVIEWER, "role", "by", "name"]);
    let verdict = first(&[VERDICT, RESPONSE]);
    let is_yes = YES.contains(&verdict.to_lowercase().as_str());
    // An objection says what has to change. A yes has only its reasons, and the last one is that of
    // a withdrawal.
    let words = if is_yes {
        first(&[WHY, RATIONALE, "summary", "text"])
    } else {
        first(&["feedback", RATIONALE, CONCERN, "summary", "text", WHY])
    };
    let words = said.as_str().map_or(words, str::to_owned);
    let warning = first(&[WARNING]);
    // Each concern is shown, because the rationale may only sum them up.
    let concerns = texts_of(said, Field::Concerns.name()).filter(|_| !is_yes);
    let words = concerns.collect::<Vec<_>>().into_iter().chain([words]);
    let mut told: Vec<String> = Vec::new();
    for text in words.filter(|text| !text.is_empty()) {
        if !told.contains(&text) {
            told.push(text);
        }
    }
    let words = told.join("; ");
    ReviewerVerdict {
        who: if who_said.is_empty() { who.to_owned() } else { who_said },
        verdict,
        words: if warning.is_empty() { words } else { format!("{words} ({warning})") },
        suggestions: suggestions(said),
        dissents: !is_yes,
    }
}

/// A reviewer's answer has no limit of its own, so there is one here.
fn suggestions(said: &Value) -> Vec<String> {
    texts_of(said, SUGGESTIONS).collect()
}

/// The texts of a list, each on one line.
fn texts_of(said: &Value, key: &str) -> impl Iterator<Item = String> {
    let texts = said.get(key).and_then(Value::as_array).into_iter().flatten();
    let lines = texts.filter_map(Value::as_str).map(|text| line(text, limits::OPINION_ITEM_BYTES));
    lines.filter(|line| !line.is_empty()).take(limits::OPINION_ITEMS)
}
