//! Every statement of the store, once, for both engines. A test prepares all of them on each.
//!
//! `$1` to `$n` are the parameters. Where the engines must differ there are two texts of the same
//! shape, chosen by [`Pair::pick`].

use super::conn::{Conn, Dialect};

/// One statement that the two engines spell differently.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) sqlite: &'static str,
    pub(super) postgres: &'static str,
}

impl Pair {
    pub(super) fn pick(self, conn: &dyn Conn) -> &'static str {
        match conn.dialect() {
            Dialect::Sqlite => self.sqlite,
            Dialect::Postgres => self.postgres,
        }
    }
}

/// Declares statements and lists them by name for the test.
macro_rules! statements {
    ($list:ident: $kind:ty; $($(#[$doc:meta])* $name:ident = $text:expr;)*) => {
        $($(#[$doc])* pub(super) const $name: $kind = $text;)*

        #[cfg(test)]
        pub(super) const $list: &[(&str, $kind)] = &[$((stringify!($name), $name)),*];
    };
}

/// The columns of a task, in the order in which `row::task` reads them.
macro_rules! task_columns {
    () => {
        "t.id, t.project, t.batch, t.lifecycle, t.title, t.tags, t.priority, t.parent, t.state, t.prior, t.version, t.entered, \
         t.fields, t.counters, t.open_needs, t.not_before, t.epoch, t.lease_worker, t.lease_expires_at, \
         t.spent_runs, t.spent_tokens, t.spent_cost_micros, t.created_at, t.updated_at, t.entered_at, t.progress_at, \
         t.head, t.queue_rank, t.kind, t.state_group"
    };
}

macro_rules! select_task {
    ($rest:literal) => {
        concat!("SELECT ", task_columns!(), " FROM tasks t ", $rest)
    };
}

macro_rules! locking {
    ($rest:literal, $lock:literal) => {
        Pair { sqlite: select_task!($rest), postgres: concat!(select_task!($rest), $lock) }
    };
}

statements! {
    PAIRS: Pair;

    TASK_FOR_UPDATE = locking!("WHERE t.id = $1", " FOR UPDATE");
    QUEUE_HEAD = locking!("WHERE t.queue_rank IS NOT NULL AND (t.queue_rank, t.id) > ($2, $3) ORDER BY t.queue_rank, t.id LIMIT $1", " FOR UPDATE SKIP LOCKED");
    NEXT_TASK_ID = Pair {
    sqlite: "SELECT coalesce(max(id), 0) + 1 FROM tasks",
    postgres: "SELECT nextval(pg_get_serial_sequence('tasks', 'id'))",
};
    /// A task that others are about to wait for is held still, so that it cannot end unseen in between.
    NEEDED_TASK = Pair {
    sqlite: "SELECT kind FROM tasks WHERE id = $1",
    postgres: "SELECT kind FROM tasks WHERE id = $1 FOR SHARE",
};
}

statements! {
    STATEMENTS: &str;

    TASK = select_task!("WHERE t.id = $1");
    TASKS_FROM = select_task!("WHERE t.id > $1 ORDER BY t.id LIMIT $2");
    TASKS_BEFORE = select_task!("WHERE t.id < $1 ORDER BY t.id DESC LIMIT $2");
    TASKS_BY_STATE = select_task!(
    "WHERE t.id < $1 AND (t.state = $3 OR t.state_group = $3 OR t.kind = $3) ORDER BY t.id DESC LIMIT $2"
);
    TASKS_OF_PROJECT = select_task!("WHERE t.id < $1 AND t.project = $3 ORDER BY t.id DESC LIMIT $2");
    TASKS_OF_BATCH = select_task!("WHERE t.id < $1 AND t.batch = $3 ORDER BY t.id DESC LIMIT $2");
    INSERT_TASK = "INSERT INTO tasks (id, project, batch, lifecycle, title, tags, priority, parent, \
     state, kind, state_group, prior, version, entered, fields, counters, open_needs, not_before, queue_rank, epoch, \
     lease_worker, lease_expires_at, spent_runs, spent_tokens, spent_cost_micros, created_at, updated_at, entered_at, \
     progress_at, head) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, \
     $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30)";
    /// The only statement that changes a task's state. It names the version that the change was decided on.
    SAVE_TASK_IF_VERSION = "UPDATE tasks SET state = $1, kind = $2, state_group = $3, prior = $4, version = $5, \
     entered = $6, fields = $7, counters = $8, open_needs = $9, not_before = $10, queue_rank = $11, epoch = $12, \
     lease_worker = $13, lease_expires_at = $14, spent_runs = $15, spent_tokens = $16, spent_cost_micros = $17, \
     updated_at = $18, entered_at = $19, progress_at = $20, head = $21 WHERE id = $22 AND version = $23";
    INSERT_BODY = "INSERT INTO bodies (task, body) VALUES ($1, $2)";
    BODY = "SELECT body FROM bodies WHERE task = $1";
    INSERT_AUDIT = "INSERT INTO audit (task, seq, ts, from_state, to_state, trigger_name, actor, \
     idempotency_key, fields, prev, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    HISTORY = "SELECT seq, ts, from_state, to_state, trigger_name, actor, idempotency_key, fields, \
     prev, hash FROM audit WHERE task = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4";
    DELETE_TIMERS = "DELETE FROM timers WHERE task = $1";
    INSERT_TIMER = "INSERT INTO timers (task, kind, number, entered, due_at) VALUES ($1, $2, $3, $4, $5)";
    DUE_TIMERS = "SELECT task, kind, number, entered FROM timers WHERE due_at <= $1 ORDER BY due_at, kind DESC LIMIT $2";
    NEXT_TIMER = "SELECT min(due_at) FROM timers";
    TIMERS_OF = "SELECT kind, number, entered, due_at FROM timers WHERE task = $1 ORDER BY due_at, kind, number";
    TIMER_LATER = "UPDATE timers SET due_at = $4 WHERE task = $1 AND kind = $2 AND number = $3";
    TIMER = "SELECT due_at FROM timers WHERE task = $1 AND kind = $2 AND number = $3 AND entered = $4";
    DELETE_TIMER = "DELETE FROM timers WHERE task = $1 AND kind = $2 AND number = $3 AND entered = $4";
    INSERT_EFFECT = "INSERT INTO outbox (task, seq, number, effect, due_at) VALUES ($1, $2, $3, $4, $5)";
    NEXT_EFFECT_NUMBER = "SELECT coalesce(max(number), -1) + 1 FROM outbox WHERE task = $1 AND seq = $2";
    PENDING_EFFECTS = "SELECT task, seq, number, effect, attempts FROM outbox \
     WHERE state = 'pending' AND due_at <= $1 ORDER BY due_at, task, seq, number LIMIT $2";
    EFFECT_DONE = "UPDATE outbox SET state = 'done', error = NULL WHERE task = $1 AND seq = $2 AND number = $3 AND state = 'pending'";
    EFFECT_FAILED = "UPDATE outbox SET attempts = attempts + 1, due_at = $4, error = $5, state = $6 \
     WHERE task = $1 AND seq = $2 AND number = $3 AND state = 'pending'";
    COUNT_PENDING_EFFECTS = "SELECT count(*) FROM outbox WHERE state = 'pending'";
    COUNT_DEAD_EFFECTS = "SELECT count(*) FROM outbox WHERE state = 'dead'";
    INSERT_RUN = "INSERT INTO runs (task, epoch, worker, activity, started_at) VALUES ($1, $2, $3, $4, $5)";
    END_RUN = "UPDATE runs SET ended_at = $3, outcome = $4 WHERE task = $1 AND epoch = $2 AND ended_at IS NULL";
    RUNS_OF = "SELECT epoch, worker, activity, started_at, ended_at, outcome FROM runs \
     WHERE task = $1 ORDER BY epoch DESC LIMIT $2";
    INSERT_DECISION = "INSERT INTO decisions (task, seq, asks, offers, opened_at, deadline) VALUES ($1, $2, $3, $4, $5, $6)";
    SETTLE_DECISION = "UPDATE decisions SET settled_at = $2, settled_by = $3, settled_seq = $4 \
     WHERE task = $1 AND settled_at IS NULL";
    OPEN_DECISIONS = "SELECT d.id, d.task, d.seq, d.asks, d.offers, d.opened_at, d.deadline, t.title \
     FROM decisions d JOIN tasks t ON t.id = d.task WHERE d.settled_at IS NULL AND d.id > $1 ORDER BY d.id LIMIT $2";
    OPEN_DECISION_OF = "SELECT d.id, d.task, d.seq, d.asks, d.offers, d.opened_at, d.deadline, t.title \
     FROM decisions d JOIN tasks t ON t.id = d.task WHERE d.settled_at IS NULL AND d.task = $1";
    INSERT_ARTIFACT = "INSERT INTO artifacts (task, seq, name, hash, value) VALUES ($1, $2, $3, $4, $5)";
    ARTIFACTS_OF = "SELECT seq, name, hash, value FROM artifacts WHERE task = $1 ORDER BY seq, name LIMIT $2";
    KEY = "SELECT request, task, seq FROM keys WHERE key = $1";
    INSERT_KEY = "INSERT INTO keys (key, request, task, seq, used_at) VALUES ($1, $2, $3, $4, $5)";
    INSERT_EDGE = "INSERT INTO edges (task, needs, kind) VALUES ($1, $2, $3)";
    BODIES_BETWEEN = "SELECT task, body FROM bodies WHERE task BETWEEN $1 AND $2";
    NEEDS_BETWEEN = "SELECT e.needs, e.kind, t.kind, t.title, t.state, e.task FROM edges e JOIN tasks t ON t.id = e.needs \
         WHERE e.task BETWEEN $1 AND $2 ORDER BY e.kind, e.needs";
    NEEDS_OF = "SELECT e.needs, e.kind, t.kind, t.title, t.state FROM edges e JOIN tasks t ON t.id = e.needs \
     WHERE e.task = $1 ORDER BY e.kind, e.needs";
    WAITING_FOR = "SELECT task FROM edges WHERE needs = $1 AND kind = 'blocks' ORDER BY task";
    LIFECYCLE = "SELECT source, overrides FROM lifecycles WHERE version = $1";
    INSERT_LIFECYCLE = "INSERT INTO lifecycles (version, id, source, overrides, added_at) \
     VALUES ($1, $2, $3, $4, $5) ON CONFLICT (version) DO NOTHING";
    PROJECT = "SELECT path FROM projects WHERE name = $1";
    PROJECTS = "SELECT name, path FROM projects ORDER BY name LIMIT $1";
    INSERT_PROJECT_IF_NEW = "INSERT INTO projects (name, path, created_at) VALUES ($1, $2, $3) \
     ON CONFLICT (name) DO NOTHING";
    INSERT_BATCH = "INSERT INTO batches (name, concurrency, created_at) VALUES ($1, $2, $3) \
     ON CONFLICT (name) DO NOTHING";
    BATCHES = "SELECT b.name, b.concurrency, b.paused, count(t.id) FROM batches b \
     LEFT JOIN tasks t ON t.batch = b.name GROUP BY b.name, b.concurrency, b.paused ORDER BY b.name LIMIT $1";
    STRAY_RECORDS = "SELECT DISTINCT a.task FROM audit a LEFT JOIN tasks t ON t.id = a.task WHERE t.id IS NULL ORDER BY a.task LIMIT $1";
    COUNT_BY_STATE = "SELECT state, kind, count(*) FROM tasks GROUP BY state, kind ORDER BY state, kind";
    COUNT_QUEUE = "SELECT count(*) FROM tasks WHERE queue_rank IS NOT NULL";
    COUNT_AHEAD = "SELECT count(*) FROM tasks WHERE queue_rank IS NOT NULL AND queue_rank < $1";
    COUNT_OPEN_DECISIONS = "SELECT count(*) FROM decisions WHERE settled_at IS NULL";
    COUNT_OPEN_NEEDS = "SELECT count(*) FROM edges e JOIN tasks t ON t.id = e.needs \
     WHERE e.task = $1 AND e.kind = 'blocks' AND t.kind <> 'done'";
}
