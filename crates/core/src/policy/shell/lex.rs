//! Splits a command line into words and operators.

/// One word, without its quotes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::policy) struct Word {
    /// Expansions stay as they were written: `$HOME/x`.
    pub(in crate::policy) text: String,
    /// Whether the program gets exactly this text.
    pub(in crate::policy) is_known: bool,
    pub(super) is_quoted: bool,
    /// Whether the shell expands it to file names.
    pub(super) has_glob: bool,
    /// Commands in substitutions inside the word.
    pub(super) inner: Vec<String>,
}

impl Word {
    /// The same word with another text.
    pub(in crate::policy) fn with(&self, text: &str) -> Self {
        Self { text: text.to_owned(), ..self.clone() }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ShellToken {
    Word(Word),
    /// `|`
    Pipe,
    /// `;`, `&&`, `||`, `&`, a line break or a parenthesis.
    Separator,
    /// The next word is the target of a redirection.
    RedirectTo,
    /// The next word is the source of a redirection.
    RedirectFrom,
    /// The text of a here document.
    HereDocument(String),
}

/// The operators, each before those that it begins with. Any other sign separates commands.
const OPERATORS: [(ShellToken, &str); 4] = [
    (ShellToken::RedirectTo, "&>> &> <> >> >| >& >"),
    (ShellToken::RedirectFrom, "<<< <& <"),
    (ShellToken::Separator, "|| &&"),
    (ShellToken::Pipe, "|& |"),
];

/// Splits a text into tokens, or says why it cannot.
pub(super) fn lex(text: &str) -> Result<Vec<ShellToken>, String> {
    let mut lexer = Lexer { rest: text, tokens: Vec::new(), word: None, awaited: Vec::new() };
    lexer.run()?;
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    rest: &'a str,
    tokens: Vec<ShellToken>,
    word: Option<Word>,
    /// Here documents that begin on the next line: the delimiter of each, and whether leading tabs
    /// are dropped.
    awaited: Vec<(String, bool)>,
}

impl<'a> Lexer<'a> {
    fn run(&mut self) -> Result<(), String> {
        while let Some(letter) = self.rest.chars().next() {
            if self.word.is_none() && letter == '#' {
                self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..];
                continue;
            }
            self.letter(letter)?;
        }
        self.end_word();
        Ok(())
    }

    fn letter(&mut self, letter: char) -> Result<(), String> {
        match letter {
            '\n' => {
                self.bump(1);
                self.end_word();
                self.tokens.push(ShellToken::Separator);
                self.here_documents();
            }
            ' ' | '\t' | '\r' => {
                self.bump(1);
                self.end_word();
            }
            '\\' => self.escape(),
            '\'' => self.single()?,
            '"' => self.double()?,
            '$' => self.dollar()?,
            '`' => self.backticks()?,
            ';' | '&' | '|' | '(' | ')' | '<' | '>' => self.operator()?,
            '*' | '?' | '[' => {
                self.open().has_glob = true;
                self.take(letter);
            }
            '{' if self.is_brace_list() => {
                self.open().is_known = false;
                self.take(letter);
            }
            _ => self.take(letter),
        }
        Ok(())
    }

    fn bump(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn open(&mut self) -> &mut Word {
        self.word.get_or_insert_with(|| Word { is_known: true, ..Word::default() })
    }

    fn take(&mut self, letter: char) {
        self.open().text.push(letter);
        self.bump(letter.len_utf8());
    }

    fn end_word(&mut self) {
        self.tokens.extend(self.word.take().map(ShellToken::Word));
    }

    /// Whether `{a,b}` or `{1..3}` follows, which expands to several words.
    fn is_brace_list(&self) -> bool {
        let end = self.rest.find(['}', ' ', '\n']).unwrap_or(self.rest.len());
        let inside = &self.rest[..end];
        self.rest[end..].starts_with('}') && (inside.contains(',') || inside.contains(".."))
    }

    fn escape(&mut self) {
        self.bump(1);
        match self.rest.chars().next() {
            Some('\n') => self.bump(1),
            Some(letter) => {
                self.open().is_quoted = true;
                self.take(letter);
            }
            None => {}
        }
    }

    fn single(&mut self) -> Result<(), String> {
        self.bump(1);
        let end = self.rest.find('\'').ok_or_else(|| not_closed("'"))?;
        let inside = &self.rest[..end];
        let word = self.open();
        word.is_quoted = true;
        word.text.push_str(inside);
        self.bump(end + 1);
        Ok(())
    }

    fn double(&mut self) -> Result<(), String> {
        self.bump(1);
        self.open().is_quoted = true;
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                '"' => {
                    self.bump(1);
                    return Ok(());
                }
                '\\' => {
                    self.bump(1);
                    let next = self.rest.chars().next();
                    if next == Some('\n') {
                        self.bump(1);
                    } else if let Some(next) = next {
                        if !matches!(next, '"' | '\\' | '$' | '`') {
                            self.open().text.push('\\');
                        }
                        self.take(next);
                    }
                }
                '$' => self.dollar()?,
                '`' => self.backticks()?,
                _ => self.take(letter),
            }
        }
        Err(not_closed("\""))
    }

    /// Reads an expansion.
    fn dollar(&mut self) -> Result<(), String> {
        let after = &self.rest[1..];
        if let Some(inside) = after.strip_prefix("((") {
            let end = inside.find("))").ok_or_else(|| not_closed("$(("))?;
            return self.push_expansion(end + 5, None);
        }
        if let Some(inside) = after.strip_prefix('(') {
            let inside = balanced(inside, '(', ')').ok_or_else(|| not_closed("$("))?;
            return self.push_expansion(inside.len() + 3, Some(inside));
        }
        if let Some(inside) = after.strip_prefix('{') {
            let inside = balanced(inside, '{', '}').ok_or_else(|| not_closed("${"))?;
            if inside.contains("$(") || inside.contains('`') {
                return Err("a command inside `${…}` is not supported".to_owned());
            }
            return self.push_expansion(inside.len() + 3, None);
        }
        if after.starts_with('\'') && !self.word.as_ref().is_some_and(|word| word.is_quoted) {
            return Err("`$'…'` is not supported".to_owned());
        }
        let name = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let mut length = name.unwrap_or(after.len());
        if length == 0 && after.starts_with(['@', '*', '#', '?', '$', '!', '-']) {
            length = 1;
        }
        if length == 0 {
            self.take('$');
            return Ok(());
        }
        self.push_expansion(length + 1, None)
    }

    /// Adds an expansion to the word; `inner` is the command that it runs.
    fn push_expansion(&mut self, bytes: usize, inner: Option<&str>) -> Result<(), String> {
        let written = &self.rest[..bytes];
        let inner = inner.map(str::to_owned);
        let word = self.open();
        word.text.push_str(written);
        word.is_known = false;
        word.inner.extend(inner);
        self.bump(bytes);
        Ok(())
    }

    fn backticks(&mut self) -> Result<(), String> {
        let end = self.rest[1..].find('`').ok_or_else(|| not_closed("`"))?;
        let inside = &self.rest[1..=end];
        if inside.contains('\\') {
            return Err("an escape between backticks is not supported".to_owned());
        }
        self.push_expansion(end + 2, Some(inside))
    }

    fn operator(&mut self) -> Result<(), String> {
        let starts = |sign: &str| self.rest.starts_with(sign);
        // Process substitution.
        if starts("<(") || starts(">(") {
            let inside = balanced(&self.rest[2..], '(', ')').ok_or_else(|| not_closed("<("))?;
            return self.push_expansion(inside.len() + 3, Some(inside));
        }
        if starts("<<") && !starts("<<<") {
            return self.here_begins();
        }
        let known = OPERATORS.iter().find_map(|(token, signs)| {
            Some((signs.split(' ').find(|sign| starts(sign))?, token.clone()))
        });
        let (sign, token) = known.unwrap_or((";", ShellToken::Separator));
        if sign.starts_with(['<', '>']) && sign != "<<<" {
            self.drop_descriptor();
        }
        self.bump(sign.len());
        self.end_word();
        self.tokens.push(token);
        Ok(())
    }

    /// A number right before a redirection names a file descriptor and is not a word.
    fn drop_descriptor(&mut self) {
        let is_number = |word: &mut Word| {
            !word.is_quoted
                && !word.text.is_empty()
                && word.text.bytes().all(|b| b.is_ascii_digit())
        };
        self.word.take_if(is_number);
    }

    fn here_begins(&mut self) -> Result<(), String> {
        let drops_tabs = self.rest.starts_with("<<-");
        self.drop_descriptor();
        self.end_word();
        self.bump(if drops_tabs { 3 } else { 2 });
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        let end = self.rest.find([' ', '\t', '\n', ';', '&', '|', '<', '>', ')']);
        let mark = &self.rest[..end.unwrap_or(self.rest.len())];
        let name: String = mark.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
        if name.is_empty() {
            return Err("a here document has no delimiter".to_owned());
        }
        self.bump(mark.len());
        self.awaited.push((name, drops_tabs));
        Ok(())
    }

    /// Reads the here documents that follow this line. They belong to the command that the
    /// separator has just ended.
    fn here_documents(&mut self) {
        let awaited = std::mem::take(&mut self.awaited);
        if awaited.is_empty() {
            return;
        }
        let separator = self.tokens.pop();
        for (name, drops_tabs) in awaited {
            let mut body = String::new();
            while !self.rest.is_empty() {
                let end = self.rest.find('\n').map_or(self.rest.len(), |at| at + 1);
                let line = &self.rest[..end];
                self.bump(end);
                let bare = line.trim_end_matches('\n');
                let bare = if drops_tabs { bare.trim_start_matches('\t') } else { bare };
                if bare == name {
                    break;
                }
                body.push_str(line);
            }
            self.tokens.push(ShellToken::HereDocument(body));
        }
        self.tokens.extend(separator);
    }
}

fn not_closed(sign: &str) -> String {
    format!("`{sign}` is not closed")
}

/// The text up to the closing bracket, skipping quotes and nested brackets.
fn balanced(text: &str, open: char, close: char) -> Option<&str> {
    let (mut depth, mut quote, mut escaped) = (1_usize, None, false);
    for (at, letter) in text.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match (quote, letter) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => escaped = true,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, letter) if letter == open => depth += 1,
            (None, letter) if letter == close => {
                depth -= 1;
                if depth == 0 {
                    return Some(&text[..at]);
                }
            }
            (None, _) => {}
        }
    }
    None
}
