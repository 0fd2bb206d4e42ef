/* handle: an open file: what it has shown, its guard, the record that it is
 * writing.
 *
 * Source: celldfs.8, GUARDS and "Freshness".
 *
 * Invariants:
 * 1. All that one open file shows (bytes, size, ETag) comes from one snapshot,
 *    and its guard is that snapshot's ETag once bytes of it were read.
 * 2. Two open files share nothing.
 * 3. A guard that the store has refused is not sent again: `stale` until the
 *    file reads again or is given another guard.
 */
#ifndef CELLDFS_HANDLE_H
#define CELLDFS_HANDLE_H

#include "draft.h"
#include "guard.h"
#include "seen.h"
#include "tree.h"

#include <pthread.h>

struct mount;

struct handle {
	struct node *node;
	struct handle *newer; /* in node->handles; tree->lock */
	int access;	      /* O_RDONLY, O_WRONLY, O_RDWR */

	pthread_mutex_t lock; /* guards the rest */
	int refs;
	bool created; /* by this open, and no write has succeeded yet: without
		       * another guard, a write creates */
	bool shows;		/* the next two are one version of the record,
				 * read or written through this file */
	struct buf body;
	struct glimpse glimpse;
	bool bytes_read;	/* of this version */
	unsigned writes;	/* that were applied: a fetch that began before
				 * one of them is not shown */
	struct guard guard;	/* GUARD_NONE: the armed one is used */
	bool guard_set;		/* by fsetxattr: reading does not replace it */
	bool borrowed;		/* it was armed by path (or contested there) for
				 * a write that was refused: retries go by it
				 * until the file reads, is given a guard, or
				 * another one is armed */
	bool stale;		/* the store has refused `guard` */
	bool refused;		/* and the version that is shown is older than
				 * the refusal: reading on in it is no guard */
	struct draft draft;
	int failed_errno; /* of the last write; flush repeats it */
	off_t written_at; /* where the last whole record began in the file, */
	size_t written_len; /* and its length; 0: there was none */
};

/* A handle for NODE, attached to it, with one reference. ACCESS is the open
 * flags' O_ACCMODE. NULL: no memory. */
struct handle *handle_new(struct mount *mount, struct node *node, int access,
			  bool created);

/* References keep a handle alive while a request works on it. */
void handle_ref(struct handle *handle);
void handle_unref(struct handle *handle);

/* Detaches it from its node (the file was closed) and drops the reference. */
void handle_close(struct mount *mount, struct handle *handle);

/* Reads the record afresh and makes it what the open file shows. A file that
 * this open created and that is still absent shows nothing, and that is OK. OK,
 * or the outcome of the read with ANSWER. */
enum outcome handle_fetch(struct mount *mount, struct handle *handle,
			  const struct limits *limits, struct answer *answer)
	MUST_CHECK;

/* Must a read at OFFSET fetch first? As in sysfs: nothing was read yet, or
 * offset 0 after bytes were read. */
bool handle_read_fetches(struct handle *handle, off_t offset);

/* Copies up to SIZE bytes at OFFSET of what the file shows to a malloced *BYTES
 * and makes its ETag the guard. OK, with no bytes at the end or if nothing is
 * shown; NO_MEMORY. */
enum outcome handle_read(struct handle *handle, size_t size, off_t offset,
			 char **bytes, size_t *len) MUST_CHECK;

/* What the file shows. False: nothing yet. */
bool handle_glimpse(struct handle *handle, struct glimpse *glimpse);

/* Was it made by this open and not written yet? */
bool handle_created(struct handle *handle);

/* fsetxattr of user.celld.if-match, and its removal. */
void handle_set_guard(struct handle *handle, const struct guard *guard);
bool handle_drop_guard(struct handle *handle);

/* The guard that user.celld.if-match shows for this open file: one that it set
 * itself or read. False: none. */
bool handle_guard(struct handle *handle, struct guard *guard);

/* What the next write through this file goes by. */
struct handle_intent {
	struct guard guard; /* NONE: whatever is armed; ABSENT: likewise, but
			     * if nothing is armed, create */
	bool borrowed;	    /* what is armed anew goes before the guard */
	bool stale;	    /* the guard is known not to hold: refuse */
	bool known;	    /* glimpse is the version that the guard names */
	struct glimpse glimpse;
};
void handle_intent(struct handle *handle, struct handle_intent *intent);

/* A write through this file was applied: it shows BODY (whose buffer changes
 * hands) as GLIMPSE, and the new ETag is its guard. If that is not known, there
 * is no guard that a write could go under until the file reads again. */
void handle_applied(struct handle *handle, struct buf *body,
		    const struct glimpse *glimpse);

/* GUARD is known not to hold any more: if it is still this file's, it is stale
 * until the file reads again or is given another. */
void handle_refused(struct handle *handle, const struct guard *guard);

/* This file has taken GUARD from those armed by path: it is its own until it
 * reads, is given one, or takes another. NULL: a contest, nothing to go by.
 * False: it has got one of its own meanwhile, by reading in another thread. */
bool handle_borrow(struct handle *handle, const struct guard *guard);

/* Nothing was sent under the borrowed guard, which is armed again; unless the
 * file has got one of its own meanwhile, it has none now. */
void handle_give_back(struct handle *handle);

/* Makes a control file show TEXT (whose buffer changes hands). */
void handle_show_text(struct handle *handle, struct buf *text);

#endif
