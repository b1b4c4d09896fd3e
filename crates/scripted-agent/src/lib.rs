//! An agent for tests: it plays the script in its prompt and speaks the protocol of the `command`
//! adapter.
//!
//! The script is the file that the first argument names, or else standard input. If the prompt has
//! a line `<<script`, only the lines from there to `script>>` are the script, so that it can be
//! part of a task's body; what a template puts in front of them (blanks, `>`) is stripped.
//! Otherwise every line is a step. Empty lines and lines that begin with `#` are skipped. `\n`,
//! `\t` and `\\` in a text mean what they mean in Rust.
//!
//! | step | what it does |
//! | --- | --- |
//! | `say TEXT` | a text event |
//! | `tool NAME DETAIL` | a tool event, and nothing else |
//! | `write PATH TEXT`, `append PATH TEXT` | changes a file and creates its folders |
//! | `commit MESSAGE` | `git add -A` and `git commit` |
//! | `run COMMAND` | a shell command; its output goes to standard error |
//! | `session ID` | a session event; the result repeats the id, or that of the resumed session |
//! | `answer JSON` | the result will contain this answer |
//! | `spend IN OUT USD` | adds to the usage and reports it |
//! | `sleep MS`, `burn MS` | continues later: idle, or with a busy CPU |
//! | `silent` | stays, without output or CPU use; an hour at most |
//! | `flood BYTES`, `flood-err BYTES`, `flood-line BYTES` | text events, lines on standard error, one endless line |
//! | `daemon MS` | starts a child in its own session that keeps our standard output open and lives on; reports its pid |
//! | `ignore-term` | ignores SIGTERM from here on |
//! | `progress TEXT`, `needs-person TEXT`, `nothing-to-do TEXT` | a report: to the run's folder, as its MCP server writes it, or as an event if there is none |
//! | `success TEXT`, `lie TEXT` | the terminal event and exit 0; the lie also reports work that was never done |
//! | `fail TEXT`, `quota [RESET]`, `auth`, `transient` | the terminal event with an error, and exit 1 |
//! | `exit N`, `crash`, `kill-self SIGNAL` | ends without a terminal event |
//! | `once NAME` … `end` | the steps between are played only the first time |
//! | `attempt N: STEP` | is played only by the nth start with this script |
//! | `count-as NAME` | counts attempts under this name instead of the script's text |
//!
//! `once` and `attempt` keep their state in the folder that `SCRIPTED_STATE` names, which must
//! exist. A script that ends without a terminal step ends with exit 0 and no terminal event: the
//! case that the facts have to decide. A script that cannot be parsed is reported as an error of
//! the kind `setup`, with exit 2.
//!
//! It must never be part of the program: it exists to do what agents should not do.

mod play;
mod script;

pub use play::play;
