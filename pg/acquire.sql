-- $1 key, $2 label, $3 attempt, $4 TTL in microseconds, $5 least token, $6 tokens of the block
WITH seen AS MATERIALIZED (
	-- A look first: a refusal writes nothing and waits for nobody's row lock.
	SELECT c.t, (extract(epoch FROM c.t) * 1000000)::bigint AS now, coalesce(l.token, 0) AS token,
		coalesce(l.owner = $3::uuid, false) AS mine, coalesce(l.lease_token, 0) AS first,
		coalesce(CASE l.first_token WHEN l.lease_token THEN l.token ELSE l.lease_token END, 0) AS last,
		coalesce((extract(epoch FROM l.expires_at - c.t) * 1000000)::bigint, 0) AS left,
		coalesce($3::uuid = ANY (l.dead) OR $3::uuid = l.released, false) AS dead,
		CASE current_setting('synchronous_commit') WHEN 'off'
			THEN set_config('synchronous_commit', 'on', true) = 'on' ELSE true END AS durable
	FROM (SELECT clock_timestamp() AS t) c LEFT JOIN fencelock_locks l ON l.key = $1::bytea
), got AS (
	INSERT INTO fencelock_locks AS l (key, name, token, first_token, lease_token, owner, expires_at)
	SELECT $1::bytea, $2::text, greatest(now, $5::bigint), greatest(now, $5), greatest(now, $5), $3::uuid,
		t + $4::bigint * interval '1 microsecond'
	FROM seen
	WHERE durable AND "left" <= 0 AND NOT dead AND $5 - 1 - 86400000000 <= greatest(token, now)
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
)
SELECT got.first_token, got.token, seen.now, seen.token, seen.mine, seen.first, seen.last, seen.left, seen.dead
FROM seen LEFT JOIN got ON true
