/* peers: what .celldfs/peers shows: a survey of the fleet, shared by all who open
 * the file.
 *
 * Source: celldfs.8, "The tree" and COSTS.
 *
 * Invariants:
 * 1. At most one survey at a time, and none within ttl/3 of the start of the
 *    last good one: whoever comes meanwhile is shown that one, or waits for the
 *    one under way, within limits of his own.
 * 2. A survey that fails has failed for all who wait for it; unless it ended
 *    with the time or the patience of the one who did it: then the next one
 *    does another.
 */
#ifndef CELLDFS_PEERS_H
#define CELLDFS_PEERS_H

#include "store.h"

struct mount;
struct peers;

struct peers *peers_new(void); /* NULL: no memory */
void peers_free(struct peers *peers);

/* Writes the lines of survey.h to TEXT (empty). Costs a survey, or nothing.
 * LIMITS have a stop, unless their deadline is over. OK; NO_MEMORY; TIMEOUT
 * (also: it takes a survey, and there is no time for one), INTERRUPTED, or what
 * became of the LIST, with ANSWER. */
enum outcome peers_print(struct mount *mount, const struct limits *limits,
			 struct buf *text, struct answer *answer) MUST_CHECK;

#endif
