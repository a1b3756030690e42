-- The log, its archive and the views.

CREATE TABLE schema_steps (
  number INTEGER NOT NULL,
  post INTEGER NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (number, post)
) STRICT, WITHOUT ROWID;

-- Ids, actors and event types stand in every event: each text once, a number everywhere else.
-- (Measured: a third of the bytes of an event, and short keys in its indexes.)
CREATE TABLE names (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

-- Name 1 is spelled out in an index below.
INSERT INTO names VALUES (1, 'TraceSettled');

-- `body` comes last, so that a filter never walks its overflow pages: NULL = erased or none, empty = in a file.
CREATE TABLE events (
  position INTEGER PRIMARY KEY,
  stream INTEGER NOT NULL,
  version INTEGER NOT NULL,
  kind TEXT NOT NULL,
  workspace INTEGER NOT NULL,
  type INTEGER NOT NULL,
  schema INTEGER NOT NULL,
  at REAL NOT NULL,
  actor INTEGER NOT NULL,
  subject INTEGER NOT NULL,
  trace INTEGER NOT NULL,
  cause INTEGER NOT NULL,
  key TEXT NOT NULL,
  data TEXT NOT NULL,
  digest BLOB NOT NULL,
  hash BLOB NOT NULL,
  body BLOB
) STRICT;

CREATE UNIQUE INDEX events_stream ON events (stream, version);
CREATE INDEX events_trace ON events (trace);
CREATE INDEX events_kind ON events (kind) WHERE kind <> 'tsk';
CREATE INDEX events_settled ON events (trace) WHERE type = 1;

-- A pack holds the events of some archived traces, compressed together. Beside it stands what finds an event:
-- by stream, by trace, by position.
CREATE TABLE packs (
  id INTEGER PRIMARY KEY,
  events BLOB NOT NULL
) STRICT;

CREATE TABLE pack_streams (
  stream INTEGER NOT NULL,
  pack INTEGER NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (stream, pack)
) STRICT, WITHOUT ROWID;

CREATE TABLE pack_traces (
  trace INTEGER NOT NULL,
  pack INTEGER NOT NULL,
  PRIMARY KEY (trace, pack)
) STRICT, WITHOUT ROWID;

CREATE TABLE archived (
  position INTEGER PRIMARY KEY,
  pack INTEGER NOT NULL,
  kind TEXT NOT NULL,
  hash BLOB NOT NULL
) STRICT;

CREATE INDEX archived_kind ON archived (kind) WHERE kind <> 'tsk';

CREATE TABLE tasks (
  task_id TEXT NOT NULL PRIMARY KEY,
  workspace TEXT NOT NULL,
  trace TEXT NOT NULL,
  parent TEXT NOT NULL,
  title TEXT NOT NULL,
  turn TEXT NOT NULL,
  requester TEXT NOT NULL,
  subject TEXT NOT NULL,
  assignee TEXT NOT NULL,
  holder TEXT NOT NULL,
  session TEXT NOT NULL,
  reviewer TEXT NOT NULL,
  digest TEXT NOT NULL,
  version INTEGER NOT NULL,
  turn_version INTEGER NOT NULL,
  created_at REAL NOT NULL,
  updated_at REAL NOT NULL,
  tail TEXT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  open INTEGER NOT NULL,
  key TEXT,
  due_at REAL,
  closed_at REAL,
  settled INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Every index of a table without rowid ends in its key, so all of these give rows in the order of task ids.
CREATE UNIQUE INDEX tasks_key ON tasks (workspace, requester, key) WHERE key IS NOT NULL;
CREATE INDEX tasks_tail ON tasks (tail);
CREATE INDEX tasks_workspace ON tasks (workspace);
CREATE INDEX tasks_trace ON tasks (trace);
CREATE INDEX tasks_parent ON tasks (parent) WHERE parent > '';
CREATE INDEX tasks_failed ON tasks (task_id)
  WHERE state = 'failed' OR (state = 'input_required' AND reason = 'unverified');
CREATE INDEX tasks_unsettled ON tasks (trace, closed_at) WHERE open = 0 AND settled = 0;
CREATE INDEX tasks_settled ON tasks (closed_at) WHERE settled = 1;
CREATE INDEX tasks_closed ON tasks (closed_at) WHERE open = 0 AND settled = 0;
-- An index by a party takes a page for each party in every commit. What a party has to do with is asked seldom: it is
-- found by a walk over this one, whose newest entries share a page.
CREATE INDEX tasks_open ON tasks (open, task_id, requester, assignee, reviewer) WHERE open = 1;
CREATE INDEX tasks_open_turn ON tasks (turn) WHERE open = 1;
CREATE INDEX tasks_open_trace ON tasks (trace) WHERE open = 1;
CREATE INDEX tasks_open_workspace ON tasks (workspace) WHERE open = 1;
CREATE INDEX tasks_open_session ON tasks (session) WHERE open = 1 AND session > '';
CREATE INDEX tasks_due ON tasks (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE deliveries (
  delivery_id TEXT NOT NULL PRIMARY KEY,
  task_id TEXT NOT NULL,
  workspace TEXT NOT NULL,
  kind TEXT NOT NULL,
  sender TEXT NOT NULL,
  recipient TEXT NOT NULL,
  session TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  fact TEXT NOT NULL,
  ended TEXT NOT NULL,
  open INTEGER NOT NULL,
  due_at REAL,
  created_at REAL NOT NULL,
  updated_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- One index for the queue of a recipient, what of it is due, and what of it is in hand.
CREATE INDEX deliveries_open ON deliveries (recipient, due_at) WHERE open = 1;

CREATE TABLE notices (
  task_id TEXT NOT NULL,
  party TEXT NOT NULL,
  workspace TEXT NOT NULL,
  kind TEXT NOT NULL,
  version INTEGER NOT NULL,
  at REAL NOT NULL,
  unread INTEGER NOT NULL,
  PRIMARY KEY (task_id, party)
) STRICT, WITHOUT ROWID;

CREATE INDEX notices_unread ON notices (party, at) WHERE unread = 1;

CREATE TABLE seen (
  party TEXT NOT NULL,
  task_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (party, task_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE agents (
  agent_id TEXT NOT NULL PRIMARY KEY,
  alias TEXT NOT NULL,
  owner TEXT NOT NULL,
  connection TEXT NOT NULL,
  deleted INTEGER NOT NULL,
  mode TEXT NOT NULL,
  presence TEXT NOT NULL,
  updated_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE aliases (
  skeleton TEXT NOT NULL PRIMARY KEY,
  alias TEXT NOT NULL,
  party TEXT NOT NULL,
  current INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE workspaces (
  workspace_id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  root TEXT NOT NULL,
  repository TEXT NOT NULL,
  coordinator TEXT NOT NULL,
  mode TEXT NOT NULL,
  updated_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE permissions (
  permission_id TEXT NOT NULL PRIMARY KEY,
  task_id TEXT NOT NULL,
  workspace TEXT NOT NULL,
  action TEXT NOT NULL,
  digest TEXT NOT NULL,
  open INTEGER NOT NULL,
  decision TEXT NOT NULL,
  requested_at REAL NOT NULL,
  decided_at REAL
) STRICT, WITHOUT ROWID;

CREATE INDEX permissions_open ON permissions (open, requested_at) WHERE open = 1;

CREATE TABLE commits (
  repository TEXT NOT NULL,
  commit_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  at REAL NOT NULL,
  PRIMARY KEY (repository, commit_id, task_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE outcomes (
  task_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  agent TEXT NOT NULL,
  workspace TEXT NOT NULL,
  outcome TEXT NOT NULL,
  seconds REAL,
  at REAL NOT NULL,
  PRIMARY KEY (task_id, version)
) STRICT, WITHOUT ROWID;

CREATE INDEX outcomes_agent ON outcomes (agent, at);
