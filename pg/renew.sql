-- $1 keys, $2 attempts, $3 TTLs in microseconds; for each: whether it is renewed, and what was seen
WITH r AS MATERIALIZED (
	SELECT * FROM unnest($1::bytea[], $2::text[]::uuid[], $3::bigint[]) WITH ORDINALITY AS r (key, attempt, ttl, n)
	WHERE CASE current_setting('synchronous_commit') WHEN 'off'
		THEN set_config('synchronous_commit', 'on', true) = 'on' ELSE true END
), free AS MATERIALIZED (
	-- A row that another transaction has locked must not keep the others waiting.
	SELECT l.key FROM r JOIN fencelock_locks l ON l.key = r.key
	WHERE l.owner = r.attempt AND l.expires_at > clock_timestamp()
	FOR NO KEY UPDATE OF l SKIP LOCKED
), done AS (
	UPDATE fencelock_locks l SET expires_at = clock_timestamp() + r.ttl * interval '1 microsecond'
	FROM free JOIN r ON r.key = free.key
	WHERE l.key = free.key AND l.owner = r.attempt AND l.expires_at > clock_timestamp()
	RETURNING l.key
)
SELECT done.key IS NOT NULL, l.key IS NOT NULL, l.owner IS NOT NULL, coalesce(l.owner = r.attempt, false),
	coalesce(l.expires_at > clock_timestamp(), false)
FROM r LEFT JOIN done ON done.key = r.key LEFT JOIN fencelock_locks l ON l.key = r.key
ORDER BY r.n
