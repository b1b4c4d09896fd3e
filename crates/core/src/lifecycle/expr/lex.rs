//! Splits the text of an expression into tokens with their positions. It knows no grammar.

use super::{ExprError, MAX_BYTES};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A word, or words joined by dots: `workPlan.bullets`.
    Word(String),
    Text(String),
    Number(f64),
    /// One of [`SYMBOLS`].
    Symbol(&'static str),
}

/// Longer symbols come before their prefixes.
const SYMBOLS: [&str; 13] = ["==", "!=", "<=", ">=", "<", ">", "+", "-", "(", ")", "[", "]", ","];

/// Operators of other languages, and ours.
const FOREIGN: [(&str, &str); 7] = [
    ("&&", "write `and` instead of `&&`"),
    ("||", "write `or` instead of `||`"),
    ("!", "write `not` instead of `!`"),
    ("=", "write `==` to compare; `=` means nothing here"),
    ("\"", "write text in single quotes: 'text'"),
    ("*", "there is no multiplication; compute the value beforehand and keep it in a field"),
    ("/", "there is no division; compute the value beforehand and keep it in a field"),
];

/// The tokens, each with the byte at which it begins.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, ExprError> {
    if text.len() > MAX_BYTES {
        let message = format!(
            "an expression has at most {MAX_BYTES} bytes; split it into several requirements"
        );
        return Err(ExprError::new(text.floor_char_boundary(MAX_BYTES), message));
    }
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (token, length) = token(text, at, first)?;
        tokens.push((at, token));
        at += length;
    }
    Ok(tokens)
}

fn token(text: &str, at: usize, first: char) -> Result<(Token, usize), ExprError> {
    let rest = &text[at..];
    match first {
        '\'' => quoted(rest, at),
        '0'..='9' => number(rest, at),
        'a'..='z' | 'A'..='Z' | '_' => word(rest, at),
        other => symbol(rest, at, other),
    }
}

fn symbol(rest: &str, at: usize, first: char) -> Result<(Token, usize), ExprError> {
    if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
        return Ok((Token::Symbol(symbol), symbol.len()));
    }
    let foreign = FOREIGN.iter().find(|(spelling, _)| rest.starts_with(spelling));
    let unknown = || format!("`{}` means nothing in an expression", first.escape_debug());
    Err(ExprError::new(at, foreign.map_or_else(unknown, |(_, advice)| (*advice).to_owned())))
}

/// A text in single quotes. A quote inside it is written twice.
fn quoted(rest: &str, at: usize) -> Result<(Token, usize), ExprError> {
    let mut content = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((index, character)) = characters.next() {
        if character != '\'' {
            content.push(character);
        } else if characters.next_if(|(_, next)| *next == '\'').is_some() {
            content.push('\'');
        } else {
            return Ok((Token::Text(content), index + 1));
        }
    }
    Err(ExprError::new(at, "this text has no end; close it with a single quote"))
}

fn number(rest: &str, at: usize) -> Result<(Token, usize), ExprError> {
    let digits = count_bytes(rest, |byte| byte.is_ascii_digit());
    let fraction = match rest[digits..].strip_prefix('.') {
        Some(after) => 1 + count_bytes(after, |byte| byte.is_ascii_digit()),
        None => 0,
    };
    let length = digits + fraction;
    let written = &rest[..length];
    let tail = count_bytes(&rest[length..], is_word_byte);
    if fraction == 1 || tail > 0 {
        let message = format!(
            "`{}` is not a number; write 12 or 1.5, and keep a span of time in a setting",
            &rest[..length + tail]
        );
        return Err(ExprError::new(at, message));
    }
    match written.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((Token::Number(value), length)),
        Ok(_) | Err(_) => Err(ExprError::new(at, "this number is too large")),
    }
}

fn word(rest: &str, at: usize) -> Result<(Token, usize), ExprError> {
    let mut length = count_bytes(rest, is_word_byte);
    while let Some(after) = rest[length..].strip_prefix('.') {
        let member = count_bytes(after, is_word_byte);
        if member == 0 || after.starts_with(|first: char| first.is_ascii_digit()) {
            let message = "write the name of a member after the dot: `workPlan.bullets`";
            return Err(ExprError::new(at + length, message));
        }
        length += 1 + member;
    }
    Ok((Token::Word(rest[..length].to_owned()), length))
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn count_bytes(text: &str, wanted: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| wanted(*byte)).count()
}
