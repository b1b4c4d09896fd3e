//! A place for one test's store: a temporary file or a schema of its own, gone when the test is
//! over.

use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use banksman::store::Store;
use banksman::store::conn::{Options, Target};
use banksman::store::health::HealthReport;
use tempfile::TempDir;

use super::raw::Raw;
use crate::programs;

pub(crate) struct World {
    pub(crate) target: Target,
    pub(crate) options: Options,
    folder: TempDir,
}

impl World {
    pub(crate) fn sqlite() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let target = Target::Sqlite(folder.path().join("store.db"));
        Self { target, options: Options::default(), folder }
    }

    pub(crate) fn postgres() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let url = programs::postgres();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("it_{}_{number}", process::id());
        let world = Self {
            target: url.parse().expect("BANKSMAN_TEST_PG is a URL"),
            options: Options { schema: Some(schema), ..Options::default() },
            folder: TempDir::new().expect("a temporary folder"),
        };
        // Numbers of processes come again, and a failed test leaves its schema behind.
        world.drop_schema();
        world
    }

    /// Another place on the same engine.
    pub(crate) fn another(&self) -> Self {
        match self.target {
            Target::Sqlite(_) => Self::sqlite(),
            Target::Postgres(_) => Self::postgres(),
        }
    }

    /// A handle of its own, with its own connections, as another process would have it.
    pub(crate) fn open(&self) -> Store {
        Store::open(&self.target, &self.options).expect("the store opens")
    }

    fn drop_schema(&self) {
        if let Some(schema) = &self.options.schema {
            self.raw().run(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE"));
        }
    }

    /// The database without the store in between.
    pub(crate) fn raw(&self) -> Raw {
        Raw::open(&self.target, self.options.schema.as_deref())
    }

    /// A folder for whatever the test needs; an SQLite store is in it.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The store as a command line names it.
    pub(crate) fn address(&self) -> String {
        match (&self.target, &self.options.schema) {
            (Target::Postgres(url), Some(schema)) => {
                let and = if url.contains('?') { '&' } else { '?' };
                format!("{url}{and}options=-csearch_path%3D{schema}")
            }
            (Target::Postgres(url), None) => url.clone(),
            (Target::Sqlite(path), _) => path.display().to_string(),
        }
    }

    /// The file of an SQLite store.
    pub(crate) fn file(&self) -> PathBuf {
        match &self.target {
            Target::Sqlite(path) => path.clone(),
            Target::Postgres(_) => panic!("a PostgreSQL store has no file"),
        }
    }

    /// Every task possible and every history whole, as a handle sees it that knows nothing yet.
    pub(crate) fn assert_sound(&self) {
        let store = self.open();
        let report = store.check().expect("the check runs");
        assert_eq!((report.findings, report.faults), (vec![], vec![]));
        let report = store.verify_history().expect("the histories can be read");
        assert_eq!(report.findings, []);
        assert!(report.records >= report.tasks, "{report:?}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        match &self.options.schema {
            // What a failed test leaves behind is worth a look.
            Some(schema) if thread::panicking() => {
                eprintln!("the schema {schema} is left as it was");
            }
            Some(_) | None => self.drop_schema(),
        }
    }
}

/// What a look at the store found, as text: `t3: its title is not what its history says`.
pub(crate) fn findings(report: &HealthReport) -> Vec<String> {
    report.findings.iter().map(|finding| format!("{}: {}", finding.task, finding.what)).collect()
}
