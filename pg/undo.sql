-- $1 key, $2 label, $3 attempt: gives it up, now and if it comes later
INSERT INTO fencelock_locks AS l (key, name, token, first_token, dead)
-- A counter of now, so that Prune does not take the row for an old one.
SELECT $1::bytea, $2::text, n.now, n.now, ARRAY[$3::uuid]
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) n
ON CONFLICT (key) DO UPDATE SET
	token = greatest(l.token, EXCLUDED.token),
	owner = nullif(l.owner, $3),
	expires_at = CASE WHEN l.owner = $3 THEN NULL ELSE l.expires_at END,
	dead = CASE WHEN $3 = ANY (l.dead) THEN l.dead ELSE l.dead[greatest(cardinality(l.dead) - 30, 1):] || $3::uuid END
RETURNING CASE WHEN waiting_until > clock_timestamp() THEN pg_notify('fencelock', encode(key, 'hex')) IS NULL END
