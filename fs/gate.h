/* gate: lets at most so many requests into the store at once; the rest wait
 * without a thread.
 *
 * libfuse's pool has GATE_POOL threads; GATE_RESERVE of
 * them never enter the store, so that interrupts, statfs and .celldfs/ are
 * answered while the store hangs.
 *
 * A FUSE operation that may need the store decodes its arguments into a struct
 * work and submits it. work->run() then handles it from start to finish: at the
 * end work_done(), then exactly one fuse_reply_*(); or ops_fail(), which is
 * both.
 *
 * Invariants:
 * 1. Every submitted work is run exactly once. One that is interrupted or whose
 *    deadline comes while it waits is run then, uncounted: no store call does
 *    anything after that, so it ends at once and says so in its own words.
 * 2. While run() runs, an interrupt of the request is a stop request on
 *    work->stop; work_done() ends that before the reply goes out, for the
 *    request is gone with the reply.
 */
#ifndef CELLDFS_GATE_H
#define CELLDFS_GATE_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include "stop.h"

#define GATE_POOL 64
#define GATE_RESERVE 8

struct mount;
struct handle;
struct node;

struct work {
	fuse_req_t req;
	void (*run)(struct work *work);
	struct mount *mount;
	struct node *node;
	struct handle *handle; /* NULL if the request came without one */
	struct fuse_file_info fi;
	struct stop stop;
	struct limits limits; /* deadline counted from the arrival */
	uid_t uid;	      /* the caller's */
	char name[256];	      /* lookup: the child; xattr: the attribute */
	size_t size;
	off_t offset;
	char *bytes; /* owned; write: the record */
	size_t len;

	struct gate *gate;
	struct work *next; /* while it waits; gate->lock */
	bool waiting;	   /* gate->lock */
};

struct gate;

/* A gate that lets MOST requests in at once; it has a thread of its own. NULL:
 * no memory, no thread. Freed when nobody
 * submits any more, before the session of the requests: it waits for its
 * thread. */
struct gate *gate_new(unsigned most);
void gate_free(struct gate *gate);

/* A work for REQ, with DEADLINE_MS from now. NULL: no memory, and REQ has been
 * answered with ENOMEM. */
struct work *work_new(struct mount *mount, fuse_req_t req,
		      void (*run)(struct work *work), int64_t deadline_ms);

/* Takes WORK over and runs it in this thread as soon as there is room, then
 * whatever waits. */
void gate_submit(struct gate *gate, struct work *work);

/* Takes WORK over and runs it at once in this thread, uncounted: for what will
 * not ask the store. */
void gate_bypass(struct work *work);

/* Ends the watch for interrupts; to be called before the reply. */
void work_done(struct work *work);

/* For status: how many are inside and how many wait. */
void gate_counts(struct gate *gate, unsigned *inside, unsigned *waiting);

#endif
