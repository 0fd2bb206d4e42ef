#include "s3_list.h"

#include <stdio.h>
#include <string.h>

/* The text in struct buf *after: EMPTY_PAGES " " LENGTH_OF_LAST " " LAST TOKEN.
 */
enum outcome s3_place_read(struct s3_place *place, const struct buf *after)
{
	char text[LIST_AFTER_MAX + 1];
	size_t last_len;
	int used = 0;

	memset(place, 0, sizeof(*place));
	if (after->len == 0)
		return OUTCOME_OK;
	if (after->len >= sizeof(text))
		return OUTCOME_FAILED;
	memcpy(text, after->bytes, after->len);
	text[after->len] = '\0';
	if (sscanf(text, "%u %zu%n", &place->empty_pages, &last_len, &used) !=
		    2 ||
	    text[used] != ' ' || last_len >= sizeof(place->last) ||
	    strlen(text + used + 1) < last_len)
		return OUTCOME_FAILED;
	memcpy(place->last, text + used + 1, last_len);
	snprintf(place->token, sizeof(place->token), "%s",
		 text + used + 1 + last_len);
	return OUTCOME_OK;
}

static enum outcome write_place(const struct s3_place *place, struct buf *after)
{
	buf_clear(after);
	return buf_printf(after, "%u %zu %s%s", place->empty_pages,
			  strlen(place->last), place->last, place->token);
}

static void key_of(char key[S3_KEY_MAX + 2], const struct s3_name *name)
{
	snprintf(key, S3_KEY_MAX + 2, "%s%s", name->name,
		 name->directory ? "/" : "");
}

/* Does PAGE go on where PLACE was? Then PLACE is moved behind it. */
static enum outcome advance(struct s3_place *place, const struct s3_page *page,
			    struct reason *reason)
{
	char first[S3_KEY_MAX + 2];

	if (page->truncated && strcmp(page->next, place->token) == 0)
		return reason_set(reason, OUTCOME_FAILED,
				  "the listing gives the same token again");
	place->empty_pages = page->count ? 0 : place->empty_pages + 1;
	if (page->truncated && place->empty_pages > S3_EMPTY_PAGES_MAX)
		return reason_set(reason, OUTCOME_FAILED,
				  "the listing does not end: %u pages without "
				  "a name",
				  place->empty_pages);
	if (page->count > 0) {
		key_of(first, &page->names[0]);
		if (strcmp(first, place->last) <= 0 && place->last[0])
			return reason_set(reason, OUTCOME_FAILED,
					  "the listing goes back, to %.80s",
					  first);
		key_of(place->last, &page->names[page->count - 1]);
	}
	memcpy(place->token, page->next, sizeof(place->token));
	return OUTCOME_OK;
}

static enum outcome hand_out(const struct s3_page *page, list_fn *fn, void *arg)
{
	enum outcome outcome = OUTCOME_OK;

	for (size_t i = 0; i < page->count && outcome == OUTCOME_OK; i++) {
		struct list_entry entry = {
			.name = page->names[i].name,
			.directory = page->names[i].directory,
			.size_bytes = page->names[i].size_bytes,
			.modified_ms = page->names[i].modified_ms,
		};

		outcome = fn(arg, &entry);
	}
	return outcome;
}

enum outcome s3_list_take(const char *xml, size_t len, const char *prefix,
			  struct s3_place *place, struct buf *after,
			  list_fn *fn, void *arg, struct reason *reason)
{
	struct s3_page page = {0};
	enum outcome outcome = s3_page_parse(&page, prefix, xml, len, reason);

	if (outcome == OUTCOME_OK)
		outcome = advance(place, &page, reason);
	if (outcome == OUTCOME_OK)
		outcome = hand_out(&page, fn, arg);
	if (outcome == OUTCOME_OK) {
		buf_clear(after);
		if (page.truncated)
			outcome = write_place(place, after);
	}
	s3_page_release(&page);
	return outcome;
}
