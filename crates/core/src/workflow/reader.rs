//! Reads single values of a workflow's source: fills in placeholders, checks each value, and
//! collects problems.

use super::paths;
use super::template::{Scope, as_text};
use crate::lifecycle::expr::Value;
use crate::lifecycle::problem::{Problem, suggestion};
use crate::limits;
use crate::text::clip;
use crate::time::Span;
use crate::yaml::{self, Name, OneOrMany, Spanned, WordOr, problem_at};

/// The problems of one file, each once.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) problems: Vec<Problem>,
}

impl Report {
    pub(super) fn add(&mut self, problem: Problem) {
        if self.problems.len() < limits::WORKFLOW_PROBLEMS && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    pub(super) fn at<T>(
        &mut self,
        at: &Spanned<T>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(problem_at(at, message, help));
    }

    /// The word, or none if it is none of these, which is reported.
    pub(super) fn known<T: Copy>(&mut self, word: &WordOr<T>, known: &[&str]) -> Option<T> {
        match &word.0 {
            Ok(word) => Some(*word),
            Err(text) => {
                let help = suggestion(&text.value, known.iter().copied());
                self.at(text, format!("unknown value `{}`", clip(&text.value)), help);
                None
            }
        }
    }

    /// Whether a text can be an id; reports it otherwise.
    pub(super) fn is_id(&mut self, word: &Name, what: &str) -> bool {
        let is_id = paths::is_id(&word.value);
        if !is_id {
            let message = format!("`{}` is not a valid {what}", clip(&word.value));
            self.at(word, message, "use letters, digits, `_`, `-` and `.`");
        }
        is_id
    }

    /// The same for what the file itself names, with or without an id.
    pub(super) fn has_id(&mut self, id: &Name, what: &str) -> bool {
        if id.value.is_empty() {
            self.at(id, "missing key `id`", "add `id: …`");
        }
        !id.value.is_empty() && self.is_id(id, &format!("{what} id"))
    }

    /// Whether a list is within its limit; reports it otherwise.
    pub(super) fn fits<T>(&mut self, at: &Spanned<T>, length: usize, most: usize) -> bool {
        if length > most {
            self.at(at, format!("too many: {length}, with a limit of {most}"), "use fewer");
        }
        length <= most
    }
}

/// Reads the texts of one step, with the values of its placeholders.
pub(super) struct Reader<'a> {
    pub(super) scope: &'a Scope,
    pub(super) report: &'a mut Report,
}

impl Reader<'_> {
    /// A text with its placeholders filled in; on a problem, the text as it is written.
    pub(super) fn name(&mut self, text: &Name) -> Name {
        match self.scope.fill(&text.value) {
            Ok(filled) => yaml::at(text, filled),
            Err(fault) => {
                self.report.at(text, fault.message, fault.help);
                text.clone()
            }
        }
    }

    pub(super) fn text(&mut self, text: &Name) -> String {
        self.name(text).value
    }

    pub(super) fn text_or(&mut self, text: Option<&Name>, otherwise: &str) -> String {
        text.map_or_else(|| otherwise.to_owned(), |text| self.text(text))
    }

    /// The entries of a list. An entry that is only a placeholder for a list is replaced by the
    /// entries of that list.
    pub(super) fn names(&mut self, list: &[Name]) -> Vec<Name> {
        let mut names = Vec::new();
        for entry in list {
            match self.scope.whole(&entry.value) {
                Some(Value::Array(parts)) => {
                    names.extend(parts.iter().map(|part| yaml::at(entry, as_text(part))));
                }
                Some(_) | None => names.push(self.name(entry)),
            }
        }
        if let Some(first) = list.first() {
            self.report.fits(first, names.len(), limits::WORKFLOW_ITEMS);
        }
        names.truncate(limits::WORKFLOW_ITEMS);
        names
    }

    /// The names of a single value or a list, with their positions.
    pub(super) fn one_or_many(&mut self, written: &Spanned<OneOrMany>) -> Vec<Name> {
        match &written.value {
            OneOrMany::One(name) => self.names(&[yaml::at(written, name)]),
            OneOrMany::Many(names) => self.names(names),
        }
    }

    pub(super) fn path(&mut self, text: &Name) -> String {
        let path = self.name(text);
        self.path_is_inside(&path);
        path.value
    }

    pub(super) fn paths(&mut self, list: &[Name]) -> Vec<String> {
        let paths = self.names(list);
        paths.iter().for_each(|path| self.path_is_inside(path));
        paths.into_iter().map(|path| path.value).collect()
    }

    fn path_is_inside(&mut self, path: &Name) {
        if let Some(fault) = paths::fault(&path.value) {
            let message = format!("`{}` is not a valid path: {fault}", clip(&path.value));
            self.report.at(path, message, "write a path from the root of the repository");
        }
    }

    /// A role, reason or worker name, which appears in lists and in file names.
    pub(super) fn word(&mut self, text: &Name, what: &str) -> String {
        let word = self.name(text);
        self.report.is_id(&word, what);
        word.value
    }

    pub(super) fn span(&mut self, text: &Name) -> Option<Span> {
        let text = self.name(text);
        let (message, help) = match text.value.parse::<Span>() {
            Ok(span) if span.0 > 0 => return Some(span),
            Ok(_) => ("the time must be more than zero".to_owned(), "write a time such as 30min"),
            Err(error) => (error.to_string(), ""),
        };
        self.report.at(&text, message, help);
        None
    }
}
