#include "buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE 64

void buf_init(struct buf *buf, size_t cap)
{
	*buf = (struct buf){.cap = cap};
}

void buf_release(struct buf *buf)
{
	free(buf->bytes);
	buf_init(buf, buf->cap);
}

void buf_clear(struct buf *buf)
{
	buf->len = 0;
}

/* Makes room for WANTED bytes in all. On failure nothing has changed. */
static enum outcome reserve(struct buf *buf, size_t wanted)
{
	size_t size = buf->size < FIRST_SIZE ? FIRST_SIZE : buf->size;
	char *bytes;

	if (wanted > buf->cap)
		return OUTCOME_TOO_LARGE;
	if (wanted <= buf->size)
		return OUTCOME_OK;
	/* Doubled, so that appending byte by byte stays linear. */
	while (size < wanted)
		size = size > buf->cap / 2 ? buf->cap : size * 2;
	if (size > buf->cap)
		size = buf->cap;
	bytes = realloc(buf->bytes, size);
	if (!bytes)
		return OUTCOME_NO_MEMORY;
	buf->bytes = bytes;
	buf->size = size;
	return OUTCOME_OK;
}

enum outcome buf_append(struct buf *buf, const void *bytes, size_t len)
{
	enum outcome outcome;

	if (len == 0)
		return OUTCOME_OK;
	if (len > buf->cap - buf->len)
		return OUTCOME_TOO_LARGE;
	outcome = reserve(buf, buf->len + len);
	if (outcome != OUTCOME_OK)
		return outcome;
	memcpy(buf->bytes + buf->len, bytes, len);
	buf->len += len;
	return OUTCOME_OK;
}

enum outcome buf_set(struct buf *buf, const void *bytes, size_t len)
{
	enum outcome outcome = reserve(buf, len);

	if (outcome != OUTCOME_OK)
		return outcome;
	/* memmove: BYTES may be a part of the content, which never needs more
	 * room than there is. */
	if (len > 0)
		memmove(buf->bytes, bytes, len);
	buf->len = len;
	return OUTCOME_OK;
}

/* Formatted aside: the NUL needs a byte that the cap may not have, and an
 * argument may point into the content. */
__attribute__((format(printf, 1, 0))) static char *
format_text(const char *format, va_list args, size_t *len)
{
	va_list again;
	char *text = NULL;
	int wanted;

	va_copy(again, args);
	wanted = vsnprintf(NULL, 0, format, args);
	if (wanted >= 0) {
		*len = (size_t)wanted;
		text = malloc(*len + 1);
	}
	if (text)
		vsnprintf(text, *len + 1, format, again);
	va_end(again);
	return text;
}

enum outcome buf_printf(struct buf *buf, const char *format, ...)
{
	enum outcome outcome;
	va_list args;
	size_t len;
	char *text;

	va_start(args, format);
	text = format_text(format, args, &len);
	va_end(args);
	if (!text)
		return OUTCOME_NO_MEMORY;
	outcome = buf_append(buf, text, len);
	free(text);
	return outcome;
}
