/* contest: guards that are armed by path on one mount, for spin.
 *
 * SHELLS shells of one user write one record ROUNDS times each, in the way of
 *
 *	etag=$(getfattr --only-values -n user.celld.etag own)
 *	setfattr -n user.celld.if-match -v "$etag" own
 *	echo "$record" >own
 *
 * while somebody outside changes it. The mount cannot tell who of them armed
 * which guard. What is here, and where it is in C:
 *
 *	arm		arms_add(), add_locked(), start_contest() in fs/arm.c
 *	take		arms_take()
 *	Shell		take_armed() in fs/swap.c; a write that is interrupted
 *			before anything is sent gives its guard back, arms_return()
 *	Killed		a shell that armed, and never writes
 *
 * Not covered: a shell that writes later than ARM_LIFE_MS after it has armed, or
 * without having armed: it can be served by another one's guard.
 *
 * Checked:
 *	OWN GUARD	a write is sent under the ETag that its shell has read, so
 *			nobody's write is lost under a newer one
 *	NO REMAINS	as many guards and refusals are left as shells were killed
 * and that every shell gets to its end (invalid end states). What SEEN() names has
 * to be reached, or it was all for nothing.
 *
 * Safety step that can be left out: NO_CONTEST (the guard that was armed last
 * serves the next write), or FIRST_FIRST (guards serve in the order in which they
 * were armed).
 */
#include "must.h"

#ifndef SHELLS
#define SHELLS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef CHANGES
#define CHANGES 2
#endif
#define ARMED_MAX (SHELLS + 1)

byte etag = 1;
byte changes; /* by somebody outside */

/* What is armed: so many guards, all for one ETag, or a contest. */
byte count;
byte armed[ARMED_MAX];
byte refusals_left;

inline contest()
{
	refusals_left = refusals_left + count + 1;
	for (i : 0 .. ARMED_MAX - 1) {
		armed[i] = 0
	}
	count = 0;
	i = 0
}

inline arm(tag)
{
	if
#ifdef NO_CONTEST
	:: count > 0 && armed[0] != tag -> armed[0] = tag
#endif
#if !defined(NO_CONTEST) && !defined(FIRST_FIRST)
	:: refusals_left > 0 || (count > 0 && armed[0] != tag) ->
		contest();
		SEEN("a contest")
#endif
	:: else ->
		armed[count] = tag;
		count++
	fi
}

/* found = 0: nothing; 255: a contest. */
inline take(found)
{
	if
	:: refusals_left > 0 ->
		refusals_left--;
		found = 255
	:: refusals_left == 0 && count > 0 ->
		found = armed[0];
		for (i : 1 .. ARMED_MAX - 1) {
			armed[i - 1] = armed[i]
		}
		i = 0;
		armed[ARMED_MAX - 1] = 0;
		count--
	:: else -> found = 0
	fi
}

proctype Shell()
{
	byte i, known, guard, round;

	do
	:: round < ROUNDS ->
		known = etag;
		atomic { arm(known) }
write:
		atomic {
			take(guard);
			if
			:: guard == 255 ->
				SEEN("refused");
				goto over
#if defined(NO_CONTEST) || defined(FIRST_FIRST)
			:: guard == 0 -> goto over
#endif
			:: else
			fi
		}
		if
		:: atomic { true ->
			arm(guard);
			SEEN("given back");
			goto write } /* interrupted, and tried again */
		:: atomic { true ->
			MUST("OWN GUARD", guard == known);
			if
			:: guard == etag ->
				etag++;
				SEEN("applied")
			:: else -> SEEN("the store refuses")
			fi }
		fi;
over:
		atomic {
			guard = 0;
			known = 0;
			round++
		}
	:: else -> break
	od
}

/* Arms, and is killed before it writes. */
proctype Killed()
{
	byte i;

	atomic { arm(etag); SEEN("a guard that nobody uses") }
}

init {
	atomic {
		run Shell();
		run Shell();
#if SHELLS > 2
		run Shell();
#endif
		run Killed()
	}
	do
	:: changes < CHANGES -> atomic { changes++; etag++ }
	:: break
	od;
	atomic { _nr_pr == 1 ->
		MUST("NO REMAINS", count + refusals_left == 1) } /* Killed's */
}
