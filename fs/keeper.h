/* keeper: the thread that keeps this node's lease, by lib/lease.
 *
 * Source: celldfs.8, THE NODE'S LEASE.
 *
 * It sends its requests itself, past the gate and, on the embedded store, past
 * the queue of the users' swaps: nothing that users do delays it. When the
 * lease is lost it says so once, and from then on there is no authority for any
 * write of this mount.
 *
 * Invariants:
 * 1. keeper_permit() goes by the clock alone: a thread that did not run, or a
 *    machine that was suspended, gives no authority that is not there.
 * 2. The authority ends before a lease is published as given up.
 */
#ifndef CELLDFS_KEEPER_H
#define CELLDFS_KEEPER_H

#include "lease.h"

struct holds;
struct keeper;

struct keeper_config {
	struct lease_config lease;
	const char *addr; /* where peers reach the node; not "" */
	unsigned peer_protocol;
	bool fence_exits; /* the process ends with KEEPER_FENCE_STATUS */

	/* Called once from keeper_start() when there is an earlier run's lease
	 * to be waited for. */
	void (*waits)(const struct reason *reason);
};

#define KEEPER_FENCE_STATUS 3

/* Starts the thread and waits until the lease is held. STORE, HOLDS and what
 * CONFIG points to stay the caller's and outlive the keeper. OK; REJECTED (the
 * lease is somebody else's, or cannot be had) with REASON; NO_MEMORY. */
enum outcome keeper_start(struct keeper **keeper, struct store *store,
			  struct holds *holds,
			  const struct keeper_config *config,
			  struct reason *reason) MUST_CHECK;

/* Ends it. If no cell is held, an expired lease is published first, within
 * WITHIN_MS and the authority. NULL is allowed. */
void keeper_stop(struct keeper *keeper, int64_t within_ms);

/* May this mount write now? OK, and *UNTIL_MS (CLOCK_BOOTTIME) is the end of
 * the authority; or FENCED. KEEPER NULL: OK, for ever. No lock, no request. */
enum outcome keeper_permit(const struct keeper *keeper,
			   int64_t *until_ms) MUST_CHECK;

/* Why there is no permission, in words. */
void keeper_why(struct keeper *keeper, struct reason *reason);

/* May an earlier run of this node, which was replaced while its lease lived,
 * still believe in its cells? Then REASON says for how long. */
bool keeper_old_run_lives(struct keeper *keeper, struct reason *reason);

/* For .celldfs/. */
struct keeper_status {
	const char *state; /* lease_state_word() */
	const char *fence; /* lease_fence_word() */
	struct reason reason;
	char generation[ATTEMPT_SIZE];
	int64_t authority_ms;	 /* left; 0 = none */
	int64_t renewed_ms_ago;	 /* since the last write that counts; -1 */
	uint64_t renewals;	 /* writes that were applied */
	uint64_t renewal_errors; /* tries that were not, or not known to be */
};
void keeper_status(struct keeper *keeper, struct keeper_status *status);

#endif
