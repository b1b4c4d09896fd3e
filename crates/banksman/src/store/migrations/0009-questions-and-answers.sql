ALTER TABLE decisions ADD COLUMN question TEXT
--;
ALTER TABLE decisions ADD COLUMN answer TEXT
--;
ALTER TABLE decisions ADD COLUMN answer_due {int}
--;
CREATE INDEX decisions_due ON decisions (answer_due) WHERE answer_due IS NOT NULL
