//! The problems of a lifecycle: what is wrong, where, and what to write instead.

use std::fmt;

/// One problem, at a position of the source (1-based; line 0 means the whole file).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub line: u32,
    pub column: u32,
    pub message: String,
    pub help: Option<String>,
}

impl Problem {
    /// A problem of the whole file.
    pub(crate) fn of_whole(message: impl Into<String>, help: Option<String>) -> Self {
        Self { line: 0, column: 0, message: message.into(), help }
    }

    /// A problem in a line; an empty help means none.
    pub(crate) fn in_line(line: u32, message: impl Into<String>, help: impl Into<String>) -> Self {
        let help = Some(help.into()).filter(|help| !help.is_empty());
        Self { line, column: 1, message: message.into(), help }
    }
}

/// All problems of one source, in the order of its lines; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    /// The file's name, or `built-in`.
    pub origin: String,
    pub list: Vec<Problem>,
    source: String,
}

impl Problems {
    /// The problem of a file that cannot be read at all.
    pub fn of_file(origin: &str, message: &str, help: &str) -> Self {
        Self::new(origin, "", vec![Problem::of_whole(message, Some(help.to_owned()))])
    }

    pub(crate) fn new(origin: &str, source: &str, mut list: Vec<Problem>) -> Self {
        list.sort();
        list.dedup();
        Self { origin: origin.to_owned(), list, source: source.to_owned() }
    }
}

/// An error or a warning, shown with its source line.
#[derive(Debug, Clone, Copy)]
pub struct SourceSnippet<'a> {
    /// Its severity, such as `error`.
    pub word: &'a str,
    pub problem: &'a Problem,
    pub origin: &'a str,
    pub source: &'a str,
}

impl fmt::Display for SourceSnippet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { word, problem, origin, source } = self;
        writeln!(f, "{word}: {}", problem.message)?;
        match problem.line.checked_sub(1) {
            None => writeln!(f, "--> {origin}")?,
            Some(index) => {
                let margin = " ".repeat(problem.line.to_string().len());
                writeln!(f, "{margin}--> {origin}:{}:{}", problem.line, problem.column)?;
                // The end of the file has a line number and no line.
                if let Some(text) = source.lines().nth(index as usize) {
                    quote(f, problem, &margin, text)?;
                }
            }
        }
        if let Some(help) = &problem.help {
            writeln!(f, "  help: {help}")?;
        }
        Ok(())
    }
}

/// The line of a problem, with a mark below its position.
fn quote(f: &mut fmt::Formatter<'_>, problem: &Problem, margin: &str, text: &str) -> fmt::Result {
    let before = text.chars().take(problem.column.saturating_sub(1) as usize);
    let before: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    writeln!(f, "{margin} |")?;
    writeln!(f, "{} | {}", problem.line, visible(text))?;
    writeln!(f, "{margin} | {before}^")
}

/// A source line for a terminal: without control characters, and shortened.
fn visible(text: &str) -> String {
    text.chars()
        .take(200)
        .map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c })
        .collect()
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let (origin, source) = (&self.origin, &self.source);
            SourceSnippet { word: "error", problem, origin, source }.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The known word nearest to a mistyped one, if it is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (distance(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, candidate)| candidate)
}

/// `did you mean `x`?`, or a list of the known words.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "there are none here".to_owned(),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// The edit distance of the words' beginnings, so that hostile input stays cheap. Two swapped
/// letters count once.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(64).collect();
    let right: Vec<char> = right.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    let mut before = Vec::new();
    for (i, a) in left.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let replaced = row[j] + usize::from(a != b);
            let swapped = i > 0 && j > 0 && *a == right[j - 1] && *b == left[i - 1];
            let swapped = if swapped { before[j - 1] + 1 } else { replaced };
            next.push(replaced.min(swapped).min(row[j + 1] + 1).min(next[j] + 1));
        }
        before = std::mem::replace(&mut row, next);
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_offered() {
        assert_eq!(
            suggestion("in_progres", ["review", "in_progress"]),
            "did you mean `in_progress`?"
        );
        assert_eq!(suggestion("zzz", ["review", "done"]), "known here: review, done");
    }

    #[test]
    fn a_problem_points_at_its_line() {
        let problem = Problem {
            line: 2,
            column: 3,
            message: "unknown kind".into(),
            help: Some("write `kind: done`".into()),
        };
        let problems = Problems::new("x.yaml", "a: 1\n  b: 2\n", vec![problem]);
        assert_eq!(
            problems.to_string(),
            "error: unknown kind\n --> x.yaml:2:3\n  |\n2 |   b: 2\n  |   ^\n  help: write `kind: done`\n"
        );
    }
}
