//! Fences foreign text in a prompt, so that an agent reads it as data and not as instructions.

use sha2::{Digest, Sha256};

/// Puts the text between two markers. They contain the text's hash, so the text cannot contain
/// them.
pub fn fence(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    let mark: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("<data {mark}>\n{}\n</data {mark}>", text.trim_end())
}
