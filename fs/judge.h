/* judge: is the owner of a cell alive? Reads its lease and applies the rule.
 *
 * Source: celldfs.8, RECORDS, "Alive, dead, unknown", and rule 3.
 */
#ifndef CELLDFS_JUDGE_H
#define CELLDFS_JUDGE_H

#include "ownership.h"
#include "stop.h"

struct mount;

struct verdict {
	enum life life;
	int64_t dead_in_ms;   /* not dead: when it can be at the earliest, if
			       * nobody renews the lease; 0 = not told */
	struct reason reason; /* what was found */
};

/* Judges NODE: reads its lease and the store's clock (one GET, and none for the
 * clock once the store is known). OK, and VERDICT is set; else the outcome of
 * the read, with verdict->reason. */
enum outcome judge_node(struct mount *mount, const struct limits *limits,
			const char *node, struct verdict *verdict) MUST_CHECK;

/* Rule 3: may the cell whose record is OWNED be taken from its owner? OK; or
 * REJECTED, or the outcome of the read, with REASON. */
enum outcome judge_takeover(struct mount *mount, const struct limits *limits,
			    const struct own *owned, struct verdict *verdict,
			    struct reason *reason) MUST_CHECK;

#endif
