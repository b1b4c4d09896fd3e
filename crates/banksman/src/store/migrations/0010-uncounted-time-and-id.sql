ALTER TABLE tasks ADD COLUMN uncounted_ms {int} NOT NULL DEFAULT 0
--;
CREATE TABLE store (
    id TEXT NOT NULL PRIMARY KEY,
    created_at {int} NOT NULL
) {without_rowid}
--;
INSERT INTO store (id, created_at) SELECT {random}, {now}
