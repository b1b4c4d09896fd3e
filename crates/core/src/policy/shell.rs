//! A command line as far as it can be read without running it: the simple commands in it, the pipes
//! between them, what they are redirected into, and what cannot be told.
//!
//! It follows `&&`, `;`, `|`, `$(…)`, subshells, `env`, `sudo`, `sh -c`, `eval`, `xargs` and `find
//! -exec`. It expands nothing: a word with a variable in it is known to be unknown. What it cannot
//! read is a doubt and never an error, so that whoever classes a command can be careful with it.

mod lex;
mod wrap;

pub(super) use lex::Word;
use lex::{Token, lex};

/// A command line, in bytes. Nobody reads a longer one before saying yes to it.
const COMMAND_BYTES: usize = 32 * 1024;
/// Commands inside commands.
const DEPTH: usize = 8;
/// Simple commands of one line, wrappers counted with what they wrap.
const COMMANDS: usize = 500;

/// Words that stand where a command begins and are none.
const RESERVED: [&str; 12] =
    ["if", "then", "elif", "else", "fi", "do", "done", "while", "until", "!", "{", "}"];
/// Programs that run what they are given to read.
const SHELLS: [&str; 10] =
    ["sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "eval", "source", "."];

/// One program with its arguments.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    /// What its output is redirected into.
    pub(super) into: Vec<Word>,
}

impl Simple {
    /// The program's name without its folder.
    pub(super) fn program(&self) -> &str {
        self.words.first().map_or("", |word| word.text.rsplit('/').next().unwrap_or_default())
    }

    pub(super) fn shown(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }
}

/// All that was found in a command line.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Script {
    /// Commands that are connected by pipes stand together, in their order.
    pub(super) pipelines: Vec<Vec<Simple>>,
    /// What could not be read, in words.
    pub(super) doubts: Vec<String>,
    count: usize,
}

/// Reads a command line.
pub(super) fn read(text: &str) -> Script {
    let mut script = Script::default();
    if text.len() > COMMAND_BYTES {
        script.doubt(format!("it is longer than {} KiB", COMMAND_BYTES / 1024));
        return script;
    }
    script.read(text, DEPTH);
    script
}

impl Script {
    fn doubt(&mut self, why: impl Into<String>) {
        let why = why.into();
        if self.doubts.len() < COMMANDS && !self.doubts.contains(&why) {
            self.doubts.push(why);
        }
    }

    fn read(&mut self, text: &str, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else {
            return self.doubt("it is nested too deeply");
        };
        let tokens = match lex(text) {
            Ok(tokens) => tokens,
            Err(why) => return self.doubt(why),
        };
        let (mut pipeline, mut simple) = (Vec::new(), Building::default());
        for token in tokens {
            match token {
                Token::Word(word) => simple.word(word),
                Token::Into => simple.next_is_target = true,
                Token::From => simple.next_is_source = true,
                Token::Here(body) => simple.here.push(body),
                Token::Pipe => self.end(&mut simple, &mut pipeline, depth),
                Token::Border => {
                    self.end(&mut simple, &mut pipeline, depth);
                    self.close(&mut pipeline);
                }
            }
        }
        self.end(&mut simple, &mut pipeline, depth);
        self.close(&mut pipeline);
    }

    fn close(&mut self, pipeline: &mut Vec<Simple>) {
        let whole = std::mem::take(pipeline);
        if !whole.is_empty() {
            self.pipelines.push(whole);
        }
    }

    /// A simple command is complete: it is kept, and so is everything that it runs in turn.
    fn end(&mut self, building: &mut Building, pipeline: &mut Vec<Simple>, depth: usize) {
        let built = std::mem::take(building);
        let simple = built.simple();
        let inner: Vec<String> = simple
            .words
            .iter()
            .chain(&simple.into)
            .chain(&built.dropped)
            .flat_map(|word| word.inner.clone())
            .collect();
        let first_inner = self.pipelines.len();
        for script in &inner {
            self.read(script, depth);
        }
        if simple.words.is_empty() && simple.into.is_empty() {
            return;
        }
        let mut chain = vec![simple];
        while let Some(last) = chain.last() {
            self.count += 1;
            if self.count > COMMANDS {
                return self.doubt(format!("it has more than {COMMANDS} commands"));
            }
            let Some(wrapped) = wrap::inside(last) else { break };
            chain.push(wrapped);
        }
        for simple in &chain {
            self.look_inside(simple, &built.here, depth);
        }
        let runs_what_it_reads =
            chain.iter().find(|simple| SHELLS.contains(&simple.program())).cloned();
        if let Some(shell) = runs_what_it_reads {
            // `sh -c "$(curl …)"` and `sh <(curl …)` are what `curl … | sh` is.
            let fed: Vec<Vec<Simple>> = self.pipelines[first_inner..]
                .iter()
                .map(|inner| inner.iter().cloned().chain([shell.clone()]).collect())
                .collect();
            self.pipelines.extend(fed);
        }
        pipeline.extend(chain);
    }

    /// What a command runs of what it is given, and what of it nobody can know.
    fn look_inside(&mut self, simple: &Simple, here: &[String], depth: usize) {
        let program = simple.program();
        let Some(first) = simple.words.first() else { return };
        if !first.is_known || first.has_glob {
            self.doubt(format!("which program `{}` is cannot be known", simple.shown()));
        }
        if program == "case" || program == "select" {
            self.doubt(format!("`{program}` is not read"));
        }
        let is_shell = SHELLS.contains(&program) || program == "su";
        if !is_shell {
            return;
        }
        for body in here {
            self.read(body, depth);
        }
        let code: Vec<&Word> = match program {
            "eval" => simple.words.iter().skip(1).collect(),
            _ => wrap::code_of_shell(simple).into_iter().collect(),
        };
        if code.iter().any(|word| !word.is_known) {
            self.doubt(format!("what `{program}` is given to run cannot be known"));
        }
        let code: Vec<&str> = code.into_iter().map(|word| word.text.as_str()).collect();
        if !code.is_empty() {
            self.read(&code.join(" "), depth);
        }
    }
}

/// A simple command whose end has not come yet.
#[derive(Default)]
struct Building {
    words: Vec<Word>,
    into: Vec<Word>,
    /// Sources of input and assignments: they run nothing but what is inside of them.
    dropped: Vec<Word>,
    here: Vec<String>,
    next_is_target: bool,
    next_is_source: bool,
}

impl Building {
    fn word(&mut self, word: Word) {
        if std::mem::take(&mut self.next_is_target) {
            // A number or a dash is another descriptor, not a file.
            let is_descriptor = word.text == "-" || word.text.parse::<u32>().is_ok();
            if !is_descriptor {
                self.into.push(word);
            }
            return;
        }
        let is_source = std::mem::take(&mut self.next_is_source);
        let is_no_command = self.words.is_empty() && (is_assignment(&word) || is_reserved(&word));
        if is_source || is_no_command {
            self.dropped.push(word);
        } else {
            self.words.push(word);
        }
    }

    fn simple(&self) -> Simple {
        // The words of a loop's head are values, and commands only by what is inside of them.
        let is_head = self.words.first().is_some_and(|word| word.text == "for" && !word.is_quoted);
        let words = if is_head { Vec::new() } else { self.words.clone() };
        Simple { words, into: self.into.clone() }
    }
}

fn is_reserved(word: &Word) -> bool {
    !word.is_quoted && RESERVED.contains(&word.text.as_str())
}

pub(super) fn is_assignment(word: &Word) -> bool {
    let Some((name, _)) = word.text.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}
