//! The process that is killed, and the parent's hold on it.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use banksman::store::conn::{Options, Target};
use banksman::store::{Applied, ClaimRequest, Store, StoreError, hex};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Outcome;
use banksman_core::machine::{Event, Finish};

use crate::store::acts::{NOON, TTL, actor, ask, fields, finish, heartbeat, key, load, load_after};
use crate::store::world::World;

/// What a child is told, by environment: the store and what to do with it.
const JOB: &str = "BANKSMAN_CRASH_JOB";
const STORE: &str = "BANKSMAN_CRASH_STORE";
const SCHEMA: &str = "BANKSMAN_CRASH_SCHEMA";
const SEED: &str = "BANKSMAN_CRASH_SEED";

/// The line that a child writes before it opens the store, and the one after.
pub(super) const OPENING: &str = "opening";
pub(super) const OPENED: &str = "opened";

const SIGKILL: i32 = 9;
const THREADS: u64 = 4;
/// Far more than a parent ever waits for, so that a child whose parent died comes to an end.
const STEPS: u64 = 10_000;

/// Numbers that follow from a seed (splitmix64).
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Records that were acknowledged: task and number, with the hash.
pub(super) type Acknowledged = BTreeMap<(i64, i64), String>;

/// A running child.
pub(super) struct Running {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    pub(super) fn work(world: &World, seed: u64) -> Self {
        Self::start(world, "work", seed)
    }

    pub(super) fn open(world: &World) -> Self {
        Self::start(world, "open", 0)
    }

    fn start(world: &World, job: &str, seed: u64) -> Self {
        let store = match &world.target {
            Target::Sqlite(path) => path.display().to_string(),
            Target::Postgres(url) => url.clone(),
        };
        let mut command = Command::new(env::current_exe().expect("the test binary has a path"));
        command
            .args(["--exact", "crash::child::a_child_works_on_a_store", "--nocapture"])
            .envs([(JOB, job), (STORE, &store), (SEED, &seed.to_string())])
            .stdout(Stdio::piped());
        if let Some(schema) = &world.options.schema {
            command.env(SCHEMA, schema);
        }
        let mut process = command.spawn().expect("the child starts");
        let lines = BufReader::new(process.stdout.take().expect("its output is a pipe"));
        Self { process, lines }
    }

    /// The next whole line; `None` at the end. What the test harness says in between is passed
    /// over.
    fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).expect("the pipe is read");
            // A line that the kill cut short was not acknowledged.
            let whole = line.strip_suffix('\n')?;
            if let Some(said) = whole.strip_prefix("child: ") {
                return Some(said.to_owned());
            }
        }
    }

    pub(super) fn wait_for(&mut self, word: &str) {
        assert_eq!(self.line().as_deref(), Some(word), "the child ended by itself");
    }

    /// Reads one acknowledgement and answers with its task and number.
    pub(super) fn hear(&mut self, into: &mut Acknowledged) -> (i64, i64) {
        let line = self.line().expect("the child works until it is killed");
        note(&line, into)
    }

    /// Kills the child and reads what it had still said.
    pub(super) fn kill(mut self, into: &mut Acknowledged) {
        self.process.kill().expect("the child can be killed");
        while let Some(line) = self.line() {
            note(&line, into);
        }
        let status = self.process.wait().expect("the child is gone");
        assert_eq!(status.signal(), Some(SIGKILL), "the child ended by itself: {status}");
    }

    /// Kills a child that may have ended by itself.
    pub(super) fn kill_if_running(mut self) {
        self.process.kill().expect("the child can be killed");
        self.process.wait().expect("the child is gone");
    }
}

fn note(line: &str, into: &mut Acknowledged) -> (i64, i64) {
    let mut words = line.split(' ');
    let mut next = || words.next().unwrap_or_else(|| panic!("odd line: {line}"));
    let (task, seq, hash) = (next(), next(), next().to_owned());
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("odd line: {line}"));
    let record = (number(task), number(seq));
    let known = into.insert(record, hash);
    assert_eq!(known, None, "the same record was acknowledged twice: {line}");
    record
}

/// In a child this is the whole program. Otherwise it does the same for a while, so that what the
/// children do is known to work where nobody is killed.
#[test]
fn a_child_works_on_a_store() {
    let Ok(job) = env::var(JOB) else {
        let world = World::sqlite();
        work(&world.open(), 1, 40);
        world.assert_sound();
        return;
    };
    let target: Target = env::var(STORE).expect("a store").parse().expect("a target");
    let options = Options { schema: env::var(SCHEMA).ok(), ..Options::default() };
    if job == "open" {
        say(OPENING);
        let store = Store::open(&target, &options).expect("the store opens");
        say(OPENED);
        drop(store);
        return;
    }
    let seed = env::var(SEED).expect("a seed").parse().expect("a number");
    let store = Store::open(&target, &options).expect("the store opens");
    work(&store, seed, STEPS);
}

/// One write, past the harness, so that a line is out when this returns.
fn say(words: &str) {
    let line = format!("child: {words}\n");
    io::stdout().lock().write_all(line.as_bytes()).expect("the parent listens");
}

fn work(store: &Store, seed: u64, steps: u64) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut seeded = Seeded(seed.wrapping_mul(31).wrapping_add(thread));
            scope.spawn(move || {
                for step in 0..steps {
                    let name = format!("{seed}.{thread}.{step}");
                    let done = act(store, &mut seeded, &name);
                    match done {
                        Ok(Some(applied)) => acknowledge(&applied),
                        Ok(None) | Err(StoreError::Rejected(_)) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            });
        }
    });
}

fn acknowledge(applied: &Applied) {
    if let Some(entry) = &applied.entry {
        say(&format!("{} {} {}", entry.task.0, entry.seq, hex(&entry.hash)));
    }
}

/// One of the things that happen to a store.
fn act(store: &Store, seeded: &mut Seeded, name: &str) -> Result<Option<Applied>, StoreError> {
    match seeded.below(8) {
        0 | 1 => {
            let mut add = load(name);
            add.key = key(name, name);
            add.new.body = name.to_owned();
            store.add(add, NOON).map(Some)
        }
        2 => match some_task(store, seeded)? {
            Some(needed) => store.add(load_after(name, &[needed]), NOON).map(Some),
            None => Ok(None),
        },
        3 => match some_task(store, seeded)? {
            Some(id) => {
                let (to, given) =
                    [("parked", "x"), ("queued", "x"), ("done", "x"), ("held", "wind")]
                        [usize::try_from(seeded.below(4)).expect("small")];
                let event = ask("human:kim", to, &[("waits_for", given)]);
                store.apply(id, event, key(name, name), NOON).map(Some)
            }
            None => Ok(None),
        },
        _ => run(store, seeded),
    }
}

fn some_task(store: &Store, seeded: &mut Seeded) -> Result<Option<TaskId>, StoreError> {
    let (tasks, _) = store.list(&Default::default(), None, 20)?;
    let count = u64::try_from(tasks.len()).expect("few");
    let nth = seeded.below(count.max(1));
    Ok(tasks.get(usize::try_from(nth).expect("small")).map(|stored| stored.task.id))
}

/// Claims, beats and ends.
fn run(store: &Store, seeded: &mut Seeded) -> Result<Option<Applied>, StoreError> {
    let request = ClaimRequest::new(actor("worker:w1"), TTL);
    let Some(claimed) = store.claim(request, NOON)? else { return Ok(None) };
    let id = claimed.run.task;
    let last = store.history(id, claimed.stored.task.version - 1)?;
    let record = last.first().expect("a claim leaves a record");
    say(&format!("{} {} {}", id.0, record.seq, hex(&record.hash)));
    store.apply(id, heartbeat(claimed.run.epoch, NOON.plus(TTL)), None, NOON)?;
    let outcome = [Outcome::Succeeded, Outcome::Policy, Outcome::Crashed, Outcome::NeedsPerson]
        [usize::try_from(seeded.below(4)).expect("small")];
    let given = fields(&[("pr_url", "https://forge/1")]);
    let end = Finish { fields: given, tokens: 3, ..finish(claimed.run.epoch, outcome) };
    store.apply(id, Event::Finished(end), None, NOON).map(Some)
}
