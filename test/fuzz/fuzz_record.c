/* Records: what is accepted is found to end where it ends, byte by byte as well
 * as at once; it can be written and read again; an edit changes what it names
 * and nothing else.
 */
#include "fuzz.h"

#include "json.h"
#include "record.h"

#include <inttypes.h>

static struct reason reason;

/* Where one object ends in LEN bytes that come in pieces of at most PIECE. */
static enum record_scan_result scan(const char *bytes, size_t len, size_t piece,
				    size_t *end)
{
	struct record_scan state = {0};
	enum record_scan_result result = RECORD_MORE;

	*end = 0;
	for (size_t at = 0; at < len && result == RECORD_MORE; at += piece) {
		size_t part = len - at < piece ? len - at : piece;

		result = record_scan(&state, bytes + at, part, end);
		*end += at;
	}
	return result;
}

static void check_scan(const char *bytes, size_t len, bool accepted)
{
	size_t end, other;
	enum record_scan_result result = scan(bytes, len, len, &end);

	MUST(scan(bytes, len, 1, &other) == result);
	MUST(result == RECORD_MORE || other == end);
	MUST(scan(bytes, len, 7, &other) == result);
	MUST(result == RECORD_MORE || other == end);
	if (accepted) {
		MUST(result == RECORD_COMPLETE);
		MUST(record_is_blank(bytes + end, len - end));
	}
}

static void check_own(const struct own *own)
{
	char text[NAME_NODE_MAX + 64];
	struct own again;
	int len = snprintf(text, sizeof(text),
			   "{\"node\":\"%s\",\"epoch\":%" PRIu64 "}", own->node,
			   own->epoch);

	MUST(own->node[0] == '\0' ||
	     name_node(own->node, strlen(own->node)) == NAME_VALID);
	MUST(record_parse_own(&again, text, (size_t)len, &reason) ==
	     OUTCOME_OK);
	MUST(strcmp(again.node, own->node) == 0 && again.epoch == own->epoch);
}

static bool same_but_expiry(const struct lease *a, const struct lease *b)
{
	return strcmp(a->node, b->node) == 0 && strcmp(a->addr, b->addr) == 0 &&
	       strcmp(a->generation, b->generation) == 0 && a->log == b->log;
}

static void check_lease(const char *bytes, size_t len,
			const struct lease *lease)
{
	struct buf record;
	struct lease again;
	char number[32];
	size_t once;

	snprintf(number, sizeof(number), "%" PRIu64, ~lease->expires_ms);
	buf_init(&record, RECORD_READ_MAX);
	MUST(buf_set(&record, bytes, len) == OUTCOME_OK);
	MUST(record_edit(&record, "expires_ms", number) == OUTCOME_OK);
	MUST(record_parse_lease(&again, record.bytes, record.len, &reason) ==
	     OUTCOME_OK);
	MUST(again.expires_ms == ~lease->expires_ms);
	MUST(same_but_expiry(&again, lease));
	once = record.len;
	MUST(record_edit(&record, "expires_ms", number) == OUTCOME_OK);
	MUST(record.len == once);
	buf_release(&record);
}

/* Any text becomes one JSON string. */
static void check_quote(const char *text)
{
	struct buf out;
	struct json_text value;
	struct json_error error;

	buf_init(&out, RECORD_READ_MAX);
	if (json_quote(&out, text) == OUTCOME_OK) {
		MUST(json_check((struct json_text){out.bytes, out.len}, 1,
				&value, &error));
		MUST(value.len == out.len && json_kind(value) == JSON_STRING);
		MUST(memchr(out.bytes, '\n', out.len) == NULL);
	}
	buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size);
	struct own own;
	struct lease lease;
	struct json_text value;
	struct json_error error;
	bool is_own = record_parse_own(&own, text, size, &reason) == OUTCOME_OK;
	bool is_lease =
		record_parse_lease(&lease, text, size, &reason) == OUTCOME_OK;

	if (is_own || is_lease) {
		MUST(json_check((struct json_text){text, size},
				RECORD_DEPTH_MAX, &value, &error));
		MUST(json_kind(value) == JSON_OBJECT);
	}
	if (is_own)
		check_own(&own);
	if (is_lease) {
		check_lease(text, size, &lease);
		(void)!record_parse_load(&lease, text, size, &reason);
	}
	check_scan(text, size, is_own || is_lease);
	check_quote(text);
	free(text);
	return 0;
}
