/* arm: guards that were armed by path (setfattr -n user.celld.if-match).
 *
 * Source: celldfs.8, GUARDS. Per record and uid.
 *
 *   no guard --arm E1--> armed(E1) --arm E1--> armed(E1, E1) --arm E2-->
 *   contest(3) --take--> refused, contest(2) --arm E1--> contest(3) ...
 *
 * Invariants:
 * 1. One arming serves one write.
 * 2. While different ETags are armed, none of them serves: as many writes are
 *    refused as were armed, or the contest ends ARM_LIFE_MS after the last
 *    arming. So of two shells that armed and then write in any order, neither
 *    can send under the other's guard.
 *
 * Time is an argument (CLOCK_BOOTTIME ms). Thread-safe.
 */
#ifndef CELLDFS_ARM_H
#define CELLDFS_ARM_H

#include "guard.h"

#include <stdint.h>
#include <sys/types.h>

#define ARM_LIFE_MS 60000
#define ARM_MOST 65536 /* armed at once over all records, contests included */

struct arms;

struct arms *arms_new(void); /* NULL: no memory */
void arms_free(struct arms *arms);

/* Arms GUARD (a MATCH). OK; NO_MEMORY also when ARM_MOST are armed. */
enum outcome arms_add(struct arms *arms, const char *key, uid_t uid,
		      const struct guard *guard, int64_t now_ms) MUST_CHECK;

enum arms_found {
	ARMS_NONE,    /* nothing is armed */
	ARMS_GUARD,   /* GUARD is the armed one */
	ARMS_CONTEST, /* different guards were armed: refuse this write */
};

/* Takes the guard for one write; a contest counts one refused write.
 * *EXPIRES_MS says until when a guard that was taken is good, for
 * arms_return(). */
enum arms_found arms_take(struct arms *arms, const char *key, uid_t uid,
			  int64_t now_ms, struct guard *guard,
			  int64_t *expires_ms);

/* Puts a guard back that was taken for a write of which nothing was sent and
 * which no rule refused. */
void arms_return(struct arms *arms, const char *key, uid_t uid,
		 const struct guard *guard, int64_t expires_ms, int64_t now_ms);

/* Looks without taking. */
enum arms_found arms_peek(struct arms *arms, const char *key, uid_t uid,
			  int64_t now_ms, struct guard *guard);

/* Disarms all guards of this record and uid; a contest stays as it is. Returns
 * what was found. */
enum arms_found arms_drop(struct arms *arms, const char *key, uid_t uid,
			  int64_t now_ms);

#endif
