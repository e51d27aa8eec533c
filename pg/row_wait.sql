-- $1 key, $2 and $3 its gate, which is left when the row is locked; no row: there is none
WITH got AS MATERIALIZED (SELECT FROM fencelock_rows WHERE key = $1::bytea FOR UPDATE)
SELECT pg_advisory_unlock($2, $3) FROM got
