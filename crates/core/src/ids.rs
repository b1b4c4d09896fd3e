//! Newtypes for ids: `t12` is a task, `r12.3` a run, `d12` a decision.
//!
//! An id is a positive number that the store assigns. The letter prevents one kind from being
//! mistaken for another.

use std::fmt;
use std::str::FromStr;

/// A text that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind} id")]
pub struct NotAnId {
    pub text: String,
    pub kind: &'static str,
}

macro_rules! id {
    ($name:ident, $letter:literal, $kind:literal) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            /// Accepts `t12`, and `12` as a shorthand.
            fn from_str(text: &str) -> Result<Self, NotAnId> {
                let digits = text.strip_prefix($letter).unwrap_or(text);
                let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
                match digits.parse::<i64>() {
                    Ok(number) if all_digits && number > 0 => Ok(Self(number)),
                    Ok(_) | Err(_) => {
                        let text = text.chars().take(64).collect();
                        Err(NotAnId { text, kind: $kind })
                    }
                }
            }
        }
    };
}

id!(TaskId, "t", "task");
id!(DecisionId, "d", "decision");

/// The nth run of a task: `r83.2` is the second run of `t83`. Its number is the epoch of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    pub task: TaskId,
    pub epoch: i64,
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}.{}", self.task.0, self.epoch)
    }
}

impl FromStr for RunId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let refuse = || NotAnId { text: text.chars().take(64).collect(), kind: "run" };
        let (task, epoch) =
            text.strip_prefix('r').and_then(|rest| rest.split_once('.')).ok_or_else(refuse)?;
        let number =
            |digits: &str| digits.parse::<TaskId>().ok().filter(|_| !digits.starts_with('t'));
        let (task, epoch) = (number(task).ok_or_else(refuse)?, number(epoch).ok_or_else(refuse)?);
        Ok(Self { task, epoch: epoch.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_what_it_prints() {
        assert_eq!("t83".parse(), Ok(TaskId(83)));
        assert_eq!("83".parse(), Ok(TaskId(83)));
        assert_eq!(TaskId(83).to_string(), "t83");
    }

    #[test]
    fn a_run_is_named_after_its_task() {
        let run = RunId { task: TaskId(83), epoch: 2 };
        assert_eq!(run.to_string(), "r83.2");
        assert_eq!("r83.2".parse(), Ok(run));
        for text in ["r83", "83.2", "r83.", "r.2", "r83.0", "rt83.2", "r83.2.1"] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in ["", "t", "t0", "t-1", "+5", "r7", "t1x", "t99999999999999999999"] {
            assert!(text.parse::<TaskId>().is_err(), "{text}");
        }
    }
}
