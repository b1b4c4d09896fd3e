//! Parses a command line without running it: its simple commands, the pipes between them, their
//! redirections, and what cannot be determined.
//!
//! It follows `&&`, `;`, `|`, `$(…)`, subshells, `env`, `sudo`, `sh -c`, `eval`, `xargs` and `find
//! -exec`. It expands nothing: a word with a variable is marked as unknown. Whatever it cannot
//! parse is listed in [`Script::unparsed`] and is never an error, so that the caller can classify
//! the command with care.

mod lex;
mod wrap;

pub(super) use lex::Word;
use lex::{ShellToken, lex};

/// A command line, in bytes. Nobody reads a longer one before they permit it.
const COMMAND_BYTES: usize = 32 * 1024;
/// Nesting depth of commands.
const DEPTH: usize = 8;
/// Simple commands of one line, wrappers included.
const COMMANDS: usize = 500;

/// Reserved words at the beginning of a command.
const RESERVED: [&str; 12] =
    ["if", "then", "elif", "else", "fi", "do", "done", "while", "until", "!", "{", "}"];
/// Programs that execute their input.
const SHELLS: [&str; 10] =
    ["sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "eval", "source", "."];

/// One program with its arguments.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SimpleCommand {
    pub(super) words: Vec<Word>,
    /// The targets of its output redirections.
    pub(super) into: Vec<Word>,
}

impl SimpleCommand {
    /// The name of the program without its folder.
    pub(super) fn program(&self) -> &str {
        self.words.first().map_or("", |word| word.text.rsplit('/').next().unwrap_or_default())
    }

    pub(super) fn text(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }
}

/// A parsed command line.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Script {
    /// The commands of each pipeline, in order.
    pub(super) pipelines: Vec<Vec<SimpleCommand>>,
    /// Why parts of it could not be parsed.
    pub(super) unparsed: Vec<String>,
    count: usize,
}

/// Parses a command line.
pub(super) fn read(text: &str) -> Script {
    let mut script = Script::default();
    if text.len() > COMMAND_BYTES {
        script.add_unparsed(format!("it is longer than {} KiB", COMMAND_BYTES / 1024));
        return script;
    }
    script.read(text, DEPTH);
    script
}

impl Script {
    fn add_unparsed(&mut self, why: impl Into<String>) {
        let why = why.into();
        if self.unparsed.len() < COMMANDS && !self.unparsed.contains(&why) {
            self.unparsed.push(why);
        }
    }

    fn read(&mut self, text: &str, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else {
            return self.add_unparsed("it is nested too deeply");
        };
        let tokens = match lex(text) {
            Ok(tokens) => tokens,
            Err(why) => return self.add_unparsed(why),
        };
        let (mut pipeline, mut simple) = (Vec::new(), CommandBuilder::default());
        for token in tokens.into_iter().chain([ShellToken::Separator]) {
            match token {
                ShellToken::Word(word) => simple.word(word),
                ShellToken::RedirectTo => simple.next_is_target = true,
                ShellToken::RedirectFrom => simple.next_is_source = true,
                ShellToken::HereDocument(body) => simple.here.push(body),
                ShellToken::Pipe => self.end(&mut simple, &mut pipeline, depth),
                ShellToken::Separator => {
                    self.end(&mut simple, &mut pipeline, depth);
                    let whole = std::mem::take(&mut pipeline);
                    self.pipelines.extend(Some(whole).filter(|whole| !whole.is_empty()));
                }
            }
        }
    }

    /// Completes a simple command: adds it and everything that it runs in turn.
    fn end(
        &mut self,
        builder: &mut CommandBuilder,
        pipeline: &mut Vec<SimpleCommand>,
        depth: usize,
    ) {
        let CommandBuilder { mut simple, dropped, here, .. } = std::mem::take(builder);
        // The words in the head of a `for` loop are values; only the commands inside of them run.
        if simple.words.first().is_some_and(|word| word.text == "for" && !word.is_quoted) {
            simple.words.clear();
        }
        let words = simple.words.iter().chain(&simple.into).chain(&dropped);
        let inner: Vec<String> = words.flat_map(|word| word.inner.clone()).collect();
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
                return self.add_unparsed(format!("it has more than {COMMANDS} commands"));
            }
            let Some(wrapped) = wrap::wrapped_command(last) else { break };
            chain.push(wrapped);
        }
        for simple in &chain {
            self.parse_inner(simple, &here, depth);
        }
        let runs_what_it_reads =
            chain.iter().find(|simple| SHELLS.contains(&simple.program())).cloned();
        if let Some(shell) = runs_what_it_reads {
            // `sh -c "$(curl …)"` and `sh <(curl …)` do the same as `curl … | sh`.
            let fed: Vec<Vec<SimpleCommand>> = self.pipelines[first_inner..]
                .iter()
                .map(|inner| inner.iter().cloned().chain([shell.clone()]).collect())
                .collect();
            self.pipelines.extend(fed);
        }
        pipeline.extend(chain);
    }

    /// Parses the code that a command executes, and lists what cannot be known about it.
    fn parse_inner(&mut self, simple: &SimpleCommand, here: &[String], depth: usize) {
        let program = simple.program();
        let Some(first) = simple.words.first() else { return };
        if !first.is_known || first.has_glob {
            self.add_unparsed(format!("the program of `{}` is unknown", simple.text()));
        }
        if program == "case" || program == "select" {
            self.add_unparsed(format!("`{program}` is not supported"));
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
            self.add_unparsed(format!("the code that `{program}` runs is unknown"));
        }
        let code: Vec<&str> = code.into_iter().map(|word| word.text.as_str()).collect();
        if !code.is_empty() {
            self.read(&code.join(" "), depth);
        }
    }
}

/// A simple command that is not complete yet.
#[derive(Default)]
struct CommandBuilder {
    simple: SimpleCommand,
    /// Input redirections and assignments: only the commands inside of them run.
    dropped: Vec<Word>,
    here: Vec<String>,
    next_is_target: bool,
    next_is_source: bool,
}

impl CommandBuilder {
    fn word(&mut self, word: Word) {
        if std::mem::take(&mut self.next_is_target) {
            // A number or a dash is a file descriptor, not a file.
            let is_descriptor = word.text == "-" || word.text.parse::<u32>().is_ok();
            if !is_descriptor {
                self.simple.into.push(word);
            }
            return;
        }
        let is_source = std::mem::take(&mut self.next_is_source);
        let is_reserved = !word.is_quoted && RESERVED.contains(&word.text.as_str());
        let is_no_command = self.simple.words.is_empty() && (is_assignment(&word) || is_reserved);
        if is_source || is_no_command {
            self.dropped.push(word);
        } else {
            self.simple.words.push(word);
        }
    }
}

pub(super) fn is_assignment(word: &Word) -> bool {
    let Some((name, _)) = word.text.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}
