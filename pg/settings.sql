-- $1 the process that is expected, $2 names, $3 values; nothing is set in another process,
-- nor what this server does not know
SELECT pg_backend_pid()::bigint, count(set_config(s.name, s.value, false))
FROM unnest($2::text[], $3::text[]) AS s (name, value)
WHERE pg_backend_pid() = $1::bigint AND current_setting(s.name, true) IS NOT NULL
	-- Elsewhere it may be known and yet refused.
	AND (s.name <> 'client_connection_check_interval' OR version() LIKE '%linux%')
