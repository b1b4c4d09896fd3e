//! `banksman policy show`, `lint` and `test`: nothing here needs a store.

use std::path::PathBuf;

use banksman_core::limits;
use banksman_core::policy::{self, Assessment, Policy, Rank};
use clap::Args;

use super::ActionArgs;
use crate::api::Checked;
use crate::api::error::FieldMessage;
use crate::api::policy::Classified;
use crate::cli::files::read_text;
use crate::cli::output::{cells, sanitize, sanitize_lines, table};
use crate::cli::{Context, Exit, Failure, NoArgs, Result, report};
use crate::ops::error_report::Code;

/// Check a policy file
///
/// Prints nothing if it is valid; exits with 5 otherwise.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman policy lint
  banksman policy lint other.yaml
")]
pub(in crate::cli) struct LintArgs {
    /// The file [default: the project's policy]
    file: Option<PathBuf>,
}

/// Show how an action is classified, and by which rule
///
/// Exits with 0 if it needs no permission, and with 1 if it does.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman policy test 'cd web && npm publish'
  banksman policy test --write .github/workflows/ci.yml
  banksman policy test --rank intern 'git push'
")]
pub(in crate::cli) struct TestArgs {
    #[command(flatten)]
    action: ActionArgs,
    /// The rank of the worker: intern, specialist or lead
    #[arg(long, value_name = "RANK", default_value = "specialist")]
    rank: Rank,
}

pub(super) fn show(context: &Context, _: &NoArgs) -> Result<Exit> {
    let policy = policy_here(context)?;
    context.out.answer(|| &policy, || listed(&policy))
}

/// The policy in effect here.
pub(super) fn policy_here(context: &Context) -> Result<Policy> {
    let policy = context.config.agents.policy.read().map_err(|problems| {
        let hint = "docs/policy.md shows every key".to_owned();
        Failure::Invalid { code: Code::InvalidPolicy, message: problems.to_string(), hint }
    })?;
    Ok(policy.clone())
}

fn listed(policy: &Policy) -> String {
    let row = |rule: &policy::Rule| {
        cells([&rule.class, &rule.about, &rule.name, &rule.pattern, &rule.why, &rule.place])
    };
    let ranks = Rank::ALL.map(|rank| {
        let from =
            policy::RiskClass::ALL.into_iter().find(|class| policy.needs_permission(rank, *class));
        format!("{rank} from {}", from.map_or("nothing", policy::RiskClass::as_str))
    });
    let closes = if policy.lead_may_close { "may" } else { "may not" };
    format!(
        "{}\nneeds permission: {}\nwithout a matching rule: {}\na lead {closes} close a task\n",
        table(["CLASS", "ABOUT", "NAME", "PATTERN", "WHY", "PLACE"], policy.rules.iter().map(row)),
        ranks.join(", "),
        policy.default
    )
}

pub(super) fn lint(context: &Context, args: &LintArgs) -> Result<Exit> {
    let own = &context.config.agents.policy;
    let path = args.file.as_ref().unwrap_or(&own.path);
    let problems = match &args.file {
        None => own.read().err().cloned(),
        Some(file) => {
            let text = read_text(file, limits::POLICY_BYTES)?;
            policy::read(&text, &file.display().to_string()).err().map(|problems| *problems)
        }
    };
    let errors = problems.as_ref().map(FieldMessage::of_file).unwrap_or_default();
    let checked = || Checked::new(vec![path.display().to_string()]);
    let text = || problems.iter().map(|problems| sanitize_lines(&problems.to_string())).collect();
    report::findings(&context.out, Code::InvalidPolicy, errors, checked, text)
}

pub(super) fn test(context: &Context, args: &TestArgs) -> Result<Exit> {
    let policy = policy_here(context)?;
    let root = context.config.root.display().to_string();
    let verdict = policy.assess(&args.action.action(), &root);
    let asks = policy.needs_permission(args.rank, verdict.class);
    let then = if asks { "must ask first" } else { "may do it" };
    let article = match args.rank {
        Rank::Intern => "an",
        Rank::Specialist | Rank::Lead => "a",
    };
    let line = format!("{}  {article} {} {then}", verdict.class, args.rank);
    let text = format!("{line}\n{}", reasons(&verdict));
    let (code, asks_first) = (Code::NeedsPermission, asks.then_some(line).into_iter().collect());
    let document = || Classified::new(&verdict, args.rank, asks);
    report::answer(&context.out, code, asks_first, document, || text)
}

fn reasons(verdict: &Assessment) -> String {
    let mut lines = String::new();
    for finding in &verdict.findings {
        let by = finding.rule.as_ref().map(|(name, place)| format!("  ({name}, {place})"));
        lines.push_str(&format!(
            "  {} {}: {}{}\n",
            finding.class,
            sanitize(&finding.what),
            finding.why,
            by.unwrap_or_default()
        ));
    }
    lines
}
