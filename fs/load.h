/* load: what this process uses, as a lease's "load" says it.
 *
 * Source: celld's lease format; celldfs.8, RECORDS. sampled_ms is always 0: it
 * keeps celld from placing cells on a node that cannot run them.
 */
#ifndef CELLDFS_LOAD_H
#define CELLDFS_LOAD_H

#include "buf.h"

#include <stdint.h>

/* Between two samples: what the share of the processor is counted from. Zeroed
 * = at the start of the process. One thread at a time. */
struct load {
	int64_t sampled_ms; /* CLOCK_BOOTTIME */
	int64_t cpu_ms;
};

/* Writes the JSON object to TEXT, with every field that celld requires.
 * RESIDENT_CELLS: the cells that are held through this mount. What /proc does
 * not tell is 0. OK, NO_MEMORY, TOO_LARGE. */
enum outcome load_sample(struct load *load, uint64_t resident_cells,
			 struct buf *text) MUST_CHECK;

#endif
