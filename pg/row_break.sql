-- $1 key, $2 the first token of a hold: ends the session that has got it, if it has the lock, and says whether it has
SELECT count(pg_terminate_backend(a.pid))
FROM fencelock_locks l JOIN pg_stat_activity s ON s.application_name = l.session JOIN pg_locks a ON a.pid = s.pid
WHERE l.key = $1::bytea AND l.first_token = $2::bigint
	AND a.locktype = 'transactionid' AND a.granted
	AND a.transactionid = (SELECT r.xmax FROM fencelock_rows r WHERE r.key = l.key)
