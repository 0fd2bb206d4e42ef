/* cas: one guarded write, settled to applied, rejected or unknown.
 *
 * Source: celldfs.8, GUARDS, "Applied, rejected, unknown".
 *
 * Invariants:
 * 1. Every request of one cas_put(), and of those that go on with it, carries
 *    the same guard, the same bytes and the same attempt id.
 * 2. APPLIED is returned only on the store's word or when our attempt id was
 *    read back; REJECTED only when no request of ours can have landed, if the
 *    store's "not done" is true.
 * 3. Once a request may have landed, "not done" and "refused" answers to later
 *    ones are no proof: they are settled by reading back.
 * 4. What a store has called "not done" and then refuses is read back once: if
 *    it had done it nevertheless, that is APPLIED.
 */
#ifndef CELLDFS_CAS_H
#define CELLDFS_CAS_H

#include "store.h"

#include <stdbool.h>

struct cas_write {
	const char *key;
	const char *body;
	size_t len;
	struct guard guard; /* GUARD_NONE is refused: FORBIDDEN */

	/* The id of an earlier cas_put() of the same bytes under the same
	 * guard, whose outcome was UNKNOWN: this one goes on with it. NULL: a
	 * new write. */
	const struct attempt *goes_on;

	/* Does the record that was read back prove that ours never landed?
	 * NULL: nothing proves it. */
	bool (*disproves)(const void *arg, const struct object *found);
	const void *disproves_arg;

	/* Asked before every PUT, resends included; NULL: always OK. If OK it
	 * sets *UNTIL_MS: nothing of this write, settling included, goes on
	 * beyond that. What is not OK is returned if nothing may have landed,
	 * else UNKNOWN. */
	enum outcome (*may_send)(const void *arg, int64_t *until_ms);
	const void *may_send_arg;
};

struct cas_result {
	char etag[ETAG_SIZE]; /* OK: the new version's; "" = not known: the read
			       * that settled it came without one */
	bool sent;	      /* a request has left, or was refused for good;
			       * false: the write may be tried anew as if it
			       * had not been */
	struct attempt attempt; /* the id of all its requests; "": none */
	unsigned puts, gets;  /* requests that were made */
	struct answer answer; /* the last one's */
};

/* Milliseconds that a sent PUT has left to settle after an interrupt. */
#define CAS_SETTLE_AFTER_STOP_MS 1000

/* Writes and settles, within LIMITS. OK: applied. REJECTED. NOT_DONE: every try
 * was answered so until the deadline. UNKNOWN: it may have happened. TIMEOUT,
 * INTERRUPTED: nothing was sent. DENIED, FAILED, FORBIDDEN, INVALID, TOO_LARGE,
 * NO_MEMORY: refused for good. What may_send() returned. */
enum outcome cas_put(struct store *store, const struct limits *limits,
		     const struct cas_write *write,
		     struct cas_result *result) MUST_CHECK;

#endif
