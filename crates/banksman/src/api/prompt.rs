//! The prompts of agents as JSON.

use banksman_core::lifecycle::expr::Value;
use banksman_core::prompt::Truncation;
use serde::Serialize;

use crate::ops::prompts::PromptEntry;

documents! {
    /// A prompt in the list of all.
    ListedPrompt<'a>(entry: &'a PromptEntry, from: String) {
        audience: &'a str = &entry.audience,
        name: &'a str = &entry.name,
        ok: bool = entry.is_sound,
        origin: String = from,
        overridden: bool = entry.file.is_some(),
        schema: Option<&'static str> = entry.schema,
        values: &'a [String] = &entry.values,
    }

    /// A part that was shortened; lengths in bytes.
    Cut(cut: &Truncation) {
        left_out: usize = cut.left_out,
        of: usize = cut.of,
        part: &'static str = cut.part,
        /// The same in words.
        #[serde(skip)]
        words: String = cut.describe(),
    }
}

/// A prompt and its text.
#[derive(Debug, Serialize)]
pub struct Prompt<'a> {
    pub name: &'a str,
    pub origin: &'a str,
    pub schema: Option<&'static str>,
    pub text: &'a str,
    pub values: Vec<String>,
}

/// The prompt that an agent would get.
#[derive(Debug, Serialize)]
pub struct RenderedPrompt {
    pub bytes: usize,
    pub cut: Vec<Cut>,
    pub open: Vec<String>,
    pub origin: String,
    pub role: String,
    pub schema: Option<Value>,
    pub state: String,
    pub template: String,
    pub text: String,
    pub worker: Option<String>,
}
