-- $1 key
SELECT FROM fencelock_rows WHERE key = $1::bytea FOR UPDATE
