/* holds: the cells that are held through this mount: claimed here, and neither
 * released nor seen in other hands since.
 *
 * It counts for the lease's load, says at an orderly stop whether the node may
 * be declared dead at once, and tells a claim of this run from one of an
 * earlier run of the same node. It is a memory, not an authority: when in doubt
 * it holds on to a cell.
 *
 * Thread-safe.
 */
#ifndef CELLDFS_HOLDS_H
#define CELLDFS_HOLDS_H

#include "record.h"

#include <stdbool.h>

struct holds;

struct holds *holds_new(const char *node); /* NULL: no memory. NODE must stay */
void holds_free(struct holds *holds);

/* OWN was written to KEY, or may have been. Without memory to remember a claim,
 * the mount holds something until it ends. */
void holds_wrote(struct holds *holds, const char *key, const struct own *own);

/* OWN was read from KEY: another node, or another epoch of it, above one that
 * was claimed here ends that. (A lower epoch may be what was there before the
 * claim.) */
void holds_read(struct holds *holds, const char *key, const struct own *own);

/* Was KEY claimed here at EPOCH and is held still? */
bool holds_has(struct holds *holds, const char *key, uint64_t epoch);

uint64_t holds_count(struct holds *holds);

#endif
