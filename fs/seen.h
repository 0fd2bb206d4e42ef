/* seen: what this mount remembers of the records that it has shown.
 *
 * Source: celldfs.8, COSTS (no request within a second, no request for the
 * lookup of a record seen before) and "Rules" (the record that a guard stands
 * for). It is a memory, never an authority: a guard is decided by the store.
 *
 * Invariants:
 * 1. What is remembered of a record is never replaced by something older: each
 *    report carries a ticket, drawn before a read is sent or after a write was
 *    answered, and one with a lower ticket than the last is dropped.
 * 2. Bounded: at most SEEN_MOST records; the one not touched for longest goes
 *    first.
 *
 * Thread-safe. Times are CLOCK_BOOTTIME ms.
 */
#ifndef CELLDFS_SEEN_H
#define CELLDFS_SEEN_H

#include "ownership.h"
#include "store.h"

#define SEEN_MOST 16384
#define SEEN_FRESH_MS 1000

/* What is remembered of one record that exists. */
struct glimpse {
	uint64_t size_bytes;
	int64_t modified_ms;
	int64_t at_ms; /* these two were true at this time or later */

	bool fetched; /* read or written, not only listed; then: */
	int64_t fetched_ms;
	char etag[ETAG_SIZE];	     /* as the store sent it */
	enum ownership_guarded form; /* OWN or MALFORMED; own records only */
	struct own own;
};

struct seen;

struct seen *seen_new(void); /* NULL: no memory */
void seen_free(struct seen *seen);

/* True if KEY is remembered to exist; what is known goes to GLIMPSE. */
bool seen_get(struct seen *seen, const char *key, struct glimpse *glimpse);

/* Draws a ticket: larger than every one before. */
uint64_t seen_ticket(struct seen *seen);

/* Reports what a read, a listing or a write has shown. After a listing the
 * ETag that an earlier fetch had shown stays. */
void seen_exists(struct seen *seen, const char *key,
		 const struct glimpse *glimpse, uint64_t ticket);

/* Reports that there is no such record, or that it was replaced by what nobody
 * knows: it is forgotten. */
void seen_absent(struct seen *seen, const char *key, uint64_t ticket);

/* Texts about a record that are kept for a while. */
enum seen_note {
	SEEN_OUTCOME, /* the last outcome, for user.celld.outcome */
	SEEN_WHY,     /* user.celld.why, between getfattr's two reads */
	SEEN_NOTES
};
void seen_set_note(struct seen *seen, const char *key, enum seen_note which,
		   const char *text);

/* True, and the note goes to TEXT, if there is one from SINCE_MS or later. */
bool seen_note(struct seen *seen, const char *key, enum seen_note which,
	       int64_t since_ms, char *text, size_t size);

#endif
