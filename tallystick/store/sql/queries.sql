-- The named queries of the views. None may scan or sort: tests/contract/test_plans.py asks the planner about each.
-- Task ids are ULIDs, so their order is the order of creation; it needs no further column in an index.
-- A predicate must be spelled as in the partial index that serves it (measured: 186 times slower, silently).
-- `x > ''` stands where a whole index is walked in order: the walk is bounded by the limit or by its predicate.

-- name: inbox_turns
SELECT tasks.*, coalesce(seen.version, 0) AS seen
FROM tasks LEFT JOIN seen ON seen.party = :party AND seen.task_id = tasks.task_id
WHERE tasks.open = 1 AND tasks.turn = :party
ORDER BY tasks.task_id LIMIT :limit;

-- name: inbox_notices
SELECT notices.*, tasks.title, tasks.state, tasks.reason, tasks.requester, tasks.assignee
FROM notices LEFT JOIN tasks ON tasks.task_id = notices.task_id
WHERE notices.party = :party AND notices.unread = 1
ORDER BY notices.at, notices.task_id LIMIT :limit;

-- name: news
SELECT tasks.task_id, tasks.turn_version, coalesce(seen.version, 0) AS seen
FROM tasks LEFT JOIN seen ON seen.party = :party AND seen.task_id = tasks.task_id
WHERE tasks.open = 1 AND tasks.turn = :party AND tasks.turn_version > coalesce(seen.version, 0)
ORDER BY tasks.task_id DESC LIMIT :limit;

-- name: unseen
SELECT (
  SELECT count(*) FROM tasks LEFT JOIN seen ON seen.party = :party AND seen.task_id = tasks.task_id
  WHERE tasks.open = 1 AND tasks.turn = :party AND tasks.turn_version > coalesce(seen.version, 0)
) + (
  SELECT count(*) FROM notices WHERE party = :party AND unread = 1
) AS count;

-- name: seen
SELECT tasks.turn, tasks.open, tasks.turn_version, coalesce(seen.version, 0) AS seen, coalesce(notices.unread, 0) AS unread
FROM tasks
LEFT JOIN seen ON seen.party = :party AND seen.task_id = tasks.task_id
LEFT JOIN notices ON notices.task_id = tasks.task_id AND notices.party = :party
WHERE tasks.task_id = :task_id;

-- name: board
SELECT * FROM tasks WHERE open = 1 AND workspace = :workspace ORDER BY task_id LIMIT :limit;

-- name: board_all
SELECT * FROM tasks WHERE workspace = :workspace ORDER BY task_id DESC LIMIT :limit;

-- name: board_every
SELECT * FROM tasks WHERE open = 1 ORDER BY task_id LIMIT :limit;

-- name: board_every_all
SELECT * FROM tasks WHERE task_id > '' ORDER BY task_id DESC LIMIT :limit;

-- name: task
SELECT * FROM tasks WHERE task_id = :task_id;

-- name: tasks_prefix
SELECT * FROM tasks WHERE task_id >= :prefix AND task_id < :prefix || '~' ORDER BY task_id LIMIT :limit;

-- name: tasks_tail
SELECT * FROM tasks WHERE tail >= :tail AND tail < :tail || '~' ORDER BY tail, task_id LIMIT :limit;

-- name: children
-- (without a word the planner walks all open tasks instead)
SELECT * FROM tasks INDEXED BY tasks_parent WHERE parent = :parent AND parent > '' AND open = 1 ORDER BY task_id;

-- name: held
SELECT * FROM tasks
WHERE open = 1 AND session = :session AND session > ''
  AND (state = 'working' OR (state = 'input_required' AND reason = 'question'))
ORDER BY task_id;

-- name: dedup
SELECT * FROM tasks WHERE workspace = :workspace AND requester = :requester AND key = :key;

-- A closed task may be due as well: what has to follow in the children of a canceled one.
-- name: due_tasks
SELECT * FROM tasks INDEXED BY tasks_due WHERE due_at <= :now AND (due_at, task_id) > (:after, :last)
ORDER BY due_at, task_id LIMIT :limit;

-- name: next_due
SELECT min(due_at) AS at FROM tasks WHERE due_at > :after;

-- name: due_deliveries
SELECT * FROM deliveries
WHERE open = 1 AND due_at IS NOT NULL AND recipient = :recipient AND due_at <= :now
ORDER BY due_at, delivery_id LIMIT :limit;

-- name: queue
SELECT count(*) AS count FROM deliveries WHERE open = 1 AND recipient = :recipient;

-- name: queue_sender
SELECT count(*) AS count FROM deliveries WHERE open = 1 AND recipient = :recipient AND sender = :sender;

-- name: outstanding
SELECT * FROM deliveries
WHERE open = 1 AND recipient = :recipient AND fact IN ('claimed', 'admitted', 'recorded', 'working')
ORDER BY due_at, delivery_id;

-- What waits for a holder to be chosen: recipients that begin with `cap:`.
-- name: waiting
SELECT * FROM deliveries
WHERE open = 1 AND recipient >= 'cap:' AND recipient < 'cap;'
ORDER BY recipient, due_at, delivery_id LIMIT :limit;

-- name: delivery
SELECT * FROM deliveries WHERE delivery_id = :delivery_id;

-- name: in_hand
SELECT * FROM tasks WHERE assignee = :party AND open = 1 AND session > '' AND capability > '' ORDER BY task_id;

-- name: asked_for
SELECT * FROM tasks WHERE capability = :capability AND capability > '' ORDER BY task_id DESC LIMIT :limit;

-- name: in_trace
SELECT * FROM tasks WHERE trace = :trace ORDER BY task_id;

-- name: commit
SELECT tasks.* FROM commits JOIN tasks ON tasks.task_id = commits.task_id
WHERE commits.repository = :repository AND commits.commit_id = :commit_id
ORDER BY commits.task_id;

-- name: outcomes
SELECT * FROM outcomes WHERE agent = :agent ORDER BY at DESC, task_id DESC, version DESC LIMIT :limit;

-- name: permissions
SELECT permissions.*, tasks.title
FROM permissions LEFT JOIN tasks ON tasks.task_id = permissions.task_id
WHERE permissions.open = 1
ORDER BY permissions.requested_at, permissions.permission_id LIMIT :limit;

-- name: permission
SELECT * FROM permissions WHERE permission_id = :permission_id;

-- name: failed
SELECT * FROM tasks
WHERE (state = 'failed' OR (state = 'input_required' AND reason = 'unverified')) AND task_id > ''
ORDER BY task_id DESC LIMIT :limit;

-- name: assigned_count
SELECT count(*) AS count FROM tasks INDEXED BY tasks_open WHERE assignee = :party AND open = 1;

-- name: requested
SELECT * FROM tasks INDEXED BY tasks_open WHERE requester = :party AND open = 1 ORDER BY task_id;

-- name: sessioned
SELECT * FROM tasks INDEXED BY tasks_open_session WHERE open = 1 AND session > '' ORDER BY session, task_id;

-- name: outworn
SELECT * FROM tasks WHERE settled = 1 AND closed_at < :before ORDER BY closed_at, task_id LIMIT :limit;

-- name: settleable
SELECT trace FROM tasks AS last
WHERE open = 0 AND settled = 0 AND closed_at < :before
  AND NOT EXISTS (SELECT 1 FROM tasks AS other WHERE other.open = 1 AND other.trace = last.trace)
  AND NOT EXISTS (
    SELECT 1 FROM tasks AS later
    WHERE later.open = 0 AND later.settled = 0 AND later.trace = last.trace
      AND (later.closed_at, later.task_id) > (last.closed_at, last.task_id)
  )
ORDER BY closed_at, task_id LIMIT :limit;

-- name: archivable
SELECT names.name AS trace FROM events JOIN names ON names.id = events.trace
WHERE events.type = 1 AND events.trace > 0
GROUP BY events.trace ORDER BY events.trace LIMIT :limit;

-- Of the last 10,000 tasks, walked from the newest one until there is one of that party.
-- name: newest
SELECT * FROM (SELECT * FROM tasks WHERE task_id > '' ORDER BY task_id DESC LIMIT 10000) AS recent
WHERE :party IN (requester, assignee, reviewer) LIMIT 1;

-- name: aliases
SELECT * FROM aliases WHERE skeleton > '' ORDER BY skeleton;
