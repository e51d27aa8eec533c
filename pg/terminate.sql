-- $1 a process, $2 its application_name: ends it, and says whether it was still there
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid = $1::bigint AND application_name = $2::text
