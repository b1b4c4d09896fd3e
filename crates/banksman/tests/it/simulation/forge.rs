//! The forge: the branches of all tasks and the one base that their work goes into, shared by all
//! nodes.
//!
//! Like the real merge it looks before it acts and moves the base in one step. What comes after
//! that step, such as the receipt, may be lost; then the next attempt finds the work already there.

use std::collections::BTreeMap;

use banksman_core::ids::TaskId;
use banksman_core::receipt::MergeReport;

use super::script::{self, Script};

/// Work that is in the base, and the record that asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Landed {
    task: TaskId,
    seq: i64,
    head: u32,
}

#[derive(Debug, Default)]
pub(super) struct Forge {
    /// Commits on the branch of a task.
    heads: BTreeMap<TaskId, u32>,
    base: Vec<Landed>,
}

impl Forge {
    /// How many commits the branch of a task has.
    pub(super) fn head(&self, task: TaskId) -> u32 {
        self.heads.get(&task).copied().unwrap_or_default()
    }

    pub(super) fn commit(&mut self, task: TaskId) {
        *self.heads.entry(task).or_default() += 1;
    }

    /// Whether all that the branch of a task has is in the base.
    pub(super) fn is_in(&self, task: TaskId) -> bool {
        let head = self.head(task);
        head == 0 || self.base.iter().any(|landed| landed.task == task && landed.head == head)
    }

    /// Whether one request has put work into the base more than once.
    pub(super) fn is_doubled(&self, task: TaskId, seq: i64) -> bool {
        let of = |landed: &&Landed| landed.task == task && landed.seq == seq;
        self.base.iter().filter(of).count() > 1
    }

    /// What somebody finds who only looks.
    pub(super) fn find(&self, task: TaskId) -> MergeReport {
        let head = script::commit(self.head(task));
        if self.is_in(task) { MergeReport::AlreadyIn { head } } else { MergeReport::NotIn }
    }

    /// The decisive moment of a merge; none if it does not come so far.
    pub(super) fn merge(
        &mut self,
        (task, seq): (TaskId, i64),
        wanted: Option<&str>,
        script: Script,
    ) -> Option<MergeReport> {
        let head = self.head(task);
        match script {
            Script::Conflicts => Some(MergeReport::Conflict { paths: vec!["a".to_owned()] }),
            Script::Rejected => Some(script::rejected(head)),
            Script::Hindered => {
                Some(MergeReport::Hindered { detail: "the base is checked out".to_owned() })
            }
            Script::Succeeds | Script::Unreadable | Script::TimesOut => {
                let is_in = self.is_in(task);
                let head_of_base = script::commit(head);
                if is_in {
                    return Some(MergeReport::AlreadyIn { head: head_of_base });
                }
                if wanted.is_some_and(|wanted| wanted != head_of_base) {
                    return Some(MergeReport::MovedOn { branch: task.to_string() });
                }
                self.base.push(Landed { task, seq, head });
                Some(MergeReport::Merged { head: head_of_base })
            }
            Script::NotPrepared(_)
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
            | Script::Hopeless
            | Script::Stalls
            | Script::OverBudget
            | Script::Loops
            | Script::NotStarted => None,
        }
    }
}
