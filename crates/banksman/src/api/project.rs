//! A project that was set up, the demo, and the program itself, as JSON.

use std::path::{Path, PathBuf};

use banksman_core::time::Span;
use serde::Serialize;

use crate::store::Stored;

/// A project that was set up.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Project<'a> {
    pub path: &'a Path,
    pub project: &'a str,
    pub settings: &'a Path,
    pub settings_written: bool,
    pub store: &'a str,
}

#[derive(Debug, Serialize)]
pub struct Version {
    pub arch: &'static str,
    pub commit: Option<&'static str>,
    pub os: &'static str,
    pub version: &'static str,
}

documents! {
    Demo<'a>(shown: &'a [Stored], place: &'a Path, repo: &'a Path, took: Span) {
        folder: &'a Path = place,
        repository: &'a Path = repo,
        store: PathBuf = place.join("banksman.db"),
        tasks: Vec<DemoTask<'a>> = shown.iter().map(DemoTask::new).collect(),
        took_ms: i64 = took.0,
    }

    DemoTask<'a>(stored: &'a Stored) {
        id: String = stored.task.id.to_string(),
        runs: i64 = stored.task.spent.runs,
        state: &'a str = &stored.state().name,
        title: &'a str = &stored.task.title,
    }
}
