//! File names: made from ids and numbered. It touches no file.

use sha2::{Digest, Sha256};

/// Leaves room for `-done.json`, a number and a draft's extension below the limit of 255 bytes that
/// file systems have.
const NAME_BYTES: usize = 160;
/// How much of a long name is kept before a hash of the whole.
const KEPT_BYTES: usize = 120;

/// The file name for the id of a step, gate or workflow. Different ids have different names.
///
/// Letters of any script, digits and `-_.,` stay, `/` becomes `+`, and everything else is
/// percent-encoded (`%5B`), so that a person can type the name of most ids and no shell interprets
/// it.
pub fn file_name(id: &str) -> String {
    if id.is_empty() {
        return "%".to_owned();
    }
    let mut name = String::with_capacity(id.len());
    for char in id.chars() {
        // A leading dot would hide the file, and a leading dash would make it an option.
        let is_bad_start = name.is_empty() && matches!(char, '.' | '-');
        if char == '/' {
            name.push('+');
        } else if !is_bad_start && (char.is_alphanumeric() || matches!(char, '-' | '_' | '.' | ','))
        {
            name.push(char);
        } else {
            let mut bytes = [0; 4];
            for byte in char.encode_utf8(&mut bytes).bytes() {
                name.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    if name.len() > NAME_BYTES {
        name.truncate(name.floor_char_boundary(KEPT_BYTES));
        // No other name contains a tilde.
        name = format!("{name}~{}", short_hash(id.as_bytes()));
    }
    name
}

/// Sixteen hex digits that distinguish contents.
pub(super) fn short_hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The name before the last dot, and the rest with the dot. A leading dot starts no extension.
pub(super) fn split_extension(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(at) if at > 0 => name.split_at(at),
        Some(_) | None => (name, ""),
    }
}

/// The path with `-2`, `-3` and so on before the extension; the first is the path itself.
pub(super) fn numbered(path: &str, number: u32) -> String {
    if number <= 1 {
        return path.to_owned();
    }
    let name_at = path.rfind('/').map_or(0, |slash| slash + 1);
    let (folder, name) = path.split_at(name_at);
    let (stem, ending) = split_extension(name);
    format!("{folder}{stem}-{number}{ending}")
}

/// Whether a name matches a template with some number for `{n}`, possibly with a `-2` to make it
/// unique.
pub(super) fn matches_template(template: &str, name: &str) -> bool {
    let (stem, ending) = split_extension(template);
    let Some(rest) = name.strip_suffix(ending) else { return false };
    let is_same = |rest: &str| match stem.split_once("{n}") {
        None => rest == stem,
        // The first number is free; every other `{n}` must be the same.
        Some((before, _)) => {
            let Some(after) = rest.strip_prefix(before) else { return false };
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            digits > 0 && rest == stem.replace("{n}", &after[..digits])
        }
    };
    let without_number = rest.rsplit_once('-').filter(|(_, number)| is_number(number));
    is_same(rest) || without_number.is_some_and(|(rest, _)| is_same(rest))
}

/// Whether a name in `taken/` belongs to a signal: `X-1-done.3.json` to `X-1-done.json`.
pub(super) fn is_taken_signal(signal: &str, name: &str) -> bool {
    let (stem, ending) = split_extension(signal);
    let middle = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(ending));
    middle.and_then(|middle| middle.strip_prefix('.')).is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_names_that_a_person_can_type() {
        let check = |id: &str, name: &str| assert_eq!(file_name(id), name);
        check("XG-1-2", "XG-1-2");
        check("release/X-1", "release+X-1");
        check("build[linux,2]", "build%5Blinux,2%5D");
        check("検証-1", "検証-1");
        check("..", "%2E.");
        check("../../etc", "%2E.+..+etc");
        check("-rf", "%2Drf");
        check("a b\n", "a%20b%0A");
        check("a+b%~", "a%2Bb%25%7E");
        check("", "%");
    }

    #[test]
    fn long_ids_stay_apart() {
        let (one, two) = (format!("{}1", "長".repeat(200)), format!("{}2", "長".repeat(200)));
        assert!(file_name(&one).len() <= NAME_BYTES);
        assert_ne!(file_name(&one), file_name(&two));
    }

    #[test]
    fn numbers_go_before_the_extension() {
        assert_eq!(numbered("a.b/x.md", 1), "a.b/x.md");
        assert_eq!(numbered("a.b/x.md", 2), "a.b/x-2.md");
        assert_eq!(numbered("a.b/x", 3), "a.b/x-3");
        assert_eq!(numbered("a/.x", 2), "a/.x-2");
    }

    #[test]
    fn a_template_matches_its_files() {
        let check = |template: &str, yes: &[&str], no: &[&str]| {
            for name in yes {
                assert!(matches_template(template, name), "{template} {name}");
            }
            for name in no {
                assert!(!matches_template(template, name), "{template} {name}");
            }
        };
        check(
            "XG-1-attempt-{n}.md",
            &["XG-1-attempt-1.md", "XG-1-attempt-10.md", "XG-1-attempt-2-3.md"],
            &["XG-1-attempt-.md", "XG-1-attempt-x.md", "XG-1-attempt-1.txt", "XG-12-attempt-1.md"],
        );
        check("notes.md", &["notes.md", "notes-2.md"], &["notes-x.md", "notes", "more-notes.md"]);
        check("{n}-of-{n}", &["1-of-1", "12-of-12-2"], &["1-of-2", "-of-"]);
        check("{n}", &["1", "22", "1-2"], &["x", "", "1-2-3"]);
    }

    #[test]
    fn a_taken_file_matches_its_signal() {
        assert!(is_taken_signal("X-1-done.json", "X-1-done.12.json"));
        assert!(is_taken_signal("XG-pass", "XG-pass.1"));
        assert!(!is_taken_signal("XG-pass", "XG-pass.1.md"));
        assert!(!is_taken_signal("X-1-done.json", "X-1-done..json"));
        assert!(!is_taken_signal("X-1-done.json", "X-12-done.1.json"));
    }
}
