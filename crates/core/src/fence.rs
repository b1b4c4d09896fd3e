//! Texts of others in prompts: between marks that they cannot imitate, so that they are read as
//! data.

use sha2::{Digest, Sha256};

/// A text as data. The mark depends on the text, so the text cannot contain it.
#[must_use]
pub fn fence(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    let mark: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("<data {mark}>\n{}\n</data {mark}>", text.trim_end())
}
