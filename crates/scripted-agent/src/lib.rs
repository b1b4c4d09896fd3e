//! An agent for tests: it plays the script that its prompt holds and speaks the protocol of the
//! `command` adapter.
//!
//! The script is the file that the first argument names, or else standard input. Where the prompt
//! has a line `<<script`, only the lines from there to `script>>` are the script, so that it may
//! stand in the body of a task; what a template puts in front of them (blanks, `>`) is taken off.
//! Otherwise every line is a step. Empty lines and lines that begin with `#` are passed over. `\n`,
//! `\t` and `\\` in a text mean what they mean in Rust.
//!
//! | step | what it does |
//! | --- | --- |
//! | `say TEXT` | a text event |
//! | `tool NAME DETAIL` | a tool event, and nothing else |
//! | `write PATH TEXT`, `append PATH TEXT` | changes a file, making its folders |
//! | `commit MESSAGE` | `git add -A` and `git commit` |
//! | `run COMMAND` | a shell command; what it prints goes to standard error |
//! | `session ID` | a session event; the result repeats the id, or that of the session to go on with |
//! | `answer JSON` | the result will hold this answer |
//! | `spend IN OUT USD` | adds to the usage, and tells of it |
//! | `sleep MS`, `burn MS` | goes on later: idle, or with a busy processor |
//! | `silent` | stays, without output or processor time; an hour at most |
//! | `flood BYTES`, `flood-err BYTES`, `flood-line BYTES` | text events, lines on standard error, one endless line |
//! | `daemon MS` | starts a child in a session of its own that holds our standard output open and lives on; tells its pid |
//! | `ignore-term` | from here on SIGTERM does nothing |
//! | `progress TEXT`, `needs-person TEXT`, `nothing-to-do TEXT` | a report: to the run's folder, as its tool server writes it, or as an event where there is none |
//! | `success TEXT`, `lie TEXT` | the terminal event and exit 0; the lie also tells of work that was never done |
//! | `fail TEXT`, `quota [RESET]`, `auth`, `transient` | the terminal event with an error, and exit 1 |
//! | `exit N`, `crash`, `kill-self SIGNAL` | ends without a terminal event |
//! | `once NAME` … `end` | the steps between are played the first time only |
//! | `attempt N: STEP` | is played only by the nth start with this script |
//! | `count-as NAME` | counts attempts under this name, not under the script's own text |
//!
//! `once` and `attempt` remember in the folder that `SCRIPTED_STATE` names, which must be there. A
//! script that ends without a terminal step ends with exit 0 and no terminal event: the case that
//! facts have to decide. A script that cannot be read is told as an error of the kind `setup`, with
//! exit 2.
//!
//! It must never be part of the program: it exists to do what agents should not.

mod play;
mod script;

pub use play::play;
