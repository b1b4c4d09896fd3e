//! What jobs do, drawn by chance, and the receipts that their keepers write about it.
//!
//! Every text of an agent carries the mark of its run, so that a word of a run that has lost its
//! right is recognised wherever it turns up.

use banksman::exec::job::{JobId, JobWork};
use banksman_core::ids::{RunId, TaskId};
use banksman_core::receipt::{
    AgentReport, CheckResult, EndCause, Evidence, Fault, FaultKind, MergeReport, PrepareFault,
    ProcessExit, Receipt, StreamSummary, Terminal,
};
use banksman_core::time::{Instant, Span};

use super::chance::Chance;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Agent,
    Check,
    Merge,
    /// Looks whether it is merged.
    FindMerge,
    CleanUp,
}

impl Doing {
    pub(super) fn of(work: &JobWork) -> Self {
        match work {
            JobWork::Agent(_) => Self::Agent,
            JobWork::Check { .. } | JobWork::Inspect { .. } => Self::Check,
            JobWork::Merge { .. } => Self::Merge,
            JobWork::FindMerge { .. } => Self::FindMerge,
            JobWork::CleanUp => Self::CleanUp,
            JobWork::Poll => Self::Check,
        }
    }
}

/// How a job will end if nobody ends it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    Succeeds,
    WithoutPullRequest,
    /// Says that it is done and has no commit to show.
    Lies,
    OldCommitsOnly,
    ChecksFail,
    Strays,
    NothingToDo,
    NeedsPerson,
    Quota,
    QuotaUntil(Span),
    Auth,
    Transient,
    Permission,
    SessionGone,
    Crashes,
    NeverSaysDone,
    Hopeless,
    Stalls,
    TimesOut,
    OverBudget,
    NotPrepared(PrepareFault),
    NotStarted,
    Conflicts,
    Rejected,
    /// The same actions again and again.
    Loops,
    /// A merge that only a person can make possible.
    Hindered,
    /// The receipt is there and makes no sense.
    Unreadable,
}

const AGENT: &[(usize, Script)] = &[
    (30, Script::Succeeds),
    (8, Script::WithoutPullRequest),
    (4, Script::Lies),
    (2, Script::OldCommitsOnly),
    (6, Script::ChecksFail),
    (3, Script::Strays),
    (3, Script::NothingToDo),
    (4, Script::NeedsPerson),
    (4, Script::Quota),
    (4, Script::QuotaUntil(Span(5_400_000))),
    (2, Script::Auth),
    (4, Script::Transient),
    (1, Script::Permission),
    (2, Script::SessionGone),
    (4, Script::Crashes),
    (2, Script::NeverSaysDone),
    (2, Script::Hopeless),
    (2, Script::Stalls),
    (2, Script::TimesOut),
    (2, Script::OverBudget),
    (2, Script::NotPrepared(PrepareFault::Environment)),
    (1, Script::NotPrepared(PrepareFault::Setup)),
    (1, Script::NotPrepared(PrepareFault::Diverged)),
    (2, Script::NotStarted),
    (2, Script::Unreadable),
];
const CHECK: &[(usize, Script)] = &[
    (12, Script::Succeeds),
    (4, Script::ChecksFail),
    (1, Script::TimesOut),
    (1, Script::Unreadable),
    (1, Script::NotPrepared(PrepareFault::Environment)),
];
const MERGE: &[(usize, Script)] = &[
    (12, Script::Succeeds),
    (3, Script::Conflicts),
    (3, Script::Rejected),
    (1, Script::TimesOut),
    (1, Script::Unreadable),
    (1, Script::NotPrepared(PrepareFault::Environment)),
];
const PLAIN: &[(usize, Script)] = &[
    (12, Script::Succeeds),
    (1, Script::Unreadable),
    (1, Script::NotPrepared(PrepareFault::Environment)),
];

impl Script {
    pub(super) fn draw(doing: Doing, chance: &mut Chance) -> Self {
        let table = match doing {
            Doing::Agent => AGENT,
            Doing::Check => CHECK,
            Doing::Merge => MERGE,
            Doing::FindMerge | Doing::CleanUp => PLAIN,
        };
        chance.weighted(table)
    }

    /// Whether the agent gives the answer that it was asked for.
    pub(super) fn answers(self) -> bool {
        self.commits() || matches!(self, Self::Lies | Self::OldCommitsOnly)
    }

    /// Whether the agent has made a commit of its own.
    pub(super) fn commits(self) -> bool {
        matches!(
            self,
            Self::Succeeds
                | Self::WithoutPullRequest
                | Self::ChecksFail
                | Self::Strays
                | Self::NeverSaysDone
        )
    }
}

/// By which a word of a run is recognised.
pub(super) fn mark(job: JobId) -> String {
    format!("mark:{job};")
}

/// The runs whose marks stand in a text.
pub(super) fn marks(text: &str) -> impl Iterator<Item = RunId> + '_ {
    let words = text.match_indices("mark:").filter_map(|(at, word)| {
        let rest = &text[at + word.len()..];
        rest.split(';').next()
    });
    words.filter_map(|word| word.parse().ok())
}

/// A receipt with nothing in it but the end.
pub(super) fn plain(job: JobId, ended: EndCause, began: Instant, now: Instant) -> Receipt {
    Receipt { ended_at: now, ..Receipt::new(&job.to_string(), began, ended) }
}

/// What an agent has done to its branch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Branch {
    pub(super) head_before: u32,
    pub(super) head: u32,
}

/// The receipt of an agent that has played its script to the end.
pub(super) fn agent_receipt(
    script: Script,
    job: JobId,
    branch: Branch,
    began: Instant,
    now: Instant,
) -> Receipt {
    let mark = mark(job);
    let mut receipt = plain(job, EndCause::Completed, began, now);
    let is_well = !matches!(script, Script::Crashes | Script::Quota | Script::Transient);
    receipt.exit = Some(ProcessExit { code: Some(i32::from(!is_well)), signal: None });
    receipt.reading = Some(reading(script, job, &mark, now));
    receipt.evidence = Some(evidence(script, branch));
    let detail = format!("it could not be, {mark}");
    match script {
        Script::Hopeless => receipt.ended = EndCause::Hopeless,
        Script::Loops => receipt.ended = EndCause::Loop { summary: detail },
        Script::Stalls => receipt.ended = EndCause::Stalled,
        Script::TimesOut => receipt.ended = EndCause::TimedOut,
        Script::OverBudget => receipt.ended = EndCause::OverBudget { detail },
        Script::NotPrepared(class) => {
            receipt = plain(job, EndCause::NotPrepared { detail, class }, began, now);
        }
        Script::NotStarted => receipt = plain(job, EndCause::NotStarted { detail }, began, now),
        Script::Succeeds
        | Script::WithoutPullRequest
        | Script::Lies
        | Script::OldCommitsOnly
        | Script::ChecksFail
        | Script::Strays
        | Script::NothingToDo
        | Script::NeedsPerson
        | Script::Quota
        | Script::QuotaUntil(_)
        | Script::Auth
        | Script::Transient
        | Script::Permission
        | Script::SessionGone
        | Script::Crashes
        | Script::NeverSaysDone
        | Script::Conflicts
        | Script::Rejected
        | Script::Hindered
        | Script::Unreadable => {}
    }
    receipt
}

fn reading(script: Script, job: JobId, mark: &str, now: Instant) -> StreamSummary {
    let fault = |kind| Some(Fault { kind, detail: format!("refused, {mark}"), structured: true });
    let told = |told| vec![told];
    let number = job.task().0;
    let mut said = StreamSummary {
        terminal: Some(Terminal::Success),
        session: Some(format!("session-{mark}")),
        text: format!("{mark} all done"),
        input_tokens: 900,
        output_tokens: 100,
        cost_micros: Some(2_000),
        ..StreamSummary::default()
    };
    match script {
        // For every other task its branch stands in the place of a pull request.
        Script::Succeeds if number % 2 == 0 => {}
        Script::Succeeds => {
            let task = TaskId(number);
            said.text = format!("{mark} all done\n{task}: https://forge.test/o/r/pull/{number}");
        }
        Script::NothingToDo => {
            said.reports =
                told(AgentReport::NothingToDo { reason: format!("it is there, {mark}") });
        }
        Script::NeedsPerson => {
            said.reports =
                told(AgentReport::NeedsPerson { question: format!("which one? {mark}") });
        }
        Script::Quota => said.fault = fault(FaultKind::Quota),
        Script::QuotaUntil(wait) => {
            said.fault = fault(FaultKind::Quota);
            said.resets_at = Some(now.plus(wait));
        }
        Script::Auth => said.fault = fault(FaultKind::Auth),
        Script::Transient => said.fault = fault(FaultKind::Transient),
        Script::Permission => said.fault = fault(FaultKind::Permission),
        Script::SessionGone => said.fault = fault(FaultKind::Session),
        Script::Crashes | Script::Hopeless => said.terminal = Some(Terminal::Error),
        Script::NeverSaysDone | Script::Stalls | Script::TimesOut => said.terminal = None,
        Script::WithoutPullRequest
        | Script::Lies
        | Script::OldCommitsOnly
        | Script::ChecksFail
        | Script::Strays
        | Script::OverBudget
        | Script::NotPrepared(_)
        | Script::NotStarted
        | Script::Conflicts
        | Script::Rejected
        | Script::Loops
        | Script::Hindered
        | Script::Unreadable => {}
    }
    if said.fault.is_some() {
        said.terminal = Some(Terminal::Error);
    }
    said
}

fn evidence(script: Script, branch: Branch) -> Evidence {
    let outside = if script == Script::Strays { vec!["secrets/key".to_owned()] } else { vec![] };
    let code = i32::from(script == Script::ChecksFail);
    let check = CheckResult {
        command: "make test".to_owned(),
        head: commit(branch.head),
        exit: ProcessExit { code: Some(code), signal: None },
        millis: 10,
        tail: "one test failed".to_owned(),
    };
    let has_work = branch.head > 0;
    Evidence {
        base: commit(0),
        head: commit(branch.head),
        head_before: commit(branch.head_before),
        commits: branch.head,
        files: 1,
        insertions: 1,
        paths: vec!["src/lib.rs".to_owned()],
        outside,
        checks: if has_work { vec![check] } else { vec![] },
        ..Evidence::default()
    }
}

/// The receipt of a check, a merge or a clean-up. `merge` is what came of a merge that could be
/// tried or looked for.
pub(super) fn job_receipt(
    script: Script,
    job: JobId,
    merge: Option<MergeReport>,
    began: Instant,
    now: Instant,
) -> Receipt {
    let mut receipt = plain(job, EndCause::Completed, began, now);
    if script == Script::TimesOut {
        receipt.ended = EndCause::TimedOut;
    } else if let Script::NotPrepared(class) = script {
        receipt.ended = EndCause::NotPrepared { detail: "the disk is full".to_owned(), class };
    } else {
        receipt.evidence = Some(evidence(script, Branch { head_before: 1, head: 1 }));
        receipt.merge = merge;
    }
    receipt
}

pub(super) fn rejected(head: u32) -> MergeReport {
    let exit = ProcessExit { code: Some(1), signal: None };
    let (command, tail) = ("make test".to_owned(), "it does not go together".to_owned());
    MergeReport::Rejected {
        check: CheckResult { command, head: commit(head), exit, millis: 9, tail },
    }
}

pub(super) fn commit(number: u32) -> String {
    format!("{number:040}")
}
