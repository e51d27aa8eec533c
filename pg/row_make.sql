-- $1 key, $2 label
INSERT INTO fencelock_rows (key, name) VALUES ($1::bytea, $2::text) ON CONFLICT (key) DO NOTHING
