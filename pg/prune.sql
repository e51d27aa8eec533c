-- $1 the age in microseconds
WITH old AS MATERIALIZED (
	SELECT key FROM fencelock_locks
	WHERE token < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1::bigint
		AND (owner IS NULL OR expires_at <= clock_timestamp())
	FOR UPDATE SKIP LOCKED
), counters AS (
	DELETE FROM fencelock_locks l USING old WHERE l.key = old.key RETURNING l.key
), rows AS (
	DELETE FROM fencelock_rows r WHERE r.key IN (
		SELECT r.key FROM fencelock_rows r
		WHERE r.key IN (SELECT key FROM old) OR NOT EXISTS (SELECT FROM fencelock_locks l WHERE l.key = r.key)
		FOR UPDATE OF r SKIP LOCKED -- a row that is locked is in use
	)
)
SELECT count(*) FROM counters
