/* Guards: what is accepted is one strong ETag, whether it came in quotes or
 * not, and both ways to read one agree.
 */
#include "fuzz.h"

#include "guard.h"

static struct reason reason;

static void check_guard(const struct guard *guard)
{
	const char *etag = guard->etag;
	char quoted[ETAG_SIZE];
	char printed[ETAG_SIZE + 16];
	struct guard again;

	MUST(guard->kind == GUARD_MATCH);
	MUST(etag[0] != '\0' && strcmp(etag, "*") != 0);
	MUST(strchr(etag, '"') == NULL);
	for (const char *at = etag; *at; at++)
		MUST((unsigned char)*at >= ' ' && *at != 0x7f);
	MUST(snprintf(quoted, sizeof(quoted), "\"%s\"", etag) <
	     (int)sizeof(quoted));
	MUST(guard_parse(&again, quoted, strlen(quoted), &reason) ==
	     OUTCOME_OK);
	MUST(guard_equal(guard, &again));
	MUST(guard_matches(guard, quoted));
	guard_print(guard, printed);
	MUST(strncmp(printed, "If-Match: ", 10) == 0 &&
	     strcmp(printed + 10, quoted) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size);
	struct guard guard, sent;
	enum outcome parsed = guard_parse(&guard, text, size, &reason);
	enum outcome of_etag = guard_of_etag(&sent, text, &reason);

	MUST(parsed == OUTCOME_OK || parsed == OUTCOME_INVALID);
	MUST(of_etag == OUTCOME_OK || of_etag == OUTCOME_FAILED);
	if (parsed == OUTCOME_OK)
		check_guard(&guard);
	if (of_etag == OUTCOME_OK) {
		check_guard(&sent);
		MUST(guard_matches(&sent, text));
	}
	if (strlen(text) == size)
		MUST((parsed == OUTCOME_OK) == (of_etag == OUTCOME_OK));
	free(text);
	return 0;
}
