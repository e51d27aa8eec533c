-- $1 key, $2 label, $3 the counter that was read, $4 the next; a row if it was still so
INSERT INTO fencelock_locks AS l (key, name, token, first_token)
SELECT $1::bytea, $2::text, $4::bigint, $4
WHERE CASE current_setting('synchronous_commit') WHEN 'off'
	THEN set_config('synchronous_commit', 'on', true) = 'on' ELSE true END
ON CONFLICT (key) DO UPDATE SET token = $4, first_token = $4 WHERE l.token = $3::bigint
RETURNING true
