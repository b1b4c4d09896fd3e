//! PostgreSQL: moves by the store against bare transactions that write the same rows.

use std::sync::{Mutex, PoisonError};

use banksman::store::Store;

use crate::bare_postgres::{Bare, Pace, Schema, server};
use crate::frame::report::{Goal, Report, Rounds, short};
use crate::frame::{Fault, Size};
use crate::sample::rate;
use crate::script::Scripts;
use crate::sqlite::{Spread, Swing};

pub(crate) const NO_SERVER: &str = "no server; `scripts/bench` starts one";

pub(crate) fn measure(size: Size, report: &mut Report) -> Result<(), Fault> {
    report.section("PostgreSQL: moves");
    let Some(url) = server() else {
        report.skip("moves on PostgreSQL", NO_SERVER);
        return Ok(());
    };
    let scripts = Scripts::record()?;
    say_settings(&url, report)?;
    for connections in [1, 4, 16] {
        moves(size, report, &url, &scripts, connections)?;
    }
    Ok(())
}

/// Figures without flushes mean nothing, so they are told apart.
pub(crate) fn say_settings(url: &str, report: &mut Report) -> Result<(), Fault> {
    let (schema, _store) = Schema::with_store(url, 1)?;
    let bare = Bare::connect(&schema)?;
    let version = bare.word("SELECT current_setting('server_version')")?;
    let mut settings = Vec::new();
    for name in ["fsync", "synchronous_commit", "full_page_writes", "shared_buffers"] {
        settings
            .push(format!("{name}={}", bare.word(&format!("SELECT current_setting('{name}')"))?));
    }
    report.note(&format!("PostgreSQL {version}"), &settings.join(" "));
    if settings.iter().any(|setting| setting == "fsync=off") {
        report.skip("full durability", "this server does not flush");
    }
    Ok(())
}

fn moves(
    size: Size,
    report: &mut Report,
    url: &str,
    scripts: &Scripts,
    connections: usize,
) -> Result<(), Fault> {
    let (_schema, store) = Schema::with_store(url, connections)?;
    let mut ours = Swing::set_up(&store, connections, Spread::FarApart)?;
    let mut sides = [Pace::OneByOne, Pace::AtOnce].map(|pace| (pace, Rounds::default()));
    let mut bare = Side::set_up(url, connections)?;
    let times = size.pick(2_000, 200) / connections + 20;
    for _ in 0..size.pick(7, 3) {
        for (pace, rounds) in &mut sides {
            let theirs = bare.moves(scripts, *pace, times)?;
            rounds.add(ours.by_store(&store, connections, times)?, theirs);
        }
    }
    say_shares(report, "moves", connections, &sides);
    Ok(())
}

/// The goal is set against bare statements as programs usually send them; the pipelined ones show
/// what is left.
pub(crate) fn say_shares(
    report: &mut Report,
    what: &str,
    connections: usize,
    sides: &[(Pace, Rounds)],
) {
    let name = format!("{what}, {connections} connections: ");
    for (pace, rounds) in sides {
        match pace {
            Pace::OneByOne => {
                report.note(&format!("{name}store, bare"), &rounds.words("a second"));
                report.judge(
                    &format!("{name}share of bare"),
                    rounds.ratio(),
                    "×",
                    Goal::AtLeast(0.7),
                );
            }
            Pace::AtOnce => {
                let words = format!("{} ×, {}", short(rounds.ratio()), rounds.words("a second"));
                report.note(&format!("{name}share of bare pipelined"), &words);
            }
        }
    }
}

/// The bare side: as many connections as callers, on tasks that a store has set up.
struct Side {
    swing: Swing,
    links: Vec<Mutex<Bare>>,
    /// Drops the schema last.
    _store: Store,
    _schema: Schema,
}

impl Side {
    fn set_up(url: &str, connections: usize) -> Result<Self, Fault> {
        let (schema, store) = Schema::with_store(url, connections)?;
        let swing = Swing::set_up(&store, connections, Spread::FarApart)?;
        let links = (0..connections).map(|_| Bare::connect(&schema).map(Mutex::new));
        Ok(Self { links: links.collect::<Result<_, _>>()?, swing, _store: store, _schema: schema })
    }

    fn moves(&mut self, scripts: &Scripts, pace: Pace, times: usize) -> Result<f64, Fault> {
        let links: Vec<_> = self
            .links
            .iter_mut()
            .map(|link| link.get_mut().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let mut prepared = Vec::new();
        for link in links {
            let left = link.ready(&scripts.to_left)?;
            let right = link.ready(&scripts.to_right)?;
            prepared.push(Mutex::new((link, left, right)));
        }
        let swing = &self.swing;
        let rate = rate(prepared.len(), times, |caller, time| {
            let held = prepared[caller].lock().unwrap_or_else(PoisonError::into_inner);
            let (link, left, right) = &*held;
            let step = swing.at(caller, time);
            let script = if step.is_to_left() { left } else { right };
            match pace {
                Pace::OneByOne => link.write(script, step.task.0, step.version),
                Pace::AtOnce => link.write_at_once(script, step.task.0, step.version),
            }
        })?;
        drop(prepared);
        self.swing.has_made(times);
        Ok(rate)
    }
}
