-- $2 and $3 the gate of a key
SELECT pg_advisory_lock($2::int, $3::int)
