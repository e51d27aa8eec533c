-- $1 keys, $2 for how long, $3 if it would otherwise be less than this, in microseconds.
-- A row that is locked just now is left for the next time.
WITH k AS (
	SELECT l.key FROM fencelock_locks l
	WHERE l.key = ANY ($1::bytea[])
		AND (l.waiting_until IS NULL OR l.waiting_until < clock_timestamp() + $3::bigint * interval '1 microsecond')
	FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE fencelock_locks l SET waiting_until = clock_timestamp() + $2::bigint * interval '1 microsecond'
FROM k WHERE l.key = k.key
