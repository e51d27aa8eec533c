-- $1 keys: for each, in order, whether its row is locked, how many wait, and the block of its
-- counter. It locks no row: who tries meanwhile would be refused.
WITH a AS MATERIALIZED (
	SELECT * FROM pg_locks WHERE locktype IN ('transactionid', 'tuple')
)
SELECT coalesce(bool_or(a.granted AND a.locktype = 'transactionid'), false),
	count(DISTINCT a.pid) FILTER (WHERE NOT a.granted),
	coalesce(max(l.first_token), 0), coalesce(max(l.token), 0)
FROM unnest($1::bytea[]) WITH ORDINALITY AS k (key, n)
LEFT JOIN fencelock_locks l ON l.key = k.key
LEFT JOIN fencelock_rows r ON r.key = k.key
LEFT JOIN a ON a.transactionid = r.xmax
	OR a.relation = r.tableoid AND a.tuple = (r.ctid::text::point)[1]::int AND a.page = (r.ctid::text::point)[0]::int
		AND a.database = (SELECT oid FROM pg_database WHERE datname = current_database())
GROUP BY k.n ORDER BY k.n
