//! Paths as git prints them: plain, or in double quotes with C escapes. This form also preserves
//! paths that are not UTF-8.

/// The bytes of a path.
pub(super) fn unquote(text: &str) -> Vec<u8> {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return text.as_bytes().to_vec();
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'\\' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let (byte, used) = escape(after);
        bytes.push(byte);
        rest = &after[used.min(after.len())..];
    }
    bytes
}

/// The byte that an escape stands for, and the length of the escape after the backslash.
fn escape(after: &[u8]) -> (u8, usize) {
    let octal = after.iter().take(3).take_while(|byte| (b'0'..=b'7').contains(*byte)).count();
    if octal > 0 {
        let value =
            after[..octal].iter().fold(0_u32, |value, byte| value * 8 + u32::from(byte - b'0'));
        return (u8::try_from(value).unwrap_or(b'?'), octal);
    }
    let byte = match after.first() {
        Some(b'a') => 0x07,
        Some(b'b') => 0x08,
        Some(b't') => b'\t',
        Some(b'n') => b'\n',
        Some(b'v') => 0x0b,
        Some(b'f') => 0x0c,
        Some(b'r') => b'\r',
        Some(other) => *other,
        None => b'\\',
    };
    (byte, 1)
}

/// A path for people and receipts. Invalid UTF-8 becomes a replacement character.
pub fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_path_is_read() {
        let check = |text: &str, bytes: &[u8]| assert_eq!(unquote(text), bytes, "{text}");
        check("src/a b.rs", b"src/a b.rs");
        check(r#""two\nlines""#, b"two\nlines");
        check(r#""tab\tquote\"back\\""#, b"tab\tquote\"back\\");
        check(r#""\303\244""#, "ä".as_bytes());
        check(r#""\377x""#, b"\xffx");
        check(r#""\1""#, b"\x01");
        check(r#"""#, b"\"");
        check("", b"");
        check(r#""end\""#, b"end\\");
    }
}
