-- $1 key: whether its row is locked now, by us, and whether there is one
WITH got AS (SELECT FROM fencelock_rows WHERE key = $1::bytea FOR UPDATE SKIP LOCKED)
SELECT EXISTS (SELECT FROM got), EXISTS (SELECT FROM fencelock_rows WHERE key = $1)
