/* A page of a listing, and an error document: a page that is accepted has
 * sorted names without a slash, and says whether it goes on; the listing moves
 * on or ends.
 */
#include "fuzz.h"

#include "s3_list.h"

#define PREFIX "cells/"

static struct reason reason;

static enum outcome count_name(void *arg, const struct list_entry *entry)
{
	size_t *count = arg;

	MUST(strchr(entry->name, '/') == NULL);
	MUST(strlen(entry->name) <= S3_KEY_MAX);
	MUST(!entry->directory || entry->size_bytes == 0);
	++*count;
	return OUTCOME_OK;
}

/* Taking the page again from where it has led to must fail, or end. */
static void check_listing(const char *xml, size_t len,
			  const struct s3_page *page)
{
	struct s3_place place = {.token = ""};
	struct buf after;
	size_t count = 0;
	enum outcome outcome;

	buf_init(&after, LIST_AFTER_MAX);
	outcome = s3_list_take(xml, len, PREFIX, &place, &after, count_name,
			       &count, &reason);
	MUST(outcome == OUTCOME_OK || outcome == OUTCOME_FAILED ||
	     outcome == OUTCOME_TOO_LARGE);
	if (outcome == OUTCOME_OK) {
		MUST(count == page->count);
		MUST((after.len > 0) == page->truncated);
	}
	if (outcome == OUTCOME_OK && page->truncated) {
		MUST(s3_place_read(&place, &after) == OUTCOME_OK);
		MUST(s3_list_take(xml, len, PREFIX, &place, &after, count_name,
				  &count, &reason) == OUTCOME_FAILED);
	}
	buf_release(&after);
}

static void check_page(const struct s3_page *page)
{
	MUST(page->truncated == (page->next[0] != '\0'));
	for (size_t i = 1; i < page->count; i++) {
		char a[S3_KEY_MAX + 2], b[S3_KEY_MAX + 2];
		const struct s3_name *names = page->names + i - 1;

		snprintf(a, sizeof(a), "%s%s", names[0].name,
			 names[0].directory ? "/" : "");
		snprintf(b, sizeof(b), "%s%s", names[1].name,
			 names[1].directory ? "/" : "");
		MUST(strcmp(a, b) <= 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size);
	struct s3_page page;
	struct s3_error error;
	enum outcome outcome;

	reason.text[0] = '\0';
	outcome = s3_page_parse(&page, PREFIX, text, size, &reason);
	MUST(outcome == OUTCOME_OK || outcome == OUTCOME_FAILED);
	if (outcome == OUTCOME_OK) {
		check_page(&page);
		check_listing(text, size, &page);
	} else {
		MUST(reason.text[0] != '\0');
	}
	s3_page_release(&page);
	s3_error_parse(&error, text, size);
	MUST(strlen(error.code) < sizeof(error.code));
	MUST(strlen(error.message) < sizeof(error.message));
	MUST(strlen(error.region) < sizeof(error.region));
	free(text);
	return 0;
}
