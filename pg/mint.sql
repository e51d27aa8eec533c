-- $1 key, $2 label, $3 least token, $4 tokens of the block, $5 the session they are for or ''; no row: the least token is
-- too far ahead
INSERT INTO fencelock_locks AS l (key, name, token, first_token, session)
SELECT $1::bytea, $2::text, greatest(n.now, $3::bigint), greatest(n.now, $3), nullif($5::text, '')
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) n
WHERE $3 - 1 - 86400000000 <= greatest(n.now, (SELECT token FROM fencelock_locks WHERE key = $1))
	-- A token must not be forgotten in a crash, whatever the session's setting.
	AND CASE current_setting('synchronous_commit') WHEN 'off'
		THEN set_config('synchronous_commit', 'on', true) = 'on' ELSE true END
-- The clock is read once, and after the wait for the row.
ON CONFLICT (key) DO UPDATE SET (token, first_token) = (
	SELECT greatest(l.token + 1, $3, n.now), greatest(l.token + 1, $3, n.now - $4::bigint + 1)
	FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) n
), session = coalesce(nullif($5, ''), l.session)
RETURNING first_token, token, xmin = pg_current_xact_id()::xid -- else below a savepoint
