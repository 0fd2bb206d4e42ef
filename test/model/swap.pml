/* swap: one guarded write, settled to applied, rejected or unknown, for spin.
 *
 * WRITERS writers make WRITES writes each to the record of one cell, all at once:
 * as many cells are as many buckets. They are of as many nodes, or some of one, as
 * shells on one mount: then their claims can be equal byte for byte.
 *
 * What is here, and where it is in C:
 *
 *	Writer		read, then cas_put() in lib/cas.c: send, settle (judge),
 *			send again under the same guard and attempt id, give up
 *	land		the bucket: conditional writes. The ETag is what a hash of
 *			the bytes is, equal for equal records
 *	Late		a request lands when nobody waits for its answer any more
 *	IS_OURS		judge(): the attempt id in the object
 *	DISPROVES	ownership_disproves() in lib/ownership.c
 *	choose		what rule 2 allows, lib/ownership.c. Owners are found dead
 *			or not as it comes: that is lease.pml's
 *
 * Checked:
 *	TRUE OUTCOME	applied: it was; rejected, not done: it was not, and will
 *			never be
 *	ONCE		however often it is sent, a write is applied once at most
 *	NOT STALE	a write lands on the version that its writer read, so no
 *			acknowledged claim is overwritten by a stale one
 *	ONWARD		epochs grow; only a release keeps its own
 *	ONE OWNER	a claim of an epoch is acknowledged once
 *	RELEASE KEPT	nobody claims an epoch of which a release was acknowledged
 * and that every writer gets to its end (invalid end states). What SEEN() names
 * has to be reached, or it was all for nothing.
 *
 * Safety steps that can be left out: NO_SETTLE (unknown is taken as not done),
 * BODY_COMPARE (settled by the bytes), TRUST_412 (a 412 is a rejection, whatever
 * was sent before), SUPERSEDED_IS_REJECTED, RESEND_FRESH (what is sent again goes
 * under the ETag that was read back), NO_GUARD.
 */
#include "must.h"

#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef WRITES
#define WRITES 1
#endif
#ifndef TRIES
#define TRIES 2
#endif
/* Requests of one write that can be late. */
#ifndef LATE
#define LATE 1
#endif
#define ALL (WRITERS * WRITES)

#define NOBODY	0 /* epoch 0: there is no record */
#define NODE(w) ((w) < writers_of_1 -> 1 : (w) - writers_of_1 + 2)

byte writers_of_1; /* 1 to all; every other writer is of a node of its own */
byte own_node;
byte own_epoch;
byte own_by; /* the attempt id: the write + 1; 0: nobody asks */
#define ETAG ((WRITERS + 1) * own_epoch + own_node)

/* The writes. */
mtype = { UNDER_WAY, NO_MORE, APPLIED, REJECTED, NOT_DONE, UNKNOWN };
byte guard[ALL];
byte node[ALL];
byte epoch[ALL];
byte read[ALL]; /* the ETag that its writer read */
byte late[ALL]; /* requests whose answer was given up, and that may land */
bool landed[ALL];
bool claimed[2 * ALL + 2]; /* epochs that somebody was told to own */
byte released;		   /* the last epoch that somebody was told is */
mtype outcome[ALL] = UNDER_WAY;

#ifdef NO_GUARD
#define HOLDS(w) true
#else
#define HOLDS(w) (guard[w] == ETAG)
#endif
#ifdef BODY_COMPARE
#define IS_OURS(w) (own_node == node[w] && own_epoch == epoch[w])
#else
#define IS_OURS(w) (own_by == (w) + 1)
#endif
#ifdef TRUST_412
#define FOR_SURE true
#else
#define FOR_SURE !may_have_landed
#endif
#ifdef SUPERSEDED_IS_REJECTED
#define SUPERSEDED REJECTED
#else
#define SUPERSEDED UNKNOWN
#endif
#define IS_RELEASE(w) (node[w] == NOBODY && own_node != NOBODY && \
		       epoch[w] == own_epoch)
#define DISPROVES(w) (node[w] != NOBODY && own_node != NOBODY && \
		      own_epoch <= epoch[w])

/* What does not matter any more: for fewer states. */
inline forget(w)
{
	if
	:: own_by == w + 1 -> own_by = 0
	:: else
	fi;
	if
	:: late[w] == 0 ->
		guard[w] = 0;
		node[w] = 0;
		epoch[w] = 0;
		read[w] = 0;
		landed[w] = false;
		outcome[w] = NO_MORE
	:: else
	fi
}

inline land(w)
{
	MUST("ONCE", !landed[w]);
	MUST("TRUE OUTCOME", outcome[w] != REJECTED && outcome[w] != NOT_DONE);
	MUST("NOT STALE", read[w] == ETAG);
	MUST("ONWARD", epoch[w] > own_epoch || IS_RELEASE(w));
	MUST("RELEASE KEPT", node[w] == NOBODY || epoch[w] > released);
	own_node = node[w];
	own_epoch = epoch[w];
	own_by = w + 1;
	landed[w] = true;
	/* no ETag ever comes back, so what goes under another never lands */
	for (i : 0 .. ALL - 1) {
		if
		:: HOLDS(i)
		:: else ->
			late[i] = 0;
			if
			:: outcome[i] != UNDER_WAY -> forget(i)
			:: else
			fi
		fi
	}
	i = 0
}

inline end_write(w, what)
{
	outcome[w] = what;
	MUST("TRUE OUTCOME", what != APPLIED || landed[w]);
	MUST("TRUE OUTCOME", !(what == REJECTED || what == NOT_DONE) || !landed[w]);
	if
	:: what == APPLIED && node[w] == NOBODY ->
		SEEN("a release");
		released = epoch[w]
	:: what == APPLIED && node[w] != NOBODY ->
		SEEN("a claim");
		MUST("ONE OWNER", !claimed[epoch[w]]);
		claimed[epoch[w]] = true
	:: what == REJECTED -> SEEN("a rejection")
	:: what == UNKNOWN -> SEEN("unknown for good")
	:: what == NOT_DONE -> SEEN("not done")
	fi
}

inline choose(w, who)
{
	if
	:: own_node == who ->
		node[w] = NOBODY;
		epoch[w] = own_epoch
	:: node[w] = who;
		epoch[w] = own_epoch + 1
#ifdef SKIPS /* a claim may also leave an epoch out */
	:: node[w] = who;
		epoch[w] = own_epoch + 2
#endif
	fi
}

proctype Writer(byte who)
{
	byte i, w, tries, left = WRITES;
	mtype answer;
	bool may_have_landed;

	w = who * WRITES;
	do
	:: left > 0 ->
		atomic {
			guard[w] = ETAG;
			read[w] = ETAG;
			choose(w, NODE(who))
		}

send:		/* the request, and its answer; one that arrives later is like
		 * one that is sent later */
		atomic {
			tries++;
			if
			:: HOLDS(w) -> land(w); answer = APPLIED
			:: HOLDS(w) -> land(w); answer = UNKNOWN /* 500, reset */
			:: !HOLDS(w) -> answer = REJECTED /* 412 */
			:: answer = NOT_DONE /* 409, 429, 503 */
			:: answer = UNKNOWN /* it gets lost */
			:: late[w] < LATE -> late[w]++; answer = UNKNOWN
			fi;
			if
			:: answer == APPLIED ->
				end_write(w, APPLIED);
				goto over
			:: answer == REJECTED && FOR_SURE ->
				end_write(w, REJECTED);
				goto over
			:: answer == NOT_DONE && !may_have_landed ->
				goto not_yet
#ifdef NO_SETTLE
			:: answer == UNKNOWN ->
				end_write(w, NOT_DONE);
				goto over
#else
			:: answer == UNKNOWN -> may_have_landed = true
#endif
			:: else
			fi
		}

		/* settle; at any time "unreadable, and time is up" */
		atomic {
			if
			:: IS_OURS(w) ->
				SEEN("settled: it was applied");
				end_write(w, APPLIED)
			:: !IS_OURS(w) && HOLDS(w) -> goto not_yet
#ifdef RESEND_FRESH
			:: !IS_OURS(w) && !HOLDS(w) ->
				guard[w] = ETAG;
				goto not_yet
#endif
			:: !IS_OURS(w) && !HOLDS(w) && DISPROVES(w) ->
				SEEN("settled: it was not");
				end_write(w, REJECTED)
			:: !IS_OURS(w) && !HOLDS(w) && !DISPROVES(w) ->
				SEEN("superseded");
				end_write(w, SUPERSEDED)
			:: end_write(w, UNKNOWN)
			fi;
			goto over
		}

not_yet:	/* may be sent again, or time is up */
		atomic {
			answer = 0;
			if
			:: tries < TRIES -> goto send
			:: may_have_landed -> end_write(w, UNKNOWN)
			:: !may_have_landed -> end_write(w, NOT_DONE)
			fi
		}

over:		atomic {
			forget(w);
			left--;
			tries = 0;
			may_have_landed = false;
			answer = 0;
			w++
		}
	:: else -> break
	od
}

proctype Late(byte w)
{
	byte i;

end:	do
	:: atomic { late[w] && HOLDS(w) ->
		late[w]--;
		if
		:: outcome[w] != UNDER_WAY -> SEEN("a late landing")
		:: else
		fi;
		land(w);
		if
		:: outcome[w] != UNDER_WAY -> forget(w)
		:: else
		fi }
	od
}

init {
	byte w;

	atomic {
		select (writers_of_1 : 1 .. WRITERS);
		if /* there may be a record, of any node or of none */
		:: skip
		:: own_epoch = 1
		:: own_epoch = 1; own_node = 1
		:: own_epoch = 1; own_node = 2
		fi;
		for (w : 0 .. ALL - 1) {
			run Late(w)
		}
		for (w : 0 .. WRITERS - 1) {
			run Writer(w)
		}
		w = 0
	}
}
