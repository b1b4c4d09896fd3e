//! Every bound of the system, with its unit and its reason.

/// A lifecycle's source. The largest built-in one is under 20 KiB; this leaves room for generated
/// ones.
pub const LIFECYCLE_BYTES: usize = 1024 * 1024;
/// States of one lifecycle: the proofs are quadratic in it, and no person can follow more.
pub const LIFECYCLE_STATES: usize = 1_000;
/// Transitions of one lifecycle, after `from: any` and groups are spelled out.
pub const LIFECYCLE_TRANSITIONS: usize = 50_000;
/// A name of a state, field, trigger, role, counter or setting, in bytes.
pub const NAME_BYTES: usize = 64;
/// A task's title, in bytes: it must fit a line of a list and the subject of a mail.
pub const TITLE_BYTES: usize = 500;
/// A task's body, in bytes. Logs belong into files.
pub const BODY_BYTES: usize = 256 * 1024;
/// All fields of a task as JSON, in bytes: the row is read and written at every move.
pub const FIELDS_BYTES: usize = 256 * 1024;
/// Nesting of a field's value: readers of JSON recurse.
pub const FIELD_DEPTH: usize = 16;
/// Tags of a task.
pub const TAGS: usize = 32;
/// Tasks that one task may wait for.
pub const NEEDS: usize = 1_000;
/// An idempotency key, in bytes.
pub const KEY_BYTES: usize = 200;
/// An actor's name, in bytes.
pub const ACTOR_BYTES: usize = 100;
/// How far a priority may go to either side of 0.
pub const PRIORITY: i32 = 1_000;
/// What is kept of an agent's last words, in bytes: it goes into prompts, mails and the history.
pub const FINAL_TEXT_BYTES: usize = 16 * 1024;
/// An answer in the shape of a schema, in bytes.
pub const ANSWER_BYTES: usize = 128 * 1024;
/// Changed paths that a receipt names.
pub const EVIDENCE_PATHS: usize = 500;
/// What is kept of a check's output, in bytes.
pub const CHECK_TAIL_BYTES: usize = 4 * 1024;
/// One line of an agent's stream, in bytes; what is longer is kept in the log and not read.
pub const STREAM_LINE_BYTES: usize = 4 * 1024 * 1024;
/// Areas of one task; beyond it they are made coarser. Each is compared with those of every task at
/// work.
pub const AREAS: usize = 64;
/// Tasks that are promised their areas in one walk of the queue. Those behind them are asked again
/// at the next.
pub const PROMISES: usize = 100;
/// One message from an agent to the tool server of its run, in bytes.
pub const TOOL_MESSAGE_BYTES: usize = 1024 * 1024;
/// Messages that an agent may send as one batch.
pub const TOOL_BATCH: usize = 32;
/// A text of a report, in bytes: people read it in a list or in a mail.
pub const REPORT_TEXT_BYTES: usize = 8 * 1024;
/// Files or blockers that one report names.
pub const REPORT_ITEMS: usize = 100;
/// All reports of a run, in bytes: they become a part of its receipt.
pub const REPORTS_BYTES: u64 = 1024 * 1024;
/// Reports of a run.
pub const REPORTS: usize = 1_000;
/// Of these, what progress may not use up, so that a question still gets through.
pub const REPORTS_KEPT_FREE: usize = 50;
/// A workflow's file. It is read by people; what is larger was written by mistake.
pub const FLOW_BYTES: usize = 1024 * 1024;
/// Steps of a workflow after its matrices are spelled out and its files are included: each becomes
/// a task.
pub const FLOW_STEPS: usize = 2_000;
/// Needs of all steps together. A matrix behind a matrix needs the product of both, and every check
/// walks them.
pub const FLOW_NEEDS: usize = 20_000;
/// Parameters of one file: more than a person can give by hand.
pub const FLOW_PARAMS: usize = 100;
/// Steps that one matrix makes.
pub const FLOW_MATRIX: usize = 256;
/// Files inside files. Deeper ones are a circle.
pub const FLOW_DEPTH: usize = 8;
/// Files that one workflow includes, each counted as often as it is included: each is read and
/// checked anew.
pub const FLOW_INCLUDES: usize = 256;
/// Entries of one list: the inputs of a step, the routes of a gate, the values of a parameter.
pub const FLOW_ITEMS: usize = 500;
/// A text after its parameters are filled in, in bytes. A matrix makes it many times, and it
/// becomes a part of a task's body.
pub const FLOW_TEXT_BYTES: usize = 64 * 1024;
/// The id of a step or gate with all that was added to it, in bytes: file names and keys are made
/// from it.
pub const FLOW_ID_BYTES: usize = KEY_BYTES;
/// A path, in bytes.
pub const FLOW_PATH_BYTES: usize = 1_000;
/// Problems of one file that are reported. A fault in a matrix is a fault of every step of it.
pub const FLOW_PROBLEMS: usize = 100;
/// A prompt, in bytes: some agents take it as one argument, of which Linux allows 128 KiB, and the
/// schema of the answer may follow.
pub const PROMPT_BYTES: usize = 96 * 1024;
/// A template of a prompt, in bytes.
pub const TEMPLATE_BYTES: usize = 32 * 1024;
/// Files of a project's folder of templates that are looked at. There are a dozen templates.
pub const TEMPLATE_FILES: usize = 1_000;
/// Problems of one template that are reported.
pub const TEMPLATE_PROBLEMS: usize = 100;
/// Reviewers that sit on every panel, and those of one gate.
pub const REVIEWERS: usize = 8;
/// Specialists of one registry. Nobody whose domain a task is in is left out, so this bounds the
/// seats of a panel.
pub const SPECIALISTS: usize = 16;
/// A registry of specialists, in bytes.
pub const REGISTRY_BYTES: usize = 64 * 1024;
/// Why a reviewer says what it says, in bytes: all of a panel go into one task's fields.
pub const OPINION_TEXT_BYTES: usize = 1_000;
/// Concerns or suggestions of one reviewer.
pub const OPINION_ITEMS: usize = 16;
/// One concern or suggestion, in bytes: what is wrong, where, and what would be right.
pub const OPINION_ITEM_BYTES: usize = 1_000;
/// Open concerns that a panel leaves with its task, each with how it was defended, in bytes.
pub const PANEL_CONCERNS_BYTES: usize = 12 * 1024;
/// Suggestions that a panel leaves with its task, in bytes.
pub const PANEL_SUGGESTIONS_BYTES: usize = 8 * 1024;
/// The words that a panel ends with, in bytes: a person reads them in a list or in a mail.
pub const PANEL_SUMMARY_BYTES: usize = 16 * 1024;
/// A daily note, in bytes: a person reads and writes it.
pub const DAILY_BYTES: usize = 1024 * 1024;
/// Open questions that a daily note shows; nobody answers more in a day.
pub const DAILY_ENTRIES: usize = 50;
/// Entries of each other list of a daily note.
pub const DAILY_LINES: usize = 50;
/// Subtasks of one plan: a person reads all of them before they approve it.
pub const PLAN_SUBTASKS: usize = 20;
/// Questions of one plan that are to be answered first.
pub const PLAN_SPIKES: usize = 8;
/// Edges of one plan.
pub const PLAN_EDGES: usize = 200;
/// Entries of one list of a plan: assumptions, risks, acceptance criteria, objections.
pub const PLAN_ITEMS: usize = 16;
/// The title of a subtask or the question of a spike, in bytes: it becomes the title of a task.
pub const PLAN_TITLE_BYTES: usize = 300;
/// A short text of a plan, in bytes.
pub const PLAN_TEXT_BYTES: usize = 200;
/// What a subtask is about, in bytes.
pub const PLAN_DESCRIPTION_BYTES: usize = 2_000;
/// A whole plan as JSON, in bytes: it is a field of its task.
pub const PLAN_BYTES: usize = 64 * 1024;
/// One objection to a plan, in bytes.
pub const PLAN_OBJECTION_BYTES: usize = 300;
/// Iterations that a task remembers in its fields; the history has all of them.
pub const PLAN_ITERATIONS: usize = 12;
/// A policy's file.
pub const POLICY_BYTES: usize = 256 * 1024;
/// Rules of one file: each is compared with every call of a tool.
pub const POLICY_RULES: usize = 500;
/// A rule's pattern, in bytes.
pub const POLICY_PATTERN_BYTES: usize = 300;

const _: () = assert!(PLAN_TITLE_BYTES < TITLE_BYTES, "the title of a part has room for more");
const _: () = assert!(
    PLAN_BYTES + PLAN_ITERATIONS * PLAN_ITEMS * PLAN_OBJECTION_BYTES < FIELDS_BYTES / 2,
    "a plan and what became of the ones before leave room for the task's own fields"
);
const _: () = assert!(
    // Each reviewer leaves its reason and why it gave a concern up.
    PANEL_CONCERNS_BYTES
        + PANEL_SUGGESTIONS_BYTES
        + PANEL_SUMMARY_BYTES
        + (REVIEWERS + SPECIALISTS) * 2 * OPINION_TEXT_BYTES
        < FIELDS_BYTES / 2,
    "what a panel leaves has room beside a plan"
);
const _: () = assert!(
    PLAN_BYTES < ANSWER_BYTES && ANSWER_BYTES <= FIELDS_BYTES / 2,
    "an answer becomes a field, and a plan that is too large is told so by itself"
);
const _: () =
    assert!(TEMPLATE_BYTES < PROMPT_BYTES / 2, "a template leaves room for what it is about");
const _: () = assert!(REPORTS_KEPT_FREE < REPORTS, "some progress must be possible");
const _: () =
    assert!(FLOW_TEXT_BYTES < BODY_BYTES, "a prompt fits into a task's body, and more with it");
const _: () = assert!(FLOW_MATRIX <= FLOW_STEPS, "a whole matrix fits into a workflow");
const _: () = assert!(NAME_BYTES <= FLOW_ID_BYTES, "an id has room for more than its own name");
const _: () = assert!(LIFECYCLE_STATES < u16::MAX as usize, "a StateId is a u16");
