//! `banksman workflow simulate`: simulates a workflow, its worst case and its cost.

use std::path::PathBuf;

use banksman_core::time::Span;
use banksman_core::workflow::simulate::{Cost, GateVerdict, SimulationEnd};
use clap::Args;

use super::ParamArgs;
use crate::api::workflow::Simulation;
use crate::cli::output::{cells, sanitize, table};
use crate::cli::symbols::{counted, format_cost, format_span};
use crate::cli::{Context, Exit, Failure, Result, report};
use crate::ops::Session;
use crate::ops::error_report::Code;
use crate::ops::workflows::{self, Simulated, Verdicts};

/// How many lines of a simulation are printed; --json has all of them.
const LINES: usize = 1_000;

/// Simulate a file, starting nothing
///
/// Shows what starts, what is sent back, the worst case and the expected cost, and writes nothing.
/// Every gate passes unless you say otherwise. Costs are averages of past runs of the same roles,
/// where there are any.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman workflow simulate phase-4.yaml
  banksman workflow simulate phase-4.yaml --gate XG-1-2=fail --gate XG-1-2=pass
  banksman workflow simulate release.yaml --param version=1.2 --gate build-ok=fail:bad-plan
  banksman workflow simulate phase-4.yaml --fail         every gate fails as often as allowed
  banksman workflow simulate phase-4.yaml --random 7     random verdicts, repeatable by seed
")]
pub(in crate::cli) struct SimulateArgs {
    /// The file
    file: PathBuf,
    #[command(flatten)]
    params: ParamArgs,
    /// The verdict of a gate: pass, fail or fail:REASON; repeat it for several rounds of one gate
    #[arg(long = "gate", value_name = "GATE=VERDICT", value_parser = verdict)]
    gates: Vec<(String, GateVerdict)>,
    /// Every gate fails until a person is asked
    #[arg(long, conflicts_with_all = ["gates", "random"])]
    fail: bool,
    /// Choose the verdicts at random
    #[arg(long, value_name = "SEED", conflicts_with = "gates")]
    random: Option<u64>,
}

/// Parses `XG-1-2=fail:bad-plan`. The id of a gate may contain `=`, so the last one counts.
fn verdict(text: &str) -> Result<(String, GateVerdict), String> {
    let wrong = || "expected GATE=pass, GATE=fail or GATE=fail:REASON".to_owned();
    let (gate, word) = text.rsplit_once('=').ok_or_else(wrong)?;
    let verdict = match word.split_once(':') {
        None if word == "pass" => GateVerdict::Pass,
        None if word == "fail" => GateVerdict::Fail { reason: None },
        Some(("fail", reason)) if !reason.is_empty() => {
            GateVerdict::Fail { reason: Some(reason.to_owned()) }
        }
        None | Some(_) => return Err(wrong()),
    };
    Ok((gate.to_owned(), verdict))
}

pub(super) fn run(context: &Context, args: &SimulateArgs) -> Result<Exit> {
    let flow = workflows::load(std::slice::from_ref(&args.file), &args.params.params()?)?.remove(0);
    let verdicts = match (args.fail, args.random) {
        (true, _) => Verdicts::Fail,
        (false, Some(seed)) => Verdicts::Random { seed },
        (false, None) => Verdicts::Chosen(args.gates.clone()),
    };
    let store = store_if_any(context)?;
    let rounds = usize::try_from(context.config.agents.panels.rounds).unwrap_or_default();
    let simulated = workflows::simulate(&flow, &verdicts, store.as_ref(), rounds)?;
    let end = simulated.walk.ended;
    let stuck = (end == SimulationEnd::Stuck).then(|| end.to_string()).into_iter().collect();
    let document = || Simulation::new(&flow, &simulated);
    let exit = report::answer(&context.out, Code::Found, stuck, document, || text(&simulated))?;
    let (file, params) = (args.file.display(), args.params.as_flags());
    context.out.next(&[&format!("workflow run {file}{params}")]);
    Ok(exit)
}

/// Past runs are optional: before the first run there is no store.
fn store_if_any(context: &Context) -> Result<Option<Session>> {
    match context.session() {
        Ok(session) => Ok(Some(session)),
        Err(Failure::NoStore(_) | Failure::NoHome) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn text(simulated: &Simulated) -> String {
    let walk = &simulated.walk;
    let mut text = String::new();
    for event in walk.events.iter().take(LINES) {
        text.push_str(&format!("{}\n", sanitize(&event.to_string())));
    }
    if let Some(more) = walk.events.len().checked_sub(LINES).filter(|more| *more > 0) {
        text.push_str(&format!("... and {more} more lines (--json shows all); {}\n", walk.ended));
    }
    format!("{text}\n{}{}", totals(simulated), cost_notes(simulated))
}

/// The totals of this simulation and of the worst case.
fn totals(simulated: &Simulated) -> String {
    let Simulated { walk, worst, estimate, .. } = simulated;
    let cost = |cost: Option<Cost>| {
        let known = cost.filter(|cost| cost.known > 0);
        let dollars = known.map(|cost| format_cost(cost.micros)).filter(|text| !text.is_empty());
        let time = known.map(|cost| format_span(Span(cost.seconds.saturating_mul(1_000))));
        [time, dollars].map(|text| text.unwrap_or_else(|| "?".to_owned()))
    };
    let ([time, dollars], [most_time, most_dollars]) =
        (cost(estimate.walk), cost(Some(estimate.worst)));
    let (asked, rounds) = (walk.person, walk.longest);
    let rows = [
        cells([&"this run", &walk.runs, &walk.reviews, &asked, &rounds, &time, &dollars]),
        cells([&"worst case", &worst.runs, &worst.reviews, &"", &"", &most_time, &most_dollars]),
    ];
    table(["", "RUNS", "REVIEWS", "ASKED", "ROUNDS", "WORK", "COST"], rows)
}

/// Where the amounts come from, and what they do not include.
fn cost_notes(simulated: &Simulated) -> String {
    let Simulated { worst, estimate, past_runs, unpriced_roles, .. } = simulated;
    let list = |roles: &[String]| sanitize(&roles.join(", "));
    let breaker = if worst.breaker { "; then the breaker stops the workflow" } else { "" };
    let mut lines = vec![match worst.failures {
        0 => "no failure sends work back".to_owned(),
        1 => format!("at most 1 failure sends work back before a person is needed{breaker}"),
        more => {
            format!("at most {more} failures send work back before a person is needed{breaker}")
        }
    }];
    if *past_runs == 0 {
        lines.push(format!(
            "no past runs of {}: the cost is unknown",
            list(&estimate.unknown_roles)
        ));
        return lines.join("\n") + "\n";
    }
    let runs = counted(*past_runs, "past run");
    lines.push(format!("amounts are averages of {runs} of these roles"));
    if !estimate.unknown_roles.is_empty() {
        lines.push(format!("no past runs of {}: not included", list(&estimate.unknown_roles)));
    }
    if !unpriced_roles.is_empty() {
        lines.push(format!(
            "past runs of {} did not report their cost: not included",
            list(unpriced_roles)
        ));
    }
    lines.join("\n") + "\n"
}
