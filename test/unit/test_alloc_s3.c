/* The S3 store when memory runs out, in libcurl, OpenSSL and expat as well: a
 * write that was sent is unknown unless it was answered, a write always has its
 * guard, and nothing that is there is called absent.
 *
 * not under valgrind: it looks past the malloc() of alloc.h.
 */
#define _GNU_SOURCE

#include "alloc.h"

#include "s3_fixture.h"

/* No pauses between the tries of a read. */
static struct limits limits_now(void)
{
	struct limits limits = within_ms(20000);

	limits.urgent = true;
	return limits;
}

/* OpenSSL does not say why it failed, which is FAILED; and what libcurl says of
 * TLS or of a name it does not say of memory. */
static bool done(enum outcome outcome)
{
	if (outcome != OUTCOME_OK && outcome != OUTCOME_NO_MEMORY &&
	    outcome != OUTCOME_FAILED)
		CHECK_FAIL("%s: %s", outcome_word(outcome), answer.reason.text);
	/* what the store fails at is for good where a lease is acquired */
	if (outcome == OUTCOME_FAILED)
		CHECK(strstr(answer.reason.text, "memory") == NULL);
	return outcome == OUTCOME_OK;
}

static bool store_is_opened(void)
{
	struct store_options options = {.allow_http = false};
	struct limits limits = limits_now();
	struct reason reason = {""};
	struct store *opened;
	enum outcome outcome;

	alloc_begin();
	outcome = store_s3_open(&opened, "fleet/prefix", &options, &limits,
				&reason);
	alloc_end();
	if (outcome == OUTCOME_OK)
		store_close(opened);
	else
		CHECK_EQ(outcome, OUTCOME_NO_MEMORY);
	return outcome == OUTCOME_OK;
}

static enum outcome get_armed(void)
{
	struct limits limits = limits_now();
	enum outcome outcome;

	object_release(&object);
	object_init(&object);
	alloc_begin();
	outcome = store_get(store, &limits, KEY, NULL, &object, &answer);
	alloc_end();
	return outcome;
}

static bool record_is_read(void)
{
	enum outcome outcome;

	PLAY({200, "ETag: \"e\"\r\n", BODY});
	outcome = get_armed();
	if (outcome == OUTCOME_OK) {
		CHECK_STR(object.etag, "\"e\"");
		CHECK_EQ(object.body.len, strlen(BODY));
		CHECK(memcmp(object.body.bytes, BODY, strlen(BODY)) == 0);
	}
	return done(outcome);
}

/* In the store's words, or it is not believed. */
static bool record_is_absent(void)
{
	enum outcome outcome;

	PLAY({404, NULL, ERROR_XML("NoSuchKey")});
	outcome = get_armed();
	return outcome == OUTCOME_ABSENT || done(outcome);
}

static bool missing_bucket_is_no_absence(void)
{
	enum outcome outcome;

	PLAY({404, NULL, ERROR_XML("NoSuchBucket")});
	outcome = get_armed();
	CHECK(!done(outcome));
	return strstr(answer.reason.text, "NoSuchBucket") != NULL;
}

static enum outcome put_armed(void)
{
	struct guard guard = {.kind = GUARD_MATCH, .etag = "old"};
	struct attempt attempt = {"0123456789abcdef0123456789abcdef"};
	struct limits limits = limits_now();
	enum outcome outcome;

	alloc_begin();
	outcome = store_put_if(store, &limits, KEY, BODY, strlen(BODY), &guard,
			       &attempt, etag, &answer);
	alloc_end();
	for (unsigned i = 0; i < requests_seen(); i++)
		check_header(i, "If-Match", "\"old\"");
	CHECK(requests_seen() <= 1);
	return outcome;
}

/* Whatever the outcome, it is true of what the server got. */
static bool record_is_swapped(void)
{
	enum outcome outcome;

	PLAY({200, "ETag: \"new\"\r\n", NULL});
	outcome = put_armed();
	if (outcome == OUTCOME_UNKNOWN)
		return false;
	CHECK_EQ(requests_seen(), outcome == OUTCOME_OK ? 1 : 0);
	if (outcome == OUTCOME_OK)
		CHECK_STR(etag, "\"new\"");
	/* TIMEOUT: there was no connection */
	return outcome != OUTCOME_TIMEOUT && done(outcome);
}

static bool stale_swap_is_refused(void)
{
	enum outcome outcome;

	PLAY({412, NULL, ERROR_XML("PreconditionFailed")});
	outcome = put_armed();
	CHECK(outcome != OUTCOME_OK);
	return outcome == OUTCOME_REJECTED ||
	       (outcome != OUTCOME_UNKNOWN && outcome != OUTCOME_TIMEOUT &&
		done(outcome));
}

static bool names_are_listed(void)
{
	struct limits limits = limits_now();
	struct buf after;
	enum outcome outcome;

	PLAY({200, NULL,
	      PAGE_XML("<CommonPrefixes><Prefix>cells/a/</Prefix>"
		       "</CommonPrefixes><CommonPrefixes><Prefix>cells/b/"
		       "</Prefix></CommonPrefixes>" LAST_PAGE)});
	buf_init(&after, LIST_AFTER_MAX);
	listed[0] = '\0';
	alloc_begin();
	outcome = store_list(store, &limits, "cells/", &after, take_entry, NULL,
			     &answer);
	alloc_end();
	buf_release(&after);
	/* libcurl can lose the query and go on: a store refuses its signature
	 */
	if (requests_seen() > 0 && strchr(request_text(0), '?') == NULL) {
		CHECK(alloc.failed);
		return false;
	}
	CHECK_STR(listed, outcome == OUTCOME_OK ? "a/ b/ " : "");
	return done(outcome);
}

static bool clock_is_asked(void)
{
	struct limits limits = limits_now();
	struct fleet_time time;
	enum outcome outcome;

	open_bucket("fleet");
	PLAY({200, THEN, NULL});
	alloc_begin();
	outcome = store_now(store, &limits, &time);
	alloc_end();
	if (outcome == OUTCOME_OK)
		CHECK(llabs(time.earliest_ms - THEN_MS) < 30000);
	return done(outcome);
}

static bool key_is_removed(void)
{
	struct limits limits = limits_now();
	enum outcome outcome;

	PLAY({204});
	alloc_begin();
	outcome = store_remove(store, &limits, "probe/x", &answer);
	alloc_end();
	return done(outcome);
}

/* Each with a server of its own, which has few threads. */
#define ON_A_SERVER(try)                                                       \
	do {                                                                   \
		start();                                                       \
		TRY(try);                                                      \
		finish();                                                      \
	} while (0)

int main(void)
{
	ON_A_SERVER(record_is_swapped);
	alloc_step = 11;
	ON_A_SERVER(store_is_opened);
	ON_A_SERVER(record_is_read);
	ON_A_SERVER(record_is_absent);
	ON_A_SERVER(missing_bucket_is_no_absence);
	ON_A_SERVER(stale_swap_is_refused);
	signatures_checked = false;
	ON_A_SERVER(names_are_listed);
	signatures_checked = true;
	ON_A_SERVER(clock_is_asked);
	ON_A_SERVER(key_is_removed);
	return 0;
}
