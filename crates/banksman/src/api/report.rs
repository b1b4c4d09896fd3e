//! What the agent of a run sends: documents that are read, and never written.

use serde::Deserialize;

/// What it has done or is about to do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgressReport {
    pub step: String,
    #[serde(default)]
    pub files: TextList,
    #[serde(default)]
    pub blockers: TextList,
}

/// A question for a person.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonQuestion {
    pub question: String,
}

/// One action that may need permission, and why it is needed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRequest {
    pub command: Option<String>,
    pub path: Option<String>,
    pub tool: Option<String>,
    pub reason: String,
}

/// Why the task needs no change.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NothingToDo {
    pub reason: String,
}

/// A list of texts. Models also send one as a text, and as JSON in a text.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "GivenTexts")]
pub struct TextList(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a list of texts")]
enum GivenTexts {
    Several(Vec<String>),
    One(String),
    None(()),
}

impl From<GivenTexts> for TextList {
    fn from(given: GivenTexts) -> Self {
        Self(match given {
            GivenTexts::Several(texts) => texts,
            GivenTexts::One(text) => serde_json::from_str(&text).unwrap_or_else(|_| vec![text]),
            GivenTexts::None(()) => Vec::new(),
        })
    }
}
