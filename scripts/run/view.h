/* view: the cell and the node's lease, as the mount shows them. Each call asks
 * the mount, and may take as long as the mount likes, or for ever.
 *
 * Source: celldfs.8, "The tree" and ATTRIBUTES; flock on cells/<cell>/own.
 *
 * Everything is looked up from one open directory: should another mount come to
 * stand in its place, its lease is not taken for that of ours.
 */
#ifndef CELLDFS_RUN_VIEW_H
#define CELLDFS_RUN_VIEW_H

#include "name.h"
#include "run.h"

#include <stdbool.h>
#include <stdint.h>

struct view {
	const char *mount, *cell; /* not owned */
	int root, own;		  /* -1: not open */
	char node[NAME_NODE_MAX + 1];
	int64_t ttl_ms;
	int64_t deadline_ms; /* how long one operation may take there */
};

void view_init(struct view *view, const char *mount, const char *cell);
void view_close(struct view *view);

/* Opens the mount and reads what it is. False: it cannot hold a cell; TROUBLE
 * says why. */
bool view_open(struct view *view, struct trouble *trouble);

enum view_lock { VIEW_LOCKED, VIEW_BUSY, VIEW_FAILED };

/* Claims the cell; WAIT: until it can be had. BUSY (only without WAIT): TROUBLE
 * says who has it. FAILED: with TROUBLE. */
enum view_lock view_lock(struct view *view, bool wait, struct trouble *trouble);

/* The epoch of the claim. False: with TROUBLE. */
bool view_epoch(struct view *view, uint64_t *epoch, struct trouble *trouble);

/* Gives the cell up. False: not known to be released; TROUBLE says why. */
bool view_unlock(struct view *view, struct trouble *trouble);

enum view_authority {
	VIEW_HAS,     /* *UNTIL_MS: CLOCK_BOOTTIME that it lasts to, at least */
	VIEW_UNKNOWN, /* not told this time */
	VIEW_FENCED,  /* there is none any more, for good */
	VIEW_GONE,    /* nobody is there to renew it; it runs out */
};

/* How long does the node's lease give authority? FENCED, GONE: TROUBLE->text
 * says why. */
enum view_authority view_authority(struct view *view, int64_t *until_ms,
				   struct trouble *trouble);

#endif
