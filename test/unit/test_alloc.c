/* What lib/ does when memory runs out, where it does no I/O: it says so,
 * changes nothing, and goes on afterwards. test_alloc_sqlite.c and
 * test_alloc_s3.c do the same with the stores.
 *
 * not under valgrind: it looks past the malloc() of alloc.h.
 */
#include "alloc.h"

#include "json.h"
#include "lease.h"
#include "ownership.h"
#include "record.h"
#include "s3_list.h"
#include "sigv4.h"

#define OWN "{\"node\":\"n1\",\"epoch\":7}"

/* Done, or out of memory and nothing else. */
static bool done(enum outcome outcome)
{
	if (outcome != OUTCOME_NO_MEMORY)
		CHECK_EQ(outcome, OUTCOME_OK);
	return outcome == OUTCOME_OK;
}

static void check_text(const struct buf *buf, const char *text)
{
	CHECK_EQ(buf->len, strlen(text));
	CHECK(memcmp(buf->bytes, text, buf->len) == 0);
}

static bool buf_grows(void)
{
	char long_text[100];
	struct buf buf;
	enum outcome outcome;

	memset(long_text, 'x', sizeof(long_text));
	buf_init(&buf, 1000);
	CHECK_EQ(buf_append(&buf, "old", 3), OUTCOME_OK);
	alloc_begin();
	outcome = buf_append(&buf, long_text, sizeof(long_text));
	alloc_end();
	if (outcome == OUTCOME_OK)
		CHECK_EQ(buf.len, 103);
	else
		check_text(&buf, "old");
	buf_release(&buf);
	return done(outcome);
}

static bool buf_prints(void)
{
	struct buf buf;
	enum outcome outcome;

	buf_init(&buf, 1000);
	CHECK_EQ(buf_append(&buf, "old", 3), OUTCOME_OK);
	alloc_begin();
	outcome = buf_printf(&buf, "%0900d", 1);
	alloc_end();
	if (outcome == OUTCOME_OK)
		CHECK_EQ(buf.len, 903);
	else
		check_text(&buf, "old");
	buf_release(&buf);
	return done(outcome);
}

static bool buf_is_replaced(void)
{
	char long_text[100] = "new";
	struct buf buf;
	enum outcome outcome;

	buf_init(&buf, 1000);
	CHECK_EQ(buf_append(&buf, "old", 3), OUTCOME_OK);
	alloc_begin();
	outcome = buf_set(&buf, long_text, sizeof(long_text));
	alloc_end();
	if (outcome == OUTCOME_OK)
		CHECK(memcmp(buf.bytes, long_text, sizeof(long_text)) == 0);
	else
		check_text(&buf, "old");
	buf_release(&buf);
	return done(outcome);
}

static bool text_is_quoted(void)
{
	struct buf out;
	enum outcome outcome;

	buf_init(&out, 1000);
	alloc_begin();
	outcome = json_quote(&out, "a\"b\nc\xff");
	alloc_end();
	if (outcome == OUTCOME_OK)
		check_text(&out, "\"a\\\"b\\u000ac\xef\xbf\xbd\"");
	buf_release(&out);
	return done(outcome);
}

/* What is not a record is for EINVAL, and a release is one without a node. */
static bool own_is_parsed(void)
{
	struct own own = {"other", 99};
	struct reason reason;
	enum outcome outcome;

	alloc_begin();
	outcome = record_parse_own(&own, OWN, strlen(OWN), &reason);
	alloc_end();
	CHECK_STR(own.node, outcome == OUTCOME_OK ? "n1" : "");
	CHECK_EQ(own.epoch, outcome == OUTCOME_OK ? 7 : 0);
	return done(outcome);
}

#define LOAD                                                                   \
	"{\"sampled_ms\":1,\"resident_cells\":3,\"host_websockets\":0,"        \
	"\"rss_bytes\":1,\"cpu_percent_x100\":1,\"open_fds\":1,"               \
	"\"fd_limit\":1,\"pressured\":false,\"shed_cells\":0}"
#define LEASE                                                                  \
	"{\"node\":\"n1\",\"expires_ms\":1000,\"addr\":\"here\","              \
	"\"probe_public_key\":\"\",\"ownership_index_generation\":\"g\","      \
	"\"log\":{\"state\":\"open\",\"epoch\":1,\"ensemble\":[],"             \
	"\"tiered\":0},\"load\":" LOAD "}"

/* Expired, and with a log that is open: not to be taken over. */
static bool lease_is_parsed(void)
{
	struct fleet_time now = {.earliest_ms = 1000000,
				 .since_step_ms = INT64_MAX};
	struct lease lease;
	struct reason reason;
	enum outcome outcome;
	enum life life;

	alloc_begin();
	outcome = record_parse_lease(&lease, LEASE, strlen(LEASE), &reason);
	if (outcome == OUTCOME_OK)
		outcome = record_parse_load(&lease, LEASE, strlen(LEASE),
					    &reason);
	alloc_end();
	if (!done(outcome))
		return false;
	CHECK_STR(lease.addr, "here");
	CHECK_STR(lease.generation, "g");
	CHECK_EQ(lease.log, LEASE_LOG_OPEN);
	CHECK_EQ(lease.resident_cells, 3);
	life = ownership_life("n1", &lease, 500, &now, 1000, &reason);
	CHECK_EQ(ownership_check_takeover(life, &reason), OUTCOME_REJECTED);
	return true;
}

static bool field_is_edited(void)
{
	struct buf record;
	enum outcome outcome;

	buf_init(&record, RECORD_WRITE_MAX);
	CHECK_EQ(buf_append(&record, OWN, strlen(OWN)), OUTCOME_OK);
	alloc_begin();
	outcome = record_edit(&record, "extra", "[1]");
	alloc_end();
	check_text(&record, outcome == OUTCOME_OK
				    ? "{\"node\":\"n1\",\"epoch\":7,"
				      "\"extra\":[1]}"
				    : OWN);
	buf_release(&record);
	return done(outcome);
}

static bool query_is_encoded(void)
{
	static const struct sigv4_pair pairs[] = {{"prefix", "a/b c"},
						  {"list-type", "2"}};
	struct buf out;
	enum outcome outcome;

	buf_init(&out, 1000);
	CHECK_EQ(buf_append(&out, "?", 1), OUTCOME_OK);
	alloc_begin();
	outcome = sigv4_encode_query(&out, pairs, 2);
	alloc_end();
	check_text(&out, outcome == OUTCOME_OK ? "?list-type=2&prefix=a%2Fb%20c"
					       : "?");
	buf_release(&out);
	return done(outcome);
}

/* A signature is the right one, or there is none. OpenSSL does not say why. */
static bool request_is_signed(void)
{
	static char right[SIGV4_AUTHORIZATION_SIZE];
	struct sigv4_request request = {.method = "PUT",
					.host = "h",
					.path = "/k",
					.body = OWN,
					.body_len = strlen(OWN)};
	struct sigv4_keys keys = {.access_key = "AK",
				  .secret_key = "secret",
				  .session_token = "token"};
	struct sigv4_scope scope = {"us-east-1", "s3", 1000};
	struct sigv4_signature signature;
	enum outcome outcome;

	alloc_begin();
	outcome = sigv4_sign(&signature, &request, &keys, &scope);
	alloc_end();
	if (outcome != OUTCOME_OK) {
		CHECK_EQ(outcome, OUTCOME_FAILED);
		CHECK_STR(signature.authorization, "");
		return false;
	}
	if (right[0] == '\0')
		memcpy(right, signature.authorization, sizeof(right));
	CHECK_STR(signature.authorization, right);
	return true;
}

static unsigned handed_out;

static enum outcome take_name(void *arg, const struct list_entry *entry)
{
	char wanted[20];

	(void)arg;
	snprintf(wanted, sizeof(wanted), "c%03u", handed_out++);
	CHECK_STR(entry->name, wanted);
	CHECK(entry->directory);
	return OUTCOME_OK;
}

/* A page comes whole or not at all, and the place in the listing stays. */
static bool page_is_listed(void)
{
	struct s3_place place;
	struct reason reason;
	struct buf xml, after;
	enum outcome outcome;

	buf_init(&xml, 100000);
	buf_init(&after, LIST_AFTER_MAX);
	CHECK_EQ(s3_place_read(&place, &after), OUTCOME_OK);
	CHECK_EQ(buf_printf(&xml, "<ListBucketResult><IsTruncated>true"
				  "</IsTruncated><NextContinuationToken>next"
				  "</NextContinuationToken>"),
		 OUTCOME_OK);
	for (int i = 0; i < 70; i++)
		CHECK_EQ(buf_printf(&xml,
				    "<CommonPrefixes><Prefix>cells/c%03d/"
				    "</Prefix></CommonPrefixes>",
				    i),
			 OUTCOME_OK);
	CHECK_EQ(buf_printf(&xml, "</ListBucketResult>"), OUTCOME_OK);
	handed_out = 0;
	alloc_begin();
	outcome = s3_list_take(xml.bytes, xml.len, "cells/", &place, &after,
			       take_name, NULL, &reason);
	alloc_end();
	buf_release(&xml);
	if (outcome == OUTCOME_OK) {
		CHECK_EQ(handed_out, 70);
		check_text(&after, "0 5 c069/next");
	} else {
		/* which is the last thing to be allocated */
		CHECK(handed_out == 0 || handed_out == 70);
		CHECK_EQ(after.len, 0);
	}
	buf_release(&after);
	return done(outcome);
}

/* Then a 404 has no code, and is not taken for the store's word. */
static bool error_is_parsed(void)
{
	static const char xml[] = "<Error><Code>NoSuchKey</Code></Error>";
	struct s3_error error;

	alloc_begin();
	s3_error_parse(&error, xml, strlen(xml));
	alloc_end();
	CHECK_STR(error.message, "");
	CHECK_STR(error.code, error.code[0] ? "NoSuchKey" : "");
	return error.code[0] != '\0';
}

static bool url_becomes_absolute(void)
{
	struct reason reason;
	enum outcome outcome;
	char *url;

	alloc_begin();
	outcome = store_absolute_url(&url, "sqlite:./s", &reason);
	alloc_end();
	if (outcome == OUTCOME_OK)
		CHECK(strncmp(url, "sqlite:/", 8) == 0);
	else
		CHECK(url == NULL);
	free(url);
	return done(outcome);
}

/* A lease is there: nothing is written before it was understood. This one ran
 * out long ago, so what comes then is a write. */
static bool dead_lease_is_replaced(void)
{
	static const char text[] = "{\"node\":\"n1\",\"expires_ms\":1000}";
	struct lease_config config = {.node = "n1",
				      .ttl_ms = 10000,
				      .skew_ms = 1000,
				      .patience_ms = 30000};
	struct lease_now now = {.boot_ms = 5000000,
				.known = true,
				.fleet = {.earliest_ms = 1700000000000,
					  .latest_ms = 1700000000000,
					  .since_step_ms = INT64_MAX},
				.fresh = {"0123456789abcdef"}};
	struct lease_event first = {.kind = LEASE_TIME};
	struct object object = {.etag = "\"e\""};
	struct lease_event read = {.kind = LEASE_WAS_READ, .object = &object};
	struct lease_action action;
	struct lease_holder holder;

	buf_init(&object.body, RECORD_READ_MAX);
	CHECK_EQ(buf_set(&object.body, text, strlen(text)), OUTCOME_OK);
	lease_init(&holder, &config, now.boot_ms);
	lease_step(&holder, &first, &now, &action);
	CHECK_EQ(action.kind, LEASE_READ);
	alloc_begin();
	lease_step(&holder, &read, &now, &action);
	alloc_end();
	object_release(&object);
	CHECK_EQ(holder.state, LEASE_ACQUIRING);
	if (action.kind != LEASE_WRITE) {
		CHECK_EQ(action.kind, LEASE_SLEEP);
		CHECK_STR(holder.reason.text, "out of memory");
		now.boot_ms = action.until_ms;
		lease_step(&holder, &first, &now, &action);
		CHECK_EQ(action.kind, LEASE_READ);
		return false;
	}
	CHECK_STR(action.guard.etag, "e");
	return true;
}

/* What decides about a record without any memory cannot lack it. */
static void rules_need_no_memory(void)
{
	struct ownership_rules rules = {.node = "n1", .skew_ms = 1000};
	struct own old = {"n2", 6}, next = {"n1", 7};
	struct json_text text = {LEASE, strlen(LEASE)};
	struct json_error error;
	struct reason reason;
	struct guard guard;
	bool ask_lease;

	alloc_begin();
	CHECK(json_check(text, RECORD_DEPTH_MAX, &text, &error));
	CHECK_EQ(guard_parse(&guard, "\"e\"", 3, &reason), OUTCOME_OK);
	CHECK_EQ(ownership_check_own(&rules, &next, GUARDED_OWN, &old,
				     &ask_lease, &reason),
		 OUTCOME_OK);
	CHECK_EQ(ownership_life("n2", NULL, 0, NULL, 0, &reason), LIFE_DEAD);
	alloc_end();
	CHECK_EQ(alloc.count, 0);
}

int main(void)
{
	TRY(buf_grows);
	TRY(buf_prints);
	TRY(buf_is_replaced);
	TRY(text_is_quoted);
	TRY(own_is_parsed);
	TRY(lease_is_parsed);
	TRY(field_is_edited);
	TRY(query_is_encoded);
	TRY(request_is_signed);
	TRY(page_is_listed);
	TRY(error_is_parsed);
	TRY(url_becomes_absolute);
	TRY(dead_lease_is_replaced);
	RUN(rules_need_no_memory);
	return 0;
}
