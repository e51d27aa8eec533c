-- $1 key, $2 attempt: why the attempt was not granted
SELECT (extract(epoch FROM c.t) * 1000000)::bigint, coalesce(l.token, 0), coalesce(l.owner = $2::uuid, false),
	coalesce(l.lease_token, 0), coalesce(CASE WHEN l.first_token > l.lease_token THEN l.lease_token ELSE l.token END, 0),
	coalesce((extract(epoch FROM l.expires_at - c.t) * 1000000)::bigint, 0),
	coalesce($2::uuid = ANY (l.dead) OR $2::uuid = l.released, false), l.key IS NULL
FROM (SELECT clock_timestamp() AS t) c LEFT JOIN fencelock_locks l ON l.key = $1::bytea
