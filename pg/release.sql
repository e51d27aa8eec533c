-- $1 key, $2 attempt
UPDATE fencelock_locks SET owner = NULL, expires_at = NULL, released = $2::uuid
WHERE key = $1::bytea AND owner = $2
RETURNING CASE WHEN waiting_until > clock_timestamp() THEN pg_notify('fencelock', encode(key, 'hex')) IS NULL END
