//! Looks at Rust text as a rule needs it: code without comments and strings, the strings by
//! themselves, and every path that the code mentions.
//!
//! This is a scanner, not a parser: it knows where comments, literals and paths begin and end and
//! nothing about types.

/// `use a::{b::{c}}` deeper than this is not written by people.
const MAX_GROUP_DEPTH: usize = 16;

/// A string literal: where its text begins, and the text as written (escapes untouched).
#[derive(Debug)]
pub(super) struct Literal {
    pub(super) offset: usize,
    pub(super) text: String,
}

/// A path such as `crate::store::query`, with groups (`a::{b, c}`) written out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mention {
    pub(super) offset: usize,
    pub(super) segments: Vec<String>,
}

impl Mention {
    /// Whether `needle` (`thread::spawn`) stands somewhere in the path, at segment borders.
    pub(super) fn has(&self, needle: &str) -> bool {
        let wanted: Vec<&str> = needle.split("::").collect();
        self.segments.windows(wanted.len()).any(|window| window == wanted)
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

/// What starts at a byte, and where it ends.
enum Piece {
    Code,
    Comment {
        end: usize,
    },
    /// The text between the delimiters is `from..to`; the whole literal ends at `end`.
    Text {
        from: usize,
        to: usize,
        end: usize,
    },
    Character {
        end: usize,
    },
}

pub(super) fn blank_comments_and_literals(text: &str) -> (String, Vec<Literal>) {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut literals = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let piece = piece_at(bytes, at);
        let (blanked, next) = match piece {
            Piece::Code => (at..at, at + 1),
            Piece::Comment { end } | Piece::Character { end } => (at..end, end),
            Piece::Text { from, to, end } => {
                literals.push(Literal { offset: from, text: text[from..to].to_owned() });
                (from..to, end)
            }
        };
        for byte in &mut code[blanked] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = next;
    }
    (String::from_utf8(code).expect("only whole comments and literals were blanked"), literals)
}

fn piece_at(bytes: &[u8], at: usize) -> Piece {
    let rest = &bytes[at..];
    let follows_name = at > 0 && is_name_byte(bytes[at - 1]);
    if rest.starts_with(b"//") {
        let end =
            rest.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length);
        return Piece::Comment { end };
    }
    if rest.starts_with(b"/*") {
        return Piece::Comment { end: block_comment_end(bytes, at) };
    }
    match rest[0] {
        b'"' => {
            let to = string_end(bytes, at + 1);
            Piece::Text { from: at + 1, to, end: (to + 1).min(bytes.len()) }
        }
        b'r' if !follows_name || is_prefixed_raw(bytes, at) => {
            raw_string(bytes, at).unwrap_or(Piece::Code)
        }
        b'\'' if !follows_name || bytes[at - 1] == b'b' => {
            character_end(bytes, at).map_or(Piece::Code, |end| Piece::Character { end })
        }
        _ => Piece::Code,
    }
}

/// `br"…"` and `cr"…"`: the letter before the `r` belongs to the literal.
fn is_prefixed_raw(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at - 1], b'b' | b'c') && (at < 2 || !is_name_byte(bytes[at - 2]))
}

fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut here = at;
    while here < bytes.len() {
        if bytes[here..].starts_with(b"/*") {
            depth += 1;
            here += 2;
        } else if bytes[here..].starts_with(b"*/") {
            depth -= 1;
            here += 2;
            if depth == 0 {
                return here;
            }
        } else {
            here += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn raw_string(bytes: &[u8], at: usize) -> Option<Piece> {
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    let from = at + 1 + hashes + 1;
    if bytes.get(from - 1) != Some(&b'"') {
        return None;
    }
    let closing: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let length = bytes[from..].windows(closing.len()).position(|window| window == closing)?;
    Some(Piece::Text { from, to: from + length, end: from + length + closing.len() })
}

/// The end of a character literal, or none when the quote begins a lifetime.
fn character_end(bytes: &[u8], at: usize) -> Option<usize> {
    /// `'\u{10FFFF}'` is the longest that a character literal gets.
    const LONGEST: usize = 12;
    let rest = &bytes[at + 1..bytes.len().min(at + 1 + LONGEST)];
    if rest.first() == Some(&b'\\') {
        return rest
            .iter()
            .skip(2)
            .position(|byte| *byte == b'\'')
            .map(|length| at + 1 + 2 + length + 1);
    }
    let width = match rest.first()? {
        0..=0x7F => 1,
        0x80..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xFF => 4,
    };
    (rest.get(width) == Some(&b'\'')).then_some(at + 1 + width + 1)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    Colons,
    Open,
    Close,
    Comma,
    Star,
    Other,
}

pub(super) fn mentions(code: &str) -> Vec<Mention> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        at = match tokens[at].1 {
            Token::Name(_) => read_path(&tokens, at, &[], 0, &mut found).max(at + 1),
            Token::Colons
            | Token::Open
            | Token::Close
            | Token::Comma
            | Token::Star
            | Token::Other => at + 1,
        };
    }
    found.retain(|mention| mention.segments.len() > 1);
    found
}

/// Reads one path, or one use tree, that begins at `at`; returns where the reading goes on.
fn read_path(
    tokens: &[(usize, Token<'_>)],
    mut at: usize,
    prefix: &[String],
    depth: usize,
    found: &mut Vec<Mention>,
) -> usize {
    assert!(depth <= MAX_GROUP_DEPTH, "use groups nested more than {MAX_GROUP_DEPTH} deep");
    let offset = tokens[at].0;
    let mut segments = prefix.to_vec();
    while let Some((_, token)) = tokens.get(at) {
        match token {
            Token::Name("self") if depth > 0 => at += 1,
            Token::Name(name) => {
                segments.push((*name).to_owned());
                at += 1;
            }
            Token::Star => {
                segments.push("*".to_owned());
                at += 1;
            }
            Token::Open => return read_group(tokens, at + 1, &segments, depth + 1, found),
            Token::Colons | Token::Close | Token::Comma | Token::Other => break,
        }
        let continues = matches!(
            (tokens.get(at).map(|next| next.1), tokens.get(at + 1).map(|next| next.1)),
            (Some(Token::Colons), Some(Token::Name(_) | Token::Open | Token::Star))
        );
        if !continues {
            break;
        }
        at += 1;
    }
    found.push(Mention { offset, segments });
    at
}

fn read_group(
    tokens: &[(usize, Token<'_>)],
    mut at: usize,
    prefix: &[String],
    depth: usize,
    found: &mut Vec<Mention>,
) -> usize {
    while let Some((_, token)) = tokens.get(at) {
        at = match token {
            Token::Close => return at + 1,
            // The new name in `old as new` is not a path of its own.
            Token::Name("as") => at + 2,
            Token::Name(_) | Token::Star | Token::Open => {
                read_path(tokens, at, prefix, depth, found).max(at + 1)
            }
            Token::Colons | Token::Comma | Token::Other => at + 1,
        };
    }
    at
}

fn tokens(code: &str) -> Vec<(usize, Token<'_>)> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let token = match bytes[at] {
            byte if is_name_byte(byte) => {
                at += bytes[at..].iter().take_while(|byte| is_name_byte(**byte)).count();
                found.push((start, Token::Name(&code[start..at])));
                continue;
            }
            byte if byte.is_ascii_whitespace() => None,
            b':' if bytes.get(at + 1) == Some(&b':') => {
                at += 1;
                Some(Token::Colons)
            }
            b'{' => Some(Token::Open),
            b'}' => Some(Token::Close),
            b',' => Some(Token::Comma),
            b'*' => Some(Token::Star),
            _ => Some(Token::Other),
        };
        found.extend(token.map(|token| (start, token)));
        at += 1;
    }
    found
}

fn paths(code: &str) -> Vec<String> {
    mentions(code).iter().map(|mention| mention.segments.join("::")).collect()
}

#[test]
fn comments_and_literals_are_not_code() {
    let text = r##"let a = "x // y"; // spawn
/* a /* nested */ b */ let c = '"'; let d: &'static str = r#"raw "quoted""#; let e = b'\''; f(br"z");"##;
    let (code, literals) = blank_comments_and_literals(text);
    assert_eq!(code.len(), text.len());
    let words: Vec<&str> = code.split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        r##"let a = " "; let c = ; let d: &'static str = r#" "#; let e = b ; f(br" ");"##
    );
    let literals: Vec<&str> = literals.iter().map(|literal| literal.text.as_str()).collect();
    assert_eq!(literals, ["x // y", r#"raw "quoted""#, "z"]);
}

#[test]
fn groups_of_a_use_are_written_out() {
    assert_eq!(
        paths(
            "use crate::store::{self, query::{Page, View as V}, *};\nlet x = std::thread::spawn(f);"
        ),
        [
            "crate::store",
            "crate::store::query::Page",
            "crate::store::query::View",
            "crate::store::*",
            "std::thread::spawn"
        ]
    );
}

#[test]
fn a_struct_pattern_after_a_path_is_not_a_group() {
    assert_eq!(
        paths("match event { Event::Moved { to, by } => Step::to(to) }"),
        ["Event::Moved", "Step::to"]
    );
}
