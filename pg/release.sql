-- $1 key, $2 attempt. It returns no row, since that costs as much as the rest of it.
UPDATE fencelock_locks SET owner = NULL, expires_at = NULL, released = $2::uuid
WHERE key = $1::bytea AND owner = $2
	AND CASE WHEN waiting_until > clock_timestamp() THEN pg_notify('fencelock', encode(key, 'hex')) IS NOT NULL ELSE true END
