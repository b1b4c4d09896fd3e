CREATE TABLE task_budget_requests (
    task {int} NOT NULL REFERENCES tasks (id),
    seq {int} NOT NULL,
    runs {int} NOT NULL,
    tokens {int} NOT NULL,
    cost_micros {int} NOT NULL,
    millis {int} NOT NULL,
    PRIMARY KEY (task, seq)
) {without_rowid}
--;
INSERT INTO task_budget_requests (task, seq, runs, tokens, cost_micros, millis)
    WITH a AS (SELECT task, seq, idempotency_key AS k, rtrim(idempotency_key, '0123456789') AS r FROM audit
        WHERE actor = 'system' AND idempotency_key LIKE 'over-budget-%-%-%-%-%'),
    b AS (SELECT task, seq, substr(k, length(r) + 1) AS millis, rtrim(r, '-') AS k, rtrim(rtrim(r, '-'), '0123456789') AS r FROM a),
    c AS (SELECT b.*, substr(k, length(r) + 1) AS cost, rtrim(r, '-') AS k2, rtrim(rtrim(r, '-'), '0123456789') AS r2 FROM b),
    d AS (SELECT c.*, substr(k2, length(r2) + 1) AS tokens, rtrim(r2, '-') AS k3, rtrim(rtrim(r2, '-'), '0123456789') AS r3 FROM c),
    e AS (SELECT d.*, substr(k3, length(r3) + 1) AS runs FROM d)
    SELECT task, seq, CAST(runs AS BIGINT), CAST(tokens AS BIGINT), CAST(cost AS BIGINT), CAST(millis AS BIGINT)
    FROM e WHERE runs <> '' AND tokens <> '' AND cost <> '' AND millis <> ''
--;
UPDATE lifecycles SET purpose = 'task' WHERE source NOT LIKE '%purpose:%' AND (
    id IN ('step', 'workflow') AND source NOT LIKE '%spec:%' OR id = 'seat' AND source NOT LIKE '%asked_at:%'
    OR id = 'allowance' AND source NOT LIKE '%scope:%' OR id = 'leaf' AND source NOT LIKE '%subtask:%' AND source NOT LIKE '%plan_version:%')
