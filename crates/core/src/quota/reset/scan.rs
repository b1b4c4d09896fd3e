//! Splits a text into words, numbers and signs, and reads them with a cursor.

/// Whitespace is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Letters and underscores.
    Word(&'a str),
    Digits(&'a str),
    Sign(char),
}

impl Token<'_> {
    pub(super) fn is_any(self, words: &[&str]) -> bool {
        match self {
            Self::Word(word) => words.iter().any(|known| word.eq_ignore_ascii_case(known)),
            Self::Digits(_) | Self::Sign(_) => false,
        }
    }
}

pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if is_letter(first) {
            let length = rest.find(|letter| !is_letter(letter)).unwrap_or(rest.len());
            tokens.push(Token::Word(&rest[..length]));
            length
        } else if first.is_ascii_digit() {
            let length = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            tokens.push(Token::Digits(&rest[..length]));
            length
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Sign(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// A position in the tokens. A function that does not match works on a copy and leaves the cursor
/// unchanged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [Token<'a>],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(rest: &'a [Token<'a>]) -> Self {
        Self { rest }
    }

    /// Skips at most `most` matching tokens and returns how many.
    pub(super) fn skip_while(
        &mut self,
        most: usize,
        mut fits: impl FnMut(Token<'a>) -> bool,
    ) -> usize {
        let count = self.rest.iter().take(most).take_while(|token| fits(**token)).count();
        self.rest = &self.rest[count..];
        count
    }

    pub(super) fn next_is_sign(&self, sign: char) -> bool {
        self.rest.first() == Some(&Token::Sign(sign))
    }

    pub(super) fn sign(&mut self, sign: char) -> bool {
        let is_there = self.next_is_sign(sign);
        if is_there {
            self.rest = &self.rest[1..];
        }
        is_there
    }

    pub(super) fn word(&mut self) -> Option<&'a str> {
        let Some((Token::Word(word), rest)) = self.rest.split_first() else {
            return None;
        };
        self.rest = rest;
        Some(word)
    }

    pub(super) fn digits(&mut self) -> Option<&'a str> {
        let Some((Token::Digits(digits), rest)) = self.rest.split_first() else {
            return None;
        };
        self.rest = rest;
        Some(digits)
    }

    /// A number of one or two digits: an hour, a day, a month.
    pub(super) fn small(&mut self) -> Option<i8> {
        let mut ahead = *self;
        let number = ahead.digits().filter(|digits| digits.len() <= 2)?.parse().ok()?;
        *self = ahead;
        Some(number)
    }

    /// `37` or `3.5`, in thousandths; further digits are dropped.
    pub(super) fn thousandths(&mut self) -> Option<i64> {
        let mut ahead = *self;
        let whole: i64 = ahead.digits().filter(|digits| digits.len() <= 9)?.parse().ok()?;
        *self = ahead;
        let part = if ahead.sign('.') { ahead.digits() } else { None };
        let part = part.map_or(0, |digits| {
            *self = ahead;
            let padded = format!("{digits:0<3}");
            padded[..3].parse().expect("three digits are a number")
        });
        Some(whole * 1_000 + part)
    }

    /// `UTC`, `Europe/Berlin`, `America/Argentina/Buenos_Aires`.
    pub(super) fn zone_name(&mut self) -> Option<String> {
        const PARTS: usize = 3;
        const BYTES: usize = 64;
        let mut name = self.word()?.to_owned();
        for _ in 1..PARTS {
            let mut ahead = *self;
            let part = if ahead.sign('/') { ahead.word() } else { None };
            let Some(part) = part else {
                break;
            };
            name = format!("{name}/{part}");
            *self = ahead;
        }
        (name.len() <= BYTES).then_some(name)
    }
}
