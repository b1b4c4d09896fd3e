//! Workflows from outside: the examples of the documents, each form of the language, broken files
//! with their reports, laws for every text, lint warnings, and the schema for editors.

#![cfg(test)]

mod broken;
mod examples;
mod forms;
mod includes;
mod laws;
mod lint;
mod schema;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use banksman_core::lifecycle::problem::Problems;
use banksman_core::workflow::{Need, Step, Workflow, load};
use serde_json::Value;

type Params = BTreeMap<String, Value>;

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workflow")
}

fn documents() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn example(name: &str) -> Result<String, String> {
    let path = documents().join("examples").join(name);
    fs::read_to_string(path).map_err(|error| error.to_string())
}

fn params(given: &[(&str, Value)]) -> Params {
    given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// A file that includes no others.
fn alone(text: &str) -> Result<Workflow, Problems> {
    with_params(text, &Params::new())
}

fn with_params(text: &str, params: &Params) -> Result<Workflow, Problems> {
    load(text, "w.yaml", params, &|path| Err(format!("no file {path}")))
}

/// Steps and gates after the shortest header.
fn steps(rest: &str) -> Workflow {
    let text = format!("workflow: {{ id: w }}\nsteps:\n{rest}");
    alone(&text).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

/// The first problem, as `LINE: message`.
fn refused(text: &str, params: &Params) -> String {
    let problems = with_params(text, params).expect_err("it passes");
    let first = &problems.list[0];
    format!("{}: {}", first.line, first.message)
}

fn ids(flow: &Workflow) -> Vec<&str> {
    flow.steps.iter().map(|step| step.id.as_str()).collect()
}

fn step<'a>(flow: &'a Workflow, id: &str) -> &'a Step {
    let found = flow.steps.iter().find(|step| step.id == id);
    found.unwrap_or_else(|| panic!("there is no {id} in {:?}", ids(flow)))
}

/// The dependencies of a step, as they would be written.
fn needs(flow: &Workflow, id: &str) -> Vec<String> {
    let written = |need: &Need| match need {
        Need::Step(id) => id.clone(),
        Need::Elsewhere { workflow, step } => format!("elsewhere {workflow}/{step}"),
    };
    step(flow, id).needs.iter().map(written).collect()
}
