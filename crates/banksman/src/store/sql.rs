//! Every statement of the store, once, for both engines. A test prepares all of them on each.
//!
//! `$1` to `$n` are the parameters. Where the engines must differ there are two texts of the same
//! shape, chosen by [`Pair::pick`].

use super::conn::{Conn, Dialect};

/// A statement that the two engines spell differently.
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

impl From<&'static str> for Pair {
    fn from(both: &'static str) -> Self {
        Self { sqlite: both, postgres: both }
    }
}

/// A query that locks its rows on PostgreSQL. SQLite has one writer.
macro_rules! locking {
    ($query:expr, $lock:literal) => {
        Pair { sqlite: $query, postgres: concat!($query, $lock) }
    };
}

/// A statement that SQLite has no need for.
macro_rules! only_postgres {
    ($text:literal) => {
        Pair { sqlite: "SELECT NULL WHERE 1 = 0", postgres: $text }
    };
}

/// The batches that may start another run now.
macro_rules! open_batches {
    () => {
        "SELECT b.name FROM batches b \
         LEFT JOIN (SELECT l.batch AS batch, count(*) AS running FROM tasks l \
         WHERE l.lease_expires_at > 0 AND l.batch IS NOT NULL GROUP BY l.batch) r ON r.batch = b.name \
         LEFT JOIN spent s ON s.scope = 'batch:' || b.name \
         WHERE b.paused = 0 AND coalesce(r.running, 0) < b.concurrency \
         AND (b.budget_runs IS NULL OR coalesce(s.runs, 0) + coalesce(r.running, 0) < b.budget_runs) \
         AND (b.budget_tokens IS NULL OR coalesce(s.tokens, 0) < b.budget_tokens) \
         AND (b.budget_cost_micros IS NULL OR coalesce(s.cost_micros, 0) < b.budget_cost_micros) \
         AND (b.budget_millis IS NULL OR coalesce(s.millis, 0) < b.budget_millis)"
    };
}

/// The first of one batch's queue after a place. Each batch has its part of an index, and so have
/// the tasks without a batch; in the index of the whole queue an engine could walk past any number
/// of other tasks.
macro_rules! head_of_batch {
    ($columns:literal, $batch:literal, $limit:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM tasks q WHERE q.batch ",
            $batch,
            " AND q.queue_rank IS NOT NULL AND (q.queue_rank, q.id) > ($2, $3) ORDER BY q.queue_rank, q.id LIMIT ",
            $limit
        )
    };
}

/// Adds one run to a scope of `spent`, in the transaction that ends the run.
macro_rules! spend {
    ($scope:literal, $also:literal) => {
        concat!(
            "INSERT INTO spent (scope, runs, tokens, cost_micros, millis) SELECT ",
            $scope,
            ", 1, CAST($3 AS BIGINT), CAST($4 AS BIGINT), CASE WHEN $5 > r.started_at THEN $5 - r.started_at ELSE 0 END \
             FROM runs r WHERE r.task = $1 AND r.epoch = $2 ",
            $also,
            " ON CONFLICT (scope) DO UPDATE SET runs = spent.runs + excluded.runs, tokens = spent.tokens + excluded.tokens, \
             cost_micros = spent.cost_micros + excluded.cost_micros, millis = spent.millis + excluded.millis"
        )
    };
}

/// Open runs with their leases.
macro_rules! open_runs {
    ($rest:literal) => {
        concat!(
            "SELECT r.task, r.epoch, r.worker, r.node, r.account, t.lease_expires_at, r.started_at \
             FROM runs r JOIN tasks t ON t.id = r.task AND t.epoch = r.epoch \
             WHERE r.ended_at IS NULL AND t.lease_expires_at IS NOT NULL ",
            $rest
        )
    };
}

/// The limits of a batch, what it has used, and more columns.
macro_rules! batch_loads {
    ($more:expr, $rest:literal) => {
        concat!(
            "SELECT b.name, b.concurrency, b.paused, b.budget_runs, b.budget_tokens, b.budget_cost_micros, b.budget_millis, \
             s.runs, s.tokens, s.cost_micros, s.millis",
            $more,
            " FROM batches b LEFT JOIN spent s ON s.scope = 'batch:' || b.name ",
            $rest
        )
    };
}

/// The progress of a batch's tasks, as columns.
macro_rules! batch_progress {
    () => {
        ", count(t.id), count(t.lease_worker), count(CASE WHEN t.kind = 'done' THEN 1 END), \
         count(CASE WHEN t.kind IN ('failed', 'cancelled') THEN 1 END)"
    };
}

/// Decisions with the titles of their tasks, in the order in which `query::decision` reads them.
macro_rules! select_decision {
    ($rest:literal) => {
        concat!(
            "SELECT d.id, d.task, d.seq, d.asks, d.offers, d.opened_at, d.deadline, t.title, d.snoozed_until, \
             d.settled_at, d.settled_by, d.settled_seq, d.question, d.answer, d.answer_due FROM decisions d JOIN tasks t ON t.id = d.task ",
            $rest
        )
    };
}

/// PostgreSQL: below this number no transaction is open any more.
macro_rules! settled_below {
    () => {
        "CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT)"
    };
}

/// PostgreSQL: the key of a change by which the feed is ordered. It is the number of its
/// transaction, or that of the last one before it that changed the task: a transaction that has
/// waited for the task's lock may have the lower number.
macro_rules! feed_key {
    ($known:literal) => {
        concat!("greatest(CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT), ", $known, ")")
    };
}

/// Adds a change under a key.
macro_rules! insert_change {
    ($key:expr, $about:literal) => {
        concat!(
            "INSERT INTO changes (xid, at, kind, task, number) SELECT ",
            $key,
            ", CAST($1 AS BIGINT), CAST($2 AS TEXT), ",
            $about
        )
    };
}

/// Adds changes with a key of [`feed_key`]; SQLite orders them by their numbers alone.
macro_rules! append {
    ($about:literal) => {
        Pair {
            sqlite: insert_change!("0", $about),
            postgres: insert_change!(
                feed_key!("(SELECT t.fed FROM tasks t WHERE t.id = $3)"),
                $about
            ),
        }
    };
}

/// An update of a task that remembers its key of [`feed_key`].
macro_rules! feeding {
    ($update:literal, $rest:literal) => {
        Pair {
            sqlite: concat!($update, $rest),
            postgres: concat!($update, ", fed = ", feed_key!("fed"), $rest),
        }
    };
}

/// The columns by which a change is recognised, as `feed::cursor` reads them.
macro_rules! select_change {
    ($rest:expr) => {
        concat!("SELECT c.xid, c.seq, c.at, c.kind, c.task, c.number FROM changes c ", $rest)
    };
}

/// A page of changes with what they are about. The number of rows is written out, because an
/// engine that does not know it may read all of a history instead of a few of its records.
macro_rules! changes {
    ($page:expr, $order:literal) => {
        concat!(
            "SELECT c.xid, c.seq, c.at, c.kind, c.task, c.number, a.from_state, a.to_state, a.trigger_name, a.actor, \
             r.worker, r.outcome, coalesce(d.question, d.asks), d.settled_by, n.id, n.kind, n.task, n.decision, n.urgent, n.text FROM (",
            select_change!($page),
            " LIMIT 1000) c LEFT JOIN audit a ON c.kind IN ('created', 'moved', 'noted') AND a.task = c.task AND a.seq = c.number \
             LEFT JOIN runs r ON c.kind IN ('run_started', 'run_ended', 'run_reported') AND r.task = c.task AND r.epoch = c.number \
             LEFT JOIN decisions d ON c.kind IN ('decision_opened', 'decision_answered', 'decision_lapsed') AND d.id = c.number \
             LEFT JOIN notices n ON c.kind = 'notice' AND n.id = c.number ORDER BY ",
            $order,
            " LIMIT $3"
        )
    };
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
         t.head, t.queue_rank, t.kind, t.state_group, t.uncounted_ms"
    };
}

macro_rules! select_task {
    ($rest:literal) => {
        concat!("SELECT ", task_columns!(), " FROM tasks t ", $rest)
    };
}

statements! {
    PAIRS: Pair;

    TASK_FOR_UPDATE = locking!(select_task!("WHERE t.id = $1"), " FOR UPDATE");
    /// The first queued task, eligible or not, with two more columns: whether everything is paused,
    /// and whether its batch may not start another run.
    QUEUE_HEAD = locking!(
    concat!(
        "SELECT ",
        task_columns!(),
        ", (SELECT w.value FROM switches w WHERE w.name = 'paused'), \
         CAST(CASE WHEN t.batch IS NULL OR t.batch IN (",
        open_batches!(),
        ") THEN 0 ELSE 1 END AS BIGINT) \
         FROM tasks t WHERE t.queue_rank IS NOT NULL ORDER BY t.queue_rank, t.id LIMIT 1"
    ),
    " FOR UPDATE OF t SKIP LOCKED"
);
    /// The queue after a place, without batches that may not start another run. Each batch is read
    /// by itself, so that the long queue of a full batch costs the others nothing.
    ///
    /// PostgreSQL reads a few more of each batch than are wanted, because other transactions may
    /// have locked some; and it sorts by what was found, or else it would walk the whole queue to
    /// have it in order.
    QUEUE_PAGE = Pair {
    sqlite: concat!(
        select_task!("WHERE t.queue_rank IS NOT NULL AND t.id IN (SELECT id FROM ("),
        head_of_batch!("q.id", "IS NULL", "$1"),
        ") UNION ALL SELECT h.id FROM (",
        open_batches!(),
        ") o JOIN tasks h ON h.id IN (",
        head_of_batch!("q.id", "= o.name", "$1"),
        ")) ORDER BY t.queue_rank, t.id LIMIT $1"
    ),
    postgres: concat!(
        select_task!("JOIN (("),
        head_of_batch!("q.id, q.queue_rank", "IS NULL", "$1 + 32"),
        ") UNION ALL SELECT h.id, h.queue_rank FROM (",
        open_batches!(),
        ") o CROSS JOIN LATERAL (",
        head_of_batch!("q.id, q.queue_rank", "= o.name", "$1 + 32"),
        ") h) found ON found.id = t.id WHERE t.queue_rank IS NOT NULL \
         ORDER BY found.queue_rank, found.id LIMIT $1 FOR UPDATE OF t SKIP LOCKED"
    ),
};
    /// The switch that pauses everything. A transaction that decides on what is running locks its
    /// row, so that on PostgreSQL such decisions happen one after the other, as they do in SQLite
    /// anyway.
    TURN = locking!("SELECT value, name FROM switches WHERE name = 'paused'", " FOR UPDATE");
    /// Effects that are due on a node; those that another transaction has locked are skipped.
    DUE_EFFECTS = locking!("SELECT task, seq, number, effect, attempts FROM outbox WHERE state = 'pending' AND due_at <= $1 \
     AND (node IS NULL OR node = $2) ORDER BY due_at, task, seq, number LIMIT $3", " FOR UPDATE SKIP LOCKED");
    /// The database's clock in milliseconds. SQLite has none: its callers are on one machine.
    CLOCK = Pair {
    sqlite: "SELECT NULL",
    postgres: "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)",
};
    NODE = locking!("SELECT name, seen_at, capacity, workers, boot, awake_ms FROM nodes WHERE name = $1", " FOR UPDATE");
    NEXT_TASK_ID = Pair {
    sqlite: "SELECT coalesce(max(id), 0) + 1 FROM tasks",
    postgres: "SELECT nextval(pg_get_serial_sequence('tasks', 'id'))",
};
    /// Locks a task that others are about to wait for, so that it cannot end unnoticed.
    NEEDED_TASK = locking!("SELECT kind FROM tasks WHERE id = $1", " FOR SHARE");
    /// The only statement that changes a task's state. It names the version that the change was
    /// decided on.
    SAVE_TASK_IF_VERSION = feeding!("UPDATE tasks SET state = $1, kind = $2, state_group = $3, prior = $4, version = $5, \
     entered = $6, fields = $7, counters = $8, open_needs = $9, not_before = $10, queue_rank = $11, epoch = $12, \
     lease_worker = $13, lease_expires_at = $14, spent_runs = $15, spent_tokens = $16, spent_cost_micros = $17, \
     updated_at = $18, entered_at = $19, progress_at = $20, uncounted_ms = $21, head = $22", " WHERE id = $23 AND version = $24");
    INSERT_CHANGE = append!("CAST($3 AS BIGINT), CAST($4 AS BIGINT)");
    APPEND_OPENED_DECISION = append!("d.task, d.id FROM decisions d WHERE d.task = $3 AND d.seq = $4");
    APPEND_SETTLED_DECISION = append!("d.task, d.id FROM decisions d WHERE d.task = $3 AND d.settled_seq = $4");
    CHANGES = Pair {
    sqlite: changes!("WHERE c.xid >= $1 AND c.seq > $2 ORDER BY c.seq", "c.seq"),
    postgres: changes!(
        concat!("WHERE (c.xid, c.seq) > ($1, $2) AND c.xid < ", settled_below!(), " ORDER BY c.xid, c.seq"),
        "c.xid, c.seq"
    ),
};
    FEED_START = Pair {
    sqlite: select_change!("ORDER BY c.seq LIMIT 1"),
    postgres: select_change!("ORDER BY c.xid, c.seq LIMIT 1"),
};
    FEED_END = Pair {
    sqlite: select_change!("ORDER BY c.seq DESC LIMIT 1"),
    postgres: select_change!(concat!("WHERE c.xid < ", settled_below!(), " ORDER BY c.xid DESC, c.seq DESC LIMIT 1")),
};
    /// Changes of transactions that this server has not had: they come from another one. No
    /// transaction has the number `xmax` or a higher one yet.
    RESTORED = only_postgres!("SELECT seq FROM changes \
     WHERE xid >= CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT) LIMIT 1");
    ADOPT_RESTORED = only_postgres!("UPDATE changes SET xid = 0 WHERE xid <> 0");
    ADOPT_RESTORED_TASKS = only_postgres!("UPDATE tasks SET fed = 0 WHERE fed <> 0");
    /// Looks at the oldest page only, and keeps the last change before the time.
    PRUNE_CHANGES = Pair {
    sqlite: "DELETE FROM changes WHERE seq < (SELECT max(p.seq) FROM (SELECT seq, at FROM changes ORDER BY seq LIMIT $2) p \
         WHERE p.at < $1) RETURNING seq",
    postgres: "DELETE FROM changes WHERE (xid, seq) < (SELECT p.xid, p.seq FROM (SELECT xid, seq, at FROM changes \
         ORDER BY xid, seq LIMIT $2) p WHERE p.at < $1 ORDER BY p.xid DESC, p.seq DESC LIMIT 1) RETURNING seq",
};
    /// Notices that a channel has to deliver, as `Notice::read` reads them.
    /// Whether the cause of each is over, too: its question is settled, the task that waited for a
    /// person has moved on, or its account is no longer paused.
    DUE_NOTICES = locking!("SELECT n.id, n.kind, n.task, n.decision, n.urgent, n.text, d.attempts, \
     CAST(CASE WHEN n.kind IN ('decision', 'reminder', 'needs_person') \
     AND (EXISTS (SELECT 1 FROM decisions q WHERE q.id = n.decision AND q.settled_at IS NOT NULL) \
     OR EXISTS (SELECT 1 FROM tasks t WHERE t.id = n.task AND t.entered_at > n.at)) THEN 1 \
     WHEN n.kind = 'account_paused' AND NOT EXISTS (SELECT 1 FROM accounts a WHERE a.paused_until > $2 \
     AND substr(n.text, 1, length('account ' || a.name || ' is')) = 'account ' || a.name || ' is') THEN 1 \
     ELSE 0 END AS BIGINT) \
     FROM notice_deliveries d JOIN notices n ON n.id = d.notice \
     WHERE d.state = 'pending' AND d.channel = $1 AND d.at <= $2 ORDER BY n.id LIMIT $3", " FOR UPDATE OF d SKIP LOCKED");
}

statements! {
    STATEMENTS: &str;

    TASK = select_task!("WHERE t.id = $1");
    /// The queue before a place, from its head.
    QUEUE_AHEAD = select_task!("WHERE t.queue_rank < $1 OR (t.queue_rank = $1 AND t.id < $2) ORDER BY t.queue_rank, t.id LIMIT $3");
    TASKS_FROM = select_task!("WHERE t.id > $1 ORDER BY t.id LIMIT $2");
    TASKS_BEFORE = select_task!("WHERE t.id < $1 ORDER BY t.id DESC LIMIT $2");
    TASKS_BY_STATE = select_task!("WHERE t.id < $1 \
     AND (t.state = $3 OR t.state_group = $3 OR t.kind = $3) ORDER BY t.id DESC LIMIT $2");
    TASKS_OF_PROJECT = select_task!("WHERE t.id < $1 AND t.project = $3 ORDER BY t.id DESC LIMIT $2");
    TASKS_OF_BATCH = select_task!("WHERE t.id < $1 AND t.batch = $3 ORDER BY t.id DESC LIMIT $2");
    ENDED_BETWEEN = select_task!("WHERE t.kind = $1 AND t.entered_at >= $2 AND t.entered_at < $3 \
     AND t.id > (SELECT coalesce(max(n.id), 0) - $4 FROM tasks n) ORDER BY t.entered_at DESC, t.id DESC LIMIT $5");
    SILENT_SINCE = select_task!("WHERE t.kind IN ('working', 'reviewing', 'blocked') AND t.progress_at < $1 AND t.entered_at < $1 \
     AND t.id > (SELECT coalesce(max(n.id), 0) - $2 FROM tasks n) ORDER BY t.progress_at, t.id LIMIT $3");
    INSERT_TASK = "INSERT INTO tasks (id, project, batch, lifecycle, title, tags, priority, parent, created_at, \
     state, kind, state_group, prior, version, entered, fields, counters, open_needs, not_before, queue_rank, epoch, \
     lease_worker, lease_expires_at, spent_runs, spent_tokens, spent_cost_micros, updated_at, entered_at, \
     progress_at, uncounted_ms, head) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, \
     $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31)";
    SAVE_BODY = "INSERT INTO bodies (task, body) VALUES ($1, $2) ON CONFLICT (task) DO UPDATE SET body = excluded.body";
    BODY = "SELECT body, task FROM bodies WHERE task = $1";
    INSERT_AUDIT = "INSERT INTO audit (task, seq, ts, from_state, to_state, trigger_name, actor, \
     idempotency_key, fields, prev, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    CHANGE_AT = select_change!("WHERE c.xid = $1 AND c.seq = $2");
    INSERT_NOTICE = "INSERT INTO notices (at, kind, task, decision, urgent, text, key) VALUES ($1, $2, $3, \
     (SELECT max(d.id) FROM decisions d WHERE d.task = $3 AND d.settled_at IS NULL), $4, $5, $6) \
     ON CONFLICT (key) DO NOTHING RETURNING id";
    /// Due at once, whatever the clock of the machine that writes it says.
    INSERT_DELIVERIES = "INSERT INTO notice_deliveries (notice, channel, at) SELECT CAST($1 AS BIGINT), c.name, 0 FROM channels c";
    HAS_NOTICES = "SELECT notice FROM notice_deliveries WHERE state = 'pending' AND channel = $1 AND at <= $2 LIMIT 1";
    NOTICE_TAKEN = "UPDATE notice_deliveries SET attempts = attempts + 1, at = $3 WHERE notice = $1 AND channel = $2";
    NOTICE_FAILED = "UPDATE notice_deliveries SET state = 'failed', last_error = coalesce(last_error, $3) \
     WHERE notice = $1 AND channel = $2";
    NOTICE_SENT = "UPDATE notice_deliveries SET last_error = $3, \
     state = CASE WHEN CAST($3 AS TEXT) IS NULL THEN 'delivered' ELSE 'pending' END \
     WHERE notice = $1 AND channel = $2 AND state = 'pending'";
    /// Looks at the oldest page only. The newest notice stays, so that no id is given twice.
    PRUNE_NOTICES = "DELETE FROM notices WHERE id IN (SELECT p.id FROM (SELECT id, at FROM notices ORDER BY id LIMIT $2) p \
     WHERE p.at < $1) AND id < (SELECT max(n.id) FROM notices n) RETURNING id";
    HISTORY = "SELECT seq, ts, from_state, to_state, trigger_name, actor, idempotency_key, fields, \
     prev, hash, task FROM audit WHERE task = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4";
    DELETE_TIMERS = "DELETE FROM timers WHERE task = $1";
    INSERT_TIMER = "INSERT INTO timers (task, kind, number, entered, due_at) VALUES ($1, $2, $3, $4, $5)";
    DUE_TIMERS = "SELECT task, kind, number, entered, due_at FROM timers WHERE due_at <= $1 ORDER BY due_at, kind DESC LIMIT $2";
    /// Delayed tasks, the next first.
    DELAYED = "SELECT task, due_at FROM timers WHERE kind = 'ready' ORDER BY due_at, task LIMIT $1";
    TIMED_IN_BATCH = "SELECT DISTINCT timers.task FROM timers JOIN tasks ON tasks.id = timers.task \
     WHERE tasks.batch = $1 AND timers.kind = 'bound' ORDER BY timers.task";
    PAUSED_BATCH = "SELECT 1 FROM batches WHERE name = $1 AND paused <> 0";
    NEXT_TIMER = "SELECT min(due_at) FROM timers";
    /// The next time that concerns a node: timers, leases, its effects and pauses of accounts. The
    /// effects of other nodes do not count, however long they are due; nor does an expired lease
    /// that is still there after a turn, because its keeper was asked to end and will report.
    NEXT_WORK = "SELECT min(at) FROM (SELECT min(due_at) AS at FROM timers \
     UNION ALL SELECT min(lease_expires_at) FROM tasks WHERE lease_expires_at > $2 \
     UNION ALL SELECT min(due_at) FROM outbox WHERE state = 'pending' AND (node IS NULL OR node = $1) \
     UNION ALL SELECT min(answer_due) FROM decisions WHERE answer_due IS NOT NULL \
     UNION ALL SELECT min(paused_until) FROM accounts WHERE paused_until IS NOT NULL) AS times";
    LAST_WORD_OF_A_PERSON = "SELECT max(seq) FROM audit WHERE task = $1 AND (actor = 'human' OR actor LIKE 'human:%')";
    TIMERS_OF = "SELECT task, kind, number, entered, due_at FROM timers WHERE task = $1 ORDER BY due_at, kind, number";
    TIMER_LATER = "UPDATE timers SET due_at = $4 WHERE task = $1 AND kind = $2 AND number = $3";
    TIMER = "SELECT due_at FROM timers WHERE task = $1 AND kind = $2 AND number = $3 AND entered = $4";
    DELETE_TIMER = "DELETE FROM timers WHERE task = $1 AND kind = $2 AND number = $3 AND entered = $4";
    /// With the node of the run that the effect is about, if any.
    INSERT_EFFECT = "INSERT INTO outbox (task, seq, number, effect, due_at, node) VALUES ($1, $2, $3, $4, $5, \
     (SELECT r.node FROM runs r WHERE r.task = $1 AND r.epoch = $6))";
    NEXT_EFFECT_NUMBER = "SELECT coalesce(max(number), -1) + 1 FROM outbox WHERE task = $1 AND seq = $2";
    EFFECT_KEPT = "UPDATE outbox SET node = $4 WHERE task = $1 AND seq = $2 AND number = $3 AND state = 'pending' \
     AND (node IS NULL OR node = $4) RETURNING number";
    EFFECT_LATER = "UPDATE outbox SET due_at = $4 WHERE task = $1 AND seq = $2 AND number = $3 AND state = 'pending'";
    EFFECTS_OF_RECORD = "SELECT number, attempts FROM outbox WHERE task = $1 AND seq = $2 AND state = 'pending' AND node = $3";
    EFFECTS_OF_NOBODY = "UPDATE outbox SET node = NULL WHERE node = $1 AND state = 'pending'";
    EFFECT_DONE = "UPDATE outbox SET state = 'done', error = NULL WHERE task = $1 AND seq = $2 AND number = $3 AND state = 'pending'";
    EFFECT_FAILED = "UPDATE outbox SET attempts = attempts + 1, due_at = $4, error = $5, state = $6 \
     WHERE task = $1 AND seq = $2 AND number = $3 AND state = 'pending' RETURNING number";
    COUNT_PENDING_EFFECTS = "SELECT count(*) FROM outbox WHERE state = 'pending'";
    COUNT_DEAD_EFFECTS = "SELECT count(*) FROM outbox WHERE state = 'dead'";
    INSERT_RUN = "INSERT INTO runs (task, epoch, worker, activity, started_at) VALUES ($1, $2, $3, $4, $5)";
    END_RUN = "UPDATE runs SET ended_at = $3, outcome = $4, tokens = $5, cost_micros = $6 \
     WHERE task = $1 AND epoch = $2 AND ended_at IS NULL";
    RUN_PLACED = "UPDATE runs SET node = $3, account = $4, areas = $5, token_hash = $6 WHERE task = $1 AND epoch = $2";
    RUN_FACTS = "UPDATE runs SET class = $3, signature = $4, session = coalesce($5, session), agent = coalesce($6, agent), \
     head = $7, level = $8, detail = $9, input_tokens = $10, output_tokens = $11 WHERE task = $1 AND epoch = $2";
    RUN_HAS_TOKEN = "SELECT epoch FROM runs WHERE task = $1 AND epoch = $2 AND token_hash = $3";
    RUN_TOKEN = "UPDATE runs SET token_hash = $3 WHERE task = $1 AND epoch = $2 AND ended_at IS NULL RETURNING epoch";
    /// The cost of a run that lost its lease before it reported. It is added once.
    RUN_LATE_COST = "UPDATE runs SET tokens = $3, cost_micros = $4 WHERE task = $1 AND epoch = $2 \
     AND ended_at IS NOT NULL AND outcome = 'stopped' AND tokens = 0 AND cost_micros = 0 RETURNING account";
    RUN_OF_TOKEN = "SELECT r.task, r.epoch FROM runs r JOIN tasks t ON t.id = r.task AND t.epoch = r.epoch \
     WHERE r.token_hash = $1 AND r.ended_at IS NULL AND t.lease_expires_at IS NOT NULL";
    LEASE = "SELECT r.epoch FROM runs r JOIN tasks t ON t.id = r.task AND t.epoch = r.epoch \
     WHERE r.task = $1 AND r.epoch = $2 AND r.ended_at IS NULL AND t.lease_expires_at IS NOT NULL";
    OPEN_RUNS = open_runs!("ORDER BY r.task LIMIT $1");
    OPEN_RUNS_OF_NODE = open_runs!("AND r.node = $2 ORDER BY r.task LIMIT $1");
    EXPIRED_RUNS = open_runs!("AND t.lease_expires_at <= $2 ORDER BY t.lease_expires_at, t.id LIMIT $1");
    PAST_RUNS = "SELECT epoch, worker, node, agent, session, outcome, class, signature, detail, head, level, \
     tokens, cost_micros, started_at, ended_at, input_tokens, output_tokens, task FROM runs WHERE task = $1 ORDER BY epoch DESC LIMIT $2";
    /// The average use of the latest runs of one lifecycle, by the tags of their tasks. An average
    /// cannot overflow as a sum can.
    PAST_BY_TAGS = "SELECT p.tags, count(*), CAST(avg(p.millis) AS BIGINT), count(p.cost), CAST(avg(p.cost) AS BIGINT) \
     FROM (SELECT t.tags AS tags, CASE WHEN r.ended_at > r.started_at THEN r.ended_at - r.started_at ELSE 0 END AS millis, \
     nullif(r.cost_micros, 0) AS cost FROM runs r JOIN tasks t ON t.id = r.task JOIN lifecycles l ON l.version = t.lifecycle \
     WHERE l.purpose = $1 AND r.ended_at IS NOT NULL ORDER BY r.task DESC, r.epoch DESC LIMIT $2) p GROUP BY p.tags ORDER BY p.tags";
    RUNNING = "SELECT r.task, t.project, t.batch, r.worker, r.account, r.node, r.areas \
     FROM runs r JOIN tasks t ON t.id = r.task WHERE r.ended_at IS NULL ORDER BY r.task LIMIT $1";
    /// Runs of a project that were at work on a node within a period. It is unknown where a worker
    /// from outside works. The agent of a stopped run may continue until it notices, so its end
    /// counts from an earlier time on.
    RUNS_AT_WORK = "SELECT r.task, r.epoch FROM runs r JOIN tasks t ON t.id = r.task \
     WHERE t.project = $1 AND (r.node = $2 OR r.node IS NULL) AND r.started_at <= $4 \
     AND (r.ended_at IS NULL OR r.ended_at >= $3 OR (r.outcome = 'stopped' AND r.ended_at >= $5)) \
     ORDER BY r.task, r.epoch LIMIT $6";
    COUNT_OPEN_RUNS = "SELECT count(*) FROM runs WHERE ended_at IS NULL";
    TASK_TIME = "SELECT CAST(coalesce(sum(CASE WHEN ended_at > started_at THEN ended_at - started_at END), 0) AS BIGINT) \
     FROM runs WHERE task = $1";
    SPEND = spend!("CAST($6 AS TEXT)", "");
    SPEND_OF_ACCOUNT = spend!("'account:' || r.account", "AND r.account IS NOT NULL");
    SPENT = "SELECT runs, tokens, cost_micros, millis FROM spent WHERE scope = $1";
    SPEND_LATE = "INSERT INTO spent (scope, runs, tokens, cost_micros, millis) VALUES ($1, 0, $2, $3, 0) \
     ON CONFLICT (scope) DO UPDATE SET tokens = spent.tokens + excluded.tokens, \
     cost_micros = spent.cost_micros + excluded.cost_micros";
    /// Accounts whose sums differ from their runs.
    WRONG_ACCOUNTS = "SELECT s.scope FROM spent s LEFT JOIN (SELECT 'account:' || account AS scope, count(*) AS runs, \
     sum(tokens) AS tokens, sum(cost_micros) AS cost_micros, \
     sum(CASE WHEN ended_at > started_at THEN ended_at - started_at ELSE 0 END) AS millis \
     FROM runs WHERE account IS NOT NULL AND ended_at IS NOT NULL GROUP BY account) r ON r.scope = s.scope \
     WHERE s.scope LIKE 'account:%' AND (r.scope IS NULL OR s.runs <> r.runs OR s.tokens <> r.tokens \
     OR s.cost_micros <> r.cost_micros OR s.millis <> r.millis) ORDER BY s.scope LIMIT $1";
    /// Batches whose sums differ from their runs. Early releases stored no cost with a run, so
    /// costs may be higher.
    WRONG_BATCHES = "SELECT r.scope FROM (SELECT 'batch:' || t.batch AS scope, count(*) AS runs, \
     sum(r.tokens) AS tokens, sum(r.cost_micros) AS cost_micros FROM runs r JOIN tasks t ON t.id = r.task \
     WHERE t.batch IS NOT NULL AND r.ended_at IS NOT NULL GROUP BY t.batch) r LEFT JOIN spent s ON s.scope = r.scope \
     WHERE s.scope IS NULL OR s.runs <> r.runs OR s.tokens < r.tokens OR s.cost_micros < r.cost_micros \
     ORDER BY r.scope LIMIT $1";
    STRAY_DECISIONS = "SELECT 'd' || d.id FROM decisions d WHERE NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = d.task) \
     ORDER BY d.id LIMIT $1";
    WRONG_ACCOUNT_ROWS = "SELECT name FROM accounts WHERE hits < 0 OR probing NOT IN (0, 1) \
     OR (paused_until IS NOT NULL AND probing = 1) ORDER BY name LIMIT $1";
    NODES = "SELECT name, seen_at, capacity, workers, boot, awake_ms FROM nodes ORDER BY name LIMIT $1";
    LIVE_WORKERS = "SELECT workers, name FROM nodes WHERE seen_at >= $1 AND name <> $2 ORDER BY name LIMIT $3";
    PUT_NODE = "INSERT INTO nodes (name, seen_at, capacity, workers, boot, awake_ms) VALUES ($1, $2, $3, $4, $5, $6) \
     ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at, capacity = excluded.capacity, \
     workers = excluded.workers, boot = excluded.boot, awake_ms = excluded.awake_ms";
    /// Tasks at work on a node, and those whose reviews are.
    AT_WORK_ON_NODE = "SELECT w.task FROM (SELECT r.task AS task FROM runs r WHERE r.node = $1 AND r.ended_at IS NULL \
     UNION SELECT t.parent FROM tasks t JOIN runs r ON r.task = t.id \
     WHERE r.node = $1 AND r.ended_at IS NULL AND t.parent IS NOT NULL \
     UNION SELECT o.task FROM outbox o WHERE o.node = $1 AND o.state = 'pending') w ORDER BY w.task";
    DELETE_NODE = "DELETE FROM nodes WHERE name = $1 RETURNING name";
    ACCOUNTS = "SELECT name, paused_until, reason, hits, probing FROM accounts ORDER BY name LIMIT $1";
    /// A pause never ends earlier because another run was given a nearer time.
    PAUSE_ACCOUNT = "INSERT INTO accounts (name, paused_until, reason, hits, probing) VALUES ($1, $2, $3, $4, 0) \
     ON CONFLICT (name) DO UPDATE SET reason = excluded.reason, hits = excluded.hits, probing = 0, paused_until = \
     CASE WHEN accounts.paused_until > excluded.paused_until THEN accounts.paused_until ELSE excluded.paused_until END";
    /// A run that began before the pause must not end it.
    ACCOUNT_ANSWERED = "UPDATE accounts SET probing = 0, hits = 0, reason = '' WHERE paused_until IS NULL \
     AND name = (SELECT r.account FROM runs r WHERE r.task = $1 AND r.epoch = $2)";
    RESUME_ACCOUNT = "UPDATE accounts SET paused_until = NULL, probing = 0, hits = 0, reason = '' WHERE name = $1 RETURNING name";
    END_PAUSES = "UPDATE accounts SET paused_until = NULL, probing = 1 WHERE paused_until <= $1 RETURNING name";
    SET_PAUSED = "UPDATE switches SET value = $1, changed_by = $2, changed_at = $3 WHERE name = 'paused'";
    STORE_ID = "SELECT id, created_at FROM store";
    PAUSED = "SELECT value, name FROM switches WHERE name = 'paused'";
    OPEN_BATCH = concat!("SELECT o.name FROM (", open_batches!(), ") o WHERE o.name = $1");
    BATCH_LOAD = batch_loads!("", "WHERE b.name = $1");
    READY_BATCHES = batch_loads!("", "WHERE EXISTS (SELECT 1 FROM tasks t WHERE t.batch = b.name AND t.queue_rank IS NOT NULL) ORDER BY b.name LIMIT $1");
    BUDGETED_BATCHES = batch_loads!("", "WHERE b.paused = 0 AND (b.budget_runs IS NOT NULL OR b.budget_tokens IS NOT NULL \
     OR b.budget_cost_micros IS NOT NULL OR b.budget_millis IS NOT NULL) \
     AND EXISTS (SELECT 1 FROM tasks t WHERE t.batch = b.name AND t.queue_rank IS NOT NULL) ORDER BY b.name LIMIT $1");
    COUNT_RUNNING_OF_BATCH = "SELECT count(*) FROM tasks WHERE lease_expires_at > 0 AND batch = $1";
    COUNT_QUEUE_NOT_PAUSED = "SELECT count(*) FROM tasks t WHERE t.queue_rank IS NOT NULL \
     AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.name = t.batch AND b.paused <> 0)";
    COUNT_QUEUE_OF_BATCH = "SELECT count(*) FROM tasks WHERE queue_rank IS NOT NULL AND batch = $1";
    BUDGET_REQUEST = "SELECT number, task, granted, refused, applied FROM budget_requests WHERE scope = $1 \
     ORDER BY number DESC LIMIT 1";
    INSERT_BUDGET_REQUEST = "INSERT INTO budget_requests (scope, number, task, granted, refused) VALUES ($1, $2, $3, $4, $5)";
    APPLY_BUDGET_REQUEST = "UPDATE budget_requests SET applied = 1 WHERE task = $1 AND applied = 0 RETURNING number";
    INSERT_TASK_BUDGET_REQUEST = "INSERT INTO task_budget_requests (task, seq, runs, tokens, cost_micros, millis) \
     VALUES ($1, $2, $3, $4, $5, $6)";
    /// The newest first, each with the move that followed it.
    TASK_BUDGET_ANSWERS = "SELECT q.runs, q.tokens, q.cost_micros, q.millis, a.actor, a.to_state FROM task_budget_requests q \
     JOIN audit a ON a.task = q.task AND a.seq = (SELECT n.seq FROM audit n WHERE n.task = q.task AND n.seq > q.seq \
     AND n.from_state <> n.to_state ORDER BY n.seq LIMIT 1) WHERE q.task = $1 ORDER BY q.seq DESC LIMIT $2";
    /// By their decisions, because few are open however many requests there are.
    OPEN_BUDGET_REQUESTS = "SELECT q.scope FROM decisions d JOIN budget_requests q ON q.task = d.task \
     WHERE d.settled_at IS NULL ORDER BY d.task LIMIT $1";
    /// Returns the limits and locks the row.
    SET_BATCH = "UPDATE batches SET concurrency = coalesce($2, concurrency), paused = coalesce($3, paused) WHERE name = $1 \
     RETURNING budget_runs, budget_tokens, budget_cost_micros, budget_millis";
    /// Names the limits that the change was decided on.
    SET_BATCH_BUDGET = "UPDATE batches SET budget_runs = $2, budget_tokens = $3, budget_cost_micros = $4, budget_millis = $5 \
     WHERE name = $1 AND budget_runs IS NOT DISTINCT FROM $6 AND budget_tokens IS NOT DISTINCT FROM $7 \
     AND budget_cost_micros IS NOT DISTINCT FROM $8 AND budget_millis IS NOT DISTINCT FROM $9";
    QUEUED_WITHOUT_WORKER = "SELECT DISTINCT t.id FROM notices n JOIN tasks t ON t.id = n.task \
     WHERE n.kind = $1 AND t.queue_rank IS NOT NULL AND n.at >= t.entered_at ORDER BY t.id LIMIT $2";
    BLOCKED_STATES = "SELECT DISTINCT lifecycle, state FROM tasks WHERE kind = 'blocked' ORDER BY lifecycle, state LIMIT $1";
    BLOCKED_IN = "SELECT id FROM tasks WHERE kind = 'blocked' AND lifecycle = $1 AND state = $2 ORDER BY id LIMIT $3";
    INSERT_DECISION = "INSERT INTO decisions (task, seq, asks, offers, opened_at, deadline, question) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    SETTLE_DECISION = "UPDATE decisions SET settled_at = $2, settled_by = $3, settled_seq = $4 \
     WHERE task = $1 AND settled_at IS NULL";
    OPEN_DECISIONS = select_decision!("WHERE d.settled_at IS NULL AND d.id > $1 ORDER BY d.id LIMIT $2");
    OPEN_DECISION_OF = select_decision!("WHERE d.settled_at IS NULL AND d.task = $1");
    /// The earliest deadline first; decisions without one come last.
    INBOX = select_decision!("WHERE d.settled_at IS NULL \
     ORDER BY CASE WHEN d.deadline IS NULL THEN 1 ELSE 0 END, d.deadline, d.id LIMIT $1");
    DECISION = select_decision!("WHERE d.id = $1");
    DECISIONS_OF = select_decision!("WHERE d.task = $1 ORDER BY d.seq DESC LIMIT $2");
    LAST_ANSWER_BY = select_decision!("WHERE d.settled_by = $1 AND d.settled_at >= $2 ORDER BY d.settled_at DESC, d.id DESC LIMIT 1");
    GIVE_ANSWER = "UPDATE decisions SET answer = $2, answer_due = $3 WHERE id = $1 AND settled_at IS NULL \
     AND answer_due IS NULL RETURNING id";
    TAKE_ANSWER_BACK = "UPDATE decisions SET answer = NULL, answer_due = NULL WHERE id = $1 AND settled_at IS NULL \
     AND answer_due IS NOT NULL AND answer = $2 RETURNING id";
    ANSWER_IN_EFFECT = "UPDATE decisions SET answer_due = NULL WHERE id = $1";
    PUT_ANSWER_OFF = "UPDATE decisions SET answer_due = $2 WHERE id = $1 AND answer_due IS NOT NULL";
    DUE_ANSWERS = "SELECT id, task FROM decisions WHERE answer_due <= $1 ORDER BY answer_due, id LIMIT $2";
    PENDING_ANSWERS = select_decision!("WHERE d.answer_due <= $1 ORDER BY d.answer_due, d.id LIMIT $2");
    SNOOZE_DECISION = "UPDATE decisions SET snoozed_until = $2 WHERE id = $1 AND settled_at IS NULL RETURNING id";
    /// Of the reminders that fall into a snooze, only the last is kept ...
    DROP_SNOOZED_REMINDERS = "DELETE FROM timers WHERE task = $1 AND kind = 'remind' AND due_at < $2 AND number < \
     (SELECT max(r.number) FROM timers r WHERE r.task = $1 AND r.kind = 'remind' AND r.due_at < $2)";
    /// ... and it is due when the snooze ends.
    PUT_OFF_REMINDER = "UPDATE timers SET due_at = $2 WHERE task = $1 AND kind = 'remind' AND due_at < $2";
    INSERT_ARTIFACT = "INSERT INTO artifacts (task, seq, name, hash, value) VALUES ($1, $2, $3, $4, $5)";
    ARTIFACTS_OF = "SELECT seq, name, hash, value, task FROM artifacts WHERE task = $1 ORDER BY seq, name LIMIT $2";
    KEY = "SELECT request, task, seq FROM keys WHERE key = $1";
    FREE_KEY = "DELETE FROM keys WHERE key = $1 AND request = $2";
    INSERT_KEY = "INSERT INTO keys (key, request, task, seq, used_at) VALUES ($1, $2, $3, $4, $5)";
    INSERT_EDGE = "INSERT INTO edges (task, needs, kind) VALUES ($1, $2, $3)";
    BODIES_BETWEEN = "SELECT task, body FROM bodies WHERE task BETWEEN $1 AND $2";
    NEEDS_BETWEEN = "SELECT e.needs, e.kind, t.kind, t.title, t.state, e.task FROM edges e JOIN tasks t ON t.id = e.needs \
         WHERE e.task BETWEEN $1 AND $2 ORDER BY e.kind, e.needs";
    COUNT_CHILDREN = "SELECT count(*), count(CASE WHEN kind = 'done' THEN 1 END), \
     count(CASE WHEN kind IN ('failed', 'cancelled') THEN 1 END), CAST(coalesce(sum(spent_cost_micros), 0) + \
     (SELECT coalesce(sum(s.spent_cost_micros), 0) FROM tasks s JOIN tasks p ON s.parent = p.id WHERE p.parent = $1) AS BIGINT) \
     FROM tasks WHERE parent = $1";
    /// What the children of a task and their children have used.
    SPENT_BELOW = "SELECT CAST(coalesce(sum(b.spent_runs), 0) AS BIGINT), CAST(coalesce(sum(b.spent_tokens), 0) AS BIGINT), \
     CAST(coalesce(sum(b.spent_cost_micros), 0) AS BIGINT) FROM (SELECT spent_runs, spent_tokens, spent_cost_micros FROM tasks WHERE parent = $1 \
     UNION ALL SELECT s.spent_runs, s.spent_tokens, s.spent_cost_micros FROM tasks s JOIN tasks p ON s.parent = p.id WHERE p.parent = $1) b";
    /// Children that have not ended, and effects that create some or tell of one.
    COUNT_LED = "SELECT (SELECT count(*) FROM tasks WHERE parent = $1 AND kind NOT IN ('done', 'failed', 'cancelled')) \
     + (SELECT count(*) FROM outbox WHERE task = $1 AND state = 'pending') \
     + (SELECT count(*) FROM tasks c JOIN outbox o ON o.task = c.id WHERE c.parent = $1 AND o.state = 'pending')";
    PENDING_SINCE = "SELECT effect FROM outbox WHERE task = $1 AND seq >= $2 AND state = 'pending'";
    GIVEN_UP_NEEDS = "SELECT e.task, e.needs FROM edges e JOIN tasks t ON t.id = e.task JOIN tasks n ON n.id = e.needs \
     WHERE e.kind = 'blocks' AND t.open_needs > 0 AND t.kind NOT IN ('done', 'failed', 'cancelled') \
     AND n.kind IN ('failed', 'cancelled') ORDER BY e.task, e.needs LIMIT $1";
    /// Of two tasks that both wait, the one that waits for the other.
    NEEDS_THAT_WAIT = "SELECT e.task, e.needs FROM edges e JOIN tasks t ON t.id = e.task JOIN tasks n ON n.id = e.needs \
     WHERE e.kind = 'blocks' AND t.open_needs > 0 AND n.open_needs > 0 AND t.kind <> 'done' AND n.kind <> 'done' \
     ORDER BY e.task, e.needs LIMIT $1";
    QUEUED = select_task!("WHERE t.queue_rank IS NOT NULL ORDER BY t.queue_rank, t.id LIMIT $1");
    /// Reviews of a task are not part of its progress.
    PROGRESS = "SELECT t.parent, t.kind, count(*) FROM tasks t JOIN lifecycles l ON l.version = t.lifecycle \
     WHERE t.parent BETWEEN $1 AND $2 AND l.purpose <> 'review' GROUP BY t.parent, t.kind ORDER BY t.parent, t.kind";
    OPEN_PARENTS = "SELECT w.id FROM tasks w WHERE w.kind NOT IN ('done', 'failed', 'cancelled') AND EXISTS \
     (SELECT 1 FROM tasks t JOIN lifecycles l ON l.version = t.lifecycle WHERE t.parent = w.id AND l.purpose <> 'review') \
     ORDER BY w.id DESC LIMIT $1";
    WAITING_STEPS = select_task!("JOIN lifecycles l ON l.version = t.lifecycle \
     WHERE t.parent IS NOT NULL AND t.kind = 'waiting' AND l.purpose = 'step' ORDER BY t.id DESC LIMIT $1");
    /// Those that have not ended first, then the latest.
    WORKFLOWS = select_task!("WHERE t.parent IS NULL AND t.lifecycle IN (SELECT l.version FROM lifecycles l WHERE l.purpose = 'workflow') \
     AND t.project = coalesce(CAST($1 AS TEXT), t.project) \
     ORDER BY CASE WHEN t.kind IN ('done', 'failed', 'cancelled') THEN 1 ELSE 0 END, t.id DESC LIMIT $2");
    LAST_WORKFLOW = "SELECT max(t.id) FROM tasks t WHERE t.parent IS NULL AND t.project = $1 \
     AND t.lifecycle IN (SELECT l.version FROM lifecycles l WHERE l.purpose = 'workflow')";
    CHILDREN_OF = select_task!("WHERE t.parent = $1 ORDER BY t.id");
    MARKS_OF_CHILDREN = "SELECT id, version, open_needs FROM tasks WHERE parent = $1 ORDER BY id";
    NEEDS_OF_CHILDREN = "SELECT e.task, e.needs FROM edges e JOIN tasks t ON t.id = e.task \
     WHERE t.parent = $1 AND e.kind = 'blocks' ORDER BY e.task, e.needs";
    WAITING_FOR = "SELECT task FROM edges WHERE needs = $1 AND kind = 'blocks' ORDER BY task";
    NEED_INFORMS = "UPDATE edges SET kind = 'informs' WHERE task = $1 AND needs = $2 AND kind = 'blocks'";
    LIFECYCLE = "SELECT source, overrides FROM lifecycles WHERE version = $1";
    INSERT_LIFECYCLE = "INSERT INTO lifecycles (version, id, purpose, source, overrides, added_at) \
     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (version) DO NOTHING";
    PROJECT = "SELECT path FROM projects WHERE name = $1";
    PROJECTS = "SELECT name, path FROM projects ORDER BY name LIMIT $1";
    INSERT_PROJECT_IF_NEW = "INSERT INTO projects (name, path, created_at) VALUES ($1, $2, $3) \
     ON CONFLICT (name) DO NOTHING";
    /// Returns a row if there was none of this name.
    INSERT_BATCH = "INSERT INTO batches (name, concurrency, created_at) VALUES ($1, $2, $3) \
     ON CONFLICT (name) DO NOTHING RETURNING name";
    BATCHES = batch_loads!(batch_progress!(), "LEFT JOIN tasks t ON t.batch = b.name \
     GROUP BY b.name, s.scope ORDER BY b.name LIMIT $1");
    BATCH = batch_loads!(batch_progress!(), "LEFT JOIN tasks t ON t.batch = b.name \
     WHERE b.name = $1 GROUP BY b.name, s.scope");
    STRAY_RECORDS = "SELECT DISTINCT a.task FROM audit a LEFT JOIN tasks t ON t.id = a.task WHERE t.id IS NULL ORDER BY a.task LIMIT $1";
    COUNT_BY_STATE = "SELECT state, kind, count(*) FROM tasks GROUP BY state, kind ORDER BY state, kind";
    COUNT_ENDED_REVIEWS = "SELECT t.state, t.kind, count(*) FROM tasks t JOIN lifecycles l ON l.version = t.lifecycle \
     WHERE t.parent IS NOT NULL AND l.purpose = 'review' AND t.kind IN ('done', 'failed', 'cancelled') \
     GROUP BY t.state, t.kind ORDER BY t.state, t.kind";
    COUNT_QUEUE = "SELECT count(*) FROM tasks WHERE queue_rank IS NOT NULL";
    COUNT_AHEAD = "SELECT count(*) FROM tasks WHERE queue_rank IS NOT NULL AND queue_rank < $1";
    COUNT_OPEN_DECISIONS = "SELECT count(*) FROM decisions WHERE settled_at IS NULL";
    COUNT_OPEN_NEEDS = "SELECT count(*) FROM edges e JOIN tasks t ON t.id = e.needs \
     WHERE e.task = $1 AND e.kind = 'blocks' AND t.kind <> 'done'";
}
