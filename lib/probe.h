/* probe: does this store keep the promise that everything rests on?
 *
 * Source: celldfs.8, STORES. Create, refused second create, guarded overwrite,
 * refused stale overwrite, on one fresh key under probe/, removed afterwards.
 * A store that applies what it must refuse is named and must not be mounted.
 */
#ifndef CELLDFS_PROBE_H
#define CELLDFS_PROBE_H

#include "store.h"

#include <stdio.h>

/* The short form, at mount. OK, or FAILED (does not enforce: REASON names the
 * step), DENIED, TIMEOUT, ... */
enum outcome probe_run(struct store *store, const struct limits *limits,
		       struct reason *reason) MUST_CHECK;

/* `celldfs probe`: the same, step by step in words on OUT, then a race of 64
 * creates of one key, then the store's habits. */
enum outcome probe_report(struct store *store, const struct limits *limits,
			  FILE *out,
			  struct reason *reason) MUST_CHECK;

#endif
