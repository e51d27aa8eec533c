-- $1 keys: for each, in order, whether its row is locked, how many wait, and the block of its
-- counter. It locks no row: who tries meanwhile would be refused.
WITH a AS MATERIALIZED (
	SELECT locktype, granted, pid, transactionid,
		CASE WHEN locktype = 'advisory' THEN (classid::bigint << 32) | objid::bigint END AS gate
	FROM pg_locks
	WHERE locktype = 'transactionid' OR locktype = 'advisory' AND objsubid = 2 AND NOT granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT coalesce(bool_or(a.granted), false), count(DISTINCT a.pid) FILTER (WHERE NOT a.granted),
	coalesce(max(l.first_token), 0), coalesce(max(l.token), 0)
FROM unnest($1::bytea[]) WITH ORDINALITY AS k (key, n)
LEFT JOIN fencelock_locks l ON l.key = k.key
LEFT JOIN fencelock_rows r ON r.key = k.key
LEFT JOIN a ON a.transactionid = r.xmax OR a.gate = ('x' || encode(substr(k.key, 9, 8), 'hex'))::bit(64)::bigint
GROUP BY k.n ORDER BY k.n
