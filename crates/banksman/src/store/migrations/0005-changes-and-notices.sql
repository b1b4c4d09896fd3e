ALTER TABLE tasks ADD COLUMN fed {int} NOT NULL DEFAULT {xid}
--;
CREATE TABLE changes (
    {commit_order},
    at {int} NOT NULL,
    kind TEXT NOT NULL,
    task {int},
    number {int} NOT NULL
)
--;
CREATE TABLE notices (
    id {serial_pk},
    at {int} NOT NULL,
    kind TEXT NOT NULL,
    task {int},
    decision {int},
    urgent {int} NOT NULL CHECK (urgent IN (0, 1)),
    text TEXT NOT NULL,
    key TEXT UNIQUE
)
--;
CREATE TABLE channels (
    name TEXT NOT NULL PRIMARY KEY,
    added_at {int} NOT NULL
) {without_rowid}
--;
INSERT INTO channels (name, added_at) VALUES ('terminal', 0)
--;
CREATE TABLE notice_deliveries (
    notice {int} NOT NULL REFERENCES notices (id) ON DELETE CASCADE,
    channel TEXT NOT NULL REFERENCES channels (name),
    state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts {int} NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    last_error TEXT,
    at {int} NOT NULL,
    PRIMARY KEY (notice, channel)
) {without_rowid}
--;
CREATE INDEX notice_deliveries_pending ON notice_deliveries (channel, at) WHERE state = 'pending'
