/*
The fencing token of ../../redlock: one lock at N nodes (acquire.lua), and attempts to
take it (ballot.go). ../../docs/redlock-fence.md says what it shows and what not.

What the code decides from clocks and answers, and what a network does, the model
leaves to chance, so that it can do all that the code can, and more:

- A proposal that was sent may reach each node at any later time, again and again,
  or never; its answer may be heard at any later time, or never. So messages need
  no place here: what was sent can be accepted, and votes are the accepts that may
  have been heard.
- A proposal may be any block, whatever clock, floors and stale answers say, and the
  second round may begin at any moment. Attempts may be of one client or of many.
  Giving up is never doing anything again.
- A lock may expire at any moment. Nobody notices before another attempt takes it,
  so it expires then. It was early if its attempt was undecided or held the lock.
- Left out is what only makes a node refuse more: releases, tombstones, turns, counters
  above 0 at the start, the verdicts ahead and dead, and the rule for blocks at a node
  without a counter. A replay that finds its own lock changes nothing.
*/

#define N 3
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef MAX
#define MAX 4 /* tokens are 1 .. MAX, at most 7 */
#endif
#ifndef SIZE
#define SIZE 2 /* most tokens of a block, 1 or 2 */
#endif

/* Proposals are numbered; p is of attempt p/ROUNDS, in round p%ROUNDS. */
#define PROPOSALS (ATTEMPTS * ROUNDS)
#define attemptOf(p) ((p) / ROUNDS)
#define nobody ATTEMPTS
#define nothing PROPOSALS

/* The rules, and what they are if broken on purpose. */
#define above(p) (first[p] > counter[_pid])
#define quorum (N / 2 + 1)
#define counts(p) (ballot[attemptOf(p)] == p)
#define raised last
#ifdef LOOSE /* a node accepts what is equal to its counter */
#undef above
#define above(p) (first[p] >= counter[_pid])
#endif
#ifdef MINORITY /* one node is enough */
#undef quorum
#define quorum 1
#endif
#ifdef BOTH /* accepts of the first round count in the second */
#undef counts
#define counts(p) (ballot[attemptOf(p)] != nothing)
#endif
#ifdef BOTTOM /* a node counts a block's first token only */
#undef raised
#define raised first
#endif

byte first[PROPOSALS]; /* the blocks; 0: not sent yet */
byte last[PROPOSALS];

byte holder[N];  /* by node: attempt whose lock it keeps */
byte counter[N]; /* by node: the last token that it has accepted */

byte ballot[ATTEMPTS]; /* by attempt: the present proposal, nothing unless undecided */
byte votes[ATTEMPTS];  /* by attempt: set of the nodes that have accepted it */
bit early[ATTEMPTS];   /* by attempt: a node has let its lock expire too soon */
bit holds[ATTEMPTS];

byte begun, decided; /* attempts */
byte granted;        /* set of all tokens granted */
byte top;            /* the greatest of them */

#define tokens(p) ((1 << last[p]) - (1 << (first[p] - 1)))
#define size(set) ((set & 1) + (set >> 1 & 1) + (set >> 2 & 1))

/* Node _pid gets proposal p, and accepts it. */
inline acquire(p) {
	d_step {
		decided < ATTEMPTS && first[p] > 0 && above(p) ->
#ifndef UNLOCKED /* a node does not look at the lock */
		if
		:: holder[_pid] != nobody && holder[_pid] != attemptOf(p) ->
			printf("node %d: the lock of attempt %d expires\n", _pid, holder[_pid]);
			early[holder[_pid]] = 1
		:: else
		fi;
#endif
		printf("node %d: accepts %d..%d of attempt %d, counter was %d\n", _pid, first[p], last[p], attemptOf(p), counter[_pid]);
		counter[_pid] = raised[p];
		if
		:: ballot[attemptOf(p)] != nothing || holds[attemptOf(p)] -> holder[_pid] = attemptOf(p)
		:: else -> holder[_pid] = nobody /* a late message; who cares when that lock expires */
		fi;
		if
		:: counts(p) -> votes[attemptOf(p)] = votes[attemptOf(p)] | 1 << _pid
		:: else
		fi
	}
}

#ifdef WIPED
bit wiped;

/* A node forgets everything, once. */
inline wipe() {
	d_step {
		!wiped ->
		wiped = 1;
		printf("node %d: is wiped\n", _pid);
		counter[_pid] = 0;
		holder[_pid] = nobody;
#ifdef ABSENT /* and stays away until what was on its way is over */
		for (i : 0 .. ATTEMPTS - 1) {
			ballot[i] = nothing;
			votes[i] = 0;
			holds[i] = 0;
			early[i] = 0
		}
		for (i : 0 .. N - 1) {
			holder[i] = nobody
		}
		i = 0
#endif
	}
}
#endif

active [N] proctype node() {
#ifdef ABSENT
	byte i;
#endif
	do
	:: acquire(0)
	:: acquire(1)
#if PROPOSALS > 2
	:: acquire(2)
#endif
#if PROPOSALS > 3
	:: acquire(3)
#endif
#if PROPOSALS > 4
	:: acquire(4)
	:: acquire(5)
#endif
#ifdef WIPED
	:: wipe()
#endif
	od
}

/* Attempt a sends proposal p to all nodes. */
inline propose() {
	select (t : 1 .. MAX);
#ifdef CLOCKS
	t > top; /* no clock is behind the last grant */
#endif
	first[p] = t;
	last[p] = t;
#if SIZE > 1
	if
	:: t < MAX -> last[p] = t + 1
	:: true
	fi;
#endif
	printf("attempt %d: proposes %d..%d\n", a, first[p], last[p]);
	ballot[a] = p;
	votes[a] = 0;
	t = 0
}

/* A majority has accepted. */
inline grant() {
	printf("attempt %d: granted %d..%d\n", a, first[p], last[p]);
#ifdef REACHED
	assert(decided + 1 < ATTEMPTS); /* to see that all attempts may be granted in one run */
#endif
	assert((granted & tokens(p)) == 0); /* unique */
	assert(first[p] > known);           /* above all grants before the attempt began */
#ifdef STRICT
	assert(first[p] > top);
#endif
	assert(first[p] > top || early[a]); /* above all grants so far, while clocks are right */
	for (t : 0 .. ATTEMPTS - 1) {
		assert(!holds[t] || early[t] || early[a]) /* alone, while clocks are right */
	}
	granted = granted | tokens(p);
	if
	:: last[p] > top -> top = last[p]
	:: else
	fi;
	holds[a] = 1;
	decided++;
	ballot[a] = nothing;
	votes[a] = 0; /* and so on: what is of no use any more must not make states differ */
	known = 0;
	p = 0;
	t = 0
}

inline letGo() {
	printf("attempt %d: lets go\n", a);
	holds[a] = 0;
	early[a] = 0;
	for (t : 0 .. N - 1) {
		if
		:: holder[t] == a -> holder[t] = nobody
		:: else
		fi
	}
	t = 0
}

proctype attempt(byte a) {
	byte p, t;
	byte known; /* the greatest token granted before this attempt began */

	atomic { begun == a -> begun++; known = top; p = a * ROUNDS; propose() } /* numbered as they begin */
	do
#if ROUNDS > 1
	:: atomic { ballot[a] == p && p == a * ROUNDS -> p++; propose() }
#endif
	:: d_step { ballot[a] == p && size(votes[a]) >= quorum -> grant() }
	:: d_step { holds[a] && decided < ATTEMPTS -> letGo() }
	od
}

init {
	byte i;
	atomic {
		for (i : 0 .. N - 1) {
			holder[i] = nobody
		}
		for (i : 0 .. ATTEMPTS - 1) {
			ballot[i] = nothing;
			run attempt(i)
		}
		i = 0
	}
}
