//! Ids of objects. Nothing here asks git whether an object exists.

use crate::exec::process::{Result, RunError};

/// Hexadecimal digits of a SHA-1 and of a SHA-256.
const LENGTHS: [usize; 2] = [40, 64];

/// The text itself if it is the full id of an object. Then git cannot take it for an option or for
/// the name of a branch.
pub(super) fn full_id(text: &str) -> Result<&str> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if LENGTHS.contains(&text.len()) && text.bytes().all(is_digit) {
        return Ok(text);
    }
    Err(RunError::failed("reading a commit id", format!("`{text}` is not a full commit id")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_ids_are_ids() {
        for length in LENGTHS {
            let id = "0f".repeat(length / 2);
            assert_eq!(full_id(&id).ok(), Some(id.as_str()));
            assert!(full_id(&id[1..]).is_err() && full_id(&id.to_uppercase()).is_err());
            assert!(full_id(&format!("-{}", &id[1..])).is_err());
        }
        for text in ["", "HEAD", "main", "--hard", "--pathspec-from-file=/etc/hostname"] {
            assert!(full_id(text).is_err(), "{text}");
        }
    }
}
