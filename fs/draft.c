#include "draft.h"

#include <string.h>

void draft_init(struct draft *draft)
{
	memset(draft, 0, sizeof(*draft));
	buf_init(&draft->bytes, RECORD_WRITE_MAX);
}

void draft_release(struct draft *draft)
{
	buf_release(&draft->bytes);
}

void draft_drop(struct draft *draft)
{
	buf_clear(&draft->bytes);
	memset(&draft->scan, 0, sizeof(draft->scan));
}

/* BYTE, at AT of the piece, cannot belong to an object. */
static enum outcome refuse_broken(const struct draft *draft, bool started,
				  size_t at, unsigned char byte,
				  struct reason *reason)
{
	size_t place = draft->bytes.len + at + 1;

	if (!started)
		return reason_set(reason, OUTCOME_INVALID,
				  "not a record: byte %zu is 0x%02x, expected "
				  "'{'",
				  place, byte);
	if (byte < 0x20)
		return reason_set(reason, OUTCOME_INVALID,
				  "not a record: byte %zu is 0x%02x inside a "
				  "string: is a quote missing?",
				  place, byte);
	return reason_set(reason, OUTCOME_INVALID,
			  "not a record: byte %zu is '%c', which nests deeper "
			  "than %d or closes what was not opened",
			  place, byte, RECORD_DEPTH_MAX);
}

static enum outcome add(struct draft *draft, const char *bytes, size_t len,
			bool *complete, struct reason *reason)
{
	size_t end = 0;
	bool started = draft->scan.started;
	enum record_scan_result result =
		record_scan(&draft->scan, bytes, len, &end);
	enum outcome outcome;

	if (result == RECORD_BROKEN)
		return refuse_broken(draft,
				     started || !record_is_blank(bytes, end),
				     end, (unsigned char)bytes[end], reason);
	if (result == RECORD_COMPLETE &&
	    !record_is_blank(bytes + end, len - end))
		return reason_set(reason, OUTCOME_INVALID,
				  "bytes follow the record in the same write "
				  "(byte %zu): one write, one record",
				  draft->bytes.len + end + 1);
	outcome = buf_append(&draft->bytes, bytes, len);
	if (outcome == OUTCOME_TOO_LARGE)
		return reason_set(reason, outcome,
				  "a record has at most %d bytes",
				  RECORD_WRITE_MAX);
	*complete = result == RECORD_COMPLETE;
	return outcome;
}

enum outcome draft_write(struct draft *draft, const char *bytes, size_t len,
			 off_t offset, bool *complete, struct reason *reason)
{
	enum outcome outcome;

	*complete = false;
	if (draft->bytes.len == 0 && draft->after_record &&
	    record_is_blank(bytes, len))
		return OUTCOME_OK;
	if (draft->bytes.len > 0 && offset != draft->next)
		outcome = reason_set(reason, OUTCOME_INVALID,
				     "a fragment at offset %lld does not "
				     "continue the record, expected %lld",
				     (long long)offset, (long long)draft->next);
	else
		outcome = add(draft, bytes, len, complete, reason);
	if (outcome != OUTCOME_OK) {
		draft_drop(draft);
		return outcome;
	}
	draft->next = offset + (off_t)len;
	return OUTCOME_OK;
}
