-- $1 key, $2 attempt, $3 TTL in microseconds, $4 least token, $5 tokens of the block; no row: not granted
-- A row that was locked by another is looked at again once it is ours, with the clock of then: only
-- the tokens may come from before the wait, which makes their block shorter.
UPDATE fencelock_locks AS l SET
	token = greatest(l.token + 1, $4::bigint, n.now),
	first_token = greatest(l.token + 1, $4, n.now - $5::bigint + 1),
	lease_token = greatest(l.token + 1, $4, n.now - $5 + 1),
	owner = $2::uuid,
	expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) n
WHERE l.key = $1::bytea AND (l.owner IS NULL OR l.expires_at <= clock_timestamp())
	AND $2 <> ALL (l.dead) AND l.released IS DISTINCT FROM $2
	AND $4 - 1 - 86400000000 <= greatest(l.token, n.now)
	AND CASE current_setting('synchronous_commit') WHEN 'off'
		THEN set_config('synchronous_commit', 'on', true) = 'on' ELSE true END
RETURNING l.first_token, l.token
