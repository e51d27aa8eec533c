-- Tables of fencelock for MySQL 8.0.1+ and MariaDB 10.6+, with the default prefix. mysql.Migrate creates the same.
-- lock_key is SHA-256(prefix + name); name is a readable copy of prefix + name for operators, and identifies nothing.
-- Times are microseconds since 1970 in UTC.

-- One row per name: its counter of tokens, never set back, and the lease.
CREATE TABLE IF NOT EXISTS `fencelock_locks` (
  lock_key      BINARY(32)    NOT NULL PRIMARY KEY,
  name          VARCHAR(120)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  token         BIGINT        NOT NULL DEFAULT 0,  -- the counter: the last token that was minted
  first_token   BIGINT        NOT NULL DEFAULT 0,  -- the first token of the present or last grant
  owner         VARCHAR(32)   CHARACTER SET ascii COLLATE ascii_bin NULL,  -- the attempt that holds the lease
  expires_at    BIGINT        NOT NULL DEFAULT 0,  -- of the lease; once it was released, when
  locker        VARCHAR(32)   CHARACTER SET ascii COLLATE ascii_bin NULL,  -- the Locker, or the session, that got the last tokens
  waiting_until BIGINT        NOT NULL DEFAULT 0,  -- until then the lock is not for that Locker: others wait
  released      VARCHAR(32)   CHARACTER SET ascii COLLATE ascii_bin NULL,  -- the last attempt that was released
  dead          VARCHAR(1055) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ''  -- the last attempts that were undone
) ENGINE = InnoDB;

-- The rows that NewRow and TxLock lock.
CREATE TABLE IF NOT EXISTS `fencelock_rows` (
  lock_key      BINARY(32)    NOT NULL PRIMARY KEY,
  name          VARCHAR(120)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL
) ENGINE = InnoDB;

-- The fence. Its rows live as long as the data that they guard.
CREATE TABLE IF NOT EXISTS `fencelock_fences` (
  lock_key      BINARY(32)    NOT NULL PRIMARY KEY,
  name          VARCHAR(120)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  claimed       BIGINT        NOT NULL DEFAULT 0,  -- the greatest token that was admitted
  written       BIGINT        NOT NULL DEFAULT 0,  -- the greatest token of a strict fence
  admissions    BIGINT        NOT NULL DEFAULT 0   -- changes with each, so that a stale snapshot shows
) ENGINE = InnoDB;
