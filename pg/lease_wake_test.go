package pg

import (
	"encoding/hex"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/sqlkit"
)

// A22: by chance alone some process would be left behind for long.
func TestWhoHasWaitedForMoreTurnsTriesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := sqlkit.KeyOf("k")
		l, waits := newListener(nil), make([]*wait, 3)
		l.waits[id] = make(map[*wait]bool)
		for turns := range waits {
			waits[turns] = &wait{woken: make(chan struct{}, 1), turns: turns}
			l.waits[id][waits[turns]] = true
		}
		l.deliver(hex.EncodeToString(id[:]))
		for turns := 2; turns >= 0; turns-- {
			require.Empty(t, waits[turns].woken)
			time.Sleep(spread >> turns) // the first half of its time
			synctest.Wait()
			for longer := 2; longer > turns; longer-- {
				require.Len(t, waits[longer].woken, 1, "%d before %d", longer, turns)
			}
		}
		time.Sleep(spread)
		synctest.Wait()
		require.Len(t, waits[0].woken, 1)
		require.Equal(t, 1, waits[0].turns, "it has seen one more")
	})
}
