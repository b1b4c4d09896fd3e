CREATE INDEX tasks_parts ON tasks (parent, id) WHERE parent IS NOT NULL
--;
CREATE INDEX tasks_parts_waiting ON tasks (id) WHERE parent IS NOT NULL AND kind = 'waiting'
--;
ALTER TABLE decisions ADD COLUMN snoozed_until {int}
--;
CREATE INDEX decisions_answered ON decisions (settled_by, settled_at) WHERE settled_at IS NOT NULL
