CREATE TABLE lifecycles (
    version TEXT NOT NULL PRIMARY KEY,
    id TEXT NOT NULL,
    source TEXT NOT NULL,
    overrides TEXT NOT NULL,
    added_at {int} NOT NULL
) {without_rowid}
--;
CREATE TABLE projects (
    name TEXT NOT NULL PRIMARY KEY,
    path TEXT NOT NULL,
    created_at {int} NOT NULL
) {without_rowid}
--;
CREATE TABLE batches (
    name TEXT NOT NULL PRIMARY KEY,
    concurrency {int} NOT NULL CHECK (concurrency > 0),
    paused {int} NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    created_at {int} NOT NULL
) {without_rowid}
--;
CREATE TABLE tasks (
    id {serial_pk},
    project TEXT NOT NULL,
    batch TEXT,
    lifecycle TEXT NOT NULL REFERENCES lifecycles (version),
    title TEXT NOT NULL,
    tags TEXT NOT NULL,
    priority {int} NOT NULL,
    parent {int} REFERENCES tasks (id),
    state TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('queued', 'working', 'reviewing', 'waiting', 'blocked', 'parked', 'done', 'failed', 'cancelled')),
    state_group TEXT,
    prior TEXT,
    version {int} NOT NULL CHECK (version >= 1),
    entered {int} NOT NULL CHECK (entered BETWEEN 1 AND version),
    fields TEXT NOT NULL,
    counters TEXT NOT NULL,
    open_needs {int} NOT NULL CHECK (open_needs >= 0),
    not_before {int},
    queue_rank {int},
    epoch {int} NOT NULL CHECK (epoch >= 0),
    lease_worker TEXT,
    lease_expires_at {int},
    spent_runs {int} NOT NULL,
    spent_tokens {int} NOT NULL,
    spent_cost_micros {int} NOT NULL,
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    entered_at {int} NOT NULL,
    progress_at {int} NOT NULL,
    head {blob} NOT NULL,
    CHECK ((lease_worker IS NULL) = (lease_expires_at IS NULL)),
    CHECK (lease_worker IS NULL OR kind NOT IN ('done', 'cancelled')),
    CHECK (queue_rank IS NULL OR (lease_worker IS NULL AND open_needs = 0 AND not_before IS NULL))
)
--;
CREATE INDEX tasks_queue ON tasks (queue_rank, id) WHERE queue_rank IS NOT NULL
--;
CREATE INDEX tasks_by_state ON tasks (state, kind, id)
--;
CREATE INDEX tasks_leased ON tasks (lease_expires_at) WHERE lease_expires_at IS NOT NULL
--;
CREATE TABLE bodies (
    task {int} NOT NULL PRIMARY KEY REFERENCES tasks (id),
    body TEXT NOT NULL
) {without_rowid}
--;
CREATE TABLE edges (
    task {int} NOT NULL REFERENCES tasks (id),
    needs {int} NOT NULL REFERENCES tasks (id),
    kind TEXT NOT NULL CHECK (kind IN ('blocks', 'informs')),
    PRIMARY KEY (task, needs, kind),
    CHECK (task <> needs)
) {without_rowid}
--;
CREATE INDEX edges_by_need ON edges (needs)
--;
CREATE TABLE runs (
    task {int} NOT NULL REFERENCES tasks (id),
    epoch {int} NOT NULL CHECK (epoch >= 1),
    worker TEXT NOT NULL,
    activity TEXT NOT NULL,
    started_at {int} NOT NULL,
    ended_at {int},
    outcome TEXT,
    PRIMARY KEY (task, epoch),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
) {without_rowid}
--;
CREATE TABLE timers (
    task {int} NOT NULL REFERENCES tasks (id),
    kind TEXT NOT NULL CHECK (kind IN ('bound', 'ready', 'remind')),
    number {int} NOT NULL,
    entered {int} NOT NULL,
    due_at {int} NOT NULL,
    PRIMARY KEY (task, kind, number)
) {without_rowid}
--;
CREATE INDEX timers_due ON timers (due_at)
--;
CREATE TABLE outbox (
    task {int} NOT NULL REFERENCES tasks (id),
    seq {int} NOT NULL,
    number {int} NOT NULL,
    effect TEXT NOT NULL,
    due_at {int} NOT NULL,
    attempts {int} NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'dead')),
    error TEXT,
    PRIMARY KEY (task, seq, number)
) {without_rowid}
--;
CREATE INDEX outbox_pending ON outbox (due_at) WHERE state = 'pending'
--;
CREATE INDEX outbox_dead ON outbox (task) WHERE state = 'dead'
--;
CREATE TABLE keys (
    key TEXT NOT NULL PRIMARY KEY,
    request {blob} NOT NULL,
    task {int} NOT NULL REFERENCES tasks (id),
    seq {int} NOT NULL,
    used_at {int} NOT NULL
) {without_rowid}
--;
CREATE TABLE artifacts (
    task {int} NOT NULL REFERENCES tasks (id),
    seq {int} NOT NULL,
    name TEXT NOT NULL,
    hash {blob} NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (task, seq, name)
) {without_rowid}
--;
CREATE TABLE decisions (
    id {serial_pk},
    task {int} NOT NULL REFERENCES tasks (id),
    seq {int} NOT NULL,
    asks TEXT NOT NULL,
    offers TEXT NOT NULL,
    opened_at {int} NOT NULL,
    deadline {int},
    settled_at {int},
    settled_by TEXT,
    settled_seq {int},
    UNIQUE (task, seq),
    CHECK ((settled_at IS NULL) = (settled_by IS NULL))
)
--;
CREATE INDEX decisions_open ON decisions (task) WHERE settled_at IS NULL
--;
CREATE TABLE audit (
    task {int} NOT NULL REFERENCES tasks (id),
    seq {int} NOT NULL CHECK (seq >= 1),
    ts {int} NOT NULL,
    from_state TEXT,
    to_state TEXT NOT NULL,
    trigger_name TEXT NOT NULL,
    actor TEXT NOT NULL,
    idempotency_key TEXT,
    fields TEXT NOT NULL,
    prev {blob} NOT NULL,
    hash {blob} NOT NULL,
    PRIMARY KEY (task, seq)
) {without_rowid}
