/* spool: bytes that are appended once and read again at any place; in memory up
 * to SPOOL_MEMORY_MAX, beyond that in an unlinked file; never more than
 * SPOOL_MAX, for a listing need not end.
 *
 * One user at a time.
 */
#ifndef CELLDFS_SPOOL_H
#define CELLDFS_SPOOL_H

#include "buf.h"

#include <stdint.h>

#define SPOOL_MEMORY_MAX (32u * 1024 * 1024)
#define SPOOL_MAX	 (1024u * 1024 * 1024)

struct spool {
	struct buf memory; /* everything, while fd is -1 */
	int fd;
	uint64_t len;
};

void spool_init(struct spool *spool);
void spool_release(struct spool *spool);

/* Appends LEN bytes. OK, NO_MEMORY, FAILED (the file), TOO_LARGE. */
enum outcome spool_append(struct spool *spool, const void *bytes,
			  size_t len) MUST_CHECK;

/* Drops what lies at LEN and beyond. */
void spool_truncate(struct spool *spool, uint64_t len);

/* Reads exactly LEN bytes at OFFSET, which must lie within. OK, FAILED. */
enum outcome spool_read(const struct spool *spool, uint64_t offset, void *bytes,
			size_t len) MUST_CHECK;

#endif
