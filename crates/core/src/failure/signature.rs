//! Signatures: failures with the same cause get the same text, because everything that varies
//! between runs is removed.

use crate::text::start_of;

/// Characters of the text that are compared.
const SIGNATURE_CHARS: usize = 400;
const CODE_CHARS: usize = 64;
/// Enough for four hundred characters, even if most of the text is paths and blanks.
const READ_BYTES: usize = 64 * 1024;
/// The length from which a word of hexadecimal digits counts as a hash.
const HASH_CHARS: usize = 7;

/// The class, then the text in lower case without colours, identifiers, paths and numbers.
pub fn signature(code: &str, text: &str) -> String {
    let plain = without_escapes(start_of(text, READ_BYTES)).to_lowercase();
    let mut words = String::new();
    for word in plain.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        normalise(word, &mut words);
        if words.len() > SIGNATURE_CHARS * 4 {
            break;
        }
    }
    let code: String = code.chars().take(CODE_CHARS).collect();
    let words: String = words.chars().take(SIGNATURE_CHARS).collect();
    format!("{code}:{}", words.trim_end())
}

/// The text without terminal escape sequences and other control characters.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => match letters.next() {
                Some('[') => {
                    while letters.next().is_some_and(|part| !('@'..='~').contains(&part)) {}
                }
                Some(']') => {
                    while letters.next().is_some_and(|part| !matches!(part, '\u{7}' | '\u{1b}')) {}
                    letters.next_if_eq(&'\\');
                }
                Some(_) | None => {}
            },
            blank if blank.is_whitespace() => plain.push(' '),
            control if control.is_control() => {}
            letter => plain.push(letter),
        }
    }
    plain
}

/// Appends a word, with its variable parts replaced.
fn normalise(word: &str, into: &mut String) {
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let is_of_run = |letter: char| letter.is_alphanumeric() || "_-./\\~+@".contains(letter);
        if !is_of_run(first) {
            into.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let length = rest.find(|letter| !is_of_run(letter)).unwrap_or(rest.len());
        let run = &rest[..length];
        if is_path(run) {
            into.push_str("<path>");
        } else {
            identifiers(run, into);
        }
        rest = &rest[length..];
    }
}

fn is_path(run: &str) -> bool {
    run.contains(['/', '\\']) && run.contains(char::is_alphanumeric)
}

fn identifiers(run: &str, into: &mut String) {
    let mut rest = run;
    while let Some(first) = rest.chars().next() {
        if let Some(length) = uuid(rest) {
            into.push_str("<uuid>");
            rest = &rest[length..];
        } else if first.is_alphanumeric() {
            let length = rest.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(rest.len());
            let is_hash = is_hash(&rest[..length]);
            let length = if is_hash { length } else { number_or_letters(rest) };
            into.push_str(match (is_hash, first.is_ascii_digit()) {
                (true, _) => "<hex>",
                (false, true) => "<n>",
                (false, false) => &rest[..length],
            });
            rest = &rest[length..];
        } else {
            into.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
}

/// The length of the leading number, including its fraction, or of the text before the next number.
fn number_or_letters(text: &str) -> usize {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    if whole == 0 {
        return text
            .find(|letter: char| letter.is_ascii_digit() || !letter.is_alphanumeric())
            .unwrap_or(text.len());
    }
    match text[whole..].strip_prefix('.').map(digits) {
        Some(fraction) if fraction > 0 => whole + 1 + fraction,
        Some(_) | None => whole,
    }
}

/// The length of the leading UUID.
fn uuid(text: &str) -> Option<usize> {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    const LENGTH: usize = 36;
    let start = text.get(..LENGTH)?;
    let fits =
        start.split('-').map(|group| group.bytes().take_while(u8::is_ascii_hexdigit).count());
    let ends = !text[LENGTH..].starts_with(char::is_alphanumeric);
    (ends && fits.eq(GROUPS)).then_some(LENGTH)
}

/// A word without digits stays a word, and a plain number stays a number.
fn is_hash(word: &str) -> bool {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let is_prefixed = digits.len() < word.len();
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_mixed = digits.bytes().any(|byte| byte.is_ascii_digit())
        && !digits.bytes().all(|byte| byte.is_ascii_digit());
    is_hex && (is_prefixed || (digits.len() >= HASH_CHARS && is_mixed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn what_differs_from_run_to_run_is_taken_out() {
        for (text, expected) in [
            ("", "test:"),
            ("Exit code 101", "test:exit code <n>"),
            ("\u{1b}[1;31mError\u{1b}[0m: boom", "test:error: boom"),
            ("\u{1b}]8;;https://example.org\u{7}link\u{1b}]8;;\u{1b}\\ end", "test:link end"),
            ("run 5f6ef9e9-afa7-1908-8ba8-ba9a2fe03582 died", "test:run <uuid> died"),
            (
                "5f6ef9e9-afa7-1908-8ba8-ba9a2fe03582z",
                "test:<hex>-afa<n>-<n>-<n>ba<n>-ba<n>a<n>fe<n>z",
            ),
            ("at src/main.rs:12:5", "test:at <path>:<n>:<n>"),
            ("at ./x.rs, ~/y and C:\\a\\b.c", "test:at <path>, <path> and c:<path>"),
            ("head 4f2a9c1 differs", "test:head <hex> differs"),
            ("head 8ba8ba9a2fe03582060ef803af9f0cb500000000", "test:head <hex>"),
            ("pointer 0x7ffe", "test:pointer <hex>"),
            ("a defaced facade", "test:a defaced facade"),
            ("pid 1234567 took 12.75s, 3x", "test:pid <n> took <n>s, <n>x"),
            ("  many \n\t blanks ", "test:many blanks"),
            ("task t83 and 5.", "test:task t<n> and <n>."),
            ("bell\u{7} and nul\0", "test:bell and nul"),
        ] {
            assert_eq!(signature("test", text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_code_tells_equal_texts_apart() {
        assert_ne!(signature("test", "boom"), signature("setup", "boom"));
    }

    #[test]
    fn it_has_four_hundred_letters_at_most() {
        assert_eq!(signature("test", &"ü".repeat(1_000)).chars().count(), 400 + "test:".len());
        assert_eq!(signature("test", &"x ".repeat(1_000_000)).chars().count(), 399 + "test:".len());
    }

    proptest! {
        #[test]
        fn any_text_has_a_bounded_signature_without_digits(text in "(?s).{0,600}", code in ".{0,80}") {
            let made = signature(&code, &text);
            prop_assert!(made.chars().count() <= CODE_CHARS + 1 + SIGNATURE_CHARS);
            prop_assert_eq!(&made, &signature(&code, &text));
            let code: String = code.chars().take(CODE_CHARS).collect();
            prop_assert!(!made[code.len()..].contains(|letter: char| letter.is_ascii_digit()), "{made}");
        }

        #[test]
        fn other_numbers_paths_and_hashes_make_no_difference(
            left in (0_u32..99_999, "[a-z]{1,9}(/[a-z]{1,9}){1,3}", "[0-9][a-f][0-9a-f]{5,38}"),
            right in (0_u32..99_999, "[a-z]{1,9}(/[a-z]{1,9}){1,3}", "[0-9][a-f][0-9a-f]{5,38}"),
        ) {
            let text = |(number, path, hash): &(u32, String, String)| format!("line {number} of {path} at {hash}: x");
            prop_assert_eq!(signature("test", &text(&left)), signature("test", &text(&right)));
        }
    }
}
