//! Makes outputs comparable: times, hashes and the sandbox's folder become fixed words of the same
//! width, so that columns stay aligned.

/// Shapes of what changes from run to run. `0` stands for a digit, `f` for a hexadecimal digit, the
/// rest for itself.
const LOCAL_TIME: &str = "0000-00-00 00:00:00";
const UTC_TIME: &str = "0000-00-00T00:00:00";
/// A size on the disk stands behind this.
const SIZE: &str = "\"bytes\": ";
const HASHES: [usize; 2] = [64, 16];

pub(super) fn masked(text: &str, folder: &str) -> String {
    let text = text.replace(folder, "[SANDBOX]");
    let mut masked = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        if has_shape(rest, LOCAL_TIME) {
            masked.push_str(LOCAL_TIME);
            rest = &rest[LOCAL_TIME.len()..];
        } else if has_shape(rest, UTC_TIME) {
            masked.push_str(UTC_TIME);
            rest =
                rest[UTC_TIME.len()..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
        } else if masked.ends_with(SIZE) && first.is_ascii_digit() {
            masked.push('0');
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        } else if let Some(length) = hash_length(&masked, rest) {
            masked.extend(std::iter::repeat_n('f', length));
            rest = &rest[length..];
        } else {
            masked.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    masked
}

fn has_shape(text: &str, shape: &str) -> bool {
    let mut bytes = text.bytes();
    shape.bytes().all(|wanted| {
        bytes
            .next()
            .is_some_and(|byte| if wanted == b'0' { byte.is_ascii_digit() } else { byte == wanted })
    })
}

/// A word of exactly as many hexadecimal digits as one of our hashes.
fn hash_length(before: &str, text: &str) -> Option<usize> {
    let inside_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let length = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    let ends_word = !text[length..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    (!inside_word && ends_word && HASHES.contains(&length)).then_some(length)
}

#[test]
fn only_what_changes_is_masked() {
    let hash = "0123456789abcdef";
    let text = format!(
        "/tmp/x/a 2026-01-02 03:04:05 2026-01-02T03:04:05.678Z {hash} {hash}0 t12 deadbeef\n"
    );
    assert_eq!(
        masked(&text, "/tmp/x"),
        format!(
            "[SANDBOX]/a 0000-00-00 00:00:00 0000-00-00T00:00:00Z ffffffffffffffff {hash}0 t12 deadbeef\n"
        )
    );
}
