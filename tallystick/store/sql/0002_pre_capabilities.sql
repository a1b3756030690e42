-- What capability a task asks for: its statistics are counted from here.

ALTER TABLE tasks ADD COLUMN capability TEXT NOT NULL DEFAULT '';

CREATE INDEX tasks_capability ON tasks (capability) WHERE capability > '';
