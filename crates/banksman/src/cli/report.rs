//! Prints a failure once: to people with its causes and a hint, to programs as JSON.

use std::error::Error;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde_json::json;

use super::exit::{Code, Exit};
use super::failure::Failure;
use super::output::{json_text, sanitize, sanitize_lines};

/// How to print a failure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorFormat {
    pub(crate) json: bool,
    pub(crate) color: anstream::ColorChoice,
}

/// Prints the failure and returns the exit code.
pub(crate) fn report(failure: &Failure, error_format: ErrorFormat) -> Exit {
    if failure.is_broken_pipe() {
        return Exit::Done;
    }
    let (code, hint) = failure.class();
    let text = if error_format.json {
        as_json(failure, code, hint.as_deref())
    } else {
        as_text(failure, code, hint.as_deref())
    };
    let mut stderr = anstream::AutoStream::new(io::stderr().lock(), error_format.color);
    // If this fails, only the exit code can report it.
    drop(stderr.write_all(text.as_bytes()));
    code.exit()
}

fn as_json(failure: &Failure, code: Code, hint: Option<&str>) -> String {
    let message: Vec<String> = messages(failure);
    let error =
        json!({ "error": { "code": code.as_str(), "message": message.join(": "), "hint": hint } });
    format!("{}\n", json_text(&error))
}

fn as_text(failure: &Failure, code: Code, hint: Option<&str>) -> String {
    let (red, cyan) = (bold(AnsiColor::Red), bold(AnsiColor::Cyan));
    if let Failure::Usage(error) = failure {
        // It quotes the arguments as they are, so its colours cannot be told from theirs.
        let text = sanitize_lines(&error.render().to_string());
        let text = text.strip_prefix("error:").unwrap_or(&text);
        return format!("{red}error:{red:#}{text}");
    }
    let mut lines = Vec::new();
    if let Some(rejected) = failure.rejected() {
        lines.push(format!("{red}error:{red:#} refused ({})", code.as_str()));
        lines.extend(
            rejected
                .errors
                .iter()
                .map(|error| format!("  {}: {}", sanitize(&error.field), sanitize(&error.message))),
        );
        if !rejected.allowed.is_empty() {
            lines.push(format!("  allowed now: {}", rejected.allowed.join(", ")));
        }
    } else {
        let mut messages = messages(failure).into_iter();
        let first = messages.next().unwrap_or_default();
        // A lifecycle's problems come as a text of several lines with its own `error:`.
        let first = sanitize_lines(first.trim_end().trim_start_matches("error: "));
        let (first, rest) = first.split_once('\n').unwrap_or((&first, ""));
        lines.push(format!("{red}error:{red:#} {first} ({})", code.as_str()));
        lines.extend((!rest.is_empty()).then(|| rest.to_owned()));
        lines.extend(messages.map(|cause| format!("  because: {}", sanitize_lines(&cause))));
    }
    lines.extend(hint.map(|hint| format!("{cyan}hint:{cyan:#} {}", sanitize(hint))));
    lines.join("\n") + "\n"
}

fn bold(color: AnsiColor) -> Style {
    Style::new().bold().fg_color(Some(color.into()))
}

/// The message and its causes, without those that repeat an earlier one.
fn messages(failure: &Failure) -> Vec<String> {
    const MOST: usize = 10;
    let mut messages = vec![failure.to_string()];
    let mut cause = failure.source().filter(|_| !matches!(failure, Failure::Usage(_)));
    while let Some(error) = cause.filter(|_| messages.len() < MOST) {
        let text = error.to_string();
        if !messages.iter().any(|said| said.contains(&text)) {
            messages.push(text);
        }
        cause = error.source();
    }
    messages
}
