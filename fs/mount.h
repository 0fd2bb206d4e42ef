/* mount: what all operations of one mount share. */
#ifndef CELLDFS_MOUNT_H
#define CELLDFS_MOUNT_H

#include "ownership.h"
#include "store.h"

#include <stdatomic.h>
#include <sys/stat.h>

struct arms;
struct gate;
struct holds;
struct keeper;
struct locks;
struct peers;
struct seen;
struct tree;
struct watches;

/* Set up before the session serves and constant then, but for the counters;
 * every module below has a lock of its own. */
struct mount {
	const char *url; /* the store's, for status */
	struct store *store;
	struct ownership_rules rules;
	bool read_only;
	bool kernel_checks; /* permissions: it asks for attributes before each
			     * open and setxattr */
	int64_t deadline_ms; /* of one operation */
	int64_t ttl_ms;	     /* of a node's lease */
	uid_t uid;
	gid_t gid;
	mode_t umask; /* bits taken from every mode */

	struct tree *tree;
	struct seen *seen;
	struct arms *arms;
	struct gate *gate;
	struct watches *watches;
	struct peers *peers;
	struct holds *holds;   /* the next two: NULL without a lease that this */
	struct keeper *keeper; /* mount keeps */
	struct locks *locks;   /* NULL without a node's name */

	int64_t started_ms; /* CLOCK_BOOTTIME */
	atomic_ullong reads, swaps_applied, swaps_rejected, swaps_unknown,
		failures;

	void (*serving)(void *); /* called once, when the kernel is connected */
	void *serving_arg;
};

#endif
