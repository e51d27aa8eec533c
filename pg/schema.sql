-- The tables of fencelock for PostgreSQL 13 and later. pg.Migrate creates them, and pg.DDL
-- returns this text for another schema or other names. Nothing here may be changed later
-- except by adding to it.

-- One row for each name that is, or was, locked or counted. The row of a free name that was
-- not used for a week may be deleted, as pg.Prune does.
CREATE TABLE IF NOT EXISTS fencelock_locks (
	key           bytea PRIMARY KEY,           -- SHA-256 of prefix + name
	name          text NOT NULL,               -- prefix + name, shortened, for people
	token         bigint NOT NULL DEFAULT 0,   -- the last token of this name, whoever got it
	first_token   bigint NOT NULL DEFAULT 0,   -- the first of the last block that was not a lease's
	lease_token   bigint NOT NULL DEFAULT 0,   -- the first of the last lease's block
	owner         uuid,                        -- the attempt that holds the lease
	expires_at    timestamptz,                 -- until then, by this server's clock
	released      uuid,                        -- the last attempt that was released
	dead          uuid[] NOT NULL DEFAULT '{}', -- the last attempts that were given up
	waiting_until timestamptz,                 -- until then a release sends a NOTIFY
	session       text                         -- the last that got tokens, by its application_name
) WITH (fillfactor = 50); -- room for the next version of a row in its own page

-- The rows that NewRow locks.
CREATE TABLE IF NOT EXISTS fencelock_rows (
	key  bytea PRIMARY KEY,
	name text NOT NULL
);

-- One row for each fence, which must live as long as the data it guards.
CREATE TABLE IF NOT EXISTS fencelock_fences (
	key     bytea PRIMARY KEY,
	name    text NOT NULL,
	claimed bigint NOT NULL, -- the greatest token that was admitted
	written bigint NOT NULL  -- the greatest that has made a strict write
) WITH (fillfactor = 50);
