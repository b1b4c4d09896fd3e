//! Chooses the reviewers of a panel: those of every panel, and the specialists for the domains of
//! the task.
//!
//! It parses the registry of specialists but never opens the file.

use serde::Deserialize;

use crate::lifecycle::problem::Problem;
use crate::limits;
use crate::text::clip;
use crate::yaml::{self, Entries, Name, Spanned, problem_at};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reviewer {
    pub name: String,
    /// What it looks for.
    pub brief: String,
    /// The worker, agent or model that plays it; none means any worker that reviews.
    pub model: Option<String>,
}

/// A reviewer for certain domains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Specialist {
    pub reviewer: Reviewer,
    pub domains: Vec<String>,
}

/// The reviewers of every panel, then the specialists with a domain among the task's tags, in the
/// order of the registry.
pub fn roster(always: &[Reviewer], specialists: &[Specialist], tags: &[String]) -> Vec<Reviewer> {
    let matches_tags = |specialist: &&Specialist| {
        specialist.domains.iter().any(|domain| tags.iter().any(|tag| tag == domain))
    };
    let matching = specialists.iter().filter(matches_tags).map(|specialist| &specialist.reviewer);
    always.iter().chain(matching).cloned().collect()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistrySource {
    specialists: Entries<Spanned<SpecialistSource>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpecialistSource {
    domains: Vec<Name>,
    model: Option<Name>,
}

/// Parses a `specialist-registry.yaml`.
///
/// # Errors
///
/// The first problem, with its line.
pub fn read(text: &str) -> Result<Vec<Specialist>, Problem> {
    let source: RegistrySource = yaml::read(text, limits::REGISTRY_BYTES, "docs/panels.md", &[])?;
    let entries = &source.specialists.0;
    if let Some((name, _)) = entries.get(limits::SPECIALISTS) {
        let message = format!("more than {} specialists", limits::SPECIALISTS);
        return Err(problem_at(name, message, "remove some"));
    }
    entries.iter().map(|(name, source)| specialist(name, source)).collect()
}

fn specialist(name: &Name, source: &Spanned<SpecialistSource>) -> Result<Specialist, Problem> {
    check_name(name, "name")?;
    let SpecialistSource { domains, model } = &source.value;
    if domains.is_empty() {
        let message =
            format!("`{}` has no domains, so it would never review anything", clip(&name.value));
        return Err(problem_at(name, message, "write `domains: [auth, crypto]`"));
    }
    if let Some(domain) = domains.get(limits::TAGS) {
        let message = format!("more than {} domains", limits::TAGS);
        return Err(problem_at(domain, message, "remove some"));
    }
    for domain in domains {
        check_name(domain, "domain")?;
    }
    if let Some(model) = model {
        check_name(model, "model")?;
    }
    let domains: Vec<String> = domains.iter().map(|domain| domain.value.clone()).collect();
    let reviewer = Reviewer {
        name: name.value.clone(),
        brief: format!("You are the specialist for {}.", domains.join(", ")),
        model: model.as_ref().map(|model| model.value.clone()),
    };
    Ok(Specialist { reviewer, domains })
}

/// Names, domains and models appear in tags, lists and messages.
fn check_name(text: &Name, what: &str) -> Result<(), Problem> {
    if is_name(&text.value) {
        return Ok(());
    }
    let message = format!("`{}` is not a valid {what}", clip(&text.value));
    Err(problem_at(text, message, "use letters, digits, `_`, `-`, `.`, `/` and `:`"))
}

/// Whether a text can be the name of a reviewer. Model names contain `/` and `:`.
pub fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-./:".contains(c);
    (1..=limits::NAME_BYTES).contains(&text.len()) && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "specialists:\n  security-reviewer:\n    domains: [auth, crypto, permissions]\n    model: claude\n  \
                        research-methodology:\n    domains: [empirical, statistics, methods]\n    model: opus\n";

    fn names(roster: &[Reviewer]) -> Vec<&str> {
        roster.iter().map(|reviewer| reviewer.name.as_str()).collect()
    }

    fn tags(words: &[&str]) -> Vec<String> {
        words.iter().map(|check_name| (*check_name).to_owned()).collect()
    }

    #[test]
    fn specialists_are_called_by_the_tags_of_the_task() {
        let specialists = read(SEED).expect("the seed parses");
        let critic = Reviewer { name: "critic".to_owned(), brief: "Look.".to_owned(), model: None };
        let matching =
            |words: &[&str]| roster(std::slice::from_ref(&critic), &specialists, &tags(words));
        assert_eq!(names(&matching(&[])), ["critic"]);
        assert_eq!(names(&matching(&["docs", "Auth"])), ["critic"], "domains are case-sensitive");
        assert_eq!(names(&matching(&["crypto", "auth"])), ["critic", "security-reviewer"]);
        let both = matching(&["methods", "auth"]);
        assert_eq!(names(&both), ["critic", "security-reviewer", "research-methodology"]);
        assert_eq!(both[2].model.as_deref(), Some("opus"));
        assert_eq!(both[1].brief, "You are the specialist for auth, crypto, permissions.");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let wrong = |text: &str| {
            let problem = read(text).expect_err("an error");
            (problem.line, problem.message)
        };
        let unknown = wrong("specialists:\n  a:\n    domains: [x]\n    colour: red\n");
        assert_eq!(unknown, (4, "unknown key `colour`".to_owned()));
        let empty = wrong("specialists:\n  a:\n    domains: []\n");
        assert_eq!(empty, (2, "`a` has no domains, so it would never review anything".to_owned()));
        assert_eq!(wrong("specialists:\n  a: { model: x }\n").0, 2);
        assert_eq!(wrong("specialists:\n  a: { domains: [x] }\n  a: { domains: [y] }\n").0, 3);
        assert_eq!(wrong("specialists:\n  \"a b\": { domains: [x] }\n").0, 2);
        assert_eq!(wrong("specialists:\n  a:\n    domains:\n      - x y\n").0, 4);
        assert_eq!(wrong("other: 1\n").0, 1);
    }

    #[test]
    fn there_is_a_bound_and_nobody_is_left_out_silently() {
        let entry = |at: usize| format!("  s{at}: {{ domains: [x] }}\n");
        let list =
            |count: usize| format!("specialists:\n{}", (0..count).map(entry).collect::<String>());
        let most = read(&list(limits::SPECIALISTS)).expect("the limit is allowed");
        assert_eq!(roster(&[], &most, &tags(&["x"])).len(), limits::SPECIALISTS);
        let problem = read(&list(limits::SPECIALISTS + 1)).expect_err("one too many");
        assert_eq!(problem.line as usize, limits::SPECIALISTS + 2);
    }
}
