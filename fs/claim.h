/* claim: takes the ownership of one cell for this mount's node, and gives it
 * back. Straight-line store work for lock.c, which says when.
 *
 * Source: celldfs.8, HOLDING A CELL; celld's protocol, claims.
 *
 * Invariants:
 * 1. An error is never a takeover: a cell is taken from another node only by
 *    judge_takeover(), under the ETag that was read before.
 * 2. A claim whose outcome is unknown is not forgotten: claim_unsure() until it
 *    is known to be ours, or never to be.
 *
 * One thread at a time uses a struct claim.
 */
#ifndef CELLDFS_CLAIM_H
#define CELLDFS_CLAIM_H

#include "seen.h"

#define CLAIM_TRIES_MAX 8

struct mount;

struct claim {
	const char *key;
	bool held; /* the record is OURS under ETAG, as far as is known */
	struct own ours;
	char etag[ETAG_SIZE];

	bool looked; /* the record was read: absent (etag "") or this */
	struct glimpse last;
	int64_t owner_until_ms; /* CLOCK_BOOTTIME: its owner's lease, which was
				 * judged, is not read again before */

	/* claims of one epoch, all over TRIES_ETAG, that may have happened */
	struct attempt tries[CLAIM_TRIES_MAX];
	unsigned try_count;
	char tries_etag[ETAG_SIZE];
	bool release_unsure; /* a release may have happened */
};

/* Tries once to take it. GUESS: what the mount remembers of the record will do
 * for a first look. OK: it is held. REJECTED: another node has it, or was
 * faster; *AGAIN_MS (CLOCK_BOOTTIME) is when it can be free at the earliest, 0
 * if that is not known. FENCED, UNKNOWN, DENIED, INVALID (malformed), or the
 * outcome of what failed. WHY is set unless it is OK. */
enum outcome claim_take(struct mount *mount, const struct limits *limits,
			struct claim *claim, bool guess, int64_t *again_ms,
			struct reason *why) MUST_CHECK;

/* Tries once to give it back, if it is still ours. OK: it is not held any more,
 * also if somebody else has it now; FENCED: nor can it be given back. Else it
 * has to be tried again. */
enum outcome claim_release(struct mount *mount, const struct limits *limits,
			   struct claim *claim, struct reason *why) MUST_CHECK;

/* May a claim of ours be on its way? */
bool claim_unsure(const struct claim *claim);

#endif
