/* An S3 store's listings: what is asked, page after page, and that one which
 * does not end, goes back or is no page fails.
 */
#define _GNU_SOURCE

#include "s3_fixture.h"

#include "s3_xml.h"

#define FILE_XML(key) "<Contents><Key>" key "</Key></Contents>"
#define DIR_XML(key)  "<CommonPrefixes><Prefix>" key "</Prefix></CommonPrefixes>"

#define PAGE(content)                                                          \
	{                                                                      \
		200, NULL, PAGE_XML(content)                                   \
	}

static struct buf place; /* where the listing is */

static void start_listing(void)
{
	start();
	buf_init(&place, LIST_AFTER_MAX);
}

static void finish_listing(void)
{
	buf_release(&place);
	finish();
}

static void check_page(const char *names, bool more)
{
	CHECK_EQ(list_after(&place), OUTCOME_OK);
	CHECK_STR(listed, names);
	CHECK_EQ(place.len > 0, more);
}

static void test_list(void)
{
	start_listing();
	PLAY(PAGE(MORE("t%+/=&amp; :") FILE_XML("cells/n")
			  DIR_XML("cells/a%3Ab/")),
	     PAGE(FILE_XML("cells/o") LAST_PAGE));
	check_page("a:b/ n ", true);
	check_page("o ", false);
	CHECK_EQ(requests_seen(), 2);
	check_line(0, "GET /fleet/?delimiter=%2F&encoding-type=url&list-type=2"
		      "&max-keys=1000&prefix=cells%2F HTTP/1.1");
	check_line(1, "GET /fleet/?continuation-token=t%25%2B%2F%3D%26%20%3A"
		      "&delimiter=%2F&encoding-type=url&list-type=2"
		      "&max-keys=1000&prefix=cells%2F HTTP/1.1");
	finish_listing();
}

static void test_list_below_a_prefix(void)
{
	start_listing();
	open_bucket("fleet/some/where");
	PLAY(PAGE(DIR_XML("some/where/cells/a/") DIR_XML("cells/b/")
			  LAST_PAGE));
	check_page("a/ ", false);
	check_line(0, "GET /fleet/?delimiter=%2F&encoding-type=url&list-type=2"
		      "&max-keys=1000&prefix=some%2Fwhere%2Fcells%2F HTTP/1.1");
	finish_listing();
}

static void test_empty_page_goes_on(void)
{
	start_listing();
	PLAY(PAGE(FILE_XML("cells/a") MORE("1")), PAGE(MORE("2")),
	     PAGE(MORE("3")), PAGE(FILE_XML("cells/b") LAST_PAGE));
	check_page("a ", true);
	check_page("", true);
	check_page("", true);
	check_page("b ", false);
	finish_listing();
}

static void check_list_fails(void)
{
	CHECK_EQ(list_after(&place), OUTCOME_FAILED);
	CHECK(answer.reason.text[0] != '\0');
}

static void test_tokens(void)
{
	start_listing();
	PLAY(PAGE(FILE_XML("cells/a") MORE("1")),
	     PAGE(FILE_XML("cells/b") MORE("1")));
	check_page("a ", true);
	check_list_fails(); /* the same again */
	CHECK_EQ(requests_seen(), 2);
	buf_clear(&place);
	PLAY(PAGE(FILE_XML("cells/a") MORE("")));
	check_list_fails();
	PLAY(PAGE(FILE_XML("cells/a") "<IsTruncated>true</IsTruncated>"));
	check_list_fails();
	CHECK_EQ(requests_seen(), 1);
	finish_listing();
}

static void check_goes_back(struct reply first, struct reply second)
{
	start_listing();
	PLAY(first, second);
	CHECK_EQ(list_after(&place), OUTCOME_OK);
	CHECK(place.len > 0);
	check_list_fails();
	finish_listing();
}

static void test_names_go_back(void)
{
	check_goes_back((struct reply)PAGE(FILE_XML("cells/b") MORE("1")),
			(struct reply)PAGE(FILE_XML("cells/a") LAST_PAGE));
	check_goes_back((struct reply)PAGE(FILE_XML("cells/b") MORE("1")),
			(struct reply)PAGE(FILE_XML("cells/b") MORE("2")));
	check_goes_back((struct reply)PAGE(DIR_XML("cells/b/") MORE("1")),
			(struct reply)PAGE(DIR_XML("cells/b/") LAST_PAGE));
	check_goes_back((struct reply)PAGE(DIR_XML("cells/a/") MORE("1")),
			(struct reply)PAGE(FILE_XML("cells/a-b") LAST_PAGE));
	check_goes_back((struct reply)PAGE(FILE_XML("cells/%FF") MORE("1")),
			(struct reply)PAGE(FILE_XML("cells/z") LAST_PAGE));
}

/* "a" is before "a-b", and that is before "a/". */
static void test_names_go_on(void)
{
	start_listing();
	PLAY(PAGE(FILE_XML("cells/a") MORE("1")),
	     PAGE(FILE_XML("cells/a-b") MORE("2")),
	     PAGE(DIR_XML("cells/a/") MORE("3")),
	     PAGE(FILE_XML("cells/b%0A+1+2") MORE("7 8")),
	     PAGE(FILE_XML("cells/c") LAST_PAGE));
	check_page("a ", true);
	check_page("a-b ", true);
	check_page("a/ ", true);
	check_page("b\n 1 2 ", true);
	check_page("c ", false);
	finish_listing();
}

/* The longest names and tokens fit into a place. */
static void test_long_place(void)
{
	static char text[16 * 1024], key[3 * 1024], token[S3_TOKEN_MAX];
	size_t len = (size_t)snprintf(key, sizeof(key), "cells/");

	while (len < 6 + 3 * 1018)
		len += (size_t)snprintf(key + len, sizeof(key) - len, "%%7F");
	memset(token, 't', sizeof(token) - 1);
	snprintf(text, sizeof(text), PAGE_XML(FILE_XML("%s") MORE("%s")), key,
		 token);
	start_listing();
	PLAY({200, NULL, text}, PAGE(FILE_XML("cells/%80") LAST_PAGE));
	CHECK_EQ(list_after(&place), OUTCOME_OK);
	CHECK_EQ(strlen(listed), 1018 + 1);
	CHECK(place.len > 0 && place.len <= LIST_AFTER_MAX);
	check_page("\x80 ", false);
	CHECK(strstr(request_text(1), token) != NULL);
	finish_listing();
}

/* What is no place is not listed from the start. */
static void test_no_place(void)
{
	static const char *const texts[] = {"x",    "1",	"0 1",
					    "0 1x", "0 5 last", "0 99999 last"};
	char text[LIST_AFTER_MAX + 1];

	start_listing();
	PLAY({200, NULL, EMPTY_PAGE});
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		CHECK_EQ(buf_set(&place, texts[i], strlen(texts[i])),
			 OUTCOME_OK);
		if (list_after(&place) != OUTCOME_FAILED)
			CHECK_FAIL("'%s' is a place", texts[i]);
	}
	buf_release(&place);
	buf_init(&place, sizeof(text));
	memset(text, '0', sizeof(text));
	CHECK_EQ(buf_set(&place, text, sizeof(text)), OUTCOME_OK);
	CHECK_EQ(list_after(&place), OUTCOME_FAILED);
	CHECK_EQ(requests_seen(), 0);
	finish_listing();
}

static void test_pages_without_a_name(void)
{
	static char texts[SCRIPT_MAX][200];
	struct reply replies[SCRIPT_MAX];
	unsigned pages = 0;

	for (unsigned i = 0; i < SCRIPT_MAX; i++) {
		snprintf(texts[i], sizeof(texts[i]), PAGE_XML(MORE("%u")), i);
		replies[i] = (struct reply){200, NULL, texts[i]};
	}
	start_listing();
	play_list(replies, SCRIPT_MAX);
	while (list_after(&place) == OUTCOME_OK && pages < SCRIPT_MAX)
		pages++;
	CHECK(pages >= 1 && pages <= 100);
	CHECK(strstr(answer.reason.text, "does not end") != NULL);
	/* a name in between, and they are counted anew */
	for (unsigned i = 1; i < SCRIPT_MAX; i += 50)
		snprintf(texts[i], sizeof(texts[i]),
			 PAGE_XML(MORE("%u") FILE_XML("cells/%03u")), i, i);
	play_list(replies, SCRIPT_MAX);
	buf_clear(&place);
	for (pages = 0; pages < SCRIPT_MAX; pages++)
		CHECK_EQ(list_after(&place), OUTCOME_OK);
	finish_listing();
}

static void test_no_page(void)
{
	static const struct reply replies[] = {
		{200, NULL, "<html></html>"},
		{200, NULL, ERROR_XML("InternalError")},
		{200, NULL, NULL},
		{200, "Content-Encoding: gzip\r\n", "\x1f\x8b"},
		{200, NULL, "<ListBucketResult>" FILE_XML("cells/a")},
		PAGE(FILE_XML("cells/a") FILE_XML("cells/b/own.json")
			     LAST_PAGE),
		{304, NULL, NULL},
	};

	start_listing();
	for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
		play_list(&replies[i], 1);
		check_list_fails();
		CHECK_EQ(place.len, 0);
		CHECK_EQ(requests_seen(), 1);
	}
	finish_listing();
}

static enum outcome refuse_entry(void *arg, const struct list_entry *entry)
{
	(void)entry;
	++*(int *)arg;
	return OUTCOME_NO_MEMORY;
}

static void test_caller_ends_the_page(void)
{
	struct limits limits = within_ms(patience_ms);
	int calls = 0;

	start_listing();
	PLAY(PAGE(FILE_XML("cells/a") FILE_XML("cells/b") LAST_PAGE));
	CHECK_EQ(store_list(store, &limits, "cells/", &place, refuse_entry,
			    &calls, &answer),
		 OUTCOME_NO_MEMORY);
	CHECK_EQ(calls, 1);
	finish_listing();
}

/* A page is 8 MiB at most, and none of a longer one is shown. */
static void test_long_page(void)
{
	static const char head[] =
		"<ListBucketResult>" LAST_PAGE FILE_XML("cells/a");
	static const char tail[] = "</ListBucketResult>";
	static char page[9 << 20];
	struct reply reply = {200, .body = page};

	for (size_t len = sizeof(page) - 1; len > 4 << 20; len /= 2) {
		memset(page, ' ', len);
		memcpy(page, head, strlen(head));
		memcpy(page + len - strlen(tail), tail, sizeof(tail));
		start_listing();
		PLAY(reply);
		if (len > 8 << 20)
			check_list_fails();
		else
			check_page("a ", false);
		finish_listing();
	}
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	RUN(test_list);
	RUN(test_list_below_a_prefix);
	RUN(test_empty_page_goes_on);
	RUN(test_tokens);
	RUN(test_names_go_back);
	RUN(test_names_go_on);
	RUN(test_long_place);
	RUN(test_no_place);
	RUN(test_pages_without_a_name);
	RUN(test_no_page);
	RUN(test_caller_ends_the_page);
	RUN(test_long_page);
	return 0;
}
