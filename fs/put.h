/* put: one guarded PUT of a record, settled, and everybody told of it: the
 * mount's memory, its counters, the record's last outcome.
 *
 * Source: celldfs.8, GUARDS, "Applied, rejected, unknown", and THE NODE'S LEASE.
 * It does not check the rules: that is its callers', swap.c and claim.c.
 */
#ifndef CELLDFS_PUT_H
#define CELLDFS_PUT_H

#include "cas.h"
#include "seen.h"
#include "tree.h"

struct mount;

/* Room for a line of user.celld.outcome. */
#define PUT_TEXT_SIZE 1024

struct put {
	enum node_kind kind; /* NODE_OWN, NODE_LEASE */
	const char *key;
	const char *body;
	size_t len;
	const struct own *own; /* NODE_OWN: what BODY says */
	struct guard guard;
	const struct attempt *goes_on; /* as in struct cas_write */

	bool applied;		/* whatever the outcome is; then: */
	struct glimpse written; /* what is there now */
	struct cas_result result;
};

/* May this mount write? OK; FENCED with REASON. */
enum outcome put_check_authority(struct mount *mount,
				 struct reason *reason) MUST_CHECK;

/* Sends it. As cas_put(); FENCED also if the authority ended before the
 * answer came: then it may have been applied. */
enum outcome put_send(struct mount *mount, const struct limits *limits,
		      struct put *put) MUST_CHECK;

/* The outcome of PUT, sent or not, becomes the record's last one and is
 * counted; TEXT is the line for the log: word, guard once there is one, what
 * the store said, why. */
void put_tell(struct mount *mount, const struct put *put, enum outcome outcome,
	      char text[PUT_TEXT_SIZE]);

#endif
