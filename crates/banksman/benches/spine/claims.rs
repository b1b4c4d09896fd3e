//! Claims: their time must not grow with the queue, and they must not cost much more than bare
//! `SKIP LOCKED`.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use banksman::store::Store;
use tempfile::TempDir;

use crate::bare_postgres::{Bare, Pace, Schema, server};
use crate::fill::{self, Queue};
use crate::frame::report::{Goal, Report, Rounds, median, millis, quantile, short};
use crate::frame::{Fault, Size};
use crate::postgres::{NO_SERVER, say_shares};
use crate::sample::{self, rate};
use crate::script::{Line, Scripts};

/// Callers of one store at the same time.
const CALLERS: usize = 16;

pub(crate) fn measure(size: Size, report: &mut Report) -> Result<(), Fault> {
    let folder = sample::folder()?;
    for queue in Queue::ALL {
        report.section(&format!("SQLite: claims, {}", queue.name()));
        let mut stores = Vec::new();
        for tasks in sizes(size, queue) {
            stores.push((tasks, fill::sqlite(&folder, tasks, queue)?.0));
        }
        times(size, report, "SQLite", queue, &stores)?;
        drop(stores);
        empty(&folder)?;
    }
    let Some(url) = server() else {
        report.section("PostgreSQL: claims");
        report.skip("claims on PostgreSQL", NO_SERVER);
        return Ok(());
    };
    for queue in Queue::ALL {
        report.section(&format!("PostgreSQL: claims, {}", queue.name()));
        let (mut schemas, mut stores) = (Vec::new(), Vec::new());
        for tasks in sizes(size, queue) {
            let (schema, store) = fill::postgres(&url, tasks, queue, CALLERS)?;
            stores.push((tasks, store));
            schemas.push(schema);
        }
        times(size, report, "PostgreSQL", queue, &stores)?;
        drop(stores);
    }
    against_bare(size, report, &url)
}

fn sizes(size: Size, queue: Queue) -> Vec<usize> {
    match (size, queue) {
        (Size::Full, Queue::AllReady) => vec![10_000, 100_000, 1_000_000],
        (Size::Full, Queue::MostDelayed | Queue::MostWaiting) => vec![10_000, 1_000_000],
        (Size::Quick, _) => vec![5_000, 20_000],
    }
}

fn empty(folder: &TempDir) -> Result<(), Fault> {
    for entry in std::fs::read_dir(folder.path())? {
        std::fs::remove_file(entry?.path())?;
    }
    Ok(())
}

/// One claim on each store in turn, many times, so that a slow moment of the machine meets all of
/// them alike.
fn times(
    size: Size,
    report: &mut Report,
    engine: &str,
    queue: Queue,
    stores: &[(usize, Store)],
) -> Result<(), Fault> {
    let claims = match queue {
        Queue::AllReady => size.pick(1_500, 200),
        // A tenth of the tasks is all that can be claimed.
        Queue::MostDelayed | Queue::MostWaiting => size.pick(600, 100),
    };
    let mut taken: Vec<Vec<f64>> = stores.iter().map(|_| Vec::with_capacity(claims)).collect();
    for (_, store) in stores {
        // Prepares the statements.
        sample::claim(store)?.ok_or("nothing to claim")?;
    }
    for _ in 0..claims {
        for ((_, store), taken) in stores.iter().zip(&mut taken) {
            let began = Instant::now();
            sample::claim(store)?.ok_or("nothing to claim")?;
            taken.push(millis(began.elapsed()));
        }
    }
    for ((tasks, store), taken) in stores.iter().zip(&taken) {
        let together = || {
            rate(CALLERS, 10, |_, _| {
                sample::claim(store)?.ok_or("nothing to claim")?;
                Ok(())
            })
        };
        // The first time makes connections and prepares statements.
        together()?;
        let together = together()?;
        let alone = 1_000.0 / (taken.iter().sum::<f64>() / f64::from(u32::try_from(claims)?));
        let text = format!(
            "median {} ms, p99 {} ms; {} a second, {} with 16 callers",
            short(median(taken)),
            short(quantile(taken, 0.99)),
            short(alone),
            short(together)
        );
        report.note(&format!("{engine}, {tasks} tasks"), &text);
    }
    let p99 = |at: usize| taken.get(at).map_or(0.0, |taken| quantile(taken, 0.99));
    let name = format!("{engine}, {}: p99 of most against fewest tasks", queue.name());
    report.judge(&name, p99(taken.len() - 1) / p99(0), "×", Goal::AtMost(2.0));
    Ok(())
}

fn against_bare(size: Size, report: &mut Report, url: &str) -> Result<(), Fault> {
    report.section("PostgreSQL: claims against bare SKIP LOCKED");
    let tasks = size.pick(100_000, 10_000);
    let (schema, _) = fill::postgres(url, tasks, Queue::AllReady, 1)?;
    let (bare_schema, _) = fill::postgres(url, tasks, Queue::AllReady, 1)?;
    let script = claiming(&Scripts::record()?.claim);
    for connections in [1, 4, 16] {
        let store = schema.store(connections)?;
        let times = size.pick(800, 160) / connections + 10;
        let mut sides = [Pace::OneByOne, Pace::AtOnce].map(|pace| (pace, Rounds::default()));
        for _ in 0..size.pick(7, 3) {
            for (pace, rounds) in &mut sides {
                let theirs = bare_claims(&bare_schema, &script, *pace, connections, times)?;
                let ours = rate(connections, times, |_, _| {
                    sample::claim(&store)?.ok_or("nothing to claim")?;
                    Ok(())
                })?;
                rounds.add(ours, theirs);
            }
        }
        say_shares(report, "claims", connections, &sides);
    }
    Ok(())
}

/// The script of a claim, with a first statement that finds the task itself.
fn claiming(claim: &[Line]) -> Vec<Line> {
    let mut lines = claim.to_vec();
    if let Some(first) = lines.first_mut() {
        let set = first.sql.split(" WHERE ").next().unwrap_or_default();
        first.sql = format!(
            "{set} WHERE id = (SELECT id FROM tasks WHERE queue_rank IS NOT NULL ORDER BY queue_rank, id \
             LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
        );
        // Id and version were the last two.
        first.slots.truncate(first.slots.len() - 2);
    }
    lines
}

fn bare_claims(
    schema: &Schema,
    script: &[Line],
    pace: Pace,
    connections: usize,
    times: usize,
) -> Result<f64, Fault> {
    let mut links = Vec::new();
    for _ in 0..connections {
        let link = Bare::connect(schema)?;
        let ready = link.ready(script)?;
        links.push(Mutex::new((link, ready)));
    }
    rate(connections, times, |caller, _| {
        let held = links[caller].lock().unwrap_or_else(PoisonError::into_inner);
        let (link, ready) = &*held;
        link.claim(ready, pace)?.ok_or("nothing to claim")?;
        Ok(())
    })
}
