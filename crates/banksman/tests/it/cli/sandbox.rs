//! A folder with a home and a repository, and the program run in it with an environment that holds
//! nothing else.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::masks::masked;
use crate::programs;

pub(super) const PROGRAM: &str = env!("CARGO_BIN_EXE_banksman");

pub(super) struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    /// A repository that nobody has told Banksman about.
    pub(super) fn empty() -> Self {
        let sandbox = Self { folder: TempDir::with_prefix("banksman-cli-").unwrap() };
        fs::create_dir_all(sandbox.repo().join(".git")).unwrap();
        fs::create_dir_all(sandbox.home()).unwrap();
        sandbox
    }

    /// A repository after `banksman init`.
    pub(super) fn new() -> Self {
        let sandbox = Self::empty();
        sandbox.ok(&["init"]);
        sandbox
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn home(&self) -> PathBuf {
        self.path().join("kim")
    }

    pub(super) fn repo(&self) -> PathBuf {
        self.path().join("repo")
    }

    pub(super) fn store(&self) -> PathBuf {
        self.home().join("data/banksman/banksman.db")
    }

    /// Writes a file below the repository and answers with its path.
    pub(super) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.repo().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The program with a clean environment, to be changed further.
    pub(super) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(PROGRAM);
        self.prepare(&mut command);
        command.args(args);
        command
    }

    /// Gives any program the clean environment.
    pub(super) fn prepare(&self, command: &mut Command) {
        let home = self.home();
        command.current_dir(self.repo()).env_clear().stdin(Stdio::null());
        command.env("PATH", programs::path());
        command
            .env("HOME", &home)
            .env("USER", "kim")
            .env("BANKSMAN_NODE", "harness")
            // Answers take effect at once, except where a test is about their grace period.
            .env("BANKSMAN_DECISIONS_GRACE", "0s")
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC");
        command.env("XDG_CONFIG_HOME", home.join("config")).env("XDG_DATA_HOME", home.join("data"));
        command.env("XDG_CONFIG_DIRS", self.path().join("system"));
    }

    pub(super) fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        self.finish(self.command(args).output().unwrap())
    }

    /// Runs it with a text on its standard input.
    pub(super) fn feed(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        self.finish(child.wait_with_output().unwrap())
    }

    pub(super) fn finish(&self, output: Output) -> Ran {
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            folder: self.path().to_str().unwrap().to_owned(),
        }
    }

    /// Runs what must succeed and answers with its output.
    pub(super) fn ok<S: AsRef<OsStr>>(&self, args: &[S]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{ran}");
        ran.stdout
    }

    /// Runs with `--json` what must succeed and answers with its document.
    pub(super) fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat());
        assert_eq!(ran.code, Some(0), "{ran}");
        assert_eq!(ran.stderr, "", "{ran}");
        ran.document()
    }

    /// Adds a task and answers with its id.
    pub(super) fn add(&self, title: &str) -> String {
        self.ok(&["add", "-q", title]).trim_end().to_owned()
    }
}

/// What came of a run. As text it is the exit code and both outputs, with what differs from run to
/// run masked.
pub(super) struct Ran {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    folder: String,
}

impl Ran {
    pub(super) fn document(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// The same with single blanks: where a path stands before the last column, the columns are as
    /// wide as it is.
    pub(super) fn without_padding(&self) -> String {
        let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        self.to_string().lines().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The document of a failure: the only line on stdout, with nothing on stderr.
    pub(super) fn error(&self) -> Value {
        assert_eq!((self.stderr.as_str(), self.stdout.lines().count()), ("", 1), "{self}");
        let document = self.failed_answer();
        assert_eq!(document.as_object().unwrap().len(), 5, "{self}");
        document
    }

    /// An answer with a failing exit code: it has all keys of a failure.
    pub(super) fn failed_answer(&self) -> Value {
        assert_ne!(self.code, Some(0), "{self}");
        let document = self.document();
        assert_eq!(document["success"], false, "{self}");
        assert!(document["allowedTransitions"].is_array(), "{self}");
        assert!(document["code"].as_str().unwrap().starts_with("BM-E"), "{self}");
        assert!(document["hint"].is_string() || document["hint"].is_null(), "{self}");
        assert!(document.get("hint").is_some(), "{self}");
        let errors = document["errors"].as_array().unwrap();
        assert!(!errors.is_empty(), "{self}");
        for error in errors {
            assert!(error["field"].is_string() || error["field"].is_null(), "{self}");
            assert!(!error["message"].as_str().unwrap().is_empty(), "{self}");
        }
        document
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => writeln!(f, "exit {code}")?,
            None => writeln!(f, "killed by a signal")?,
        }
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                writeln!(f, "-- {name}\n{}", masked(text, &self.folder).trim_end())?;
            }
        }
        Ok(())
    }
}
