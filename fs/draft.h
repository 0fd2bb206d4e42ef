/* draft: the record that an open file is writing, from fragments to a whole.
 *
 * Source: celldfs.8, GUARDS, "When a write is done". No FUSE and no I/O. Not
 * thread-safe: the handle's lock guards it.
 *
 * Invariants:
 * 1. The bytes since the start of the record are contiguous in the file; where
 *    the first one lies does not matter.
 * 2. They are handed over once, when they form one complete JSON object.
 * 3. After any refusal the draft is empty, so half of one record can never
 *    become the start of another.
 */
#ifndef CELLDFS_DRAFT_H
#define CELLDFS_DRAFT_H

#include "record.h"

#include <sys/types.h>

struct draft {
	struct buf bytes;	 /* cap: RECORD_WRITE_MAX */
	struct record_scan scan; /* of bytes */
	off_t next;		 /* where the next fragment must lie, while
				  * bytes is not empty */
	bool after_record;	 /* a record was completed before: white space
				  * that follows it is accepted and ignored */
};

void draft_init(struct draft *draft);
void draft_release(struct draft *draft);

/* Forgets the fragments (O_TRUNC, truncate to 0, a refusal). */
void draft_drop(struct draft *draft);

/* Adds LEN bytes written at OFFSET. OK, and *COMPLETE says whether draft->bytes
 * now is a whole object (take it, then draft_drop() and set after_record);
 * INVALID, TOO_LARGE, NO_MEMORY with REASON. */
enum outcome draft_write(struct draft *draft, const char *bytes, size_t len,
			 off_t offset, bool *complete,
			 struct reason *reason) MUST_CHECK;

#endif
