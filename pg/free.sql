-- $1 keys: the place of the first whose lease is free, 0 if none is. Rows that are locked are
-- being taken just now.
WITH k AS MATERIALIZED (
	SELECT * FROM unnest($1::bytea[]) WITH ORDINALITY AS k (key, n)
	WHERE set_config('synchronous_commit', 'off', true) = 'off' -- nothing is changed here
), unused AS (
	SELECT k.n FROM k WHERE NOT EXISTS (SELECT FROM fencelock_locks l WHERE l.key = k.key) ORDER BY k.n LIMIT 1
), free AS (
	SELECT k.n FROM k JOIN fencelock_locks l ON l.key = k.key
	WHERE l.owner IS NULL OR l.expires_at <= clock_timestamp()
	ORDER BY k.n LIMIT 1 FOR NO KEY UPDATE OF l SKIP LOCKED
)
SELECT coalesce(min(n), 0) FROM (SELECT n FROM unused UNION ALL SELECT n FROM free) f
