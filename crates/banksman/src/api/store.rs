//! The findings of checks of the store, as JSON.

use crate::store::health::{HealthFinding, HealthReport};

documents! {
    /// The findings of `check`.
    Health<'a>(report: &'a HealthReport) {
        findings: Vec<Finding<'a>> = findings(report),
        ok: bool = report.findings.is_empty() && report.faults.is_empty(),
        tasks: i64 = report.tasks,
    }

    /// The findings of `audit verify`, and the digest of all histories.
    Verification<'a>(report: &'a HealthReport, wanted: Option<&'a str>) {
        digest: &'a str = &report.digest,
        expected: Option<&'a str> = wanted,
        findings: Vec<Finding<'a>> = findings(report),
        ok: bool =
            report.findings.is_empty() && wanted.is_none_or(|digest| digest == report.digest),
        records: i64 = report.records,
        tasks: i64 = report.tasks,
    }

    Finding<'a>(of: Option<&HealthFinding>, text: &'a str) {
        task: Option<String> = of.map(|finding| finding.task.to_string()),
        what: &'a str = text,
    }
}

fn findings(report: &HealthReport) -> Vec<Finding<'_>> {
    let of_tasks = report.findings.iter().map(|it| Finding::new(Some(it), &it.what));
    of_tasks.chain(report.faults.iter().map(|fault| Finding::new(None, fault))).collect()
}
