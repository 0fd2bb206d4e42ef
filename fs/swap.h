/* swap: a whole record, as written by a user, from the rules to the store.
 *
 * Source: celldfs.8, GUARDS and RECORDS, "Rules". It decides nothing by itself:
 * what may replace what is ownership.h's, what became of the PUT is cas.h's.
 *
 *   rule 1 (a record?) -> guard (own, armed) -> guarded record -> rules 2, 4, 5
 *   -> rule 3 (a dead owner?) -> one conditional PUT, settled
 */
#ifndef CELLDFS_SWAP_H
#define CELLDFS_SWAP_H

#include "handle.h"
#include "put.h"

struct mount;

/* Writes BODY through HANDLE for UID. Updates the handle, the mount's memory
 * and the record's outcome. BODY's content may be taken over. OK: applied; else
 * the outcome of the swap, and TEXT says why in a line. */
enum outcome swap_write(struct mount *mount, struct handle *handle, uid_t uid,
			const struct limits *limits, struct buf *body,
			char text[PUT_TEXT_SIZE]) MUST_CHECK;

#endif
