//! The tools of a run: a Model Context Protocol server over standard input and output, for the
//! agent of one run.
//!
//! It knows no store: each tool asks [`ops::reports`](crate::ops::reports), which checks the run's
//! token by the table of principals and writes to the run's folder and nowhere else. Five tools and
//! one line per message are small enough to write by hand; the protocol's own crate is slow to
//! compile and would bring an async runtime into a process that every agent starts.

mod rpc;
mod tools;

use std::io::{self, BufRead, Read, Write};

use banksman_core::limits::TOOL_MESSAGE_BYTES;

use crate::ops::reports::RunFolder;

#[derive(Debug, thiserror::Error)]
pub enum McpError {
    #[error("failed to read the agent's request")]
    Read(#[source] io::Error),
    #[error("failed to answer the agent")]
    Write(#[source] io::Error),
}

/// Serves until the agent closes its side.
pub fn serve(
    run: &RunFolder,
    mut input: impl BufRead,
    mut output: impl Write,
) -> Result<(), McpError> {
    let mut line = Vec::new();
    loop {
        let answer = match read_line(&mut input, &mut line).map_err(McpError::Read)? {
            Line::End => return Ok(()),
            Line::TooLong => Some(rpc::too_long()),
            Line::Whole if line.trim_ascii().is_empty() => None,
            Line::Whole => rpc::answer(run, &line),
        };
        if let Some(answer) = answer {
            writeln!(output, "{answer}").and_then(|()| output.flush()).map_err(McpError::Write)?;
        }
    }
}

enum Line {
    Whole,
    /// It was read to its end and discarded.
    TooLong,
    End,
}

fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    let bound = TOOL_MESSAGE_BYTES as u64 + 1;
    if input.by_ref().take(bound).read_until(b'\n', line)? == 0 {
        return Ok(Line::End);
    }
    if line.ends_with(b"\n") || line.len() <= TOOL_MESSAGE_BYTES {
        return Ok(Line::Whole);
    }
    line.clear();
    input.skip_until(b'\n')?;
    Ok(Line::TooLong)
}
