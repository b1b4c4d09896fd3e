//! The settings of panels: the reviewers of every panel, the registry of specialists, and the
//! timeouts.

use std::path::Path;

use banksman_core::closed;
use banksman_core::limits;
use banksman_core::panel::registry::{self, Reviewer, Specialist, is_name};
use banksman_core::time::Span;

use super::agents::{names, narrow};
use super::{ConfigError, Layers, Result, layer};
use crate::prompts::{PromptError, Prompts, built_in_brief};

/// The brief of a reviewer without one.
const DEFAULT_BRIEF: &str = "You review the work from the point of view that your name stands for.";

closed! {
    /// Whether a worker may judge its own work if no other worker can.
    pub(super) enum OwnWork {
        /// In a fresh session, with a warning beside its verdict.
        Allow = "allow",
        Refuse = "refuse",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panels {
    /// The reviewers of every panel.
    pub reviewers: Vec<Reviewer>,
    /// Those of every panel that judges a plan.
    pub plan_reviewers: Vec<Reviewer>,
    /// Whether a worker may judge its own work if no other worker can.
    pub own_work: bool,
    /// The reviewers that the settings or prompt files describe.
    pub named: Vec<Reviewer>,
    pub specialists: Vec<Specialist>,
    pub verdict_timeout: Span,
    /// How often a reviewer that does not answer is asked again, and after which delays.
    pub retries: u32,
    pub first_retry: Span,
    pub second_retry: Span,
    pub rounds: u32,
    pub reply_timeout: Span,
    pub round_timeout: Span,
    pub total_timeout: Span,
}

impl Panels {
    /// The reviewer of this name, whether it is configured or not.
    pub fn called(&self, name: &str) -> Reviewer {
        let specialists = self.specialists.iter().map(|specialist| &specialist.reviewer);
        let all = self.reviewers.iter().chain(&self.plan_reviewers);
        let mut known = self.named.iter().chain(all).chain(specialists);
        known.find(|one| one.name == name).cloned().unwrap_or_else(|| Reviewer {
            name: name.to_owned(),
            brief: built_in_brief(name).unwrap_or(DEFAULT_BRIEF).to_owned(),
            model: None,
        })
    }
}

pub(super) fn panels(layers: &Layers, root: &Path) -> Result<Panels> {
    let prompts = Prompts::of_project(root);
    let of_plans = reviewers(layers, &prompts, "panel.plan_reviewers")?;
    let reviewers = reviewers(layers, &prompts, "panel.reviewers")?;
    let plan_reviewers = if of_plans.is_empty() { reviewers.clone() } else { of_plans };
    let mut specialists = specialists(layers, root, &[&reviewers[..], &plan_reviewers].concat())?;
    for specialist in &mut specialists {
        if let Some(brief) = prompts.brief(&specialist.reviewer.name).map_err(config_error)? {
            specialist.reviewer.brief = brief;
        }
    }
    Ok(Panels {
        reviewers,
        plan_reviewers,
        own_work: layers.text_of("panel.own_work") == OwnWork::Allow.as_str(),
        named: named(layers, &prompts)?,
        specialists,
        verdict_timeout: layers.span("panel.verdict_timeout"),
        retries: narrow(layers.number("panel.retries")),
        first_retry: layers.span("panel.first_retry"),
        second_retry: layers.span("panel.second_retry"),
        rounds: narrow(layers.number("panel.rounds")),
        reply_timeout: layers.span("panel.reply_timeout"),
        round_timeout: layers.span("panel.round_timeout"),
        total_timeout: layers.span("panel.timeout"),
    })
}

/// The reviewers that the settings or their own prompt files describe.
fn named(layers: &Layers, prompts: &Prompts) -> Result<Vec<Reviewer>> {
    let mut all: Vec<String> = names(layers, "reviewers").collect();
    all.extend(prompts.reviewers().map_err(config_error)?);
    all.sort();
    all.dedup();
    all.into_iter().map(|name| reviewer(layers, prompts, name)).collect()
}

fn config_error(error: PromptError) -> ConfigError {
    match error {
        PromptError::Read { path, source } => ConfigError::Read { path, source },
        PromptError::Unsound { path, problem } => {
            let place = format!("{}:{}", path.display(), problem.line);
            ConfigError::value(&place, problem.message, &problem.help)
        }
    }
}

fn reviewers(layers: &Layers, prompts: &Prompts, key: &str) -> Result<Vec<Reviewer>> {
    let names = layers.list(key);
    let wrong = |message: String| {
        let hint = "for example [\"custodiet\", \"critic\"]";
        ConfigError::value(&layers.origin(key), message, hint)
    };
    if names.len() > limits::REVIEWERS {
        return Err(wrong(format!("a panel has at most {} reviewers", limits::REVIEWERS)));
    }
    for (at, name) in names.iter().enumerate() {
        if !is_name(name) {
            return Err(wrong("a reviewer's name is one word of letters and digits".to_owned()));
        }
        if names[..at].contains(name) {
            return Err(wrong(format!("the reviewer `{name}` appears twice")));
        }
    }
    names.into_iter().map(|name| reviewer(layers, prompts, name)).collect()
}

fn reviewer(layers: &Layers, prompts: &Prompts, name: String) -> Result<Reviewer> {
    let own = |setting: &str| layers.given(&format!("reviewers.{name}.{setting}"));
    let brief = own("brief").map_or_else(|| prompts.brief(&name), |brief| Ok(Some(brief)));
    let brief = brief.map_err(config_error)?.unwrap_or_else(|| DEFAULT_BRIEF.to_owned());
    Ok(Reviewer { brief, model: own("model"), name })
}

fn specialists(layers: &Layers, root: &Path, reviewers: &[Reviewer]) -> Result<Vec<Specialist>> {
    let Some(path) = layers.given("panel.registry") else { return Ok(Vec::new()) };
    let path = root.join(path);
    let Some(text) = layer::read(&path)? else { return Ok(Vec::new()) };
    let specialists = registry::read(&text).map_err(|problem| {
        let place = format!("{}:{}", path.display(), problem.line.max(1));
        ConfigError::value(&place, problem.message, problem.help.as_deref().unwrap_or_default())
    })?;
    let mut names = specialists.iter().map(|specialist| &specialist.reviewer.name);
    let twice = names.find(|name| reviewers.iter().any(|other| other.name == **name));
    if let Some(twice) = twice {
        let message = format!("the specialist `{twice}` is already on every panel");
        let hint = "rename it, or remove it from `panel.reviewers`";
        return Err(ConfigError::value(&path.display().to_string(), message, hint));
    }
    Ok(specialists)
}
