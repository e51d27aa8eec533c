-- $1 key, $2 label, $3 token, $4 whether it is a strict write; no row: refused
INSERT INTO fencelock_fences AS f (key, name, claimed, written)
VALUES ($1::bytea, $2::text, $3::bigint, CASE WHEN $4::boolean THEN $3 ELSE 0 END)
ON CONFLICT (key) DO UPDATE SET claimed = $3, written = CASE WHEN $4 THEN $3 ELSE f.written END
WHERE f.claimed <= $3 AND ($4 IS FALSE OR f.written < $3)
RETURNING xmin = pg_current_xact_id()::xid -- else below a savepoint
