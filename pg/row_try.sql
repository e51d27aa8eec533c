-- $1 key, $2 and $3 its gate: whether its row is locked now, by us, and whether there is one
WITH gate AS MATERIALIZED (
	SELECT pg_try_advisory_lock($2::int, $3::int) AS open -- not if others wait
), got AS MATERIALIZED (
	SELECT FROM fencelock_rows WHERE key = $1::bytea AND (SELECT open FROM gate) FOR UPDATE SKIP LOCKED
)
SELECT EXISTS (SELECT FROM got), EXISTS (SELECT FROM fencelock_rows WHERE key = $1),
	CASE WHEN (SELECT open FROM gate) THEN pg_advisory_unlock($2, $3) END
