// Package locktest checks that a backend keeps the promises of fencelock. A
// backend's test is a dozen lines:
//
//	func TestConformance(t *testing.T) {
//		server := start(t)
//		locktest.Run(t, locktest.Backend{
//			New: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
//				l, err := redis.New(client(t, server), opts...)
//				if err != nil {
//					t.Fatal(err)
//				}
//				return l
//			},
//		})
//	}
//
// It works with any implementation of [fencelock.Locker], also one that shares
// nothing with this module's, and imports nothing but the standard library.
// What a hook is missing for is skipped, and says so.
package locktest

import (
	"context"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

// Locker is what a backend's New returns.
type Locker interface {
	fencelock.Locker
	// Close ends waits, releases holds and waits for clean-ups. It is
	// idempotent.
	Close(ctx context.Context) error
}

// Link is the connection between one Locker and its server, as a proxy between
// the two can disturb it.
type Link interface {
	Delay(d time.Duration)    // every reply is d late; the request has its effect at once
	Jitter(max time.Duration) // every message is late by a random time up to max
	BlackHole()               // messages vanish, nobody gets an error
	Freeze()                  // messages are kept until Heal
	Cut()                     // connections are closed, new ones refused
	Heal()                    // ends all of these; connections made from now on work
}

// Backend describes a backend to [Run]. Only New is required; each hook that is
// nil skips the cases that need it. All Lockers stand on one server, which
// nobody else uses meanwhile, and share the backend's default prefix. The suite
// closes them.
type Backend struct {
	// New returns an independent Locker, as another process would have.
	New func(t testing.TB, opts ...fencelock.Option) Locker

	// Via is New with a link that can be disturbed.
	Via func(t testing.TB, opts ...fencelock.Option) (Locker, Link)

	// Refused is New with an address at which nobody listens.
	Refused func(t testing.TB, opts ...fencelock.Option) Locker

	// Broken is New with a server that answers and refuses: a missing
	// permission, a record of the wrong type.
	Broken func(t testing.TB, opts ...fencelock.Option) Locker

	// Delete removes the record of name from the server, as an operator would
	// by hand.
	Delete func(t testing.TB, name string)

	// Residue lists what the server keeps for Lockers now: lock records, waiters,
	// subscriptions, sessions. Counters of tokens and traces that the backend
	// documents are left out.
	Residue func(t testing.TB) []string

	// Commands returns how many requests to acquire, renew or release the server
	// has had so far.
	Commands func(t testing.TB) int

	// Stick makes the server answer nothing that concerns the record of name, and
	// go on with all others, until release is called: a locked row, a stopped
	// cluster node. Nil: this server cannot be in such a state.
	Stick func(t testing.TB, name string) (release func())

	// Worker returns the command that runs [Work] in another process on the same
	// server; see [Self]. Nil: there is no other process; Lockers in this one take
	// its place.
	Worker func(t testing.TB) *exec.Cmd

	// TTL is a short time to live that works well, even on a busy machine, for
	// the cases that wait for an expiry or a renewal; the default is 1 s. The
	// others ask for a minute.
	TTL time.Duration

	// FixedTTL says that a TTL in a call is refused, as by backends that hold by
	// session.
	FixedTTL bool

	// Session says that a hold ends with the connection that carries it, and that
	// each has its own.
	Session bool
}

type testCase struct {
	name string
	run  func(*kit)
	// It looks at the whole server, or needs the processors for itself. Those that
	// may have company wait for time to pass; the longest come first.
	alone bool
}

var cases = []testCase{
	{name: "SurvivesAShortOutage", run: shortOutage},
	{name: "RenewedAfterALoss", run: renewedAfterLoss},
	{name: "LongerThanItsContext", run: outlivesContext},
	{name: "LossIsToldInTimeAfterALateRenewal", run: lossAfterLateRenewal},
	{name: "LossIsToldInTimeAfterALateGrant", run: lossAfterLateGrant},
	{name: "OneLossLeavesTheOthersHeld", run: othersStayHeld},
	{name: "ErrorsTellApart", run: errorsTellApart},
	{name: "RenewalSparesTheNextHolder", run: renewalSparesNext},
	{name: "OneStuckRenewalDelaysNoOther", run: stuckRenewal},
	{name: "NeverGrantedExpired", run: neverGrantedExpired},
	{name: "PausedHolderIsToldWhenItWakes", run: pausedHolder},
	{name: "LateReleaseSparesTheNextHolder", run: lateRelease},
	{name: "BreakEndsOneHold", run: breakEndsHold},
	{name: "HandleTellsWhatItIs", run: handle},
	{name: "HeldByAnother", run: heldByAnother},
	{name: "WaitBoundsTheWait", run: waitOption},
	{name: "DoneContextAcquiresNothing", run: doneContext},
	{name: "NamesAreIndependent", run: namesAreIndependent},
	{name: "PrefixesAreIndependent", run: prefixesAreIndependent},
	{name: "WaitersOfAProcessAreServedInOrder", run: servedInOrder},
	{name: "OwnersDifferAndTokensRise", run: ownersDiffer},
	{name: "PassesZeroIsAGrantEach", run: passesZero},
	{name: "MinTokenIsHonoured", run: minToken},
	{name: "MinTokenFarAheadIsRefused", run: minTokenFar},
	{name: "MinTokenOfAWaiter", run: minTokenOfWaiter},
	{name: "TTLOfAWaiter", run: ttlOfWaiter},
	{name: "ProcessesTakeTurns", run: takesTurns},
	{name: "ReleaseWithDoneContext", run: releaseDone},
	{name: "ReleaseTwice", run: releaseTwice},
	{name: "ReleaseCutShortCanBeRepeated", run: releaseCutShort},
	{name: "LossIsToldInTimeFrozen", run: lossFrozen},
	{name: "LossIsToldInTimeBlackHole", run: lossBlackHole},
	{name: "LossIsToldInTimeSlow", run: lossSlow},
	{name: "LossIsToldInTimeCut", run: lossCut},
	{name: "RenewalCreatesNothing", run: renewalCreatesNothing},
	{name: "WaitEndsOnTimeBlackHole", run: waitBlackHole},
	{name: "WaitEndsOnTimeInTheQueue", run: waitQueued},
	{name: "WaitEndsOnTimeRefused", run: waitRefused},
	{name: "DeadHolderIsFollowed", run: deadHolder},
	{name: "WithLockReleasesAlways", run: withLockReleases},
	{name: "WithLockTellsLoss", run: withLockLoss},
	{name: "WithLockBoundByContext", run: withLockBound},
	{name: "CloseEndsEverything", run: closeEndsEverything},
	{name: "CloseUndoesPending", run: closeUndoesPending},
	{name: "EventsAreInOrder", run: eventsInOrder},
	{name: "StatusTellsTheHolder", run: statusTells},
	{name: "BreakIsToldByTheRelease", run: breakBeforeRelease},
	{name: "BreakRefusesWhatIsNoHold", run: breakRefuses},

	{name: "RefusesBadRequestsBeforeSending", run: badRequests, alone: true},
	{name: "CancelledAcquireFreesTheLockAtOnce", run: cancelledAcquire, alone: true},
	{name: "CancelAtTheMomentOfGrant", run: cancelAtGrant, alone: true},
	{name: "CleanUpDoesNotOvertakeItsAttempt", run: cancelsThroughJitter, alone: true},
	{name: "NothingIsLeftBehind", run: nothingLeft, alone: true},
	{name: "NoRenewalAfterRelease", run: noRenewalAfterRelease, alone: true},
	{name: "ExcludesGoroutines", run: excludesGoroutines, alone: true},
	{name: "TokensRise", run: tokensRise, alone: true},
	{name: "ManyNamesAtOnce", run: manyNames, alone: true},
	{name: "FairWithPasses", run: fairWithPasses, alone: true},
	{name: "FairWithoutPasses", run: fairWithoutPasses, alone: true},
	{name: "IdleLockerCostsNothing", run: idleCostsNothing, alone: true},
}

// has reports whether a case makes sense for the backend at all. A hook that
// every backend with a server can give is missed with a skip instead.
func (b Backend) has(name string) bool {
	switch name {
	case "OneStuckRenewalDelaysNoOther":
		return b.Stick != nil
	case "PausedHolderIsToldWhenItWakes":
		return b.Worker != nil && pause != nil
	}
	return true
}

// Run runs the suite as subtests of t, in less than a minute for most backends.
// With -short there are fewer rounds, with FENCELOCK_TEST_SOAK=1 in the
// environment more. Most cases wait most of the time and run beside each other;
// one that fails then is run again by itself, and one that fails while this
// process was kept from running is, too. The bounds are ten times what the
// promises say.
func Run(t *testing.T, b Backend) {
	if b.New == nil {
		t.Fatal("locktest: Backend.New is nil")
	}
	if b.TTL == 0 {
		b.TTL = time.Second
	}
	r := &runner{t: t, b: b, stalls: watchStalls()}
	defer r.stalls.close()
	var all sync.WaitGroup
	width := 16 // t.Parallel would run no more than GOMAXPROCS
	if b.Session {
		width = 6 // a server that has to start a session for each lock does no more in less time
	}
	slots := make(chan struct{}, width)
	for _, c := range cases {
		if !b.has(c.name) {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			r.run(c)
		})
	}
	all.Wait()
}
