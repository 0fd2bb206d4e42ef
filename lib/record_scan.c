#include "record.h"

#include "json.h"

enum record_scan_result record_scan(struct record_scan *scan, const char *bytes,
				    size_t len, size_t *end)
{
	for (*end = 0; *end < len; ++*end) {
		char c = bytes[*end];

		if (!scan->started) {
			if (json_is_space(c))
				continue;
			if (c != '{')
				goto broken;
			scan->started = true;
			scan->depth = 1;
		} else if (scan->in_string) {
			/* A raw newline means that a quote is missing: say so
			 * now, not when the file is closed. */
			if ((unsigned char)c < 0x20)
				goto broken;
			if (c == '"' && !scan->escaped)
				scan->in_string = false;
			scan->escaped = c == '\\' && !scan->escaped;
		} else if (c == '"') {
			scan->in_string = true;
		} else if (c == '{' || c == '[') {
			if (scan->depth == RECORD_DEPTH_MAX)
				goto broken;
			scan->depth++;
		} else if (c == '}' || c == ']') {
			if (scan->depth == 1 && c == ']')
				goto broken;
			if (--scan->depth > 0)
				continue;
			++*end;
			*scan = (struct record_scan){0};
			return RECORD_COMPLETE;
		}
	}
	return RECORD_MORE;

broken:
	*scan = (struct record_scan){0};
	return RECORD_BROKEN;
}

bool record_is_blank(const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!json_is_space(bytes[i]))
			return false;
	return true;
}
