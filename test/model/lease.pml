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
 *	*_request	a conditional PUT lands at any time or never, also long after
 *		its answer was given up
 *	Clock	CLOCK_BOOTTIME and the store's clock
 *
 * Time is in ticks, and every time is kept as "how long from now": so there are
 * finitely many states, and the search has no horizon, whatever the number of
 * renewals, restarts and epochs. A pause is a process that does not move while
 * the clock does. The store's clock, as run r knows it (lib/fleet.h), is wrong by
 * clock_off[r], 0 or OFF_MAX ticks; -o skew-ms= is SKEW ticks.
 *
 * A guard is a bit: it holds until some version lands on its record. A request
 * whose guard holds no more can do nothing, and is forgotten; a lost one is one
 * that never lands. So to read a record, to judge its owner and to send the claim
 * are one step: what would happen in between either makes the guard fail, or can
 * as well happen before or after. Attempt ids: which request wrote the version
 * that is there; an answer and what reading back says are the same here. Resends
 * and what cannot be settled are swap.pml's.
 *
 * Checked:
 *	ONE OWNER	no two runs believe at once that they own the same cell
 *	NOT STALE	what a run believes to own is there as it wrote it: nobody
 *			wrote over an acknowledged claim
 * What SEEN() names has to be reached, or it was all for nothing.
 *
 * Safety steps that can be left out: NO_AUTHORITY_CHECK, RENEW_AFTER_EXPIRY,
 * TAKEOVER_ON_READ_ERROR, NO_SKEW, LATE_JUDGE (a lease is judged by the time at
 * which its answer came), ETAG_AFTER_JUDGE.
 */
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
#else
#define NODE(r) (r)
#endif
#define NOBODY N

/* Both tell on the standard output, outside of the states: once that something
 * interesting was reached, and what was violated. */
c_decl {
	static int is_seen[16];
}
#define SEEN(n, text) c_code { if (!is_seen[n]++) puts("seen: " text); }
#define MUST(what, x)					\
	if						\
	:: x						\
	:: else ->					\
		c_code { puts("violated: " what); };	\
		assert(false)				\
	fi

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
#define TRY_AUTHORITY(t, r)				\
	(try_left[t] > clock_off[r] + SKEW ->		\
		 try_left[t] - clock_off[r] - SKEW : 0)

/* cells/X/own, and the client and its PUTs of each run and cell. */
#define CELL(r, c)   ((r) * C + (c))
#define PUT(r, c, k) (SLOTS * CELL(r, c) + (k))
mtype = { NOTHING, CLAIM, TAKEOVER, RELEASE };
byte own_node[C] = NOBODY;
byte own_by[C];		      /* the PUT + 1 that wrote it; 0: nobody asks */
mtype put_is[SLOTS * N * C] = NOTHING; /* while it can land */
mtype wants[N * C] = NOTHING; /* what a client waits for, */
byte waits[N * C];	      /* and the PUT + 1 that is to do it */
byte held[N * C]; /* the PUT + 1 of the claim that the client was told of, or 0 */

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
#ifdef TAKEOVER_ON_READ_ERROR
#define MAY_TAKE(left, r) true
#else
#define MAY_TAKE(left, r) IS_DEAD(left, r)
#endif
#ifdef LATE_JUDGE
byte seen_left[N * C];
#endif
#define BELIEVES(r, c) (held[CELL(r, c)] && PERMIT(r))
#define IS_OURS(r) (lease_by[NODE(r)] && \
		    (lease_by[NODE(r)] - 1) / SLOTS == (r))

inline check()
{
	for (j : 0 .. C - 1) {
		n = 0;
		for (i : 0 .. N - 1) {
			n = n + BELIEVES(i, j)
		}
		MUST("ONE OWNER", n <= 1);
		for (i : 0 .. N - 1) {
			MUST("NOT STALE", !BELIEVES(i, j) ||
			     own_by[j] == held[CELL(i, j)])
		}
	}
	i = 0;
	j = 0;
	n = 0
}

inline forget_try(t)
{
	try_at[t] = FREE;
	try_left[t] = 0
}

/* The next run knows no attempts of the one before, and looks at the lease. */
inline end_run(r)
{
	state[r] = ACQUIRING;
	authority[r] = 0;
	lease_guard[r] = true;
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
	for (j : CELL(r, 0) .. CELL(r, C - 1)) {
		held[j] = 0;
		wants[j] = NOTHING;
		waits[j] = 0
	}
	j = 0
}

proctype Keeper(byte r)
{
	byte i, j, n, t;

end:	do
	/* acquire, renew: the first write when the lease is found dead. What
	 * was under way in the slot is lost. */
	:: atomic { lease_guard[r] &&
		(state[r] == HELD -> authority[r] < TTL :
			IS_DEAD(lease_left[NODE(r)], r)) ->
		t = TRY(r, 0);
		do
		:: t < TRY(r, SLOTS - 1) -> t++
		:: break
		od;
		try_at[t] = FLYING;
		try_left[t] = TTL + clock_off[r] + SKEW;
		t = 0 }

	/* applied: by its answer, or by its attempt id */
	:: atomic { IS_OURS(r) && !TOO_LATE(r) ->
		t = lease_by[NODE(r)] - 1;
		lease_by[NODE(r)] = 0;
		lease_guard[r] = true;
		authority[r] = TRY_AUTHORITY(t, r);
		if
		:: authority[r] > 0 -> state[r] = HELD
		:: else -> SEEN(0, "it landed after its own expiry")
		fi;
		forget_try(t);
		t = 0;
		check() }

	/* fenced */
	:: atomic { state[r] == HELD && authority[r] == 0 ->
		if
		:: IS_OURS(r) -> SEEN(1, "a renewal came too late")
		:: else
		fi;
		end_run(r) }

	/* fenced, replaced; or acquiring, and there is a twin */
	:: atomic { !lease_guard[r] && !IS_OURS(r) ->
		if
		:: state[r] == HELD ->
			SEEN(2, "replaced");
			end_run(r)
		:: else ->
			SEEN(3, "a twin, or a late PUT of an old run");
			end_run(r)
		fi }
	od
}

inline send(r, c, what)
{
	p = PUT(r, c, 0);
	do
	:: p < PUT(r, c, SLOTS - 1) -> p++
	:: break
	od;
	if
	:: own_by[c] == p + 1 -> own_by[c] = 0
	:: else
	fi;
	put_is[p] = what;
	wants[CELL(r, c)] = what;
	waits[CELL(r, c)] = p + 1;
	p = 0
}

proctype Client(byte r; byte c)
{
	byte i, j, n, p;
#ifdef LATE_JUDGE
	byte owner, by;
#endif
#ifdef ETAG_AFTER_JUDGE
	bool judged;
#endif

end:	do
	/* claim what is free, or was ours */
	:: atomic { PERMIT(r) && !waits[CELL(r, c)] && !held[CELL(r, c)] &&
		(own_node[c] == NOBODY || own_node[c] == NODE(r)) ->
		send(r, c, CLAIM) }

	/* take what is another node's, if it is dead */
#ifdef LATE_JUDGE
	:: atomic { PERMIT(r) && !waits[CELL(r, c)] && !held[CELL(r, c)] &&
		own_node[c] != NOBODY && own_node[c] != NODE(r) ->
		owner = own_node[c];
		by = own_by[c];
		seen_left[CELL(r, c)] = lease_left[owner] };
		atomic {
		if
		:: IS_DEAD(seen_left[CELL(r, c)], r) && PERMIT(r) &&
			own_by[c] == by && own_node[c] == owner ->
			send(r, c, TAKEOVER)
		:: else
		fi;
		owner = 0;
		by = 0;
		seen_left[CELL(r, c)] = 0 }
#else
#ifdef ETAG_AFTER_JUDGE
	:: atomic { PERMIT(r) && !waits[CELL(r, c)] && !held[CELL(r, c)] &&
		own_node[c] != NOBODY && own_node[c] != NODE(r) &&
		IS_DEAD(lease_left[own_node[c]], r) -> judged = true };
		atomic {
		if
		:: PERMIT(r) -> send(r, c, TAKEOVER)
		:: else
		fi;
		judged = false }
#else
	:: atomic { PERMIT(r) && !waits[CELL(r, c)] && !held[CELL(r, c)] &&
		own_node[c] != NOBODY && own_node[c] != NODE(r) &&
		MAY_TAKE(lease_left[own_node[c]], r) ->
		send(r, c, TAKEOVER) }
#endif
#endif

	/* release: whoever asks for it is the owner no more */
	:: atomic { BELIEVES(r, c) ->
		held[CELL(r, c)] = 0;
		send(r, c, RELEASE) }

	/* its answer, or what reading back says */
	:: atomic { waits[CELL(r, c)] && own_by[c] == waits[CELL(r, c)] ->
		if
		:: !PERMIT(r) -> SEEN(4, "applied, fenced")
		:: PERMIT(r) && wants[CELL(r, c)] == RELEASE ->
			SEEN(5, "released")
		:: PERMIT(r) && wants[CELL(r, c)] != RELEASE ->
			held[CELL(r, c)] = own_by[c];
			check();
			if
			:: wants[CELL(r, c)] == TAKEOVER ->
				SEEN(6, "a takeover")
			:: else
			fi
		fi;
		wants[CELL(r, c)] = NOTHING;
		waits[CELL(r, c)] = 0 }

	/* no answer, and reading back finds no trace of it: it may come yet */
	:: atomic { waits[CELL(r, c)] && own_by[c] != waits[CELL(r, c)] ->
		wants[CELL(r, c)] = NOTHING;
		waits[CELL(r, c)] = 0 }
	od
}

proctype Lease_request(byte r; byte t)
{
	byte i, j;

end:	do
	:: atomic { try_at[t] == FLYING || try_at[t] == STRAY ->
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
		i = 0;
		j = 0;
		if
		:: try_at[t] == FLYING ->
			try_at[t] = LANDED;
			lease_by[NODE(r)] = t + 1
		:: else ->
			SEEN(7, "an old run's lease lands");
			forget_try(t);
			lease_by[NODE(r)] = 0
		fi }
	od
}

proctype Own_request(byte r; byte c; byte p)
{
	byte i, j, n;

end:	do
	:: atomic { put_is[p] != NOTHING ->
		if
		:: waits[CELL(r, c)] != p + 1 -> SEEN(8, "a late landing")
		:: else
		fi;
		own_node[c] = (put_is[p] == RELEASE -> NOBODY : NODE(r));
		own_by[c] = p + 1;
		for (i : 0 .. N - 1) {
			for (j : PUT(i, c, 0) .. PUT(i, c, SLOTS - 1)) {
				put_is[j] = NOTHING
			}
		}
		i = 0;
		j = 0;
		check() }
	od
}

#define LESS(x) x = ((x) > 0 -> (x) - 1 : 0)

proctype Clock()
{
	byte i;

end:	do
	:: d_step {
		for (i : 0 .. N - 1) {
			LESS(authority[i]);
			LESS(lease_left[i])
		}
		for (i : 0 .. SLOTS * N - 1) {
			LESS(try_left[i])
		}
#ifdef LATE_JUDGE
		for (i : 0 .. N * C - 1) {
			LESS(seen_left[i])
		}
#endif
		i = 0 }
	od
}

init {
	byte r, c, s;

	atomic {
		for (r : 0 .. N - 1) {
			lease_guard[r] = true;
			if
			:: true
#ifdef TWINS
			:: clock_off[r] = OFF_MAX
#else /* by symmetry, and as only differences matter */
			:: r > 0 -> clock_off[r] = OFF_MAX
#endif
			fi;
			run Keeper(r);
			for (s : TRY(r, 0) .. TRY(r, SLOTS - 1)) {
				run Lease_request(r, s)
			}
			for (c : 0 .. C - 1) {
				run Client(r, c);
				for (s : PUT(r, c, 0) .. PUT(r, c, SLOTS - 1)) {
					run Own_request(r, c, s)
				}
			}
		}
		run Clock();
		r = 0;
		c = 0;
		s = 0
	}
}
