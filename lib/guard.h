/* guard: the condition under which a write may happen. Pure.
 *
 * Every write carries exactly one guard and there is no "always": GUARD_NONE
 * is never sent. Source: celldfs.8, GUARDS.
 *
 * ETags are opaque. A guard keeps the tag without its surrounding quotes,
 * because setfattr(1) strips them and stores differ in whether they send them;
 * which form goes on the wire is for the store to know.
 */
#ifndef CELLDFS_GUARD_H
#define CELLDFS_GUARD_H

#include "outcome.h"

#include <stdbool.h>
#include <stddef.h>

/* Longest ETag that celldfs handles, quotes and NUL included. */
#define ETAG_SIZE 256

enum guard_kind {
	GUARD_NONE,   /* no guard given: nothing can be written */
	GUARD_ABSENT, /* If-None-Match: *  - only if there is no such object */
	GUARD_MATCH,  /* If-Match: <etag>  - only if this is its ETag */
};

struct guard {
	enum guard_kind kind;
	char etag[ETAG_SIZE]; /* MATCH: bare, without quotes; else "" */
};

/* Reads a guard from the value of user.celld.if-match: LEN bytes, an ETag with
 * or without its quotes. INVALID, with the reason, for what cannot be one
 * ETag: empty, "*", a weak tag, a list, a control byte, a quote inside, or
 * longer than ETAG_SIZE - 3. */
enum outcome guard_parse(struct guard *guard, const char *value, size_t len,
			 struct reason *reason) MUST_CHECK;

/* The guard that an ETag as the store sent it stands for. FAILED, with the
 * reason, if it cannot be a guard (none was sent, weak, too long). */
enum outcome guard_of_etag(struct guard *guard, const char *etag,
			   struct reason *reason) MUST_CHECK;

/* True if GUARD is a MATCH of ETAG (as the store sent it, quoted or not). */
bool guard_matches(const struct guard *guard, const char *etag);

bool guard_equal(const struct guard *a, const struct guard *b);

/* For people and logs: `If-Match: "abc"`, `If-None-Match: *`, `no guard`. */
const char *guard_print(const struct guard *guard, char out[ETAG_SIZE + 16]);

#endif
