ALTER TABLE runs ADD COLUMN node TEXT
--;
ALTER TABLE runs ADD COLUMN agent TEXT
--;
ALTER TABLE runs ADD COLUMN account TEXT
--;
ALTER TABLE runs ADD COLUMN areas TEXT NOT NULL DEFAULT '[]'
--;
ALTER TABLE runs ADD COLUMN session TEXT
--;
ALTER TABLE runs ADD COLUMN class TEXT
--;
ALTER TABLE runs ADD COLUMN signature TEXT
--;
ALTER TABLE runs ADD COLUMN detail TEXT
--;
ALTER TABLE runs ADD COLUMN head TEXT
--;
ALTER TABLE runs ADD COLUMN level TEXT
--;
ALTER TABLE runs ADD COLUMN tokens {int} NOT NULL DEFAULT 0 CHECK (tokens >= 0)
--;
ALTER TABLE runs ADD COLUMN cost_micros {int} NOT NULL DEFAULT 0 CHECK (cost_micros >= 0)
--;
ALTER TABLE runs ADD COLUMN input_tokens {int} NOT NULL DEFAULT 0 CHECK (input_tokens >= 0)
--;
ALTER TABLE runs ADD COLUMN output_tokens {int} NOT NULL DEFAULT 0 CHECK (output_tokens >= 0)
--;
ALTER TABLE runs ADD COLUMN token_hash {blob}
--;
CREATE INDEX runs_open ON runs (node) WHERE ended_at IS NULL
--;
CREATE UNIQUE INDEX runs_by_token ON runs (token_hash) WHERE token_hash IS NOT NULL
--;
ALTER TABLE outbox ADD COLUMN node TEXT
--;
ALTER TABLE batches ADD COLUMN budget_runs {int} CHECK (budget_runs >= 0)
--;
ALTER TABLE batches ADD COLUMN budget_tokens {int} CHECK (budget_tokens >= 0)
--;
ALTER TABLE batches ADD COLUMN budget_cost_micros {int} CHECK (budget_cost_micros >= 0)
--;
ALTER TABLE batches ADD COLUMN budget_millis {int} CHECK (budget_millis >= 0)
--;
INSERT INTO batches (name, concurrency, created_at)
    SELECT t.batch, 4, min(t.created_at) FROM tasks t
    WHERE t.batch IS NOT NULL AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.name = t.batch) GROUP BY t.batch
--;
CREATE INDEX tasks_queue_of_batch ON tasks (batch, queue_rank, id) WHERE queue_rank IS NOT NULL AND batch IS NOT NULL
--;
CREATE INDEX tasks_queue_of_none ON tasks (queue_rank, id) WHERE queue_rank IS NOT NULL AND batch IS NULL
--;
CREATE INDEX tasks_blocked ON tasks (lifecycle, state, id) WHERE kind = 'blocked'
--;
CREATE TABLE nodes (
    name TEXT NOT NULL PRIMARY KEY,
    seen_at {int} NOT NULL,
    capacity {int} NOT NULL CHECK (capacity >= 0),
    workers TEXT NOT NULL
) {without_rowid}
--;
CREATE TABLE accounts (
    name TEXT NOT NULL PRIMARY KEY,
    paused_until {int},
    reason TEXT NOT NULL,
    hits {int} NOT NULL CHECK (hits >= 0),
    probing {int} NOT NULL CHECK (probing IN (0, 1)),
    CHECK (paused_until IS NULL OR probing = 0)
) {without_rowid}
--;
CREATE INDEX accounts_paused ON accounts (paused_until) WHERE paused_until IS NOT NULL
--;
CREATE TABLE switches (
    name TEXT NOT NULL PRIMARY KEY,
    value {int} NOT NULL CHECK (value IN (0, 1)),
    changed_by TEXT,
    changed_at {int}
) {without_rowid}
--;
INSERT INTO switches (name, value) VALUES ('paused', 0)
--;
CREATE TABLE spent (
    scope TEXT NOT NULL PRIMARY KEY,
    runs {int} NOT NULL CHECK (runs >= 0),
    tokens {int} NOT NULL CHECK (tokens >= 0),
    cost_micros {int} NOT NULL CHECK (cost_micros >= 0),
    millis {int} NOT NULL CHECK (millis >= 0)
) {without_rowid}
--;
INSERT INTO spent (scope, runs, tokens, cost_micros, millis)
    SELECT 'batch:' || t.batch, count(r.ended_at), 0, 0, coalesce(sum(CASE WHEN r.ended_at > r.started_at THEN r.ended_at - r.started_at END), 0)
    FROM tasks t JOIN runs r ON r.task = t.id WHERE t.batch IS NOT NULL AND r.ended_at IS NOT NULL GROUP BY t.batch
--;
UPDATE spent SET
    tokens = (SELECT coalesce(sum(t.spent_tokens), 0) FROM tasks t WHERE 'batch:' || t.batch = spent.scope),
    cost_micros = (SELECT coalesce(sum(t.spent_cost_micros), 0) FROM tasks t WHERE 'batch:' || t.batch = spent.scope)
