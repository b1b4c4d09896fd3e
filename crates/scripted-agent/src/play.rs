//! Plays the steps: what an agent does to its worktree, its output and itself.
//!
//! Signals and sessions go through `sh` and `setsid`, because the standard library has neither and
//! this program has no unsafe code.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, hint, process, thread};

use serde_json::{Value, json};

use crate::script::{Report, Script, Step, parse};

const STATE: &str = "SCRIPTED_STATE";
/// Set when the program re-executes itself: the number of completed steps, and what the result will
/// repeat of them.
const SKIP: &str = "SCRIPTED_SKIP";
const REPORTED: &str = "SCRIPTED_SAID";
const RUN_FOLDER: &str = "BANKSMAN_RUN_FOLDER";
/// The session to resume.
const SESSION: &str = "BANKSMAN_SESSION";
/// The hidden first argument of a daemon.
const STAY: &str = "--stay";
const PROMPT_BYTES: u64 = 4 * 1024 * 1024;
/// A silent agent that a test forgets does not stay forever.
const LONGEST_SILENCE: Duration = Duration::from_secs(3600);

const UNREADABLE: u8 = 2;
const BROKEN: u8 = 3;

/// Runs the program with the arguments, the environment and the standard input of the process.
pub fn play() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if let [stay, millis] = &args[..]
        && stay == STAY
    {
        eprintln!("here");
        thread::sleep(Duration::from_millis(millis.parse().unwrap_or(0)).min(LONGEST_SILENCE));
        return ExitCode::SUCCESS;
    }
    let outcome = read_prompt(args.first()).and_then(|prompt| match parse(&prompt) {
        Ok(script) => Player::new(&prompt).play(&script),
        Err(refused) => {
            let error = json!({ "kind": "setup", "message": refused.to_string() });
            event(&json!({ "type": "result", "status": "error", "text": "", "error": error }))?;
            Ok(ExitCode::from(UNREADABLE))
        }
    });
    outcome.unwrap_or_else(|error| {
        eprintln!("scripted-agent: {error}");
        ExitCode::from(BROKEN)
    })
}

fn read_prompt(file: Option<&String>) -> io::Result<String> {
    let mut prompt = String::new();
    match file {
        Some(path) => File::open(path)?.take(PROMPT_BYTES).read_to_string(&mut prompt)?,
        None => io::stdin().take(PROMPT_BYTES).read_to_string(&mut prompt)?,
    };
    if let Some(path) = file.filter(|_| env::var_os(SKIP).is_some()) {
        fs::remove_file(path)?;
    }
    Ok(prompt)
}

/// What the run has reported so far.
struct Player<'a> {
    prompt: &'a str,
    session: Option<String>,
    answer: Value,
    input: i64,
    output: i64,
    usd: f64,
    /// The position in the script: every step counts, whether it is played or not.
    at: usize,
    /// Steps that this process completed before it re-executed itself.
    skip: usize,
    attempt: Option<u64>,
}

/// The exit code, or none if the script continues.
type Next = Option<ExitCode>;

impl<'a> Player<'a> {
    fn new(prompt: &'a str) -> Self {
        let skip = env::var(SKIP).ok().and_then(|done| done.parse().ok()).unwrap_or(0);
        let reported: Value = env::var(REPORTED)
            .ok()
            .and_then(|reported| serde_json::from_str(&reported).ok())
            .unwrap_or_default();
        Self {
            prompt,
            session: reported["session"].as_str().map(str::to_owned).or(env::var(SESSION).ok()),
            answer: reported["answer"].clone(),
            input: reported["usage"]["input_tokens"].as_i64().unwrap_or(0),
            output: reported["usage"]["output_tokens"].as_i64().unwrap_or(0),
            usd: reported["usage"]["cost_usd"].as_f64().unwrap_or(0.0),
            at: 0,
            skip,
            attempt: None,
        }
    }

    fn play(&mut self, script: &Script) -> io::Result<ExitCode> {
        if script.has_attempts() {
            self.attempt = Some(count(&script.counter, self.skip == 0)?);
        }
        Ok(self.steps(&script.steps)?.unwrap_or(ExitCode::SUCCESS))
    }

    fn steps(&mut self, steps: &[Step]) -> io::Result<Next> {
        for step in steps {
            if let Some(code) = self.step(step)? {
                return Ok(Some(code));
            }
        }
        Ok(None)
    }

    fn step(&mut self, step: &Step) -> io::Result<Next> {
        if let Step::Once { name, steps } = step {
            let after = self.at + steps.len();
            let next = if self.is_due(name, after)? { self.steps(steps)? } else { None };
            self.at = after;
            return Ok(next);
        }
        self.at += 1;
        if self.at <= self.skip {
            return Ok(None);
        }
        if let Step::Attempt { number, step } = step {
            return if self.attempt == Some(*number) { self.act(step) } else { Ok(None) };
        }
        self.act(step)
    }

    fn act(&mut self, step: &Step) -> io::Result<Next> {
        match step {
            Step::Say(text) => event(&json!({ "type": "text", "text": text }))?,
            Step::Tool { name, detail } => tool(name, detail)?,
            Step::Write { path, text } => write(path, text, false)?,
            Step::Append { path, text } => write(path, text, true)?,
            Step::Commit(message) => commit(message)?,
            Step::Run(command) => shell(command)?,
            Step::Session(id) => {
                self.session = Some(id.clone());
                event(&json!({ "type": "session", "id": id }))?;
            }
            Step::Answer(answer) => self.answer = answer.clone(),
            Step::Spend { input, output, usd } => {
                self.input += input;
                self.output += output;
                self.usd += usd;
                let mut usage = self.usage();
                usage["type"] = json!("usage");
                event(&usage)?;
            }
            Step::Sleep(millis) => thread::sleep(Duration::from_millis(*millis)),
            Step::Burn(millis) => burn(Duration::from_millis(*millis)),
            Step::Silent => thread::sleep(LONGEST_SILENCE),
            Step::Flood(bytes) => flood(*bytes)?,
            Step::FloodErr(bytes) => flood_err(*bytes)?,
            Step::FloodLine(bytes) => flood_line(*bytes)?,
            Step::Daemon(millis) => daemon(*millis)?,
            Step::IgnoreTerm => return Err(self.exec_ignoring_term()),
            Step::Report(report) => write_report(report)?,
            Step::Success(text) => return self.succeed(text).map(Some),
            Step::Lie(text) => return self.lie(text).map(Some),
            Step::Fail { kind, message, resets_at } => {
                let error = json!({ "kind": kind, "message": message, "resets_at": resets_at });
                return self.result("error", message, &error).map(|()| Some(ExitCode::from(1)));
            }
            Step::Exit(code) => return Ok(Some(ExitCode::from(*code))),
            Step::Crash => process::abort(),
            Step::KillSelf(signal) => return Err(kill_self(signal)),
            Step::Once { .. } | Step::Attempt { .. } => {
                unreachable!("they hold steps, and nests do not parse")
            }
        }
        Ok(None)
    }

    fn usage(&self) -> Value {
        json!({ "input_tokens": self.input, "output_tokens": self.output, "cost_usd": self.usd })
    }

    fn reported(&self) -> Value {
        json!({ "session": self.session, "answer": self.answer, "usage": self.usage() })
    }

    fn result(&self, status: &str, text: &str, error: &Value) -> io::Result<()> {
        let mut result =
            json!({ "type": "result", "status": status, "text": text, "usage": self.usage() });
        if let Some(session) = &self.session {
            result["session"] = json!(session);
        }
        for (name, value) in [("answer", &self.answer), ("error", error)] {
            if !value.is_null() {
                result[name] = value.clone();
            }
        }
        event(&result)
    }

    fn succeed(&self, text: &str) -> io::Result<ExitCode> {
        self.result("success", text, &Value::Null)?;
        Ok(ExitCode::SUCCESS)
    }

    fn lie(&self, text: &str) -> io::Result<ExitCode> {
        tool("write", "src/everything.rs")?;
        tool("run", "cargo test: 42 passed")?;
        self.succeed(text)
    }

    /// Whether a `once` block is due. Blocks are remembered by name. A process that re-executed
    /// itself inside one is still in it.
    fn is_due(&self, name: &str, after: usize) -> io::Result<bool> {
        if self.at < self.skip {
            return Ok(self.skip < after);
        }
        let marker = state_folder()?.join(format!("once-{name}"));
        match OpenOptions::new().write(true).create_new(true).open(marker) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// An ignored signal stays ignored over an exec, so a shell can set it: the same process
    /// continues after this step.
    fn exec_ignoring_term(&self) -> io::Error {
        let again = match env::current_exe() {
            Ok(program) => program,
            Err(error) => return error,
        };
        let prompt = match keep_prompt(self.prompt) {
            Ok(path) => path,
            Err(error) => return error,
        };
        Command::new("sh")
            .args(["-c", r#"trap "" TERM; exec "$0" "$1""#])
            .arg(again)
            .arg(prompt)
            .env(SKIP, self.at.to_string())
            .env(REPORTED, self.reported().to_string())
            .exec()
    }
}

/// Standard input can be read only once, so the prompt goes to a file for the re-executed process.
fn keep_prompt(prompt: &str) -> io::Result<PathBuf> {
    let path = env::temp_dir().join(format!("scripted-agent-{}", process::id()));
    fs::write(&path, prompt)?;
    Ok(path)
}

fn event(event: &Value) -> io::Result<()> {
    // One write per line: a kill truncates the last line at most.
    io::stdout().lock().write_all(format!("{event}\n").as_bytes())
}

fn tool(name: &str, detail: &str) -> io::Result<()> {
    event(&json!({ "type": "tool", "name": name, "detail": detail }))
}

fn write(path: &str, text: &str, at_end: bool) -> io::Result<()> {
    if let Some(folder) = Path::new(path).parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).append(at_end).truncate(!at_end);
    options.open(path)?.write_all(format!("{text}\n").as_bytes())?;
    tool(if at_end { "append" } else { "write" }, path)
}

fn commit(message: &str) -> io::Result<()> {
    const WHO: [&str; 4] = ["-c", "user.name=Scripted Agent", "-c", "user.email=agent@example.org"];
    git(&["add", "-A"])?;
    git(&[&WHO[..], &["commit", "--quiet", "-m", message]].concat())?;
    tool("commit", message)
}

fn git(args: &[&str]) -> io::Result<()> {
    finish(Command::new("git").args(args), "git")
}

fn shell(command: &str) -> io::Result<()> {
    finish(Command::new("sh").args(["-c", command]), command)?;
    tool("run", command)
}

/// Standard output belongs to the protocol, so the program's output goes to standard error.
fn finish(command: &mut Command, what: &str) -> io::Result<()> {
    let status = command.stdin(Stdio::null()).stdout(io::stderr()).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("`{what}` ended with {status}")))
    }
}

fn burn(duration: Duration) {
    let began = Instant::now();
    while began.elapsed() < duration {
        for _ in 0..10_000 {
            hint::spin_loop();
        }
    }
}

const FLOOD_LINE: usize = 1024;

fn flood(bytes: u64) -> io::Result<()> {
    let line = format!("{}\n", json!({ "type": "text", "text": "x".repeat(FLOOD_LINE) }));
    write_lines(BufWriter::new(io::stdout().lock()), line.as_bytes(), bytes)
}

fn flood_err(bytes: u64) -> io::Result<()> {
    write_lines(
        BufWriter::new(io::stderr().lock()),
        format!("{}\n", "e".repeat(FLOOD_LINE)).as_bytes(),
        bytes,
    )
}

fn flood_line(bytes: u64) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    io::copy(&mut io::repeat(b'y').take(bytes), &mut out)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writes whole lines until at least `bytes` are written.
fn write_lines(mut out: impl Write, line: &[u8], bytes: u64) -> io::Result<()> {
    let lines = bytes.div_ceil(line.len() as u64);
    (0..lines).try_for_each(|_| out.write_all(line))?;
    out.flush()
}

fn daemon(millis: u64) -> io::Result<()> {
    // `setsid` does not fork here, since a new child leads no group: the child's pid is the
    // daemon's.
    let mut child = Command::new("setsid")
        .arg(env::current_exe()?)
        .args([STAY, &millis.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    // Its first byte shows that it has left our session.
    child.stderr.take().expect("it is a pipe").read_exact(&mut [0])?;
    tool("daemon", &format!("pid {}", child.id()))
}

fn kill_self(signal: &str) -> io::Error {
    // The shell replaces this process and keeps its pid. If it survives the signal, it stays for a
    // while, so that an ignored signal does not look like an exit.
    Command::new("sh").args(["-c", &format!("kill -s {signal} $$; exec sleep 3600")]).exec()
}

fn write_report(report: &Report) -> io::Result<()> {
    let line = match report {
        Report::Progress(step) => {
            json!({ "tell": "progress", "step": step, "files": [], "blockers": [] })
        }
        Report::NeedsPerson(question) => json!({ "tell": "needs_person", "question": question }),
        Report::NothingToDo(reason) => json!({ "tell": "nothing_to_do", "reason": reason }),
    };
    let Some(folder) = env::var_os(RUN_FOLDER) else {
        let mut report_event = line;
        report_event["type"] = json!("report");
        return event(&report_event);
    };
    let path = Path::new(&folder).join("reports.jsonl");
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)?
        .write_all(format!("{line}\n").as_bytes())
}

fn state_folder() -> io::Result<PathBuf> {
    env::var_os(STATE).map(PathBuf::from).ok_or_else(|| {
        io::Error::other(format!("{STATE} is not set, so the agent cannot keep state"))
    })
}

/// The number of this start, from 1. Each start appends one byte to the file, so that a kill cannot
/// corrupt it.
fn count(counter: &str, is_new: bool) -> io::Result<u64> {
    let path = state_folder()?.join(format!("attempts-{counter}"));
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    if is_new {
        file.write_all(b".")?;
    }
    Ok(file.metadata()?.len())
}
