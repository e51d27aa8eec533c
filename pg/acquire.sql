-- $1 key, $2 label, $3 attempt, $4 TTL in microseconds, $5 least token, $6 tokens of the block; no row: not granted
INSERT INTO fencelock_locks AS l (key, name, token, first_token, lease_token, owner, expires_at)
SELECT $1::bytea, $2::text, greatest(n.now, $5::bigint), greatest(n.now, $5), greatest(n.now, $5), $3::uuid,
	n.t + $4::bigint * interval '1 microsecond'
FROM (
	SELECT c.t, (extract(epoch FROM c.t) * 1000000)::bigint AS now
	FROM (SELECT clock_timestamp() AS t) c
) n LEFT JOIN fencelock_locks s ON s.key = $1
-- A look first: a refusal writes nothing and waits for nobody's row lock.
WHERE (s.owner IS NULL OR s.expires_at <= n.t) AND $5 - 1 - 86400000000 <= greatest(s.token, n.now)
	AND CASE current_setting('synchronous_commit') WHEN 'off'
		THEN set_config('synchronous_commit', 'on', true) = 'on' ELSE true END
-- What follows is evaluated once the row is locked, and so must the clock be: now() and
-- EXCLUDED would be from before the wait.
ON CONFLICT (key) DO UPDATE SET (token, first_token, lease_token, owner, expires_at) = (
	SELECT b.last, b.first, b.first, $3::uuid, b.t + $4 * interval '1 microsecond'
	FROM (
		SELECT n.t, greatest(l.token + 1, $5, n.now) AS last, greatest(l.token + 1, $5, n.now - $6::bigint + 1) AS first
		FROM (
			SELECT c.t, (extract(epoch FROM c.t) * 1000000)::bigint AS now
			FROM (SELECT clock_timestamp() AS t) c
		) n
	) b
)
WHERE (l.owner IS NULL OR l.expires_at <= clock_timestamp())
	AND $3 <> ALL (l.dead) AND l.released IS DISTINCT FROM $3
RETURNING l.first_token, l.token
