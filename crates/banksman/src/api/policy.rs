//! What the policy says about actions, and permissions, as JSON.

use banksman_core::policy::{Action, Assessment, PolicyFinding, Rank, RiskClass};

documents! {
    /// How an action is classified.
    Classified<'a>(verdict: &'a Assessment, worker: Rank, asks: bool) {
        class: RiskClass = verdict.class,
        findings: Vec<Finding<'a>> = verdict.findings.iter().map(Finding::new).collect(),
        needs_approval: bool = asks,
        rank: Rank = worker,
    }

    Finding<'a>(finding: &'a PolicyFinding) {
        class: RiskClass = finding.class,
        place: Option<&'a str> = finding.rule.as_ref().map(|(_, place)| place.as_str()),
        rule: Option<&'a str> = finding.rule.as_ref().map(|(name, _)| name.as_str()),
        what: &'a str = &finding.what,
        why: &'a str = &finding.why,
    }

    /// A permission that was granted, and the action that answered its decision.
    Granted<'a>(id: String, granted: &'a [Action], action: Option<&'a str>) {
        actions: &'a [Action] = granted,
        answered: Option<&'a str> = action,
        decision: String = id,
    }

    /// The answer to a request for permission: the question, if a person is asked.
    Requested<'a>(question: Option<&'a str>) {
        go_on: bool = question.is_none(),
        request: Option<&'a str> = question,
    }
}
