//! Two machines on one PostgreSQL store: what one of them loses the other one brings home.

use std::fs;

use banksman::clock;
use banksman::store::conn::Target;

use super::driver::until_noon;
use super::harness::{Harness, Up, state_of};
use super::processes::wait_until;
use crate::programs;
use crate::store::raw::Raw;

/// A database of its own for a test, dropped afterwards.
pub(crate) struct Database {
    server: Target,
    name: String,
    pub(crate) url: String,
}

impl Database {
    pub(crate) fn new(name: &str) -> Self {
        let url = programs::postgres();
        let name = format!("engine_{}_{name}", std::process::id());
        let (server, _) = url.rsplit_once('/').expect("a URL with a database");
        let own = format!("{server}/{name}");
        let server: Target = url.parse().expect("a URL");
        let database = Self { server, name, url: own };
        database.run(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", database.name));
        database.run(&format!("CREATE DATABASE {}", database.name));
        database
    }

    /// One whose clock says that it is noon, so that no day ends in the midst of a test. The store
    /// goes by that clock.
    pub(crate) fn at_noon(name: &str) -> Self {
        let database = Self::new(name);
        let target: Target = database.url.parse().expect("a URL");
        Raw::open(&target, None).run(&format!(
            "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$
                 SELECT pg_catalog.clock_timestamp() + interval '{} milliseconds'
             $$;
             ALTER DATABASE {} SET search_path TO public, pg_catalog",
            until_noon(clock::now()).0,
            database.name
        ));
        database
    }

    fn run(&self, statement: &str) {
        Raw::open(&self.server, None).run(statement);
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.run(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// Everything of one machine at once: the control plane, keepers, agents.
pub(crate) fn pull_the_plug(harness: &Harness, node: &str, up: Up) {
    up.kill();
    let home = harness.home(node).display().to_string();
    let is_its = |text: &String| text.contains(&home);
    // Keepers first, so that none of them writes down the end of its agent.
    let mut its: Vec<_> = harness.processes();
    its.retain(|process| process.args.iter().chain(&process.env).any(is_its));
    its.sort_by_key(|process| !process.is_keeper());
    for process in its {
        process.kill();
    }
}

mod needs_postgres {
    use super::*;

    #[test]
    fn tasks_of_a_machine_that_died_end_on_another_one() {
        let database = Database::new("died");
        // Both see the same folders, so the one that takes over finds the worktrees of the other.
        let settings = [
            ("limits.lease", "\"3s\""),
            ("limits.agents", "3"),
            ("limits.grace", "\"500ms\""),
            ("worktrees.path", "\"{repo_parent}/worktrees/{task}\""),
        ];
        let harness = Harness::on_postgres(&database.url, &settings);
        harness.script(
        "any",
        r#"run echo "$BANKSMAN_RUN" >>"work-$BANKSMAN_TASK"
run git add -A && git commit -qm "work of ${BANKSMAN_RUN%%:*}" && echo "${BANKSMAN_RUN%%:*} $(git rev-parse HEAD)" >>"$YARD/commits"
run while [ ! -f "$YARD/go" ]; do sleep 0.05; done
success it is written
"#,
    );
        for number in 0..8 {
            harness.add(&format!("part {number}"), &[]);
        }
        let (a, b) = (harness.up_on("a"), harness.up_on("b"));
        wait_until("both machines are at work", || harness.file("commits").lines().count() == 6);
        let on_b: Vec<String> = harness.jobs("b");
        assert_eq!(on_b.len(), 3, "{on_b:?}");
        pull_the_plug(&harness, "b", b);
        fs::write(harness.path("go"), "").expect("written");
        harness.until("every task has ended", |store| {
            super::super::harness::tasks(store).iter().all(super::super::harness::is_over)
        });
        wait_until("a has put everything away", || harness.jobs("a").is_empty());
        for stored in harness.tasks() {
            assert_eq!(state_of(&stored), "done", "{}", stored.task.id);
        }
        // Each of the tasks that b lost was begun once more, on a.
        let mut starts = harness.starts();
        starts.sort();
        let mut expected: Vec<String> = (1..=8).map(|number| format!("r{number}.1")).collect();
        expected.extend(on_b.iter().map(|job| job.replace(".1", ".2")));
        expected.sort();
        assert_eq!(starts, expected);
        // The machine comes back and finds that nothing is left for it to do but to put things
        // away.
        let b = harness.up_on("b");
        wait_until("b has put everything away", || harness.jobs("b").is_empty());
        assert_eq!(harness.starts().len(), expected.len());
        wait_until("no worktree is left", || harness.worktrees().is_empty());
        a.stop();
        b.stop();
        harness.assert_clean(&["a", "b"]);
    }
}
