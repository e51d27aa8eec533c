-- $1 key, $2 attempt, $3 TTL in microseconds, $4 least token, $5 tokens of the block but one; no row: not granted
-- The tokens' clock stands still during the statement, and that of expires_at is read before a wait for a row that is
-- only locked: both are late then, and never before the statement was sent, which is what the holder counts from.
-- date_part is exact enough until 2040, and quicker than extract.
UPDATE fencelock_locks AS l SET
	token = greatest(l.token + 1, $4::bigint, n.now),
	lease_token = greatest(l.token + 1, $4, n.now - $5::bigint),
	owner = $2::uuid,
	expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
FROM (SELECT (date_part('epoch', now()) * 1000000)::bigint AS now) n
WHERE l.key = $1::bytea AND (l.owner IS NULL OR l.expires_at <= clock_timestamp())
	AND $2 <> ALL (l.dead) AND l.released IS DISTINCT FROM $2
	AND $4 - 86400000001 <= greatest(l.token, n.now)
	AND CASE current_setting('synchronous_commit') WHEN 'off'
		THEN set_config('synchronous_commit', 'on', true) = 'on' ELSE true END
RETURNING l.lease_token, l.token
