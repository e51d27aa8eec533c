-- $1 key, $2 attempt, $3 TTL in microseconds, $4 least token, $5 tokens of the block; no row: not granted
-- The row is locked first (s), so that the clock (n) is read after any wait for it.
UPDATE fencelock_locks AS l SET
	token = greatest(l.token + 1, $4::bigint, n.now),
	first_token = greatest(l.token + 1, $4, n.now - $5::bigint + 1),
	lease_token = greatest(l.token + 1, $4, n.now - $5 + 1),
	owner = $2::uuid,
	expires_at = n.t + $3::bigint * interval '1 microsecond'
FROM (
	SELECT key FROM fencelock_locks
	WHERE key = $1::bytea AND (owner IS NULL OR expires_at <= clock_timestamp())
		AND $2::uuid <> ALL (dead) AND released IS DISTINCT FROM $2
	FOR UPDATE
) s CROSS JOIN LATERAL (
	SELECT c.t, (extract(epoch FROM c.t) * 1000000)::bigint AS now
	FROM (SELECT clock_timestamp() AS t WHERE s.key IS NOT NULL) c
) n
WHERE l.key = s.key AND $4::bigint - 1 - 86400000000 <= greatest(l.token, n.now)
	AND CASE current_setting('synchronous_commit') WHEN 'off'
		THEN set_config('synchronous_commit', 'on', true) = 'on' ELSE true END
RETURNING l.first_token, l.token
