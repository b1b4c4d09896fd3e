//! Prints a failure once: to people with its causes and a hint on stderr, to programs as a document
//! on stdout.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::failure::plain;
use super::hints::phrase;
use super::output::{json_line, sanitize, sanitize_lines};
use super::symbols::with_local_times;
use super::{Exit, Failure, Output, Result};
use crate::api::Checked;
use crate::api::error::{ErrorDocument, FailedAnswer, FieldMessage};
use crate::ops::error_report::{Code, ErrorReport};

/// Prints the failure and returns the exit code. If it cannot be printed, only the exit code can
/// report it.
pub(crate) fn report(failure: &Failure, out: Output) -> Exit {
    if failure.is_broken_pipe() {
        return Exit::Done;
    }
    let problem = failure.problem();
    if out.json {
        let line = format!("{}\n", json_line(&document(&problem)));
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
        // If stdout is what fails, stderr is the only place left.
        drop(written.or_else(|_| io::stderr().write_all(line.as_bytes())));
    } else {
        let mut stderr = anstream::AutoStream::new(io::stderr().lock(), out.color);
        // If this fails, only the exit code can report it.
        drop(stderr.write_all(as_text(failure, &problem).as_bytes()));
    }
    problem.code.into()
}

/// Prints what a check of files has found. Errors are printed as the document of a failure.
pub(super) fn findings(
    out: &Output,
    code: Code,
    errors: Vec<FieldMessage>,
    checked: impl FnOnce() -> Checked,
    text: impl FnOnce() -> String,
) -> Result<Exit> {
    if errors.is_empty() {
        return out.answer(checked, text);
    }
    let document = || format!("{}\n", json_line(&ErrorDocument::of_findings(code, errors)));
    out.text(&if out.json { document() } else { text() })?;
    Ok(Exit::Findings)
}

/// Prints an answer. If it falls short of what was asked for, `failed` says how: then the document
/// has the keys of every failure, too, and the exit code is that of the error code.
pub(super) fn answer<T: Serialize>(
    out: &Output,
    code: Code,
    failed: Vec<String>,
    document: impl FnOnce() -> T,
    text: impl FnOnce() -> String,
) -> Result<Exit> {
    if failed.is_empty() {
        return out.answer(document, text);
    }
    let errors = failed.into_iter().map(FieldMessage::from).collect();
    let error = ErrorDocument::of_findings(code, errors);
    out.answer(|| FailedAnswer { error, answer: document() }, text)?;
    Ok(code.into())
}

/// The document of a failure.
pub(super) fn document(problem: &ErrorReport) -> ErrorDocument {
    ErrorDocument::new(problem, problem.hint.as_ref().map(phrase))
}

fn as_text(failure: &Failure, problem: &ErrorReport) -> String {
    let (red, cyan) = (bold(AnsiColor::Red), bold(AnsiColor::Cyan));
    if let Failure::Usage(error) = failure {
        // It quotes the arguments as they are, so its colours cannot be told from theirs.
        let text = sanitize_lines(&plain(&error.render().to_string()));
        // Without a command it is only the help.
        return match text.strip_prefix("error:") {
            Some(text) => format!("{red}error:{red:#}{text}"),
            None => text,
        };
    }
    let code = problem.code.as_str();
    let mut lines = Vec::new();
    if problem.errors.is_empty() {
        // A lifecycle's problems come as a text of several lines with its own `error:`.
        let text = problem.message.trim_end().trim_start_matches("error: ");
        let text = sanitize_lines(&with_local_times(text));
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        lines.push(format!("{red}error:{red:#} {first} ({code})"));
        lines.extend((!rest.is_empty()).then(|| rest.to_owned()));
        let causes = problem.causes.iter();
        lines.extend(causes.map(|cause| format!("  because: {}", sanitize_lines(cause))));
    } else {
        lines.push(format!("{red}error:{red:#} refused ({code})"));
        let errors = problem.errors.iter();
        lines
            .extend(errors.map(|error| {
                format!("  {}: {}", sanitize(&error.field), sanitize(&error.message))
            }));
    }
    if !problem.allowed.is_empty() {
        lines.push(format!("  allowed now: {}", problem.allowed.join(", ")));
    }
    let hint = problem.hint.as_ref().map(phrase);
    lines.extend(hint.map(|hint| format!("{cyan}hint:{cyan:#} {}", sanitize(&hint))));
    lines.join("\n") + "\n"
}

fn bold(color: AnsiColor) -> Style {
    Style::new().bold().fg_color(Some(color.into()))
}
