/* leash: when a command that acts under a lease has to be ended. Pure: no I/O,
 * no clock; time is an argument (CLOCK_BOOTTIME, in ms).
 *
 * Source: celldfs.8, THE NODE'S LEASE, on what an authority is.
 *
 *   ---- command runs ----|-- SIGTERM, shuts down --|-- dead ------|
 *                      term_ms                   kill_ms     the authority's
 *                      before                    before           end
 *
 * The end that counts is the latest that is known of: each renewal moves it. So
 * as long as renewals are in time and are heard of, nothing happens.
 *
 * Invariants:
 * 1. After SIGTERM there is no way back: SIGKILL comes, whatever is renewed.
 * 2. SIGKILL comes kill_ms before the end that was known last, or earlier.
 * 3. While each renewal (every ttl/3) is heard of within poll_ms, at least
 *    ttl/10 is left before SIGTERM.
 *
 * It does not know what is killed, and whether that died.
 */
#ifndef CELLDFS_LEASH_H
#define CELLDFS_LEASH_H

#include <stdbool.h>
#include <stdint.h>

#define LEASH_TTL_LEAST_MS 2000

/* All that follows from a lease's ttl. */
struct leash_terms {
	int64_t ttl_ms;
	int64_t poll_ms;  /* how often to ask until when the authority lasts */
	int64_t start_ms; /* nothing is started with less of it left */
	int64_t term_ms;  /* margins before its end: SIGTERM */
	int64_t kill_ms;  /* ... SIGKILL */
	int64_t grace_ms; /* from SIGTERM to SIGKILL, at most */
	int64_t fenced_grace_ms; /* the same, after the authority is gone */
};

/* False: TTL_MS is less than LEASH_TTL_LEAST_MS, too little for such margins. */
bool leash_terms(struct leash_terms *terms, int64_t ttl_ms);

enum leash_action { LEASH_WAIT, LEASH_TERM, LEASH_KILL };

struct leash {
	struct leash_terms terms;
	enum leash_action last; /* the last that was not WAIT, or WAIT */
	bool pulled;		/* it ends, whatever is renewed */
	int64_t kill_at_ms;	/* pulled: the time for SIGKILL */
};

/* TERMS as leash_terms() has made them. */
void leash_init(struct leash *leash, const struct leash_terms *terms);

/* Whatever happens, it ends now: SIGKILL in GRACE_MS, or when UNTIL_MS, the end
 * of the authority, asks for it, or when an earlier pull did. */
void leash_pull(struct leash *leash, int64_t now_ms, int64_t until_ms,
		int64_t grace_ms);

/* What is to be done now. UNTIL_MS is the end of the authority that is known
 * last; *NEXT_MS when to ask again at the latest (INT64_MAX: no more). TERM and
 * KILL are said once each, TERM perhaps never. */
enum leash_action leash_step(struct leash *leash, int64_t now_ms,
			     int64_t until_ms, int64_t *next_ms);

#endif
