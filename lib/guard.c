#include "guard.h"

#include <stdio.h>
#include <string.h>

#define BARE_MAX (ETAG_SIZE - 3) /* both quotes and the NUL must fit too */

static bool has_control_byte(const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)bytes[i];

		if (c < 0x20 || c == 0x7f)
			return true;
	}
	return false;
}

/* What forbids that the LEN bytes at VALUE, which stood in quotes if QUOTED,
 * are the inside of one strong ETag; NULL if nothing does. */
static const char *objection(const char *value, size_t len, bool quoted)
{
	if (len == 0)
		return "it is empty";
	/* In quotes too: a store that wants tags bare would be sent
	 * "If-Match: *", which is no condition at all. */
	if (len == 1 && value[0] == '*')
		return "* is any version, not one";
	if (!quoted && len >= 2 && (value[0] == 'W' || value[0] == 'w') &&
	    value[1] == '/')
		return "it is a weak tag";
	if (memchr(value, '"', len))
		return "it has a quote inside";
	/* In quotes a comma is a byte as any other (RFC 9110, 8.8.3). */
	if (!quoted && memchr(value, ',', len))
		return "it is a list";
	if (has_control_byte(value, len))
		return "it has a control byte";
	if (len > BARE_MAX)
		return "it is too long";
	return NULL;
}

static const char *read_tag(struct guard *guard, const char *value, size_t len)
{
	bool quoted = len >= 2 && value[0] == '"' && value[len - 1] == '"';
	const char *problem;

	*guard = (struct guard){.kind = GUARD_NONE};
	if (quoted) {
		value++;
		len -= 2;
	}
	problem = objection(value, len, quoted);
	if (problem)
		return problem;
	guard->kind = GUARD_MATCH;
	memcpy(guard->etag, value, len);
	return NULL;
}

enum outcome guard_parse(struct guard *guard, const char *value, size_t len,
			 struct reason *reason)
{
	const char *problem = read_tag(guard, value, len);

	if (problem)
		return reason_set(reason, OUTCOME_INVALID,
				  "not an ETag to guard with: %s", problem);
	return OUTCOME_OK;
}

enum outcome guard_of_etag(struct guard *guard, const char *etag,
			   struct reason *reason)
{
	const char *problem = read_tag(guard, etag, strlen(etag));

	if (etag[0] == '\0')
		return reason_set(reason, OUTCOME_FAILED,
				  "the store sent no ETag");
	if (problem)
		return reason_set(reason, OUTCOME_FAILED,
				  "the store's ETag %s cannot be a guard: %s",
				  etag, problem);
	return OUTCOME_OK;
}

bool guard_matches(const struct guard *guard, const char *etag)
{
	struct guard other;

	return read_tag(&other, etag, strlen(etag)) == NULL &&
	       guard_equal(guard, &other);
}

bool guard_equal(const struct guard *a, const struct guard *b)
{
	if (a->kind != b->kind)
		return false;
	return a->kind != GUARD_MATCH || strcmp(a->etag, b->etag) == 0;
}

const char *guard_print(const struct guard *guard, char out[ETAG_SIZE + 16])
{
	switch (guard->kind) {
	case GUARD_ABSENT:
		snprintf(out, ETAG_SIZE + 16, "If-None-Match: *");
		break;
	case GUARD_MATCH:
		snprintf(out, ETAG_SIZE + 16, "If-Match: \"%.*s\"", BARE_MAX,
			 guard->etag);
		break;
	case GUARD_NONE:
	default:
		snprintf(out, ETAG_SIZE + 16, "no guard");
		break;
	}
	return out;
}
