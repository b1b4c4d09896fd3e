//! The prompt templates: those that ship with the program, and a project's files that replace them.
//!
//! This module finds and checks texts and fills in none. A project cannot replace the schemas of
//! answers: the program relies on them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use banksman_core::lifecycle::expr::Value;
use banksman_core::limits;
use banksman_core::prompt::{Template, TemplateProblem, check};

use crate::plain_file;

/// A project's own templates, below its root.
const FOLDER: &str = ".banksman/prompts";
/// Below it, briefs for single reviewers.
const REVIEWERS: &str = "reviewers/";
/// The extension of template files.
const END: &str = ".md";
/// The template for every role without one of its own.
const ANY_ROLE: &str = "role";
/// Values that an agent can do without; a template must use every other one.
const MAY_BE_MISSING: &[&str] = &[
    "task", "role", "step", "reviewer", "who", "place", "company", "concern", "base", "state",
    "about", "round", "rounds", "time",
];

/// The values that a task's run provides.
const OF_RUNS: &[&str] =
    &["task", "role", "title", "body", "context", "feedback", "failures", "rules"];

/// A template that ships with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltInTemplate {
    pub name: &'static str,
    /// Who gets it, and when.
    pub audience: &'static str,
    pub text: &'static str,
    pub schema: Option<Schema>,
}

/// The JSON Schema of the answer that a template asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    pub name: &'static str,
    pub text: &'static str,
}

impl Schema {
    pub fn value(&self) -> Value {
        serde_json::from_str(self.text).expect("a test reads all of them")
    }

    /// The keys that an answer must have.
    fn keys(&self) -> Vec<String> {
        let schema = self.value();
        let keys = schema["required"].as_array().into_iter().flatten();
        keys.filter_map(|key| key.as_str().map(str::to_owned)).collect()
    }
}

macro_rules! template {
    ($name:literal, $audience:literal) => {
        BuiltInTemplate {
            name: $name,
            audience: $audience,
            text: include_str!(concat!("../prompts/", $name, ".md")),
            schema: None,
        }
    };
    ($name:literal, $audience:literal, $schema:literal) => {
        BuiltInTemplate {
            schema: Some(Schema {
                name: $schema,
                text: include_str!(concat!("../prompts/", $schema, ".schema.json")),
            }),
            ..template!($name, $audience)
        }
    };
}

/// All templates. A template that is named after a role and made for a task's run is for the agents
/// of that role.
pub const BUILT_IN: &[BuiltInTemplate] = &[
    template!("worker", "the agent that does a task"),
    template!("planner", "the agent that breaks a task down", "plan"),
    template!("spike", "the agent that answers a question of a plan"),
    template!("work-plan", "the assignee of a task, before it begins", "work-plan"),
    template!("delivery", "the assignee of a task, when it does the work", "delivery"),
    template!("role", "an agent in any other role"),
    template!("again", "an agent that continues its session after a failure"),
    template!("answered", "an agent that continues its session after a person's answer"),
    template!("nudge", "an agent that has stalled"),
    template!("step", "the agent of a workflow's step"),
    template!("join", "the agent of a step or workflow whose branches conflict, after its prompt"),
    template!("merger", "the agent that joins the branches of a workflow at its end"),
    template!("reviewer", "each reviewer, in the first pass", "verdict"),
    template!("plan-reviewer", "each reviewer of a plan, in the first pass", "verdict"),
    template!("debate", "a reviewer with a concern, in each round of a debate", "reply"),
    template!("task", "a reviewer, about the task that it judges"),
    template!("gate", "a reviewer at a gate, about the step that it judges"),
    template!("evaluator", "the agent that judges a run whose facts are inconclusive", "evaluator"),
    template!("reviewers/custodiet", "the reviewer custodiet, as its brief"),
    template!("reviewers/critic", "the reviewer critic, as its brief"),
    template!("reviewers/judge", "the reviewer of panels of the role judge, as its brief"),
    template!("reviewers/evaluator", "the reviewer of panels of the role evaluator, as its brief"),
];

/// Whether a name can be a file name: a reviewer's name may contain a path.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}

pub fn built_in(name: &str) -> Option<&'static BuiltInTemplate> {
    BUILT_IN.iter().find(|one| one.name == name)
}

/// The built-in brief of a reviewer.
pub fn built_in_brief(reviewer: &str) -> Option<&'static str> {
    built_in(&format!("{REVIEWERS}{reviewer}")).map(|brief| brief.text.trim())
}

/// The template for the agents of a role: the one of its name, if that is made for a task's run. A
/// role may be called `reviewer` even without a panel.
pub fn for_role(role: &str) -> &'static BuiltInTemplate {
    let own = built_in(role).filter(|own| {
        let template = Template::read(own.text);
        let names: Vec<&str> = template.names().map(|(name, _)| name).collect();
        names.contains(&"body") && names.iter().all(|name| OF_RUNS.contains(name))
    });
    own.or_else(|| built_in(ANY_ROLE)).expect("every build has it")
}

#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    #[error("failed to read the prompt `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot use the prompt `{}`: line {}: {}; {}", path.display(), problem.line, problem.message, problem.help)]
    Unsound { path: PathBuf, problem: TemplateProblem },
}

/// The text of a template and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateSource {
    pub name: String,
    pub text: String,
    /// The file that it comes from; none for a built-in one.
    pub file: Option<PathBuf>,
}

/// The prompts of a project, or only the built-in ones. Files are read when they are needed, so a
/// change applies from the next run on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompts {
    folder: Option<PathBuf>,
}

impl Prompts {
    /// The prompts of the project with this root.
    pub fn of_project(root: &Path) -> Self {
        Self { folder: Some(root.join(FOLDER)) }
    }

    /// A template that passed the checks.
    pub fn template(
        &self,
        built_in: &BuiltInTemplate,
    ) -> Result<(Template, TemplateSource), PromptError> {
        let source = self.source(built_in)?;
        if let Some(path) = &source.file
            && let Some(problem) = problems(&source.text, built_in).into_iter().next()
        {
            return Err(PromptError::Unsound { path: path.clone(), problem });
        }
        Ok((Template::read(&source.text), source))
    }

    /// The reviewers that the project has a brief for.
    pub fn reviewers(&self) -> Result<Vec<String>, PromptError> {
        let files = self.files()?;
        let names = files.iter().filter_map(|file| file.strip_prefix(REVIEWERS)?.strip_suffix(END));
        Ok(names.filter(|name| is_plain(name)).map(str::to_owned).collect())
    }

    /// A reviewer's brief, if there is one.
    pub fn brief(&self, reviewer: &str) -> Result<Option<String>, PromptError> {
        if !is_plain(reviewer) {
            return Ok(None);
        }
        let name = format!("{REVIEWERS}{reviewer}");
        let text = match (self.own(&name)?, built_in(&name)) {
            (Some(own), _) => own.text,
            (None, Some(built_in)) => built_in.text.to_owned(),
            (None, None) => return Ok(None),
        };
        Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
    }

    /// The project's own brief for a reviewer, by the name of its template.
    pub fn own_brief(&self, name: &str) -> Result<Option<TemplateSource>, PromptError> {
        let reviewer = name.strip_prefix(REVIEWERS).filter(|reviewer| is_plain(reviewer));
        reviewer.map_or(Ok(None), |_| self.own(name))
    }

    /// The text of a template, valid or not.
    pub fn source(&self, built_in: &BuiltInTemplate) -> Result<TemplateSource, PromptError> {
        let (name, text) = (built_in.name.to_owned(), built_in.text.to_owned());
        Ok(self.own(built_in.name)?.unwrap_or(TemplateSource { name, text, file: None }))
    }

    /// The path of a file in the project's folder.
    pub fn path_of(&self, file: &str) -> PathBuf {
        self.folder.as_ref().map_or_else(PathBuf::new, |folder| folder.join(file))
    }

    /// The file that replaces a template, if it exists.
    pub fn file_of(&self, name: &str) -> Option<PathBuf> {
        let path = self.path_of(&format!("{name}{END}"));
        (self.folder.is_some() && path.exists()).then_some(path)
    }

    /// The project's own text of this name.
    pub fn own(&self, name: &str) -> Result<Option<TemplateSource>, PromptError> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let path = folder.join(format!("{name}{END}"));
        match plain_file::read_settings(&path, limits::TEMPLATE_BYTES) {
            Ok(text) => Ok(Some(TemplateSource { name: name.to_owned(), text, file: Some(path) })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(PromptError::Read { path, source }),
        }
    }

    /// The files in the project's folder, as sorted relative paths.
    pub fn files(&self) -> Result<Vec<String>, PromptError> {
        let mut files = Vec::new();
        for below in ["", REVIEWERS] {
            let Some(folder) = self.folder.as_ref().map(|folder| folder.join(below)) else {
                continue;
            };
            let failed = |source| PromptError::Read { path: folder.clone(), source };
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            for entry in entries.take(limits::TEMPLATE_FILES) {
                let entry = entry.map_err(failed)?;
                if entry.file_type().map_err(failed)?.is_dir() {
                    continue;
                }
                files.push(format!("{below}{}", entry.file_name().to_string_lossy()));
            }
        }
        files.sort();
        Ok(files)
    }
}

/// What is wrong with a text that is to replace a built-in one.
pub fn problems(text: &str, instead_of: &BuiltInTemplate) -> Vec<TemplateProblem> {
    if text.trim().is_empty() {
        let message = "it is empty".to_owned();
        let help = "remove the file to use the built-in prompt again".to_owned();
        return vec![TemplateProblem { line: 1, message, help }];
    }
    let mut problems = check(text, &Template::read(instead_of.text), MAY_BE_MISSING);
    let keys = instead_of.schema.map(|schema| schema.keys()).unwrap_or_default();
    let unnamed = keys.into_iter().filter(|key| !text.contains(key.as_str()));
    problems.extend(unnamed.map(|key| TemplateProblem {
        line: text.lines().count().max(1),
        message: format!("the answer must have `{key}`, but the prompt does not mention it"),
        help: format!("`banksman prompts show {} --schema` shows the schema", instead_of.name),
    }));
    problems
}

/// What a file in a project's folder is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptFile<'f> {
    InsteadOf(&'static BuiltInTemplate),
    /// The brief of the reviewer with this name.
    Reviewer(&'f str),
    /// The schema of an answer.
    Schema,
    Unknown,
}

impl<'f> PromptFile<'f> {
    pub fn of(file: &'f str) -> Self {
        let name = file.strip_suffix(END);
        match (name.and_then(built_in), name.and_then(|name| name.strip_prefix(REVIEWERS))) {
            (Some(built_in), _) => Self::InsteadOf(built_in),
            (None, Some(reviewer)) if is_plain(reviewer) => Self::Reviewer(reviewer),
            (None, Some(_) | None) if file.ends_with(".schema.json") => Self::Schema,
            (None, Some(_) | None) => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_templates_are_valid() {
        for one in BUILT_IN {
            assert_eq!(problems(one.text, one), [], "{}", one.name);
            assert!(one.text.len() < limits::TEMPLATE_BYTES, "{}", one.name);
            for known in Template::read(one.text).names() {
                assert!(known.0.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{known:?}");
            }
        }
    }

    #[test]
    fn a_role_uses_its_own_template_only_if_made_for_runs() {
        let names =
            ["worker", "planner", "reviewer", "again", "nudge", "evaluator", "reviewers/critic"];
        let found = names.map(|role| for_role(role).name);
        assert_eq!(found, ["worker", "role", "role", "role", "role", "role", "role"]);
    }

    #[test]
    fn every_file_is_in_the_list() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("prompts");
        let files = Prompts { folder: Some(folder) }.files().expect("they can be read");
        let schemas: Vec<&str> = BUILT_IN.iter().filter_map(|one| Some(one.schema?.name)).collect();
        for file in &files {
            let is_listed = match PromptFile::of(file) {
                PromptFile::InsteadOf(_) => true,
                PromptFile::Schema => schemas.contains(&file.trim_end_matches(".schema.json")),
                PromptFile::Reviewer(_) | PromptFile::Unknown => false,
            };
            assert!(is_listed, "{file} is not in the list");
        }
        assert!(files.len() >= BUILT_IN.len());
    }

    #[test]
    fn a_prompt_must_mention_every_required_key() {
        let reviewer = built_in("reviewer").expect("it is there");
        let text = reviewer.text.replace("rationale", "reason");
        let problems = problems(&text, reviewer);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].message.contains("`rationale`"), "{}", problems[0].message);
    }
}
