-- $1 key: the counter, the clock, and who holds the lease
SELECT coalesce(l.token, 0), (extract(epoch FROM c.t) * 1000000)::bigint, coalesce(l.lease_token, 0),
	l.owner::text, l.released::text, coalesce((extract(epoch FROM l.expires_at - c.t) * 1000000)::bigint, 0)
FROM (SELECT clock_timestamp() AS t) c LEFT JOIN fencelock_locks l ON l.key = $1::bytea
