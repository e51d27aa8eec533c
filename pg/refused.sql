-- $1 key, $2 attempt: why the attempt was not granted
SELECT (extract(epoch FROM c.t) * 1000000)::bigint, coalesce(l.token, 0), coalesce(l.owner = $2::uuid, false),
	coalesce(l.lease_token, 0), coalesce(CASE l.first_token WHEN l.lease_token THEN l.token ELSE l.lease_token END, 0),
	coalesce((extract(epoch FROM l.expires_at - c.t) * 1000000)::bigint, 0),
	coalesce($2::uuid = ANY (l.dead) OR $2::uuid = l.released, false), l.key IS NULL
FROM (SELECT clock_timestamp() AS t) c LEFT JOIN fencelock_locks l ON l.key = $1::bytea
