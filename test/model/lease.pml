/* lease: leases, takeover and the authority of a mount, for spin.
 *
 * N runs of celldfs (a mount with -o node= each) keep leases in one bucket, and
 * claim and release C cells. Run r is of node NODE(r); with TWINS the first two
 * are of the same node: an old run, which may only be paused, and a new one.
 *
 * What is here, and where it is in C:
 *
 *	Keeper	lib/lease.c: acquiring (acquire_found, judge), renewing (written,
 *		held_read, take), fencing (pass_time, fence); fs/keeper.c
 *	Client	fs/claim.c, fs/swap.c: read, judge the owner, check the authority,
 *		send one conditional PUT, settle, check again
 *	PERMIT	keeper_permit()
 *	IS_DEAD	ownership_life(), called by judge_object() in fs/judge.c
 *	land_*	a conditional PUT lands at any time or never, also long after its
 *		answer was given up
 *	Clock	CLOCK_BOOTTIME and the store's clock
 *
 * Time is in ticks, and every time is kept as "how long from now": so there are
 * finitely many states, and the search has no horizon, whatever the number of
 * renewals, restarts and epochs. A pause is a process that does not move while
 * the clock does. The store's clock, as run r knows it (lib/fleet.h), is wrong by
 * clock_off[r], 0 or OFF_MAX ticks; -o skew-ms= is SKEW ticks. Only differences
 * matter, and nodes are alike: so with 3 nodes it is enough that the last AHEAD of
 * them, 0 to 2, are ahead, one search each.
 *
 * A guard is a bit: it holds until some version lands on its record. A request
 * whose guard holds no more can do nothing, and is forgotten; a lost one is one
 * that never lands. So to read a record, to judge its owner and to send the claim
 * are one step: what would happen in between either makes the guard fail, or can
 * as well happen before or after. Attempt ids: which request wrote the version
 * that is there; an answer and what reading back says are the same here. Resends
 * and what cannot be settled are swap.pml's.
 *
 * With time, the states of N nodes are those of one to the power of N. But what a
 * cell sees of a lease is little: has its run authority, can somebody find it
 * dead? So with ANY_LEASE both change at any time, and there is no clock; all that
 * it keeps of time is COVERED, which is checked where there is one. Whatever cells
 * do with a clock they do without, too, and that is searched for more nodes, runs
 * and cells. Cells have nothing in common but leases, and what is checked is of
 * one cell: so two are many.
 *
 * Checked:
 *	ONE OWNER	no two runs believe at once that they own the same cell
 *	NOT STALE	what a run believes to own is there as it wrote it: nobody
 *			wrote over an acknowledged claim
 *	COVERED		while a run has authority by a lease, nobody finds that
 *			dead, and no other run of the node has authority
 * and that nobody waits for ever (invalid end states). What SEEN() names has to be
 * reached, or it was all for nothing.
 *
 * Safety steps that can be left out: NO_AUTHORITY_CHECK, RENEW_AFTER_EXPIRY,
 * TAKEOVER_ON_READ_ERROR, NO_SKEW, LATE_ANCHOR (authority counts from the answer),
 * LATE_JUDGE (a lease is judged by the time at which its answer came),
 * ETAG_AFTER_JUDGE.
 */
#include "must.h"

#ifndef N
#define N 2
#endif
#ifndef C
#define C 1
#endif
#ifndef TTL
#define TTL 2
#endif
/* Requests of one sender that can be under way at once. */
#ifndef SLOTS
#define SLOTS 1
#endif
#define OFF_MAX 1
#define SKEW	OFF_MAX

#ifdef TWINS
#define NODE(r) ((r) -> (r) - 1 : 0)
#define TWIN(r) ((r) < 2 -> 1 - (r) : (r))
#else
#define NODE(r) (r)
#define TWIN(r) (r)
#endif
#define NOBODY N

/* A run. It is mounted anew at once when it has ended. */
mtype = { ACQUIRING, HELD };
mtype state[N] = ACQUIRING;
bit clock_off[N];
byte authority[N];   /* ticks until its end */
bool lease_guard[N]; /* is the version that the run knows still there? */

/* Requests. STRAY: of a run that is over, so nobody knows its attempt id. */
mtype = { FREE, FLYING, STRAY, LANDED };

/* nodes/X, and the PUTs of each run, all under the same guard. A lease is kept as
 * expires_ms + skew - now. */
byte lease_left[N];
byte lease_by[N]; /* the try + 1 that wrote it; 0 = none that anybody knows */
#define TRY(r, k) (SLOTS * (r) + (k))
mtype try_at[SLOTS * N] = FREE;
byte try_left[SLOTS * N];

/* The anchor + ttl of a try, from now; 0 = over. */
#ifdef LATE_ANCHOR
#define TRY_AUTHORITY(t, r) TTL
#else
#define TRY_AUTHORITY(t, r)				\
	(try_left[t] > clock_off[r] + SKEW ->		\
		 try_left[t] - clock_off[r] - SKEW : 0)
#endif

/* cells/X/own, and the client and its PUTs of each run and cell. */
#define CELL(r, c)   ((r) * C + (c))
#define PUT(r, c, k) (SLOTS * CELL(r, c) + (k))
mtype = { NOTHING, CLAIM, RELEASE };
byte own_node[C] = NOBODY;
byte own_by[C];		      /* the PUT + 1 that wrote it; 0: nobody asks */
mtype put_is[SLOTS * N * C] = NOTHING; /* while it can land */
mtype wants[N * C] = NOTHING; /* what a client waits for, */
byte waits[N * C];	      /* and the PUT + 1 that is to do it */
byte held[N * C]; /* the PUT + 1 of the claim that the client was told of, or 0 */
#if defined(LATE_JUDGE) || defined(ETAG_AFTER_JUDGE)
byte judged[N * C]; /* ticks that the owner's lease had left + 1; 0: not read */
#endif

hidden byte i, j, n; /* used within one step */

#ifdef NO_AUTHORITY_CHECK
#define PERMIT(r) (state[r] == HELD) /* until a thread runs that fences */
#else
#define PERMIT(r) (state[r] == HELD && authority[r] > 0)
#endif
#ifdef RENEW_AFTER_EXPIRY
#define TOO_LATE(r) false
#else
#define TOO_LATE(r) (state[r] == HELD && authority[r] == 0)
#endif
#ifdef NO_SKEW
#define IS_DEAD(left, r) ((left) <= SKEW + clock_off[r])
#else
#define IS_DEAD(left, r) ((left) <= clock_off[r])
#endif
#define IS_OTHERS(r, c) (own_node[c] != NOBODY && own_node[c] != NODE(r))
#if defined(LATE_JUDGE)
#define MAY_TAKE(r, c)				\
	(judged[CELL(r, c)] && IS_DEAD(judged[CELL(r, c)] - 1, r))
#elif defined(ETAG_AFTER_JUDGE)
#define MAY_TAKE(r, c) judged[CELL(r, c)]
#elif defined(TAKEOVER_ON_READ_ERROR)
#define MAY_TAKE(r, c) true
#else
#define MAY_TAKE(r, c) IS_DEAD(lease_left[own_node[c]], r)
#endif
#define BELIEVES(r, c) (held[CELL(r, c)] && PERMIT(r))
#define IS_OURS(r) (lease_by[NODE(r)] && \
		    (lease_by[NODE(r)] - 1) / SLOTS == (r))

inline check(c)
{
	n = 0;
	for (i : 0 .. N - 1) {
		n = n + BELIEVES(i, c);
		MUST("NOT STALE", !BELIEVES(i, c) || own_by[c] == held[CELL(i, c)])
	}
	MUST("ONE OWNER", n <= 1)
}

#define IS_COVERED(r)							\
	(!authority[r] ||						\
	 (lease_left[NODE(r)] > OFF_MAX && (TWIN(r) == (r) || !authority[TWIN(r)])))

inline check_lease()
{
	n = 0;
	for (i : 0 .. N - 1) {
		n = n + IS_COVERED(i)
	}
	MUST("COVERED", n == N)
}

inline forget_try(t)
{
	try_at[t] = FREE;
	try_left[t] = 0
}

inline forget_put(p, c)
{
	if
	:: own_by[c] == p + 1 -> own_by[c] = 0
	:: else
	fi
}

/* The next run knows no attempts of the one before, and looks at the lease. */
inline end_run(r)
{
	if
	:: IS_OURS(r) -> lease_by[NODE(r)] = 0
	:: else
	fi;
	for (j : TRY(r, 0) .. TRY(r, SLOTS - 1)) {
		if
		:: try_at[j] == FLYING -> try_at[j] = STRAY
		:: try_at[j] == LANDED -> forget_try(j)
		:: else
		fi
	}
	for (j : 0 .. C - 1) {
		held[CELL(r, j)] = 0;
		wants[CELL(r, j)] = NOTHING;
		waits[CELL(r, j)] = 0;
		for (i : PUT(r, j, 0) .. PUT(r, j, SLOTS - 1)) {
			forget_put(i, j)
		}
	}
	state[r] = ACQUIRING;
	authority[r] = 0;
	lease_guard[r] = true
}

/* Renewals; and the first write, when the lease is found dead. */
#define MAY_TRY(r)					\
	(lease_guard[r] &&				\
	 (state[r] == HELD -> authority[r] < TTL :	\
			      IS_DEAD(lease_left[NODE(r)], r)))

/* What was under way in the slot is lost. */
inline try(r, t)
{
	try_at[t] = FLYING;
	try_left[t] = TTL + clock_off[r] + SKEW
}

/* A request lands, whatever its sender does. */
inline land_lease(r, t)
{
	lease_left[NODE(r)] = try_left[t];
	for (i : 0 .. N - 1) {
		if
		:: NODE(i) == NODE(r) ->
			lease_guard[i] = false;
			for (j : TRY(i, 0) .. TRY(i, SLOTS - 1)) {
				if
				:: j != t -> forget_try(j)
				:: else
				fi
			}
		:: else
		fi
	}
	if
	:: try_at[t] == FLYING ->
		try_at[t] = LANDED;
		lease_by[NODE(r)] = t + 1
	:: else ->
		SEEN("an old run's lease lands");
		forget_try(t);
		lease_by[NODE(r)] = 0
	fi;
	check_lease()
}
#define MAY_LAND(t) (try_at[t] == FLYING || try_at[t] == STRAY)

#ifndef ANY_LEASE
proctype Keeper(byte r)
{
	do
	:: d_step { MAY_TRY(r) -> try(r, TRY(r, 0)) }
	:: d_step { MAY_LAND(TRY(r, 0)) -> land_lease(r, TRY(r, 0)) }
#if SLOTS > 1
	:: d_step { MAY_TRY(r) && try_at[TRY(r, 0)] != FREE -> try(r, TRY(r, 1)) }
	:: d_step { MAY_LAND(TRY(r, 1)) -> land_lease(r, TRY(r, 1)) }
#endif

	/* applied: by its answer, or by its attempt id */
	:: d_step { IS_OURS(r) && !TOO_LATE(r) ->
		n = lease_by[NODE(r)] - 1;
		lease_by[NODE(r)] = 0;
		authority[r] = TRY_AUTHORITY(n, r);
		if
		:: authority[r] > 0 -> state[r] = HELD
		:: else -> SEEN("it landed after its own expiry")
		fi;
		forget_try(n);
		for (j : 0 .. C - 1) {
			check(j)
		}
		check_lease();
		lease_guard[r] = true }

	/* fenced */
	:: d_step { state[r] == HELD && authority[r] == 0 ->
		if
		:: IS_OURS(r) -> SEEN("a renewal came too late")
		:: else
		fi;
		end_run(r) }

	/* fenced, replaced; or acquiring, and there is a twin */
	:: d_step { !lease_guard[r] && !IS_OURS(r) ->
		if
		:: state[r] == HELD -> SEEN("replaced")
		:: else -> SEEN("a twin, or a late PUT of an old run")
		fi;
		end_run(r) }
	od
}

#else /* whatever a lease can be that is COVERED */
proctype Keeper(byte r)
{
	do
	:: d_step { state[r] == ACQUIRING && !authority[TWIN(r)] ->
		state[r] = HELD;
		authority[r] = 1;
		lease_left[NODE(r)] = 1 }
	:: d_step { authority[r] -> authority[r] = 0 }
	:: d_step { state[r] == HELD && !authority[r] -> end_run(r) }
	/* found dead; or a PUT of a run that is over lands */
	:: d_step { !authority[r] && !authority[TWIN(r)] ->
		lease_left[NODE(r)] = 1 - lease_left[NODE(r)] }
	od
}
#endif

#define IS_IDLE(r, c) (PERMIT(r) && !waits[CELL(r, c)] && !held[CELL(r, c)])
#define MAY_CLAIM(r, c) (IS_IDLE(r, c) && (!IS_OTHERS(r, c) || MAY_TAKE(r, c)))

inline send(r, c, p, what)
{
	forget_put(p, c);
	put_is[p] = what;
	wants[CELL(r, c)] = what;
	waits[CELL(r, c)] = p + 1;
#if defined(LATE_JUDGE) || defined(ETAG_AFTER_JUDGE)
	judged[CELL(r, c)] = 0
#endif
}

/* Whoever asks for a release is the owner no more. */
inline release(r, c, p)
{
	held[CELL(r, c)] = 0;
	send(r, c, p, RELEASE)
}

inline land_own(r, c, p)
{
	if
	:: put_is[p] == CLAIM && IS_OTHERS(r, c) -> SEEN("a takeover")
	:: else
	fi;
	own_node[c] = (put_is[p] == RELEASE -> NOBODY : NODE(r));
	if
	:: waits[CELL(r, c)] == p + 1 -> own_by[c] = p + 1
	:: else ->
		SEEN("a late landing");
		own_by[c] = 0
	fi;
	for (i : 0 .. N - 1) {
		for (j : PUT(i, c, 0) .. PUT(i, c, SLOTS - 1)) {
			put_is[j] = NOTHING
		}
#ifdef LATE_JUDGE
		judged[CELL(i, c)] = 0
#endif
	}
	check(c)
}

proctype Client(byte r; byte c)
{
	do
#if defined(LATE_JUDGE)
	:: d_step { IS_IDLE(r, c) && IS_OTHERS(r, c) ->
		judged[CELL(r, c)] = lease_left[own_node[c]] + 1 }
#elif defined(ETAG_AFTER_JUDGE)
	:: d_step { IS_IDLE(r, c) && IS_OTHERS(r, c) &&
		IS_DEAD(lease_left[own_node[c]], r) -> judged[CELL(r, c)] = 1 }
#endif
	/* claim what is free, was ours, or is another's that is dead */
	:: d_step { MAY_CLAIM(r, c) -> send(r, c, PUT(r, c, 0), CLAIM) }
	:: d_step { BELIEVES(r, c) -> release(r, c, PUT(r, c, 0)) }
	:: d_step { put_is[PUT(r, c, 0)] != NOTHING -> land_own(r, c, PUT(r, c, 0)) }
#if SLOTS > 1
	:: d_step { MAY_CLAIM(r, c) && put_is[PUT(r, c, 0)] != NOTHING ->
		send(r, c, PUT(r, c, 1), CLAIM) }
	:: d_step { BELIEVES(r, c) && put_is[PUT(r, c, 0)] != NOTHING ->
		release(r, c, PUT(r, c, 1)) }
	:: d_step { put_is[PUT(r, c, 1)] != NOTHING -> land_own(r, c, PUT(r, c, 1)) }
#endif

	/* its answer, or what reading back says */
	:: d_step { waits[CELL(r, c)] && own_by[c] == waits[CELL(r, c)] ->
		if
		:: !PERMIT(r) -> SEEN("applied, fenced")
		:: PERMIT(r) && wants[CELL(r, c)] == RELEASE ->
			SEEN("released")
		:: PERMIT(r) && wants[CELL(r, c)] == CLAIM ->
			held[CELL(r, c)] = own_by[c];
			check(c)
		fi;
		if
		:: !held[CELL(r, c)] -> own_by[c] = 0
		:: else
		fi;
		wants[CELL(r, c)] = NOTHING;
		waits[CELL(r, c)] = 0 }

	/* no answer, and reading back finds no trace of it: it may come yet */
	:: d_step { waits[CELL(r, c)] && own_by[c] != waits[CELL(r, c)] ->
		wants[CELL(r, c)] = NOTHING;
		waits[CELL(r, c)] = 0 }
	od
}

#define LESS(x) x = ((x) > 0 -> (x) - 1 : 0)
#define LEFT(r) (authority[r] + lease_left[r] + try_left[TRY(r, 0)] + \
		 try_left[TRY(r, SLOTS - 1)])

proctype Clock()
{
	do
	:: d_step { LEFT(0) + LEFT(N / 2) + LEFT(N - 1) > 0 ->
		for (i : 0 .. N - 1) {
			LESS(authority[i]);
			LESS(lease_left[i])
		}
		for (i : 0 .. SLOTS * N - 1) {
			LESS(try_left[i])
		}
#ifdef LATE_JUDGE
		for (i : 0 .. N * C - 1) {
			judged[i] = (judged[i] > 1 -> judged[i] - 1 : judged[i])
		}
#endif
		check_lease() }
	od
}

init {
	byte r, c;

	atomic {
		for (r : 0 .. N - 1) {
			lease_guard[r] = true;
#if defined(ANY_LEASE)
			skip;
#elif defined(AHEAD)
			clock_off[r] = (r >= N - AHEAD -> OFF_MAX : 0);
#else
			if
			:: true
#ifdef TWINS
			:: clock_off[r] = OFF_MAX
#else /* by symmetry, and as only differences matter */
			:: r > 0 -> clock_off[r] = OFF_MAX
#endif
			fi;
#endif
			run Keeper(r);
			for (c : 0 .. C - 1) {
				run Client(r, c)
			}
		}
#ifndef ANY_LEASE
		run Clock();
#endif
		r = 0;
		c = 0
	}
}
