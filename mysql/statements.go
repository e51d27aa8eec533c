package mysql

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// The statements. In them stand
//
//	$locks $rows $fences  tables
//	$key $name            of the lock
//	$attempt $ttl         of a lease, microseconds
//	$locker $pause        who asks (a Locker, a session or ''), and how often, microseconds
//	$min $n               least token, and how many
//	$token $strict        presented, or to be set; a strict fence
//	$may                  the condition under which such tokens can be minted
//
// clock is the server's, in microseconds, in UTC whatever the session's zone is,
// and has one value per statement; first and last are the block to be minted
// from token, the counter.
//
// A statement that changes a row says so by LAST_INSERT_ID(…), and gives the
// block, in one word: the last token and, in the low 12 bits, how many come
// before it. No expression reads a column that was assigned before it, since
// MariaDB's sql_mode decides whether it would see the old or the new value.
const (
	clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
	last  = "(GREATEST(token, $min, " + clock + " - 1) + 1)"
	first = "(GREATEST(token, $min, " + clock + " - IF(token = 0, 1, $n)) + 1)"
	start = "(GREATEST($min, " + clock + " - 1) + 1)" // the block of a new counter
	free  = "(owner IS NULL OR expires_at <= " + clock + ") AND NOT (locker <=> $locker AND waiting_until > " + clock + ")"

	// Locks: the lease.

	takeSQL = `UPDATE $locks SET
 first_token = ` + first + `,
 token = LAST_INSERT_ID(` + last + ` << 12 | ` + last + ` - ` + first + `) >> 12,
 expires_at = ` + clock + ` + $ttl, locker = $locker, waiting_until = 0, owner = $attempt
WHERE lock_key = $key AND ` + free + ` AND NOT (released <=> $attempt) AND NOT FIND_IN_SET($attempt, dead) AND $may`

	takeNewSQL = `INSERT INTO $locks (lock_key, name, token, first_token, owner, locker, expires_at)
VALUES ($key, $name, LAST_INSERT_ID(` + start + ` << 12) >> 12, ` + start + `, $attempt, $locker, ` + clock + ` + $ttl)
ON DUPLICATE KEY UPDATE token = token + LAST_INSERT_ID(0)`

	renewSQL = `UPDATE $locks SET expires_at = LAST_INSERT_ID(` + clock + ` + $ttl)
WHERE lock_key = $key AND owner = $attempt AND expires_at > ` + clock

	releaseSQL = `UPDATE $locks SET expires_at = LAST_INSERT_ID(` + clock + `), released = $attempt, owner = NULL
WHERE lock_key = $key AND owner = $attempt`

	// The upsert leaves the attempt's tombstone even where no row is yet.
	undoSQL = `INSERT INTO $locks (lock_key, name, expires_at, dead) VALUES ($key, $name, ` + clock + `, $attempt)
ON DUPLICATE KEY UPDATE
 dead = IF(FIND_IN_SET($attempt, dead), dead, SUBSTRING_INDEX(CONCAT_WS(',', $attempt, NULLIF(dead, '')), ',', 32)),
 expires_at = IF(owner <=> $attempt, ` + clock + `, expires_at),
 owner = IF(owner <=> $attempt, NULL, owner)`

	// Keeps the Locker that has the lease from taking it again before another one
	// has asked.
	waitSQL = `UPDATE $locks SET waiting_until = ` + clock + ` + 2 * $pause
WHERE lock_key = $key AND owner IS NOT NULL AND NOT (locker <=> $locker) AND waiting_until < ` + clock + ` + $pause`

	pollSQL = `SELECT COALESCE(MAX(token), 0), COALESCE(MAX(NOT (` + free + `)), 0), COALESCE(MAX(waiting_until), 0) - ` + clock + `
FROM $locks WHERE lock_key = $key`

	// A row in any case, for the sake of the clock.
	lookSQL = `SELECT ` + clock + `, token IS NOT NULL, COALESCE(token, 0), COALESCE(first_token, 0), COALESCE(owner, ''),
 COALESCE(expires_at, 0), COALESCE(released <=> $attempt, 0), COALESCE(FIND_IN_SET($attempt, dead), 0) > 0,
 COALESCE(locker, ''), COALESCE(waiting_until, 0)
FROM (SELECT 1 AS one) AS one LEFT JOIN $locks ON lock_key = $key`

	heldSQL = `SELECT LOWER(HEX(lock_key)) FROM $locks
WHERE lock_key IN ($keys) AND owner IS NOT NULL AND expires_at > ` + clock

	// Locks: the counter of tokens.

	// first_token is a hold's: what is minted for others leaves it alone.
	mintSQL = `UPDATE $locks SET
 first_token = IF($locker = '', first_token, ` + first + `),
 token = LAST_INSERT_ID(` + last + ` << 12 | ` + last + ` - ` + first + `) >> 12,
 locker = IF($locker = '', locker, $locker)
WHERE lock_key = $key AND $may`

	mintNewSQL = `INSERT INTO $locks (lock_key, name, token, first_token, locker, expires_at)
VALUES ($key, $name, LAST_INSERT_ID(` + start + ` << 12) >> 12, ` + start + `, NULLIF($locker, ''), ` + clock + `)
ON DUPLICATE KEY UPDATE token = token + LAST_INSERT_ID(0)`

	setSQL = `UPDATE $locks SET token = LAST_INSERT_ID($token) WHERE lock_key = $key AND token = $min`

	setNewSQL = `INSERT INTO $locks (lock_key, name, token, expires_at) VALUES ($key, $name, LAST_INSERT_ID($token), ` + clock + `)
ON DUPLICATE KEY UPDATE token = token + LAST_INSERT_ID(0)`

	// Rows. The upsert changes nothing, and locks.

	rowSQL = `INSERT INTO $rows (lock_key, name) VALUES ($key, $name) ON DUPLICATE KEY UPDATE name = name`

	// Fences: the first locks the row and gives its admissions, 0 for a new one.
	// The second reads from the transaction's snapshot, the third what counts.

	enterSQL = `INSERT INTO $fences (lock_key, name, claimed, written, admissions)
VALUES ($key, $name, $token, IF($strict, $token, 0), 1 + LAST_INSERT_ID(0))
ON DUPLICATE KEY UPDATE admissions = LAST_INSERT_ID(admissions)`

	snapshotSQL = `SELECT COALESCE(MAX(admissions), 0), COALESCE(MAX(claimed), 0), COALESCE(MAX(written), 0) FROM $fences WHERE lock_key = $key`

	admitSQL = `UPDATE $fences SET claimed = $token, written = IF($strict, $token, written), admissions = admissions + 1
WHERE lock_key = $key`
)

// maxBlock is as many tokens as fit into the low bits of the word.
const maxBlock = 1 << 12

// maxToken is the greatest token that fits into the rest of the word. The clock
// is there in the year 2112.
const maxToken = 1<<52 - 1

// may is the condition under which a token above min can be minted.
func may(least fencelock.Token) string {
	if least == 0 {
		return fmt.Sprintf("token < %d", maxToken-1)
	}
	return fmt.Sprintf("%d <= GREATEST(token, %s) + %d AND GREATEST(token, %[1]d) < %[4]d", least, clock, sqlkit.Day, maxToken-1)
}

// values fill a statement in.
type values struct {
	key     sqlkit.Key
	name    string // prefix + name
	attempt string
	ttl     time.Duration
	locker  string
	pause   time.Duration
	min     fencelock.Token
	n       int
	token   fencelock.Token
	strict  bool
	keys    []sqlkit.Key
}

// text returns the statement with everything in its place.
func (t tables) text(statement string, v values) string {
	b := make([]byte, 0, 2*len(statement))
	for {
		text, rest, found := strings.Cut(statement, "$")
		b = append(b, text...)
		if !found {
			return string(b)
		}
		n := strings.IndexFunc(rest, func(r rune) bool { return r < 'a' || r > 'z' })
		if n < 0 {
			n = len(rest)
		}
		b, statement = t.put(b, rest[:n], v), rest[n:]
	}
}

// put appends what stands for a name.
func (t tables) put(b []byte, name string, v values) []byte {
	switch name {
	case "locks":
		return append(b, t.locks...)
	case "rows":
		return append(b, t.rows...)
	case "fences":
		return append(b, t.fences...)
	case "key":
		return append(b, literal(v.key)...)
	case "keys":
		for i, k := range v.keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, literal(k)...)
		}
		return b
	case "name":
		return append(b, ascii(sqlkit.Label(v.name))...)
	case "attempt":
		return append(b, ascii(v.attempt)...)
	case "locker":
		return append(b, ascii(v.locker)...)
	case "ttl":
		return strconv.AppendInt(b, v.ttl.Microseconds(), 10)
	case "pause":
		return strconv.AppendInt(b, v.pause.Microseconds(), 10)
	case "min":
		return strconv.AppendInt(b, int64(v.min), 10)
	case "n":
		return strconv.AppendInt(b, int64(min(max(1, v.n), maxBlock)), 10)
	case "token":
		return strconv.AppendInt(b, int64(v.token), 10)
	case "strict":
		return strconv.AppendBool(b, v.strict)
	case "may":
		return append(b, may(v.min)...)
	case "week":
		return strconv.AppendInt(b, week, 10)
	}
	panic("mysql: a statement has an unknown $" + name)
}

func literal(k sqlkit.Key) string { return "x'" + k.Hex() + "'" }

// ascii is a string in SQL, safe and the same under every sql_mode.
func ascii(s string) string {
	if strings.Trim(s, "0123456789abcdef") == "" {
		return "'" + s + "'"
	}
	return "_ascii x'" + hex.EncodeToString([]byte(s)) + "'"
}
