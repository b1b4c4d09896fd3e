ALTER TABLE lifecycles ADD COLUMN purpose TEXT NOT NULL DEFAULT 'task'
--;
UPDATE lifecycles SET purpose = CASE id WHEN 'leaf' THEN 'subtask' WHEN 'workflow' THEN 'workflow'
    WHEN 'step' THEN 'step' WHEN 'seat' THEN 'review' WHEN 'allowance' THEN 'budget' ELSE 'task' END
--;
CREATE TABLE budget_requests (
    scope TEXT NOT NULL,
    number {int} NOT NULL CHECK (number >= 1),
    task {int} NOT NULL UNIQUE REFERENCES tasks (id),
    granted {int} REFERENCES tasks (id),
    refused TEXT NOT NULL,
    applied {int} NOT NULL DEFAULT 0 CHECK (applied IN (0, 1)),
    PRIMARY KEY (scope, number)
) {without_rowid}
--;
INSERT INTO budget_requests (scope, number, task, refused, applied)
    SELECT substr(n.stem, 11, length(n.stem) - 11), CAST(substr(n.key, length(n.stem) + 1) AS BIGINT), n.task, '[]',
        CASE WHEN EXISTS (SELECT 1 FROM keys r WHERE r.key = 'allowance-raised-t' || n.task) THEN 1 ELSE 0 END
    FROM (SELECT k.key AS key, k.task AS task, rtrim(k.key, '0123456789') AS stem
        FROM keys k JOIN audit a ON a.task = k.task AND a.seq = k.seq
        WHERE k.seq = 1 AND a.actor = 'system' AND a.idempotency_key = k.key
        AND (k.key LIKE 'allowance-day:%-%' OR k.key LIKE 'allowance-batch:%-%')) n
    WHERE n.stem <> n.key
--;
UPDATE budget_requests SET granted = (SELECT max(g.task) FROM budget_requests g JOIN tasks t ON t.id = g.task
    WHERE t.kind = 'done' AND g.scope = budget_requests.scope AND g.number < budget_requests.number)
