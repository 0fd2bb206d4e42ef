#include "outcome.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
	int errno_value;
	const char *word;
} table[] = {
	[OUTCOME_OK] = {0, "applied"},
	[OUTCOME_UNCHANGED] = {0, "unchanged"},
	[OUTCOME_REJECTED] = {EBUSY, "rejected"},
	[OUTCOME_EXISTS] = {EEXIST, "exists"},
	[OUTCOME_FORBIDDEN] = {EPERM, "forbidden"},
	[OUTCOME_INVALID] = {EINVAL, "invalid"},
	[OUTCOME_TOO_LARGE] = {EFBIG, "too large"},
	[OUTCOME_FENCED] = {EROFS, "fenced"},
	[OUTCOME_DENIED] = {EACCES, "denied"},
	[OUTCOME_ABSENT] = {ENOENT, "absent"},
	[OUTCOME_NOT_DONE] = {ECANCELED, "not done"},
	[OUTCOME_TIMEOUT] = {ETIMEDOUT, "timeout"},
	[OUTCOME_UNKNOWN] = {ETIMEDOUT, "unknown"},
	[OUTCOME_FAILED] = {EIO, "failed"},
	[OUTCOME_INTERRUPTED] = {EINTR, "interrupted"},
	[OUTCOME_NO_MEMORY] = {ENOMEM, "no memory"},
};

_Static_assert(sizeof(table) / sizeof(table[0]) == OUTCOME_COUNT,
	       "the table ends with the last outcome");

int outcome_errno(enum outcome outcome)
{
	/* A value that is no outcome must never pass for success. */
	if ((unsigned)outcome >= OUTCOME_COUNT || !table[outcome].word)
		return EIO;
	return table[outcome].errno_value;
}

const char *outcome_word(enum outcome outcome)
{
	if ((unsigned)outcome >= OUTCOME_COUNT || !table[outcome].word)
		return "failed";
	return table[outcome].word;
}

void text_make_plain(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		unsigned char next =
			i + 1 < len ? (unsigned char)text[i + 1] : 0;

		if (c < 0x20 || c == 0x7f)
			text[i] = '?';
		else if (c == 0xc2 && next >= 0x80 && next < 0xa0)
			text[i] = text[i + 1] = '?';
	}
}

/* Values in a reason come from records and stores: they must not break the
 * line, and a cut must not leave half a UTF-8 character. */
static void make_one_line(char *text, size_t len, size_t max)
{
	if (len > max) {
		len = max;
		while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
			len--;
	}
	text[len] = '\0';
	text_make_plain(text, len);
}

enum outcome reason_set(struct reason *reason, enum outcome outcome,
			const char *format, ...)
{
	/* Formatted aside, so that the old text may be one of the arguments;
	 * one byte longer, to see where the cut falls. */
	char text[sizeof(reason->text) + 1];
	va_list args;
	int len;

	if (!reason)
		return outcome;
	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (len < 0)
		len = 0;
	make_one_line(text, strnlen(text, (size_t)len),
		      sizeof(reason->text) - 1);
	memcpy(reason->text, text, sizeof(reason->text));
	return outcome;
}
