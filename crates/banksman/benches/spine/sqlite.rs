//! SQLite at full durability: moves, and whole cycles of add, claim and finish, against bare
//! statements.

use std::fs::File;
use std::iter;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use banksman::clock;
use banksman::store::Store;
use banksman_core::ids::TaskId;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::bare_sqlite::{Ends, Ready, connect};
use crate::frame::report::{Goal, Report, Rounds, median, short};
use crate::frame::{Fault, Size};
use crate::sample::{self, per_second, rate};
use crate::script::Scripts;

/// Callers at the same time, and members of one bare group commit.
const CALLERS: usize = 16;

pub(crate) fn measure(size: Size, report: &mut Report) -> Result<(), Fault> {
    let folder = sample::folder()?;
    let scripts = Scripts::record()?;
    report.section("SQLite, synchronous=FULL");
    for spread in [Spread::FarApart, Spread::Neighbours] {
        moves(size, report, &folder, &scripts, spread)?;
    }
    lone_moves(size, report, &folder, &scripts)?;
    cycles(size, report, &folder, &scripts)
}

/// Tasks that go to and fro, some for each caller. Both sides of a comparison go through them in
/// the same order.
pub(crate) struct Swing {
    tasks: Vec<Vec<TaskId>>,
    /// Moves that each caller has made.
    made: usize,
}

/// How close the tasks are that callers move at the same time. Neighbours share pages of the
/// database, so that a group commit writes few of them; tasks far apart share none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    Neighbours,
    FarApart,
}

impl Spread {
    fn name(self) -> &'static str {
        match self {
            Self::Neighbours => "neighbours",
            Self::FarApart => "tasks far apart",
        }
    }
}

/// One move: of which task, to which version. Even versions are in `left`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    pub(crate) task: TaskId,
    pub(crate) version: i64,
}

impl Move {
    pub(crate) fn is_to_left(self) -> bool {
        self.version % 2 == 0
    }

    pub(crate) fn to(self) -> &'static str {
        if self.is_to_left() { "left" } else { "right" }
    }
}

impl Swing {
    const TASKS_EACH: usize = 64;

    pub(crate) fn set_up(store: &Store, callers: usize, spread: Spread) -> Result<Self, Fault> {
        let definition = sample::definition()?;
        let added = Mutex::new(Vec::new());
        rate(callers, Self::TASKS_EACH, |caller, time| {
            let add = sample::new_task(&definition, caller * Self::TASKS_EACH + time);
            let id = store.add(add, clock::now())?.stored.task.id;
            added.lock().unwrap_or_else(PoisonError::into_inner).push(id);
            sample::move_to(store, id, "left")
        })?;
        let mut added = added.into_inner().unwrap_or_else(PoisonError::into_inner);
        added.sort_unstable();
        let mut tasks = vec![Vec::new(); callers];
        for (index, task) in added.into_iter().enumerate() {
            let caller = match spread {
                Spread::Neighbours => index % callers,
                Spread::FarApart => index / Self::TASKS_EACH,
            };
            tasks[caller].push(task);
        }
        Ok(Self { tasks, made: 0 })
    }

    pub(crate) fn at(&self, caller: usize, time: usize) -> Move {
        let number = self.made + time;
        let version = i64::try_from(number / Self::TASKS_EACH + 3).unwrap_or(i64::MAX);
        Move { task: self.tasks[caller][number % Self::TASKS_EACH], version }
    }

    pub(crate) fn has_made(&mut self, times: usize) {
        self.made += times;
    }

    /// Lets callers of the store make moves.
    pub(crate) fn by_store(
        &mut self,
        store: &Store,
        callers: usize,
        times: usize,
    ) -> Result<f64, Fault> {
        let rate = rate(callers, times, |caller, time| {
            let step = self.at(caller, time);
            sample::move_to(store, step.task, step.to())
        })?;
        self.has_made(times);
        Ok(rate)
    }

    /// The same moves by bare statements, so many in one transaction.
    fn by_statements(
        &mut self,
        connection: &Connection,
        scripts: &Scripts,
        members: usize,
        times: usize,
    ) -> Result<f64, Fault> {
        let mut ends = Ends::new(connection)?;
        let mut left = Ready::new(connection, &scripts.to_left)?;
        let mut right = Ready::new(connection, &scripts.to_right)?;
        let began = Instant::now();
        for time in 0..times {
            let callers: Vec<usize> = (0..self.tasks.len()).collect();
            for group in callers.chunks(members) {
                ends.around(|| {
                    group.iter().try_for_each(|caller| {
                        let step = self.at(*caller, time);
                        let script = if step.is_to_left() { &mut left } else { &mut right };
                        script.write(step.task.0, step.version)
                    })
                })?;
            }
        }
        let rate = per_second(times * self.tasks.len(), began);
        self.has_made(times);
        Ok(rate)
    }
}

impl Swing {
    /// The same moves by bare statements for as many callers at once: a writer that commits what
    /// came in meanwhile and answers each caller, and nothing else.
    fn by_callers(
        &mut self,
        connection: &Connection,
        scripts: &Scripts,
        times: usize,
    ) -> Result<f64, Fault> {
        let mut ends = Ends::new(connection)?;
        let mut left = Ready::new(connection, &scripts.to_left)?;
        let mut right = Ready::new(connection, &scripts.to_right)?;
        let swing: &Self = self;
        let callers = swing.tasks.len();
        let (desk, asked) = mpsc::sync_channel::<(Move, SyncSender<()>)>(callers);
        let began = Instant::now();
        thread::scope(|scope| {
            for caller in 0..callers {
                let desk = desk.clone();
                scope.spawn(move || {
                    let (answer, answered) = mpsc::sync_channel(1);
                    for time in 0..times {
                        let sent = desk.send((swing.at(caller, time), answer.clone()));
                        // The writer has failed, and says why itself.
                        if sent.is_err() || answered.recv().is_err() {
                            return;
                        }
                    }
                });
            }
            drop(desk);
            while let Ok(first) = asked.recv() {
                let group: Vec<_> =
                    iter::once(first).chain(asked.try_iter()).take(CALLERS).collect();
                ends.around(|| {
                    group.iter().try_for_each(|(step, _)| {
                        let script = if step.is_to_left() { &mut left } else { &mut right };
                        script.write(step.task.0, step.version)
                    })
                })?;
                group.iter().try_for_each(|(_, answer)| answer.send(()))?;
            }
            Ok::<(), Fault>(())
        })?;
        let rate = per_second(times * callers, began);
        self.has_made(times);
        Ok(rate)
    }
}

/// A store with tasks to move, and a bare connection to its file.
struct Side {
    store: Store,
    swing: Swing,
    bare: Connection,
}

impl Side {
    fn open(folder: &TempDir, name: &str, callers: usize, spread: Spread) -> Result<Self, Fault> {
        let store = sample::sqlite_store(folder, name)?;
        let swing = Swing::set_up(&store, callers, spread)?;
        let bare = connect(&folder.path().join(name))?;
        Ok(Self { store, swing, bare })
    }

    fn by_store(&mut self, callers: usize, times: usize) -> Result<f64, Fault> {
        self.swing.by_store(&self.store, callers, times)
    }

    fn by_statements(
        &mut self,
        scripts: &Scripts,
        members: usize,
        times: usize,
    ) -> Result<f64, Fault> {
        self.swing.by_statements(&self.bare, scripts, members, times)
    }
}

fn moves(
    size: Size,
    report: &mut Report,
    folder: &TempDir,
    scripts: &Scripts,
    spread: Spread,
) -> Result<(), Fault> {
    let open = |name: &str| Side::open(folder, &format!("{spread:?}-{name}.db"), CALLERS, spread);
    let (mut ours, mut asked) = (open("store")?, open("asked")?);
    let (mut grouped, mut single) = (open("grouped")?, open("single")?);
    let (mut to_asked, mut to_group, mut to_single) =
        (Rounds::default(), Rounds::default(), Rounds::default());
    let (times, few) = size.pick((200, 60), (50, 10));
    for _ in 0..size.pick(11, 3) {
        let group = grouped.by_statements(scripts, CALLERS, times)?;
        let rate = ours.by_store(CALLERS, times)?;
        to_asked.add(rate, asked.swing.by_callers(&asked.bare, scripts, times)?);
        to_group.add(rate, group);
        to_single.add(rate, single.by_statements(scripts, 1, few)?);
    }
    let name = format!("moves of {}, 16 callers: ", spread.name());
    report.note(&format!("{name}store, bare group commit"), &to_asked.words("a second"));
    report.note(&format!("{name}store, one loop, groups of 16"), &to_group.words("a second"));
    report.note(&format!("{name}store, bare one by one"), &to_single.words("a second"));
    let share = format!("{name}share of bare group commit");
    report.judge(&share, to_asked.ratio(), "×", Goal::AtLeast(0.5));
    let ideal = format!("{} ×", short(to_group.ratio()));
    report.note(&format!("{name}share of one loop"), &ideal);
    report.judge(&format!("{name}against one by one"), to_single.ratio(), "×", Goal::AtLeast(2.0));
    Ok(())
}

fn lone_moves(
    size: Size,
    report: &mut Report,
    folder: &TempDir,
    scripts: &Scripts,
) -> Result<(), Fault> {
    let open = |name: &str| Side::open(folder, name, 1, Spread::FarApart);
    let (mut ours, mut bare) = (open("lone.db")?, open("lone-bare.db")?);
    let mut rounds = Rounds::default();
    let times = size.pick(1_000, 160);
    for _ in 0..size.pick(11, 3) {
        let theirs = bare.by_statements(scripts, 1, times)?;
        rounds.add(ours.by_store(1, times)?, theirs);
    }
    report.note("moves, 1 caller: store, bare one by one", &rounds.words("a second"));
    report
        .note("moves, 1 caller: share of bare one by one", &format!("{} ×", short(rounds.ratio())));
    Ok(())
}

fn cycles(
    size: Size,
    report: &mut Report,
    folder: &TempDir,
    scripts: &Scripts,
) -> Result<(), Fault> {
    let store = sample::sqlite_store(folder, "cycles.db")?;
    let bare_store = sample::sqlite_store(folder, "cycles-bare.db")?;
    let definition = sample::definition()?;
    // The lifecycle has to be in the store before a bare row may name it.
    bare_store.add(sample::new_task(&definition, 0), clock::now())?;
    let bare = connect(&folder.path().join("cycles-bare.db"))?;
    let (mut rounds, mut flushes) = (Rounds::default(), Vec::new());
    let times = size.pick(150, 30);
    let mut next = 1_000_000;
    for round in 0..size.pick(7, 3) {
        let ours = rate(CALLERS, times, |caller, time| {
            let number = (round * CALLERS + caller) * times + time;
            store.add(sample::new_task(&definition, number), clock::now())?;
            let claimed = sample::claim(&store)?.ok_or("nothing to claim")?;
            sample::finish(&store, &claimed)
        })?;
        rounds.add(ours, bare_cycles(&bare, scripts, &mut next, times)?);
        flushes.push(flush_rate(folder)?);
    }
    report.note("cycles, 16 callers: store, bare groups of 16", &rounds.words("a second"));
    report.note("cycles: share of bare groups of 16", &format!("{} ×", short(rounds.ratio())));
    report.note(
        "the disk alone: write and flush of 8 KiB",
        &format!("{} a second", short(median(&flushes))),
    );
    report.judge(
        "cycles (add, claim, finish), 16 callers",
        median(&rounds.ours),
        "a second",
        Goal::AtLeast(3_000.0),
    );
    Ok(())
}

fn bare_cycles(
    connection: &Connection,
    scripts: &Scripts,
    next: &mut i64,
    times: usize,
) -> Result<f64, Fault> {
    let mut ends = Ends::new(connection)?;
    let mut add = Ready::new(connection, &scripts.add)?;
    let mut claim = Ready::new(connection, &scripts.claim)?;
    let mut finish = Ready::new(connection, &scripts.finish)?;
    let began = Instant::now();
    for _ in 0..times {
        for (script, version) in [(&mut add, 1), (&mut claim, 2), (&mut finish, 3)] {
            let mut members = *next..*next + i64::try_from(CALLERS)?;
            ends.around(|| members.try_for_each(|task| script.write(task, version)))?;
        }
        *next += i64::try_from(CALLERS)?;
    }
    Ok(per_second(times * CALLERS, began))
}

/// How often a second the disk can take a small write for good.
fn flush_rate(folder: &TempDir) -> Result<f64, Fault> {
    const BLOCK: usize = 8 * 1024;
    const BLOCKS: usize = 1_024;
    let file = File::create(folder.path().join("flush"))?;
    file.write_all_at(&vec![0; BLOCK * BLOCKS], 0)?;
    file.sync_all()?;
    let (began, mut times) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_millis(300) {
        file.write_all_at(&[1; BLOCK], u64::try_from(times % BLOCKS * BLOCK)?)?;
        file.sync_data()?;
        times += 1;
    }
    Ok(per_second(times, began))
}
