//! The findings of checks of the store, as JSON.

use crate::store::health::{HealthFinding, HealthReport};

documents! {
    /// The findings of `check`.
    Health<'a>(report: &'a HealthReport, repaired: &'a [HealthFinding]) {
        findings: Vec<Finding<'a>> = findings(report),
        ok: bool = report.findings.is_empty() && report.faults.is_empty(),
        repaired: Vec<Finding<'a>> = of_tasks(repaired),
        tasks: i64 = report.tasks,
        warnings: Vec<Finding<'a>> = of_tasks(&report.warnings),
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
    let of_tasks = of_tasks(&report.findings);
    of_tasks
        .into_iter()
        .chain(report.faults.iter().map(|fault| Finding::new(None, fault)))
        .collect()
}

fn of_tasks(findings: &[HealthFinding]) -> Vec<Finding<'_>> {
    findings.iter().map(|it| Finding::new(Some(it), &it.what)).collect()
}
