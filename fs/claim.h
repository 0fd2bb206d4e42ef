/* claim: takes the ownership of one cell for this mount's node, and gives it
 * back. Straight-line store work for lock.c, which says when.
 *
 * Source: celldfs.8, HOLDING A CELL; celld's protocol, claims.
 *
 * Invariants:
 * 1. An error is never a takeover: a cell is taken from another node only by
 *    judge_takeover(), under the ETag that was read before.
 * 2. A claim whose outcome is unknown is not forgotten: it is `unsure` until it
 *    is known to be ours, or never to be, or this mount is fenced.
 * 3. What is remembered is enough to take a cell, since the store has the last
 *    word, and never enough to refuse one.
 *
 * One thread at a time uses a struct claim.
 */
#ifndef CELLDFS_CLAIM_H
#define CELLDFS_CLAIM_H

#include "seen.h"

struct handle;
struct mount;

struct claim {
	const char *key;
	bool held; /* the record is this, as far as is known: */
	struct glimpse ours;

	bool looked; /* the record was read: absent (etag "") or this */
	struct glimpse last;
	int64_t owner_until_ms; /* CLOCK_BOOTTIME: its owner's lease, which was
				 * judged, is not read again before */

	bool unsure; /* a claim may have happened, or may yet: the one with */
	struct attempt attempt;	     /* this id, over the version with */
	char unsure_etag[ETAG_SIZE]; /* this ETag; "" = over none */
	bool release_unsure;	     /* a release may have happened */
};

/* Tries once to take it. GUESS: what the mount remembers of the record will do
 * for a first try. OK: it is held. REJECTED: another node has it, or was
 * faster; *AGAIN_MS (CLOCK_BOOTTIME) is when it can be free at the earliest, 0
 * if that is not known. FENCED: nothing is held or unsure any more. UNKNOWN,
 * DENIED, INVALID (nobody can claim this record), TOO_LARGE, or the outcome of
 * what failed. WHY is set unless it is OK. */
enum outcome claim_take(struct mount *mount, const struct limits *limits,
			struct claim *claim, bool guess, int64_t *again_ms,
			struct reason *why) MUST_CHECK;

/* Nobody wants the cell any more, but a claim is unsure: tries once to find out
 * whether it is held. Afterwards it is held, or still unsure, or neither; the
 * outcome is OK or that of what failed, with WHY. */
enum outcome claim_settle(struct mount *mount, const struct limits *limits,
			  struct claim *claim, struct reason *why) MUST_CHECK;

/* Tries once to give it back, if it is still ours. OK: it is not held any more,
 * also if somebody else has it now; FENCED: nor can it be given back. Else it
 * has to be tried again. */
enum outcome claim_release(struct mount *mount, const struct limits *limits,
			   struct claim *claim, struct reason *why) MUST_CHECK;

/* Makes HANDLE show what is held, as if it had been written through it. */
void claim_show(const struct claim *claim, struct handle *handle);

#endif
