CREATE INDEX tasks_without_parent ON tasks (lifecycle, id) WHERE parent IS NULL
--;
INSERT INTO notices (at, kind, task, decision, urgent, text, key)
SELECT o.due_at, CASE WHEN o.effect LIKE '{"do":"remind"%' THEN 'reminder' ELSE 'state' END, o.task,
    (SELECT max(d.id) FROM decisions d WHERE d.task = o.task AND d.settled_at IS NULL),
    CASE WHEN o.effect LIKE '{"do":"alert"%' THEN 1 ELSE 0 END,
    't' || t.id || ' is ' || t.state || ': ' || t.title,
    't' || o.task || '-' || o.seq || '-' || o.number
FROM outbox o JOIN tasks t ON t.id = o.task
WHERE o.state = 'pending'
    AND (o.effect LIKE '{"do":"notify"%' OR o.effect LIKE '{"do":"alert"%' OR o.effect LIKE '{"do":"remind"%')
ORDER BY o.due_at, o.task, o.seq, o.number
ON CONFLICT (key) DO NOTHING
--;
INSERT INTO notice_deliveries (notice, channel, at)
SELECT n.id, c.name, 0 FROM notices n CROSS JOIN channels c
WHERE NOT EXISTS (SELECT 1 FROM notice_deliveries d WHERE d.notice = n.id)
--;
INSERT INTO changes (at, kind, task, number)
SELECT n.at, 'notice', n.task, n.id FROM notices n JOIN outbox o
    ON o.task = n.task AND 't' || o.task || '-' || o.seq || '-' || o.number = n.key
WHERE o.state = 'pending'
    AND (o.effect LIKE '{"do":"notify"%' OR o.effect LIKE '{"do":"alert"%' OR o.effect LIKE '{"do":"remind"%')
    AND NOT EXISTS (SELECT 1 FROM changes c WHERE c.kind = 'notice' AND c.number = n.id)
ORDER BY n.id
--;
UPDATE outbox SET state = 'done' WHERE state = 'pending'
    AND (effect LIKE '{"do":"notify"%' OR effect LIKE '{"do":"alert"%' OR effect LIKE '{"do":"remind"%')
