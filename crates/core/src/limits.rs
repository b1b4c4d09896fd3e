//! The limits that several files share or that have to fit together, and those of what the program
//! reads from others, each with its unit and its reason.

use crate::time::Span;

/// Longest lease that a run can have: a machine that is gone for good holds its tasks no longer.
pub const LONGEST_LEASE: Span = Span(24 * 60 * 60_000);

/// Longest timeout of a state: what is due later is not bounded in time.
pub const LONGEST_TIMEOUT: Span = Span(3650 * 24 * 60 * 60_000);

/// The source of a lifecycle. The largest built-in one is under 20 KiB; the rest is room for
/// generated ones.
pub const LIFECYCLE_BYTES: usize = 1024 * 1024;
/// States of one lifecycle: the lint proofs are quadratic in them, and no person can follow more.
pub const LIFECYCLE_STATES: usize = 1_000;
/// Transitions of one lifecycle, after `from: any` and groups are expanded.
pub const LIFECYCLE_TRANSITIONS: usize = 50_000;
/// The name of a state, field, trigger, role, counter or setting, in bytes.
pub const NAME_BYTES: usize = 64;
/// The title of a task, in bytes: it must fit in one line of a list and in the subject of a mail.
pub const TITLE_BYTES: usize = 500;
/// The body of a task, in bytes. Logs belong in files.
pub const BODY_BYTES: usize = 256 * 1024;
/// All fields of a task as JSON, in bytes: every transition reads and writes the row.
pub const FIELDS_BYTES: usize = 256 * 1024;
/// Nesting depth of a field's value, because JSON parsers recurse.
pub const FIELD_DEPTH: usize = 16;
pub const TAGS: usize = 32;
/// Tasks that one task may depend on.
pub const NEEDS: usize = 1_000;
pub const KEY_BYTES: usize = 200;
/// The name of an actor, in bytes.
pub const ACTOR_BYTES: usize = 100;
/// The largest priority; its negative is the smallest.
pub const PRIORITY: i32 = 1_000;
/// How much of an agent's final message is kept, in bytes: it goes into prompts, mails and the
/// history.
pub const FINAL_TEXT_BYTES: usize = 16 * 1024;
/// An answer that follows a schema, in bytes.
pub const ANSWER_BYTES: usize = 128 * 1024;
pub const EVIDENCE_PATHS: usize = 500;
/// How much of a check's output is kept, in bytes.
pub const CHECK_TAIL_BYTES: usize = 4 * 1024;
/// How much of what an agent writes to standard error is kept in its receipt, in bytes. It is
/// quoted to the next attempt.
pub const STDERR_BYTES: usize = 1_000;
/// One line of an agent's stream, in bytes. Longer lines stay in the log and are not parsed.
pub const STREAM_LINE_BYTES: usize = 4 * 1024 * 1024;
/// Areas of one task; with more, they are made coarser. Each is compared with the areas of every
/// running task.
pub const AREAS: usize = 64;
/// Tasks that get areas reserved in one pass over the queue. The tasks behind them are considered
/// again in the next pass.
pub const RESERVING_TASKS: usize = 100;
/// One message from an agent to the tool server of its run, in bytes.
pub const TOOL_MESSAGE_BYTES: usize = 1024 * 1024;
/// Messages in one batch from an agent.
pub const TOOL_BATCH: usize = 32;
/// A text in an agent's report, in bytes: people read it in a list or a mail.
pub const REPORT_TEXT_BYTES: usize = 8 * 1024;
/// Files or blockers in one report.
pub const REPORT_ITEMS: usize = 100;
/// All reports of a run, in bytes: they become part of its receipt.
pub const REPORTS_BYTES: u64 = 1024 * 1024;
pub const REPORTS: usize = 1_000;
/// Reports that progress may not use up, so that a question still gets through.
pub const REPORTS_KEPT_FREE: usize = 50;
/// The file of a workflow. People read it; a larger one was written by mistake.
pub const WORKFLOW_BYTES: usize = 1024 * 1024;
/// Steps of a workflow after matrices and included files are expanded: each becomes a task.
pub const WORKFLOW_STEPS: usize = 2_000;
/// Dependencies of all steps together. A matrix that depends on a matrix has the product of both,
/// and every check visits them.
pub const WORKFLOW_NEEDS: usize = 20_000;
/// Parameters of one file: more than a person would set.
pub const WORKFLOW_PARAMS: usize = 100;
/// Steps that one matrix expands to.
pub const WORKFLOW_MATRIX: usize = 256;
/// Nesting of included files. A deeper nesting is a cycle.
pub const WORKFLOW_DEPTH: usize = 8;
/// Files that one workflow includes, counted once for each inclusion: each is read and checked
/// again.
pub const WORKFLOW_INCLUDES: usize = 256;
/// Entries of one list: the inputs of a step, the routes of a gate, the values of a parameter.
pub const WORKFLOW_ITEMS: usize = 500;
/// A text after its parameters are filled in, in bytes. A matrix repeats it for each value, and it
/// becomes part of a task's body.
pub const WORKFLOW_TEXT_BYTES: usize = 64 * 1024;
/// The id of a step or gate with its prefixes and suffixes, in bytes: file names and keys are made
/// from it.
pub const WORKFLOW_ID_BYTES: usize = KEY_BYTES;
pub const WORKFLOW_PATH_BYTES: usize = 1_000;
/// Problems reported for one file. A mistake in a matrix is a mistake in each of its steps.
pub const WORKFLOW_PROBLEMS: usize = 100;
/// A prompt, in bytes. Some agents take it as one argument, which Linux limits to 128 KiB, and the
/// schema of the answer may follow.
pub const PROMPT_BYTES: usize = 96 * 1024;
/// A prompt with what a keeper adds to it: changes to judge, or branches to join.
pub const SENT_PROMPT_BYTES: usize = 120 * 1024;
/// A prompt template, in bytes.
pub const TEMPLATE_BYTES: usize = 32 * 1024;
/// Files read from a project's template folder. There are a dozen templates.
pub const TEMPLATE_FILES: usize = 1_000;
/// Problems reported for one template.
pub const TEMPLATE_PROBLEMS: usize = 100;
/// Reviewers on every panel, and reviewers of one gate.
pub const REVIEWERS: usize = 8;
/// Specialists of one registry. Every specialist whose domain matches a task reviews it, so this
/// bounds the size of a panel.
pub const SPECIALISTS: usize = 16;
pub const REGISTRY_BYTES: usize = 64 * 1024;
/// The rationale of a reviewer, in bytes: the rationales of a whole panel go into one task's
/// fields.
pub const OPINION_TEXT_BYTES: usize = 1_000;
/// Concerns or suggestions of one reviewer.
pub const OPINION_ITEMS: usize = 16;
/// One concern or suggestion, in bytes: what is wrong, where, and what would be right.
pub const OPINION_ITEM_BYTES: usize = 1_000;
/// What a record says about a note, such as the reason of a fault: a few lines of a terminal.
pub const NOTE_DETAIL_BYTES: usize = 1_000;
/// The open concerns of a panel with their responses, in bytes.
pub const PANEL_CONCERNS_BYTES: usize = 12 * 1024;
/// The suggestions of a panel, in bytes.
pub const PANEL_SUGGESTIONS_BYTES: usize = 8 * 1024;
/// The summary of a panel, in bytes: a person reads it in a list or a mail.
pub const PANEL_SUMMARY_BYTES: usize = 16 * 1024;
/// A daily note, in bytes: people read and write it.
pub const DAILY_BYTES: usize = 1024 * 1024;
/// Open decisions in a daily note; nobody answers more in a day.
pub const DAILY_ENTRIES: usize = 50;
/// Entries of every other list in a daily note.
pub const DAILY_LINES: usize = 50;
/// Subtasks of one plan: a person reads all of them before they approve it.
pub const PLAN_SUBTASKS: usize = 20;
/// Spikes of one plan.
pub const PLAN_SPIKES: usize = 8;
pub const PLAN_EDGES: usize = 200;
/// Entries of one list of a plan: assumptions, risks, acceptance criteria, objections.
pub const PLAN_ITEMS: usize = 16;
/// The title of a subtask or the question of a spike, in bytes: it becomes the title of a task.
pub const PLAN_TITLE_BYTES: usize = 300;
pub const PLAN_TEXT_BYTES: usize = 200;
/// The description of a subtask, in bytes.
pub const PLAN_DESCRIPTION_BYTES: usize = 2_000;
/// A whole plan as JSON, in bytes: it is a field of its task.
pub const PLAN_BYTES: usize = 64 * 1024;
pub const PLAN_OBJECTION_BYTES: usize = 300;
/// Planning iterations kept in the fields of a task; the history has all of them.
pub const PLAN_ITERATIONS: usize = 12;
/// Refused limits that the requests about one budget remember: each node may have a limit of its
/// own for the day. A limit that was refused before these is asked about again.
pub const REFUSED_BUDGETS: usize = 20;
/// The longest sleep of `up`, after which it gives a sign of life.
pub const LONGEST_SLEEP: Span = Span(60_000);
/// After this long without a sign of life a node counts as gone.
pub const NODE_GONE: Span = Span(180_000);
/// Runs at once in a batch for which nobody chose a number.
pub const BATCH_CONCURRENCY: u32 = 4;
/// A signal file, in bytes: more than a reviewer writes, less than an agent pours out by mistake.
pub const SIGNAL_BYTES: usize = 256 * 1024;
/// The file of a policy.
pub const POLICY_BYTES: usize = 256 * 1024;
/// Rules of one file: each is compared with every tool call.
pub const POLICY_RULES: usize = 500;
pub const POLICY_PATTERN_BYTES: usize = 300;

const _: () = assert!(NODE_GONE.0 >= 3 * LONGEST_SLEEP.0, "a node may miss two signs of life");
const _: () =
    assert!(PLAN_TITLE_BYTES < TITLE_BYTES, "the title of a subtask fits in the title of a task");
const _: () = assert!(
    PLAN_BYTES + PLAN_ITERATIONS * PLAN_ITEMS * PLAN_OBJECTION_BYTES < FIELDS_BYTES / 2,
    "a plan and its iterations leave room for the task's own fields"
);
const _: () = assert!(
    // Each reviewer adds a rationale and the reason why it withdrew a concern.
    PANEL_CONCERNS_BYTES
        + PANEL_SUGGESTIONS_BYTES
        + PANEL_SUMMARY_BYTES
        + (REVIEWERS + SPECIALISTS) * 2 * OPINION_TEXT_BYTES
        < FIELDS_BYTES / 2,
    "the fields of a panel fit next to a plan"
);
const _: () = assert!(
    PLAN_BYTES < ANSWER_BYTES && ANSWER_BYTES <= FIELDS_BYTES / 2,
    "an answer becomes a field, and a plan that is too large is reported by its own limit"
);
const _: () = assert!(TEMPLATE_BYTES < PROMPT_BYTES / 2, "a template leaves room for its values");
const _: () = assert!(REPORTS_KEPT_FREE < REPORTS, "some progress can be reported");
const _: () = assert!(WORKFLOW_TEXT_BYTES < BODY_BYTES, "a prompt fits in a task's body");
const _: () = assert!(WORKFLOW_MATRIX <= WORKFLOW_STEPS, "a whole matrix fits in a workflow");
const _: () = assert!(NAME_BYTES <= WORKFLOW_ID_BYTES, "an id has room for a prefix");
const _: () = assert!(LIFECYCLE_STATES < u16::MAX as usize, "a StateId is a u16");
