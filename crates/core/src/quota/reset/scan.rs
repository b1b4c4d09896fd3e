//! Splits a text into words, numbers and signs, and reads them with a cursor.

/// Whitespace is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeToken<'a> {
    /// Letters and underscores.
    Word(&'a str),
    Digits(&'a str),
    Sign(char),
}

impl TimeToken<'_> {
    /// Whether it is one of the words, which are separated by blanks.
    pub(super) fn is_any(self, words: &str) -> bool {
        match self {
            Self::Word(word) => words.split(' ').any(|known| word.eq_ignore_ascii_case(known)),
            Self::Digits(_) | Self::Sign(_) => false,
        }
    }
}

pub(super) fn tokens(text: &str) -> Vec<TimeToken<'_>> {
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if is_letter(first) {
            let length = rest.find(|letter| !is_letter(letter)).unwrap_or(rest.len());
            tokens.push(TimeToken::Word(&rest[..length]));
            length
        } else if first.is_ascii_digit() {
            let length = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            tokens.push(TimeToken::Digits(&rest[..length]));
            length
        } else {
            if !first.is_whitespace() {
                tokens.push(TimeToken::Sign(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// A position in the tokens. What does not match leaves the cursor unchanged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [TimeToken<'a>],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(rest: &'a [TimeToken<'a>]) -> Self {
        Self { rest }
    }

    /// Consumes what `read` understands, or nothing.
    pub(super) fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let mut ahead = *self;
        let found = read(&mut ahead)?;
        *self = ahead;
        Some(found)
    }

    /// Skips at most `most` matching tokens and returns how many.
    pub(super) fn skip_while(
        &mut self,
        most: usize,
        mut fits: impl FnMut(TimeToken<'a>) -> bool,
    ) -> usize {
        let count = self.rest.iter().take(most).take_while(|token| fits(**token)).count();
        self.rest = &self.rest[count..];
        count
    }

    pub(super) fn next_is_sign(&self, sign: char) -> bool {
        self.rest.first() == Some(&TimeToken::Sign(sign))
    }

    pub(super) fn sign(&mut self, sign: char) -> bool {
        self.skip_while(1, |token| token == TimeToken::Sign(sign)) == 1
    }

    pub(super) fn word(&mut self) -> Option<&'a str> {
        let Some((TimeToken::Word(word), rest)) = self.rest.split_first() else {
            return None;
        };
        self.rest = rest;
        Some(word)
    }

    pub(super) fn digits(&mut self) -> Option<&'a str> {
        let Some((TimeToken::Digits(digits), rest)) = self.rest.split_first() else {
            return None;
        };
        self.rest = rest;
        Some(digits)
    }

    /// A number of one or two digits: an hour, a day, a month.
    pub(super) fn small(&mut self) -> Option<i8> {
        self.attempt(|ahead| ahead.digits().filter(|digits| digits.len() <= 2)?.parse().ok())
    }

    /// `37` or `3.5`, in thousandths; further digits are dropped.
    pub(super) fn thousandths(&mut self) -> Option<i64> {
        let is_short = |digits: &&str| digits.len() <= 9;
        let whole: i64 = self.attempt(|ahead| ahead.digits().filter(is_short)?.parse().ok())?;
        let part = self.attempt(|ahead| ahead.sign('.').then(|| ahead.digits())?);
        let part = part.map_or(0, |digits| {
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
            let part = self.attempt(|ahead| ahead.sign('/').then(|| ahead.word())?);
            let Some(part) = part else { break };
            name = format!("{name}/{part}");
        }
        (name.len() <= BYTES).then_some(name)
    }
}
