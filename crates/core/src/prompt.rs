//! Templates with placeholders, and prompts whose sections are shortened until the whole fits.
//!
//! Nothing here knows what a prompt is about or where a template comes from. Every text can be read
//! as a template; [`check`] says whether it may be used.

use std::borrow::Cow;

use crate::lifecycle::problem::suggestion;
use crate::limits;

/// The longest text between braces that is read as a placeholder.
const PLACEHOLDER_BYTES: usize = 40;
/// A prompt that is too long is shortened by this much more than necessary, because the note about
/// it needs room as well.
const SLACK_BYTES: usize = 512;

/// A text in which `{name}` stands for a value. `{{name}}` is a literal `{name}`, and every other
/// brace is plain text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<TemplatePart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    /// The name of a value, and the line of its placeholder.
    Value(String, usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateProblem {
    /// From 1.
    pub line: usize,
    pub message: String,
    pub help: String,
}

impl Template {
    pub fn read(text: &str) -> Self {
        let mut parts = Vec::new();
        // Where the text after the last placeholder begins, and where the next search does.
        let (mut behind, mut at) = (0, 0);
        while let Some(found) = text[at..].find('{') {
            let open = at + found;
            let (inside, ends) = match text[open..].strip_prefix("{{") {
                Some(inside) => (inside, "}}"),
                None => (&text[open + 1..], "}"),
            };
            let Some(name) = name_in(inside, ends) else {
                at = open + 1;
                continue;
            };
            parts.push(TemplatePart::Text(text[behind..open].to_owned()));
            let line = text[..open].matches('\n').count() + 1;
            parts.push(if ends == "}" {
                TemplatePart::Value(name.to_owned(), line)
            } else {
                TemplatePart::Text(format!("{{{name}}}"))
            });
            at = open + name.len() + 2 * ends.len();
            behind = at;
        }
        parts.push(TemplatePart::Text(text[behind..].to_owned()));
        Self(parts)
    }

    /// The names of its values in the order of the text, each with its line.
    pub fn names(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().filter_map(|part| match part {
            TemplatePart::Value(name, line) => Some((name.as_str(), *line)),
            TemplatePart::Text(_) => None,
        })
    }

    /// Replaces each placeholder once: braces inside a value are never read as a name. A
    /// placeholder without a value stays as it is.
    pub fn fill(&self, values: &[(&str, String)]) -> String {
        let filled = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Value(name, _) => {
                let value = values.iter().find(|(known, _)| known == name);
                value.map_or_else(|| format!("{{{name}}}"), |(_, value)| value.clone())
            }
        };
        self.0.iter().map(filled).collect()
    }
}

fn name_in<'t>(inside: &'t str, ends: &str) -> Option<&'t str> {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ');
    let name = &inside[..inside.find(|c| !is_of_a_name(c))?];
    let is_short = !name.is_empty() && name.len() <= PLACEHOLDER_BYTES;
    (is_short && inside[name.len()..].starts_with(ends)).then_some(name)
}

/// Whether a text may replace a template: it must use only the values of that template, and all of
/// the required ones.
pub fn check(text: &str, instead_of: &Template, optional: &[&str]) -> Vec<TemplateProblem> {
    let own = Template::read(text);
    let mut problems = Vec::new();
    if text.len() > limits::TEMPLATE_BYTES {
        let message = format!("it is longer than {} KiB", limits::TEMPLATE_BYTES / 1024);
        let help = "put long instructions into files that the agent can read".to_owned();
        problems.push(TemplateProblem { line: 1, message, help });
    }
    let mut known: Vec<&str> = instead_of.names().map(|(name, _)| name).collect();
    known.sort_unstable();
    known.dedup();
    let unknown = own.names().filter(|(name, _)| !known.contains(name));
    problems.extend(unknown.take(limits::TEMPLATE_PROBLEMS).map(|(name, line)| TemplateProblem {
        line,
        message: format!("unknown value `{{{name}}}`"),
        help: {
            let meant = suggestion(name, known.iter().copied());
            format!("{meant} (write `{{{{{name}}}}}` for literal braces)")
        },
    }));
    let wanted = known.iter().filter(|name| !optional.contains(name));
    let missing = wanted.filter(|name| !own.names().any(|(own, _)| own == **name));
    problems.extend(missing.map(|name| TemplateProblem {
        line: text.lines().count().max(1),
        message: format!("`{{{name}}}` is missing"),
        help: "the agent needs this value; add it where it belongs".to_owned(),
    }));
    problems
}

/// Which end of a text is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    Start,
    End,
}

/// A section of a prompt that may be shortened.
#[derive(Debug, Clone)]
pub struct PromptSection<'t> {
    /// Its name in the note about omitted text.
    pub name: &'static str,
    pub text: Cow<'t, str>,
    pub keep: Keep,
    /// Its own limit, in bytes.
    pub most: usize,
    /// Where the agent can read all of it.
    pub elsewhere: Option<&'static str>,
}

impl<'t> PromptSection<'t> {
    pub fn new(name: &'static str, text: impl Into<Cow<'t, str>>) -> Self {
        let text = text.into();
        Self { name, text, keep: Keep::Start, most: usize::MAX, elsewhere: None }
    }

    /// Keeps the end of the text, which is its newest part.
    #[must_use]
    pub fn latest_last(self) -> Self {
        Self { keep: Keep::End, ..self }
    }

    #[must_use]
    pub fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    #[must_use]
    pub fn all_is_in(self, elsewhere: &'static str) -> Self {
        Self { elsewhere: Some(elsewhere), ..self }
    }

    fn shortened(&self, most: usize) -> (String, Option<Truncation>) {
        let of = self.text.len();
        if of <= most {
            return (self.text.clone().into_owned(), None);
        }
        let (text, left_out) = match self.keep {
            Keep::Start => {
                let kept = &self.text[..self.text.floor_char_boundary(most)];
                let left_out = of - kept.len();
                (format!("{kept}\n[{left_out} bytes omitted]"), left_out)
            }
            Keep::End => {
                let left_out = self.text.ceil_char_boundary(of - most);
                (format!("[{left_out} bytes omitted]\n{}", &self.text[left_out..]), left_out)
            }
        };
        let Self { name: part, keep, elsewhere, .. } = *self;
        (text, Some(Truncation { part, keep, left_out, of, elsewhere }))
    }
}

/// What was omitted from a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truncation {
    pub part: &'static str,
    pub keep: Keep,
    /// In bytes, as is `of`, the full length.
    pub left_out: usize,
    pub of: usize,
    pub elsewhere: Option<&'static str>,
}

impl Truncation {
    /// One line, for the agent and for people.
    pub fn describe(&self) -> String {
        let Self { part, left_out, of, .. } = self;
        let end = match self.keep {
            Keep::Start => "last",
            Keep::End => "first",
        };
        let elsewhere =
            self.elsewhere.map(|placeholder| format!("; {placeholder}")).unwrap_or_default();
        format!("{part}: the {end} {left_out} of {of} bytes{elsewhere}")
    }
}

/// Writes a prompt of at most `most` bytes. If the sections do not fit, the longest ones are
/// shortened to the same length, and a note at the end says what was omitted. With all sections
/// empty the prompt must fit.
pub fn fit(
    parts: &[PromptSection<'_>],
    most: usize,
    write: impl Fn(&[String]) -> String,
) -> (String, Vec<Truncation>) {
    let wanted: Vec<usize> = parts.iter().map(|part| part.text.len().min(part.most)).collect();
    let mut room: usize = wanted.iter().sum();
    loop {
        let common_length = common_length(&wanted, room);
        let shortened =
            parts.iter().zip(&wanted).map(|(part, own)| part.shortened(common_length.min(*own)));
        let (texts, cuts): (Vec<String>, Vec<Option<Truncation>>) = shortened.unzip();
        let cuts: Vec<Truncation> = cuts.into_iter().flatten().collect();
        let text = write(&texts) + &omission_note(&cuts);
        let Some(excess) = text.len().checked_sub(most + 1).filter(|_| room > 0) else {
            return (text, cuts);
        };
        room = room.saturating_sub(excess + SLACK_BYTES);
    }
}

/// The common maximum length with which all texts fit: room that short texts do not need goes to
/// long ones.
fn common_length(wanted: &[usize], room: usize) -> usize {
    let mut sorted = wanted.to_vec();
    sorted.sort_unstable();
    let (mut left, mut count) = (room, sorted.len());
    for own in sorted {
        if own.saturating_mul(count) > left {
            return left / count;
        }
        left -= own;
        count -= 1;
    }
    usize::MAX
}

fn omission_note(cuts: &[Truncation]) -> String {
    if cuts.is_empty() {
        return String::new();
    }
    let list: String = cuts.iter().map(|cut| format!("- {}\n", cut.describe())).collect();
    format!("\nSome of the text above was too long and is omitted:\n\n{list}")
}

#[cfg(test)]
mod tests;
