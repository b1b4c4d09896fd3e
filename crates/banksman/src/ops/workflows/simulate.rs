//! Simulates a workflow and estimates its cost from past runs of the same roles. Starts and writes
//! nothing.

use std::collections::BTreeMap;

use banksman_core::lifecycle::contract::Purpose;
use banksman_core::workflow::simulate::{
    Estimate, GateScript, GateVerdict, Simulation, WorstCase, cost, run_simulation, worst,
};
use banksman_core::workflow::{Gate, Workflow};

use super::named_near;
use crate::ops::principal::Operation;
use crate::ops::{OpsError, Session};
use crate::store::Store;
use crate::store::runs::RoleAverage;

/// The verdicts of the gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdicts {
    /// Each gate fails until it has asked a person.
    Fail,
    Random {
        seed: u64,
    },
    /// By the names of the gates, in the order of the verdicts; all other gates pass.
    Chosen(Vec<(String, GateVerdict)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulated {
    pub walk: Simulation,
    pub worst: WorstCase,
    pub estimate: Estimate,
    /// Past runs that the estimate is based on.
    pub past_runs: i64,
    /// Roles whose past runs have no cost.
    pub unpriced_roles: Vec<String>,
}

/// `session`: the store with the past runs, if there is one yet. `rounds`: the debate rounds that
/// several reviewers of a gate may have.
pub fn simulate(
    flow: &Workflow,
    verdicts: &Verdicts,
    session: Option<&Session>,
    rounds: usize,
) -> Result<Simulated, OpsError> {
    let chosen;
    let policy = match verdicts {
        Verdicts::Fail => GateScript::Fail,
        Verdicts::Random { seed } => GateScript::Random { seed: *seed },
        Verdicts::Chosen(named) => {
            chosen = spelled_out(flow, named)?;
            GateScript::Chosen(&chosen)
        }
    };
    let taken = run_simulation(flow, &policy);
    // A caller that may not read other tasks gets an estimate without past runs.
    let past = match session.map(|session| session.may(Operation::ReadStore)) {
        Some(Ok(store)) => past_of(store)?,
        Some(Err(_)) | None => BTreeMap::new(),
    };
    let of_role = |role: &str| {
        past.get(role).map(|past| (past.cost_micros.unwrap_or_default(), past.millis / 1_000))
    };
    let estimate = cost(flow, Some(&taken), &of_role, rounds);
    let known = roles(flow).into_iter().filter_map(|role| Some((role, past.get(role)?)));
    let (mut past_runs, mut unpriced_roles) = (0_i64, Vec::new());
    for (role, past) in known {
        past_runs = past_runs.saturating_add(past.runs);
        unpriced_roles.extend(past.cost_micros.is_none().then(|| role.to_owned()));
    }
    Ok(Simulated { worst: worst(flow, rounds), walk: taken, estimate, past_runs, unpriced_roles })
}

/// Roles of steps and of reviewing agents, each once.
fn roles(flow: &Workflow) -> Vec<&str> {
    let gates = flow.steps.iter().filter_map(|step| step.gate.as_ref());
    let reviewers = gates.flat_map(Gate::deciders).map(String::as_str);
    let mut roles: Vec<&str> =
        flow.steps.iter().map(|step| step.role.as_str()).chain(reviewers).collect();
    roles.sort_unstable();
    roles.dedup();
    roles
}

/// Of steps and reviews together: one role may do both.
fn past_of(store: &Store) -> Result<BTreeMap<String, RoleAverage>, OpsError> {
    let mut past = store.past_of_roles(Purpose::Step)?;
    for (role, more) in store.past_of_roles(Purpose::Review)? {
        past.entry(role).and_modify(|known| *known = known.and(more)).or_insert(more);
    }
    Ok(past)
}

/// The name of a gate of a matrix means all its copies.
fn spelled_out(
    flow: &Workflow,
    named: &[(String, GateVerdict)],
) -> Result<Vec<(String, GateVerdict)>, OpsError> {
    let gates: Vec<&Gate> = flow.steps.iter().filter_map(|step| step.gate.as_ref()).collect();
    let mut verdicts = Vec::new();
    for (name, verdict) in named {
        let copies = format!("{name}[");
        let meant: Vec<&&Gate> =
            gates.iter().filter(|gate| gate.id == *name || gate.id.starts_with(&copies)).collect();
        let Some(first) = meant.first() else {
            let mut known = gates.iter().map(|gate| gate.id.as_str());
            let hint = named_near(name, &mut known);
            return Err(OpsError::input(format!("there is no gate `{name}`"), hint));
        };
        knows_reason(first, verdict)?;
        verdicts.extend(meant.iter().map(|gate| (gate.id.clone(), verdict.clone())));
    }
    Ok(verdicts)
}

/// A reason that the file does not know takes the default route, which is not what the caller
/// wanted to try.
fn knows_reason(gate: &Gate, verdict: &GateVerdict) -> Result<(), OpsError> {
    let GateVerdict::Fail { reason: Some(reason) } = verdict else { return Ok(()) };
    let mut known = gate.on_fail.iter().filter_map(|back| back.reason.as_deref());
    if known.clone().any(|known| known == reason) {
        return Ok(());
    }
    let message = format!("the gate `{}` has no way back for the reason `{reason}`", gate.id);
    Err(OpsError::input(message, named_near(reason, &mut known)))
}
