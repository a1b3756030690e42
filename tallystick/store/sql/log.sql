-- The statements of the log itself.

-- name: names_from
SELECT id, name FROM names WHERE id >= ? ORDER BY id LIMIT 16;

-- name: name_find
SELECT id FROM names WHERE name = ?;

-- name: name_last
SELECT max(id) FROM names;

-- name: stream_version
SELECT max(
  coalesce((SELECT max(version) FROM events WHERE stream = :stream), 0),
  coalesce((SELECT max(version) FROM pack_streams WHERE stream = :stream), 0)
);

-- name: head_event
SELECT position, hash FROM events WHERE position = (SELECT max(position) FROM events);

-- name: head_archived
SELECT position, hash FROM archived WHERE position = (SELECT max(position) FROM archived);

-- name: hash_event
SELECT hash FROM events WHERE position = ?;

-- name: hash_archived
SELECT hash FROM archived WHERE position = ?;

-- name: stream_events
SELECT * FROM events WHERE stream = ? AND version > ? ORDER BY version;

-- name: stream_packs
SELECT pack FROM pack_streams WHERE stream = ? AND version > ?;

-- name: trace_packs
SELECT pack FROM pack_traces WHERE trace = ?;

-- name: tail_events
SELECT * FROM events WHERE position > ? ORDER BY position;

-- name: tail_events_trace
SELECT * FROM events WHERE trace = ? AND position > ? ORDER BY position;

-- name: tail_events_kind
SELECT * FROM events WHERE kind <> 'tsk' AND kind = ? AND position > ? ORDER BY position;

-- name: tail_archived
SELECT position, pack, hash FROM archived WHERE position > ? ORDER BY position;

-- name: tail_archived_kind
SELECT position, pack, hash FROM archived WHERE kind <> 'tsk' AND kind = ? AND position > ? ORDER BY position;

-- name: pack
SELECT events FROM packs WHERE id = ?;

-- name: pack_insert
INSERT INTO packs (events) VALUES (?) RETURNING id;

-- name: pack_change
UPDATE packs SET events = ? WHERE id = ?;

-- name: pack_stream_insert
INSERT INTO pack_streams VALUES (?, ?, ?);

-- name: pack_trace_insert
INSERT INTO pack_traces VALUES (?, ?);

-- name: archived_insert
INSERT INTO archived VALUES (?, ?, ?, ?);

-- name: trace_delete
DELETE FROM events WHERE trace = ?;

-- name: body_erase
UPDATE events SET body = NULL WHERE position = ?;
