/* buf: a byte buffer that grows up to a cap that every caller must name.
 *
 * Not thread-safe. After a failed append the content is as it was before.
 */
#ifndef CELLDFS_BUF_H
#define CELLDFS_BUF_H

#include "outcome.h"

#include <stddef.h>

struct buf {
	char *bytes;	/* owned; NULL while empty; not NUL-terminated */
	size_t len;
	size_t size;	/* allocated */
	size_t cap;	/* never more than this */
};

/* Makes BUF empty with the given CAP in bytes. Allocates nothing. */
void buf_init(struct buf *buf, size_t cap);

/* Frees the content; BUF is empty afterwards and keeps its cap. */
void buf_release(struct buf *buf);

/* Drops the content but keeps the allocation. */
void buf_clear(struct buf *buf);

/* Appends LEN bytes. OK, TOO_LARGE (beyond the cap), NO_MEMORY. */
enum outcome buf_append(struct buf *buf, const void *bytes,
			size_t len) MUST_CHECK;

/* Replaces the content by LEN bytes. Returns as buf_append. */
enum outcome buf_set(struct buf *buf, const void *bytes, size_t len) MUST_CHECK;

/* Appends formatted text without its NUL. Returns as buf_append. */
enum outcome buf_printf(struct buf *buf, const char *format, ...) MUST_CHECK
	__attribute__((format(printf, 2, 3)));

#endif
