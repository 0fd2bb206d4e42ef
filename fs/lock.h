/* lock: flock(2) on a cell's record is the ownership of the cell.
 *
 * Source: celldfs.8, HOLDING A CELL.
 *
 *   LOCK_EX ----> waiter ----> claim_take() ----> granted: the open file holds
 *                   ^   held or alive elsewhere:      |
 *                   |   again later                   | LOCK_UN, last close
 *                   '---- the next waiter <---- claim_release()
 *
 * Threads of its own do the store work, one cell at a time each, so that a
 * waiter is a few bytes and no thread. All waiters of a cell share one poll.
 * Another thread answers those who are interrupted or out of time, whatever the
 * store does.
 *
 * A lock that is granted is a write through its open file: that shows the claim
 * then, and its ETag is the file's guard.
 *
 * Invariants:
 * 1. At most one thread works on a cell, and at most one open file holds it.
 * 2. A claim that succeeded belongs to an open file, or is given back: also if
 *    its caller is gone or its outcome was unknown at first.
 * 3. Every request is answered exactly once, with no lock held.
 */
#ifndef CELLDFS_LOCK_H
#define CELLDFS_LOCK_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include "outcome.h"
#include "record.h"

#include <stdbool.h>

struct handle;
struct locks;
struct mount;

/* Starts the threads. NULL: no memory. The mount must have a node's name. */
struct locks *locks_new(struct mount *mount);

/* Answers all waiters with ECONNABORTED, finishes what has to be given back
 * within WITHIN_MS, and ends. What an open file still holds stays claimed. To be
 * called before the session of the requests is destroyed. NULL is allowed. */
void locks_free(struct locks *locks, int64_t within_ms);

/* flock(2) on HANDLE with OPERATION; answers REQ, now or later. LOCKS NULL:
 * ENOLCK. */
void locks_flock(struct locks *locks, fuse_req_t req, struct handle *handle,
		 int operation);

/* HANDLE is closed for good. */
void locks_closed(struct locks *locks, struct handle *handle);

/* May OWN be written through HANDLE? OK; REJECTED with REASON while a lock
 * holds the cell, or may hold it, but for its holder's release. */
enum outcome locks_check_write(struct locks *locks, struct handle *handle,
			       const struct own *own,
			       struct reason *reason) MUST_CHECK;

/* OWN was written through HANDLE: a release by the holder ends the hold. */
void locks_wrote(struct locks *locks, struct handle *handle,
		 const struct own *own);

/* For status. */
void locks_counts(struct locks *locks, unsigned *held, unsigned *waiting);

#endif
