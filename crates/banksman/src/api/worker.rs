//! Machines, their workers and the accounts that these use, as JSON.

use std::collections::BTreeSet;

use banksman_core::schedule;
use banksman_core::time::Instant;

use crate::store::accounts::AccountRow;
use crate::store::nodes::Node as NodeRow;

documents! {
    /// `running` counts the runs of a worker.
    Node<'a>(node: &'a NodeRow, is_live: bool, running: &dyn Fn(&schedule::Worker) -> usize) {
        capacity: u32 = node.capacity,
        live: bool = is_live,
        name: &'a str = &node.name,
        seen_at: Instant = node.seen_at,
        workers: Vec<Worker<'a>> =
            node.workers.iter().map(|worker| Worker::new(worker, running(worker))).collect(),
    }

    Worker<'a>(worker: &'a schedule::Worker, running: usize) {
        account: &'a str = &worker.account,
        capabilities: &'a BTreeSet<String> = &worker.capabilities,
        cost: u32 = worker.cost,
        max_concurrent: u32 = worker.max_concurrent,
        name: &'a str = &worker.name,
        roles: &'a BTreeSet<String> = &worker.roles,
        running: usize = running,
        speed: u32 = worker.speed,
    }

    Account<'a>(named: &'a (String, AccountRow)) {
        account: &'a str = &named.0,
        paused_until: Option<Instant> = named.1.paused_until,
        probing: bool = named.1.probing,
        reason: &'a str = &named.1.reason,
    }

    /// An account whose pause was ended.
    ResumedAccount<'a>(name: &'a str) {
        account: &'a str = name,
        paused: bool = false,
    }
}
