//! From `add` in one process to a claim in another that had been waiting, and what the waiting
//! costs.
//!
//! The other process is this program again, told by its arguments to wait for work. A third one
//! does the least that two processes can do: a flush here, a word through a pipe, a flush there. On
//! a busy machine it is slow as well.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use banksman::clock;
use banksman::store::Store;
use banksman::store::conn::{Options, Target};

use crate::bare_postgres::{Schema, server};
use crate::frame::report::{Goal, Report, median, millis, quantile, short};
use crate::frame::{Fault, Size};
use crate::postgres::NO_SERVER;
use crate::sample;

const WAIT: &str = "wait-for-work";
const ECHO: &str = "flush-and-echo";

/// What a process was started for.
pub(crate) enum Role {
    Wait { target: Target, schema: Option<String> },
    Echo { path: PathBuf },
}

impl Role {
    /// What the arguments say, if this process has a role at all.
    pub(crate) fn from_words(words: &[String]) -> Option<Self> {
        let [first, place, schema @ ..] = words else {
            return None;
        };
        match first.as_str() {
            WAIT => {
                Some(Self::Wait { target: place.parse().ok()?, schema: schema.first().cloned() })
            }
            ECHO => Some(Self::Echo { path: place.into() }),
            _ => None,
        }
    }

    pub(crate) fn serve(self) -> Result<(), Fault> {
        match self {
            Self::Wait { target, schema } => wait_for_work(&target, schema),
            Self::Echo { path } => flush_and_echo(&path),
        }
    }
}

/// Claims what there is, says so, and waits for more, until it is ended.
fn wait_for_work(target: &Target, schema: Option<String>) -> Result<(), Fault> {
    let options = Options { schema, ..Options::default() };
    let store = Store::open(target, &options)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready")?;
    out.flush()?;
    loop {
        let mark = store.mark();
        match sample::claim(&store)? {
            Some(claimed) => {
                writeln!(out, "{}", claimed.run.task)?;
                out.flush()?;
            }
            None => {
                store.wait(mark, Duration::from_secs(60));
            }
        }
    }
}

/// Answers each line after a flush of its own, until there are no more.
fn flush_and_echo(path: &Path) -> Result<(), Fault> {
    let file = flushed_file(path)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready")?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        flush(&file)?;
        writeln!(out, "{}", line?)?;
        out.flush()?;
    }
    Ok(())
}

/// From add to claim, for 99 of 100.
const AT_MOST_MILLIS: f64 = 5.0;

const BLOCK: usize = 8 * 1024;

fn flushed_file(path: &Path) -> Result<File, Fault> {
    let file = File::create(path)?;
    flush(&file)?;
    Ok(file)
}

fn flush(file: &File) -> Result<(), Fault> {
    file.write_all_at(&[1; BLOCK], 0)?;
    Ok(file.sync_data()?)
}

pub(crate) fn measure(size: Size, report: &mut Report) -> Result<(), Fault> {
    report.section("from add in one process to a waiting claim in another");
    let folder = sample::folder()?;
    let path = folder.path().join("wake.db");
    let store = sample::sqlite_store(&folder, "wake.db")?;
    let words = [path.to_str().ok_or("the folder's name is not text")?];
    one_engine(size, report, "SQLite", &store, &words)?;
    let Some(url) = server() else {
        report.skip("waking on PostgreSQL", NO_SERVER);
        return Ok(());
    };
    let (schema, store) = Schema::with_store(&url, 4)?;
    one_engine(size, report, "PostgreSQL", &store, &[&url, &schema.name])
}

fn one_engine(
    size: Size,
    report: &mut Report,
    engine: &str,
    store: &Store,
    words: &[&str],
) -> Result<(), Fault> {
    let mut waiter = Other::start(WAIT, words)?;
    let folder = sample::folder()?;
    let (here, there) = (flushed_file(&folder.path().join("here"))?, folder.path().join("there"));
    let mut echo = Other::start(ECHO, &[there.to_str().ok_or("the folder's name is not text")?])?;
    let definition = sample::definition()?;
    let (mut from_call, mut from_return, mut least) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..size.pick(600, 60) {
        // The waiter has to look and find nothing before it waits again.
        thread::sleep(Duration::from_millis(10));
        let began = Instant::now();
        flush(&here)?;
        echo.say("go")?;
        echo.line()?;
        least.push(millis(began.elapsed()));
        let began = Instant::now();
        let added = store.add(sample::new_task(&definition, number), clock::now())?;
        let returned = Instant::now();
        let line = waiter.line()?;
        if line != added.stored.task.id.to_string() {
            return Err(format!("the waiter claimed `{line}`").into());
        }
        // The first ones find neither statements nor watches ready.
        if number >= 10 {
            from_call.push(millis(began.elapsed()));
            from_return.push(millis(returned.elapsed()));
        }
    }
    let both = |times: &[f64]| {
        format!("median {} ms, p99 {} ms", short(median(times)), short(quantile(times, 0.99)))
    };
    report.note(&format!("{engine}: from the call of add to the claim"), &both(&from_call));
    report.note(&format!("{engine}: from the end of add to the claim"), &both(&from_return));
    report.note("the machine alone: flush, pipe, flush", &both(&least));
    if quantile(&least, 0.99) > AT_MOST_MILLIS {
        report.note("", "the machine is too busy for the next goal: it misses it alone");
    }
    let p99 = quantile(&from_call, 0.99);
    report.judge(
        &format!("{engine}: p99 from add to claim"),
        p99,
        "ms",
        Goal::AtMost(AT_MOST_MILLIS),
    );
    let idle = size.pick(Duration::from_secs(10), Duration::from_secs(2));
    let before = waiter.processor_time()?;
    thread::sleep(idle);
    let used = millis(waiter.processor_time()?.saturating_sub(before)) / idle.as_secs_f64();
    report.judge(
        &format!("{engine}: processor time of an idle waiter"),
        used,
        "ms/s",
        Goal::AtMost(1.0),
    );
    Ok(())
}

/// The other process.
struct Other {
    child: Child,
    said: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Other {
    fn start(task: &str, words: &[&str]) -> Result<Self, Fault> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(task).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let said = child.stdin.take().ok_or("the other process has no input")?;
        let lines = BufReader::new(child.stdout.take().ok_or("the other process has no output")?);
        let mut other = Self { child, said, lines };
        other.line()?;
        Ok(other)
    }

    fn say(&mut self, word: &str) -> Result<(), Fault> {
        writeln!(self.said, "{word}")?;
        Ok(self.said.flush()?)
    }

    fn line(&mut self) -> Result<String, Fault> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        if line.is_empty() {
            return Err("the other process has ended".into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// The time that all its threads have run so far.
    fn processor_time(&self) -> Result<Duration, Fault> {
        let mut nanos = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let counts = fs::read_to_string(thread?.path().join("schedstat"))?;
            nanos += counts.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It never ends by itself. If it has died meanwhile, there is nothing left to end.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
