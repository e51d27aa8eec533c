-- $1 keys: for each, in order, whether it is locked, how many wait, and the block of its counter
WITH a AS MATERIALIZED (
	SELECT granted, (classid::bigint << 32) | objid::bigint AS id FROM pg_locks
	WHERE locktype = 'advisory' AND objsubid = 1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT coalesce(bool_or(a.granted), false), count(*) FILTER (WHERE NOT a.granted),
	coalesce(max(l.first_token), 0), coalesce(max(l.token), 0)
FROM unnest($1::bytea[]) WITH ORDINALITY AS k (key, n)
LEFT JOIN fencelock_locks l ON l.key = k.key
LEFT JOIN a ON a.id = ('x' || encode(substr(k.key, 1, 8), 'hex'))::bit(64)::bigint
GROUP BY k.n ORDER BY k.n
