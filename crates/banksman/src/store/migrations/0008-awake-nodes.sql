ALTER TABLE nodes ADD COLUMN boot TEXT
--;
ALTER TABLE nodes ADD COLUMN awake_ms {int}
