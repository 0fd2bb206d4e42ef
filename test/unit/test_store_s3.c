/* What an S3 store's answers mean: every status to its outcome, how often a
 * read is sent again, when a call ends. A put_if() is one request, whatever
 * comes back.
 */
#define _GNU_SOURCE

#include "s3_fixture.h"

#include "s3_xml.h"

/* --- Every status --------------------------------------------------------- */

/* What get, create, swap, list and delete come to, a letter each: A absent, D
 * denied, F failed, K OK, N not done, R rejected, U unknown, - does not matter.
 */
static const struct row {
	struct reply reply;
	const char *outcomes;
} rows[] = {
	{{200, "ETag: \"e\"\r\n", EMPTY_PAGE}, "KKKKK"},
	/* a record without an ETag is for the caller to refuse */
	{{200, NULL, EMPTY_PAGE}, "KUUKK"},
	{{200, "ETag:\r\n", "<html><p>Welcome</html>"}, "KUUF-"},
	{{204, "ETag: \"e\"\r\n"}, "FUUFK"},
	{{206, "ETag: \"e\"\r\n", "half"}, "FUUF-"},
	{{304, "ETag: \"e\"\r\n"}, "FRRF-"},
	{{404, NULL, ERROR_XML("NoSuchKey")}, "AFRFK"},
	{{404, NULL, NULL}, "FUUFF"},
	{{404, NULL, "404 page not found"}, "FUUFF"},
	{{404, NULL, ERROR_XML("NoSuchBucket")}, "FFFFF"},
	{{409, NULL, ERROR_XML("ConditionalRequestConflict")}, "FNNFF"},
	{{412, NULL, ERROR_XML("PreconditionFailed")}, "FRRFF"},
	{{429, NULL, NULL}, "NNNNN"},
	{{503, NULL, ERROR_XML("SlowDown")}, "NNNNN"},
	{{503, NULL, ERROR_XML("ServiceUnavailable")}, "NNNNN"},
	{{503, NULL, NULL}, "FUUFF"},
	{{503, NULL, "<html><title>503</title></html>"}, "FUUFF"},
	{{500, NULL, ERROR_XML("UnknownError")}, "FUUFF"},
	{{502, NULL, "<html></html>"}, "FUUFF"},
	{{301, NULL, ERROR_XML("PermanentRedirect")}, "FFFFF"},
	{{302, NULL, NULL}, "FFFFF"},
	{{307, NULL, ERROR_XML("TemporaryRedirect")}, "FFFFF"},
	{{308, NULL, NULL}, "FFFFF"},
	{{400, NULL, ERROR_XML("ExpiredToken")}, "DDDDD"},
	{{400, NULL, ERROR_XML("InvalidToken")}, "DDDDD"},
	{{401, NULL, NULL}, "DDDDD"},
	{{403, NULL, ERROR_XML("ExpiredToken")}, "DDDDD"},
	{{403, NULL, ERROR_XML("InvalidAccessKeyId")}, "DDDDD"},
	{{403, NULL, ERROR_XML("SignatureDoesNotMatch")}, "DDDDD"},
	{{403, NULL, ERROR_XML("AccessDenied")}, "DDDDD"},
	{{403, NULL, ERROR_XML("RequestTimeTooSkewed")}, "DDDDD"},
	{{403, NULL, NULL}, "DDDDD"},
	{{400, NULL, ERROR_XML("TokenRefreshRequired")}, "DDDDD"},
	{{400, NULL, ERROR_XML("ExpiredTokenException")}, "DDDDD"},
	{{400, NULL, ERROR_XML("InvalidRequest")}, "FFFFF"},
	{{400, NULL, NULL}, "FFFFF"},
	{{405, NULL, NULL}, "FFFFF"},
	{{411, NULL, ERROR_XML("MissingContentLength")}, "FFFFF"},
	{{413, NULL, NULL}, "FFFFF"},
};

static char letter_of(enum outcome outcome)
{
	static const char letters[OUTCOME_COUNT] = {
		[OUTCOME_OK] = 'K',	  [OUTCOME_REJECTED] = 'R',
		[OUTCOME_DENIED] = 'D',	  [OUTCOME_ABSENT] = 'A',
		[OUTCOME_NOT_DONE] = 'N', [OUTCOME_UNKNOWN] = 'U',
		[OUTCOME_FAILED] = 'F',
	};

	return letters[outcome];
}

static void check_row(const struct row *row, unsigned i)
{
	static const struct {
		const char *name;
		enum outcome (*fn)(void);
	} calls[] = {
		{"get", get},	{"create", create}, {"swap", swap},
		{"list", list}, {"delete", delete},
	};
	bool write = i == 1 || i == 2;
	enum outcome outcome;

	/* A read gets time for the second try, and not for the wait of 400 ms
	 * before the third one (under valgrind: one more). */
	patience_ms = write ? 20000 : slow() > 1 ? 1000 : 500;
	play_list(&row->reply, 1);
	outcome = calls[i].fn();
	/* on a busy machine the second one may need longer */
	while (outcome == OUTCOME_TIMEOUT && patience_ms < 20000) {
		patience_ms *= 2;
		outcome = calls[i].fn();
	}
	if (row->outcomes[i] != '-' && letter_of(outcome) != row->outcomes[i])
		CHECK_FAIL("%s, %d %s: %s, expected %c", calls[i].name,
			   row->reply.status,
			   row->reply.body ? row->reply.body : "",
			   outcome_word(outcome), row->outcomes[i]);
	CHECK_EQ(answer.status, row->reply.status);
	if (write)
		CHECK_EQ(requests_seen(), 1);
	if (write)
		CHECK_STR(etag, outcome == OUTCOME_OK ? "\"e\"" : "");
	patience_ms = 20000;
}

static void test_every_status(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		start();
		for (unsigned call = 0; call < 5; call++)
			check_row(&rows[i], call);
		finish();
	}
}

static void test_what_the_store_says(void)
{
	start();
	PLAY({403, "x-amz-request-id: tx0001\r\n", ERROR_XML("AccessDenied")});
	CHECK_EQ(get(), OUTCOME_DENIED);
	CHECK_STR(answer.request_id, "tx0001");
	CHECK_STR(answer.reason.text, "AccessDenied: so it says");
	PLAY({412, "x-amz-request-id: tx0002\r\n",
	      "<Error><Code>A</Code><Message>two\nlines</Message></Error>"});
	CHECK_EQ(swap(), OUTCOME_REJECTED);
	CHECK_STR(answer.request_id, "tx0002");
	CHECK_STR(answer.reason.text, "A: two?lines");
	PLAY({404, NULL, "404 page not found"});
	CHECK_EQ(get(), OUTCOME_FAILED);
	CHECK_STR(answer.request_id, "");
	CHECK_STR(answer.reason.text, "a 404 that is not in the store's words");
	finish();
}

static void check_put_wait(int status, const char *headers, int64_t wait_ms)
{
	PLAY({status, headers, ERROR_XML("SlowDown")});
	CHECK_EQ(swap(), OUTCOME_NOT_DONE);
	CHECK_EQ(answer.wait_ms, wait_ms);
	CHECK_EQ(requests_seen(), 1);
}

/* What no bucket can have is not asked for. */
static void test_long_keys(void)
{
	struct guard guard = {.kind = GUARD_ABSENT};
	struct attempt attempt = {"0123456789abcdef0123456789abcdef"};
	struct limits limits = within_ms(patience_ms);
	struct buf after = {.cap = LIST_AFTER_MAX};
	char key[S3_KEY_MAX + 2];

	snprintf(key, sizeof(key), "probe/%0*d", S3_KEY_MAX - 5, 1);
	start();
	PLAY(GOOD);
	object_init(&object);
	CHECK_EQ(store_get(store, &limits, key, NULL, &object, &answer),
		 OUTCOME_FAILED);
	CHECK_EQ(store_put_if(store, &limits, key, BODY, strlen(BODY), &guard,
			      &attempt, etag, &answer),
		 OUTCOME_FAILED);
	CHECK_EQ(store_remove(store, &limits, key, &answer), OUTCOME_FAILED);
	CHECK_EQ(store_list(store, &limits, key, &after, take_entry, NULL,
			    &answer),
		 OUTCOME_FAILED);
	CHECK(strstr(answer.reason.text, "longer than 1024") != NULL);
	CHECK_EQ(requests_seen(), 0);
	CHECK_EQ(store_remove(store, &limits, "probe/x", &answer), OUTCOME_OK);
	finish();
}

static void test_throttled_put_says_when(void)
{
	start();
	check_put_wait(429, NULL, 1000);
	check_put_wait(503, NULL, 1000);
	check_put_wait(503, "Retry-After: 7\r\n", 7000);
	check_put_wait(429, "Retry-After: 0\r\n", 1000);
	check_put_wait(429, "Retry-After: -5\r\n", 1000);
	check_put_wait(429, "Retry-After: 99999999999999999999\r\n", 1000);
	check_put_wait(429, "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
		       1000);
	check_put_wait(409, "Retry-After: 7\r\n", 0);
	finish();
}

/* The keeper has its own pace: it is told at once, and when the store may be
 * asked again. */
static void test_urgent_read(void)
{
	struct limits limits = within_ms(20000);

	limits.urgent = true;
	start();
	PLAY({429, "Retry-After: 7\r\n", NULL});
	CHECK_EQ(store_get(store, &limits, KEY, NULL, &object, &answer),
		 OUTCOME_NOT_DONE);
	CHECK_EQ(answer.wait_ms, 7000);
	CHECK_EQ(requests_seen(), 1);
	PLAY({500, NULL, NULL});
	CHECK_EQ(store_get(store, &limits, KEY, NULL, &object, &answer),
		 OUTCOME_FAILED);
	CHECK_EQ(answer.wait_ms, 0);
	CHECK_EQ(requests_seen(), 1);
	finish();
}

/* --- No whole answer ------------------------------------------------------ */

static void test_reads_again(void)
{
	static const struct reply bad[] = {
		{200, "ETag: \"e\"\r\n", EMPTY_PAGE, CUT},
		{0, NULL, NULL, CLOSED},
		{500, NULL, NULL},
		{503, NULL, NULL},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		start();
		PLAY(bad[i], GOOD);
		CHECK_EQ(get(), OUTCOME_OK);
		CHECK_EQ(requests_seen(), 2);
		CHECK_EQ(object.body.len, strlen(EMPTY_PAGE));
		PLAY(bad[i], GOOD);
		CHECK_EQ(list(), OUTCOME_OK);
		CHECK_EQ(requests_seen(), 2);
		PLAY(bad[i]);
		CHECK_EQ(get(), OUTCOME_FAILED);
		CHECK(requests_seen() >= 2 && requests_seen() <= 4);
		CHECK_EQ(object.body.len, 0);
		finish();
	}
}

static void test_throttled_read(void)
{
	int64_t began_ms;

	start();
	PLAY({503, NULL, ERROR_XML("SlowDown")}, GOOD);
	began_ms = clock_boot_ms();
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_EQ(requests_seen(), 2);
	CHECK(clock_boot_ms() - began_ms >= 1000);
	PLAY({429, NULL, NULL});
	patience_ms = 1500;
	began_ms = clock_boot_ms();
	CHECK_EQ(list(), OUTCOME_NOT_DONE);
	CHECK(requests_seen() <= 2);
	CHECK(clock_boot_ms() - began_ms <= 1500 + 500 * slow());
	PLAY({429, "Retry-After: 60\r\n", NULL});
	CHECK_EQ(delete (), OUTCOME_NOT_DONE);
	CHECK_EQ(requests_seen(), 1);
	patience_ms = 20000;
	finish();
}

static void test_put_without_an_answer(void)
{
	static const struct reply bad[] = {
		{200, "ETag: \"e\"\r\n", "body", CUT},
		{412, NULL, "body", CUT},
		{0, NULL, NULL, CLOSED},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		start();
		PLAY(bad[i], GOOD);
		CHECK_EQ(swap(), OUTCOME_UNKNOWN);
		CHECK_EQ(requests_seen(), 1);
		CHECK_STR(etag, "");
		CHECK(answer.reason.text[0] != '\0');
		/* on a connection that was used before */
		PLAY(GOOD, bad[i], GOOD);
		CHECK_EQ(create(), OUTCOME_OK);
		CHECK_EQ(create(), OUTCOME_UNKNOWN);
		CHECK_EQ(requests_seen(), 2);
		finish();
	}
}

static void test_nobody_listens(void)
{
	int port, fd = server_listen(1, &port);
	char endpoint[64];
	enum outcome outcome;

	close(fd);
	start();
	snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d", port);
	setenv("AWS_ENDPOINT_URL_S3", endpoint, 1);
	open_bucket("fleet");
	CHECK_EQ(swap(), OUTCOME_TIMEOUT);
	CHECK_EQ(create(), OUTCOME_TIMEOUT);
	CHECK_EQ(answer.status, 0);
	patience_ms = 1000;
	outcome = get();
	CHECK(outcome == OUTCOME_FAILED || outcome == OUTCOME_TIMEOUT);
	now_within_ms(500, outcome);
	patience_ms = 20000;
	finish();
}

/* --- Limits --------------------------------------------------------------- */

static void check_deadline(enum outcome (*fn)(void), enum outcome wanted)
{
	int64_t wait_ms = slow() > 1 ? 3000 : 700;
	int64_t began_ms = clock_boot_ms();
	unsigned sent;

	patience_ms = wait_ms;
	PLAY({.ending = HANGS});
	CHECK_EQ(fn(), wanted);
	CHECK(clock_boot_ms() - began_ms >= wait_ms - 50);
	CHECK(clock_boot_ms() - began_ms <= wait_ms + 500 * slow());
	/* a read may use what is left for another request */
	sent = requests_seen();
	CHECK(sent >= 1 && (wanted == OUTCOME_TIMEOUT || sent == 1));
	patience_ms = 0;
	CHECK_EQ(fn(), OUTCOME_TIMEOUT);
	CHECK_EQ(requests_seen(), sent);
	patience_ms = 20000;
}

static void test_deadline(void)
{
	start();
	check_deadline(get, OUTCOME_TIMEOUT);
	check_deadline(list, OUTCOME_TIMEOUT);
	check_deadline(create, OUTCOME_UNKNOWN);
	check_deadline(swap, OUTCOME_UNKNOWN);
	finish();
}

/* One answer that does not come leaves time for another request. */
static void test_half_of_what_is_left(void)
{
	start();
	patience_ms = 4000;
	PLAY({.ending = HANGS}, GOOD);
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_EQ(requests_seen(), 2);
	patience_ms = 20000;
	finish();
}

static unsigned seen_before;

/* Once its request has come. */
static void *stop_soon(void *stop)
{
	while (requests_seen() == seen_before)
		server_sleep_ms(5);
	server_sleep_ms(100);
	stop_request(stop);
	return NULL;
}

static enum outcome stopped(bool write, bool at_once)
{
	struct limits limits = within_ms(20000);
	struct guard guard = {.kind = GUARD_ABSENT};
	struct attempt attempt = {"0123456789abcdef0123456789abcdef"};
	int64_t began_ms = clock_boot_ms();
	enum outcome outcome;
	pthread_t thread;
	struct stop stop;

	stop_init(&stop);
	limits.stop = &stop;
	seen_before = requests_seen();
	if (at_once)
		stop_request(&stop);
	else
		pthread_create(&thread, NULL, stop_soon, &stop);
	if (write)
		outcome = store_put_if(store, &limits, KEY, BODY, strlen(BODY),
				       &guard, &attempt, etag, &answer);
	else
		outcome =
			store_get(store, &limits, KEY, NULL, &object, &answer);
	if (!at_once)
		pthread_join(thread, NULL);
	CHECK(clock_boot_ms() - began_ms < 1000 * slow());
	stop_release(&stop);
	return outcome;
}

static void test_stop(void)
{
	start();
	PLAY({.ending = HANGS});
	CHECK_EQ(stopped(false, true), OUTCOME_INTERRUPTED);
	CHECK_EQ(stopped(true, true), OUTCOME_INTERRUPTED);
	CHECK_EQ(requests_seen(), 0);
	CHECK_EQ(stopped(false, false), OUTCOME_INTERRUPTED);
	CHECK_EQ(requests_seen(), 1);
	CHECK_EQ(stopped(true, false), OUTCOME_UNKNOWN);
	CHECK_EQ(requests_seen(), 2);
	finish();
}

/* Also while it waits for the next try. */
static void test_stop_between_tries(void)
{
	start();
	PLAY({429, "Retry-After: 15\r\n"});
	CHECK_EQ(stopped(false, false), OUTCOME_INTERRUPTED);
	CHECK_EQ(requests_seen(), 1);
	finish();
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	object_init(&object);
	RUN(test_what_the_store_says);
	RUN(test_long_keys);
	RUN(test_throttled_put_says_when);
	RUN(test_reads_again);
	RUN(test_throttled_read);
	RUN(test_urgent_read);
	RUN(test_put_without_an_answer);
	RUN(test_nobody_listens);
	RUN(test_deadline);
	RUN(test_half_of_what_is_left);
	RUN(test_stop);
	RUN(test_every_status);
	RUN(test_stop_between_tries);
	object_release(&object);
	return 0;
}
