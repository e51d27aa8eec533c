-- $1 key, $2 the first token of a hold: ends the session that has got it, if it has the lock, and says whether it has
SELECT count(pg_terminate_backend(a.pid))
FROM fencelock_locks l JOIN pg_stat_activity s ON s.application_name = l.session JOIN pg_locks a ON a.pid = s.pid
WHERE l.key = $1::bytea AND l.first_token = $2::bigint
	AND a.locktype = 'advisory' AND a.objsubid = 1 AND a.granted
	AND a.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND (a.classid::bigint << 32) | a.objid::bigint = ('x' || encode(substr(l.key, 1, 8), 'hex'))::bit(64)::bigint
