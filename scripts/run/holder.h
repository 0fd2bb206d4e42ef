/* holder: the process that holds the cell. It alone touches the mount.
 *
 * Invariants:
 * 1. It has no descriptor of ours, and we have none of the mount: should it
 *    hang there, nobody waits for it.
 * 2. The cell is not given up while the command's group lives: it is when we
 *    say so, or after the group is gone when we have died.
 * 3. When the time has come it kills the group, whether we do so or not.
 */
#ifndef CELLDFS_RUN_HOLDER_H
#define CELLDFS_RUN_HOLDER_H

#include "name.h"
#include "run.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum news_kind {
	NEWS_NONE,
	NEWS_MOUNT,    /* it can hold cells: node, ttl_ms, deadline_ms */
	NEWS_BUSY,     /* somebody else has the cell; trouble.text: who */
	NEWS_HELD,     /* it is ours: epoch */
	NEWS_FAILED,   /* it will not be ours: trouble */
	NEWS_LOST,     /* trouble.text: why; end the command in grace_ms */
	NEWS_RELEASED, /* trouble.text: "", or why this is not known */
	NEWS_END,      /* the holder is dead; nothing follows */
};

struct news {
	enum news_kind kind;
	char node[NAME_NODE_MAX + 1];
	int64_t ttl_ms, deadline_ms, grace_ms;
	uint64_t epoch;
	struct trouble trouble;
};

struct holder {
	pid_t pid;
	int fd; /* readable: there are news */
	/* The end of the authority that is known last; 0: none. Shared. */
	_Atomic int64_t *until_ms;
};

/* Starts it; it goes for CELL of MOUNT. WAIT: until it can be had. Both names
 * must stay. False: with TROUBLE. */
bool holder_start(struct holder *holder, const char *mount, const char *cell,
		  bool wait, struct trouble *trouble);

/* The next news, without waiting. */
void holder_news(struct holder *holder, struct news *news);

/* Tells it which process group the cell is held for. */
void holder_guard(struct holder *holder, pid_t group);

/* Tells it that the group is gone: NEWS_RELEASED follows. */
void holder_release(struct holder *holder);

/* Kills it, whatever it does. The cell is given up as with any process that
 * dies; not waited for. */
void holder_kill(struct holder *holder);

#endif
