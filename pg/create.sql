-- $1 key, $2 attempt, $3 TTL in microseconds, $4 least token, $5 label: take.sql for a name that has no row
-- yet; no row: it has one by now, or the least token is too far ahead
INSERT INTO fencelock_locks AS l (key, name, token, lease_token, owner, expires_at)
SELECT $1::bytea, $5::text, greatest(n.now, $4::bigint), greatest(n.now, $4), $2::uuid,
	clock_timestamp() + $3::bigint * interval '1 microsecond'
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) n
WHERE $4::bigint - 1 - 86400000000 <= n.now
	AND CASE current_setting('synchronous_commit') WHEN 'off'
		THEN set_config('synchronous_commit', 'on', true) = 'on' ELSE true END
ON CONFLICT (key) DO NOTHING
RETURNING l.lease_token, l.token
