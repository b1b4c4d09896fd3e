//! The prompts of a project for people: their list, their texts, and the problems of the project's
//! own.

use std::path::PathBuf;

use banksman_core::lifecycle::problem::suggestion;
use banksman_core::prompt::{Template, TemplateProblem};

use super::OpsError;
use super::error_report::{Code, Hint};
use crate::prompts::{
    BUILT_IN, BuiltInTemplate, PromptError, PromptFile, Prompts, built_in, problems,
};

/// A prompt of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptEntry {
    pub name: String,
    pub audience: String,
    /// The project's own file.
    pub file: Option<PathBuf>,
    pub schema: Option<&'static str>,
    /// The values that it uses.
    pub values: Vec<String>,
    pub is_sound: bool,
}

/// A problem of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptFinding {
    pub path: PathBuf,
    pub problem: TemplateProblem,
}

/// Every prompt, the built-in ones first.
pub fn list(prompts: &Prompts) -> Result<Vec<PromptEntry>, PromptError> {
    let found = lint(prompts)?;
    let entry = |name: String, audience: String, built_in: Option<&BuiltInTemplate>| {
        let file = prompts.file_of(&name);
        let is_sound = !found.iter().any(|finding| Some(&finding.path) == file.as_ref());
        let schema = built_in.and_then(|built_in| built_in.schema).map(|schema| schema.name);
        let values = built_in.map(values).unwrap_or_default();
        PromptEntry { name, audience, file, schema, values, is_sound }
    };
    let shipped = |one: &BuiltInTemplate| entry(one.name.into(), one.audience.into(), Some(one));
    let mut list: Vec<PromptEntry> = BUILT_IN.iter().map(shipped).collect();
    for name in prompts.reviewers()? {
        let listed = format!("reviewers/{name}");
        if built_in(&listed).is_none() {
            list.push(entry(listed, format!("the reviewer {name}, as its brief"), None));
        }
    }
    Ok(list)
}

/// The names of the values that a template uses, each once.
pub fn values(built_in: &BuiltInTemplate) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in Template::read(built_in.text).names() {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// A built-in prompt, by its name.
pub fn find(name: &str) -> Result<&'static BuiltInTemplate, OpsError> {
    built_in(name).ok_or_else(|| {
        let known = BUILT_IN.iter().map(|one| one.name);
        let name: String = name.chars().take(64).collect();
        let message =
            format!("there is no prompt `{}`; {}", name.escape_debug(), suggestion(&name, known));
        OpsError::about(Code::NoPrompt, message, Hint::ListPrompts)
    })
}

/// All problems of the project's own files.
pub fn lint(prompts: &Prompts) -> Result<Vec<PromptFinding>, PromptError> {
    let mut findings = Vec::new();
    for file in prompts.files()? {
        let path = prompts.path_of(&file);
        let found = match PromptFile::of(&file) {
            PromptFile::InsteadOf(built_in) => match prompts.own(built_in.name) {
                Ok(own) => own.map(|own| problems(&own.text, built_in)).unwrap_or_default(),
                Err(error) => vec![unreadable(&error)],
            },
            PromptFile::Reviewer(name) => match prompts.brief(name) {
                Ok(Some(_)) => vec![],
                Ok(None) => vec![problem("it is empty", "say what the reviewer looks for")],
                Err(error) => vec![unreadable(&error)],
            },
            PromptFile::Schema => vec![problem(
                "the shape of an answer cannot be changed",
                "Banksman reads only the built-in schema; change the template instead",
            )],
            PromptFile::Unknown => {
                let known: Vec<String> =
                    BUILT_IN.iter().map(|one| format!("{}.md", one.name)).collect();
                let help = suggestion(&file, known.iter().map(String::as_str));
                vec![problem("no prompt has this name", &help)]
            }
        };
        findings
            .extend(found.into_iter().map(|problem| PromptFinding { path: path.clone(), problem }));
    }
    Ok(findings)
}

fn problem(message: &str, help: &str) -> TemplateProblem {
    TemplateProblem { line: 1, message: message.to_owned(), help: help.to_owned() }
}

fn unreadable(error: &PromptError) -> TemplateProblem {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    problem(&format!("it cannot be read: {}", cause.unwrap_or_default()), "fix or remove it")
}
