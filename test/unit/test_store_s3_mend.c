/* What an S3 store corrects for the next request: the region, expired keys, the
 * clock; each once, and a put_if() is one request all the same. The store's
 * time is known from any answer.
 */
#define _GNU_SOURCE

#include "s3_fixture.h"

/* --- Another region ------------------------------------------------------- */

#define EU "x-amz-bucket-region: eu-west-1\r\n"

#define LONG_REGION                                                            \
	"x-amz-bucket-region: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"              \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"

static void check_region_followed(struct reply first, enum outcome (*fn)(void))
{
	char host[128];

	start();
	PLAY(first, GOOD);
	CHECK_EQ(fn(), OUTCOME_OK);
	CHECK_EQ(requests_seen(), 2);
	snprintf(host, sizeof(host), "127.0.0.1:%d", server->port);
	for (unsigned i = 0; i < 2; i++) {
		check_header(i, "Host", host);
		check_scope(i, "AKenv", i == 0 ? "us-east-1" : "eu-west-1");
	}
	CHECK_EQ(fn(), OUTCOME_OK);
	check_scope(2, "AKenv", "eu-west-1");
	finish();
}

static void test_region(void)
{
	static const struct reply firsts[] = {
		{301, EU, ERROR_XML("PermanentRedirect")},
		{307, EU, NULL},
		{301, EU "Location: http://127.0.0.2:9/\r\n", NULL},
		{400, EU, ERROR_XML("AuthorizationHeaderMalformed")},
		{400, NULL,
		 "<Error><Code>AuthorizationHeaderMalformed</Code>"
		 "<Region>eu-west-1</Region></Error>"},
	};

	for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
		check_region_followed(firsts[i], get);
		check_region_followed(firsts[i], list);
		check_region_followed(firsts[i], delete);
	}
}

static void test_region_for_the_next_put(void)
{
	start();
	PLAY({301, EU}, GOOD);
	CHECK_EQ(swap(), OUTCOME_NOT_DONE);
	CHECK_EQ(requests_seen(), 1);
	CHECK(answer.wait_ms < 1000);
	CHECK_EQ(swap(), OUTCOME_OK);
	CHECK_EQ(requests_seen(), 2);
	check_scope(1, "AKenv", "eu-west-1");
	PLAY({301, EU});
	CHECK_EQ(swap(), OUTCOME_FAILED);
	finish();
}

static void test_region_once(void)
{
	start();
	PLAY({301, EU}, {301, "x-amz-bucket-region: eu-north-1\r\n"}, GOOD);
	CHECK_EQ(get(), OUTCOME_FAILED);
	CHECK_EQ(requests_seen(), 2);
	finish();
}

#define PING                                                                   \
	{                                                                      \
		301, EU                                                        \
	}
#define PONG                                                                   \
	{                                                                      \
		301, "x-amz-bucket-region: us-east-1\r\n"                      \
	}

static void check_names_both(void)
{
	CHECK(strstr(answer.reason.text, "eu-west-1") != NULL);
	CHECK(strstr(answer.reason.text, "us-east-1") != NULL);
}

/* Each region names the other one: whoever tries a put again until it is done
 * would do so every millisecond. */
static void test_regions_in_turn(void)
{
	start();
	PLAY(PING, PONG, PING, PONG, PING, PONG, GOOD);
	CHECK_EQ(swap(), OUTCOME_NOT_DONE);
	CHECK_EQ(swap(), OUTCOME_FAILED);
	check_names_both();
	CHECK_EQ(requests_seen(), 2);
	/* the next write has its try again, no more */
	CHECK_EQ(create(), OUTCOME_NOT_DONE);
	CHECK_EQ(create(), OUTCOME_FAILED);
	check_names_both();
	CHECK_EQ(get(), OUTCOME_FAILED);
	check_names_both();
	CHECK_EQ(requests_seen(), 6);
	CHECK_EQ(swap(), OUTCOME_OK);
	finish();
}

/* Three of them that never come back to the one before. */
static void test_regions_in_a_circle(void)
{
	start();
	PLAY(PING, {301, "x-amz-bucket-region: eu-north-1\r\n"}, PONG,
	     {301, EU}, GOOD);
	CHECK_EQ(swap(), OUTCOME_NOT_DONE);
	CHECK_EQ(swap(), OUTCOME_FAILED);
	CHECK_EQ(swap(), OUTCOME_NOT_DONE);
	CHECK_EQ(swap(), OUTCOME_FAILED);
	/* where the last one pointed to is where it is */
	CHECK_EQ(swap(), OUTCOME_OK);
	check_scope(4, NULL, "eu-west-1");
	finish();
}

/* A bucket that has been found and then moves is followed, each time. */
static void test_bucket_moves(void)
{
	start();
	PLAY(PING, GOOD, PONG, {412, NULL, NULL}, PING, GOOD);
	CHECK_EQ(swap(), OUTCOME_NOT_DONE);
	CHECK_EQ(swap(), OUTCOME_OK);
	CHECK_EQ(swap(), OUTCOME_NOT_DONE);
	CHECK_EQ(swap(), OUTCOME_REJECTED);
	CHECK_EQ(swap(), OUTCOME_NOT_DONE);
	CHECK_EQ(swap(), OUTCOME_OK);
	finish();
}

static void test_no_region(void)
{
	static const char *const headers[] = {
		"x-amz-bucket-region:\r\n",
		"x-amz-bucket-region: us-east-1\r\n", /* which it was */
		"x-amz-bucket-region: evil.example/\r\n",
		"x-amz-bucket-region: EU\r\n",
		"x-amz-bucket-region: a/b\r\n",
		"x-amz-bucket-region: a:80\r\n",
		"x-amz-bucket-region: a@b\r\n",
		LONG_REGION, /* NOLINT(bugprone-suspicious-missing-comma) */
	};

	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		start();
		PLAY({307, headers[i]}, GOOD);
		CHECK_EQ(get(), OUTCOME_FAILED);
		CHECK_EQ(requests_seen(), 1);
		check_scope(0, NULL, "us-east-1");
		finish();
	}
}

static void test_no_other_host(void)
{
	static const int statuses[] = {301, 302, 303, 307, 308};
	char headers[128];
	int port, other = server_listen(8, &port);
	struct pollfd asked = {.fd = other, .events = POLLIN};

	snprintf(headers, sizeof(headers),
		 EU "Location: http://127.0.0.1:%d/fleet/" KEY "\r\n", port);
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		start();
		PLAY({statuses[i], headers});
		CHECK_EQ(get(), OUTCOME_FAILED);
		CHECK(requests_seen() <= 2);
		PLAY({statuses[i], headers});
		CHECK_EQ(swap(), OUTCOME_FAILED);
		CHECK_EQ(requests_seen(), 1);
		finish();
	}
	CHECK_EQ(poll(&asked, 1, 0), 0);
	close(other);
}

/* --- Keys ----------------------------------------------------------------- */

static void rotate_keys(unsigned number)
{
	if (number == 0)
		write_keys("AKnew");
}

static const struct reply expired[] = {
	{400, NULL, ERROR_XML("ExpiredToken")},
	{403, NULL, ERROR_XML("ExpiredToken")},
	{400, NULL, ERROR_XML("TokenRefreshRequired")},
	{403, NULL, ERROR_XML("InvalidAccessKeyId")},
};

static void test_rotated_keys(void)
{
	for (size_t i = 0; i < sizeof(expired) / sizeof(expired[0]); i++) {
		start_with_file(rotate_keys);
		PLAY(expired[i], GOOD);
		CHECK_EQ(get(), OUTCOME_OK);
		CHECK_EQ(requests_seen(), 2);
		check_scope(0, "AKold", NULL);
		check_scope(1, "AKnew", NULL);
		finish();

		start_with_file(rotate_keys);
		PLAY(expired[i], GOOD);
		CHECK_EQ(swap(), OUTCOME_NOT_DONE);
		CHECK_EQ(requests_seen(), 1);
		CHECK(answer.wait_ms < 1000);
		CHECK_EQ(swap(), OUTCOME_OK);
		check_scope(1, "AKnew", NULL);
		finish();
	}
}

static void test_keys_once(void)
{
	for (size_t i = 0; i < sizeof(expired) / sizeof(expired[0]); i++) {
		start_with_file(rotate_keys);
		PLAY(expired[i]);
		CHECK_EQ(get(), OUTCOME_DENIED);
		CHECK_EQ(requests_seen(), 2);
		finish();

		start_with_file(NULL); /* the same keys again */
		PLAY(expired[i]);
		CHECK_EQ(list(), OUTCOME_DENIED);
		CHECK_EQ(requests_seen(), 1);
		CHECK_EQ(swap(), OUTCOME_DENIED);
		CHECK_EQ(requests_seen(), 2);
		finish();
	}
}

static void test_no_keys(void)
{
	start();
	unsetenv("AWS_ACCESS_KEY_ID");
	unsetenv("AWS_SECRET_ACCESS_KEY");
	open_bucket("fleet");
	PLAY(GOOD);
	CHECK_EQ(get(), OUTCOME_DENIED);
	CHECK(answer.reason.text[0] != '\0');
	CHECK_EQ(swap(), OUTCOME_DENIED);
	CHECK_EQ(list(), OUTCOME_DENIED);
	setenv("AWS_ACCESS_KEY_ID", "AKenv", 1); /* half of what is needed */
	open_bucket("fleet");
	CHECK_EQ(swap(), OUTCOME_DENIED);
	CHECK_EQ(requests_seen(), 0);
	finish();
}

/* --- The store's time ----------------------------------------------------- */

static void check_signed_then(unsigned number)
{
	int64_t late_ms = signed_ms(request_text(number)) - THEN_MS;

	CHECK(late_ms >= -15000 && late_ms <= 15000);
}

static void test_skewed_clock(void)
{
	static const struct reply skewed = {403, THEN,
					    ERROR_XML("RequestTimeTooSkewed")};

	start();
	PLAY(skewed, GOOD);
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_EQ(requests_seen(), 2);
	CHECK(signed_ms(request_text(0)) > THEN_MS + 15000);
	check_signed_then(1);
	finish();

	start();
	PLAY(skewed, GOOD);
	CHECK_EQ(swap(), OUTCOME_NOT_DONE);
	CHECK_EQ(requests_seen(), 1);
	CHECK_EQ(swap(), OUTCOME_OK);
	check_signed_then(1);
	finish();

	start();
	PLAY(skewed);
	CHECK_EQ(get(), OUTCOME_DENIED);
	CHECK_EQ(requests_seen(), 2);
	finish();
}

/* Once it is signed with the store's own time, trying again is no use: the
 * caller would do so every millisecond, for NOT_DONE invites it. */
static void test_skewed_clock_once_for_puts(void)
{
	start();
	PLAY({403, THEN, ERROR_XML("RequestTimeTooSkewed")});
	CHECK_EQ(swap(), OUTCOME_NOT_DONE);
	CHECK_EQ(swap(), OUTCOME_DENIED);
	CHECK_EQ(requests_seen(), 2);
	finish();
}

static void check_signed_now(unsigned number)
{
	CHECK(llabs(signed_ms(request_text(number)) - clock_wall_ms()) < 15000);
}

/* The store's Date is not what it judges signatures by, and then it is. */
static void test_date_that_lies(void)
{
	start();
	PLAY({200, THEN "ETag: \"e\"\r\n"},
	     {403, THEN, ERROR_XML("RequestTimeTooSkewed")}, GOOD);
	CHECK_EQ(swap(), OUTCOME_OK);
	CHECK_EQ(swap(), OUTCOME_NOT_DONE);
	check_signed_then(1);
	CHECK_EQ(swap(), OUTCOME_OK);
	check_signed_now(2);
	CHECK_EQ(get(), OUTCOME_OK);
	check_signed_now(3);
	PLAY({403, THEN, ERROR_XML("RequestTimeTooSkewed")}, GOOD);
	CHECK_EQ(get(), OUTCOME_OK);
	check_signed_now(0);
	check_signed_then(1);
	CHECK_EQ(swap(), OUTCOME_OK);
	check_signed_then(2);
	finish();
}

/* Two clocks behind one name, each of which refuses what the other wants: no
 * call goes back and forth between them. */
static void test_clocks_in_turn(void)
{
	static const char later[] = "Date: Mon, 12 Oct 2009 18:50:30 GMT\r\n";
	const struct reply here = {403, THEN,
				   ERROR_XML("RequestTimeTooSkewed")};
	const struct reply there = {403, later,
				    ERROR_XML("RequestTimeTooSkewed")};

	start();
	PLAY(here, there, here, there, here, there);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(swap(), OUTCOME_NOT_DONE);
		CHECK_EQ(swap(), OUTCOME_DENIED);
	}
	CHECK_EQ(requests_seen(), 6);
	finish();
}

/* The bounds hold the time that the server gave, and are not far from it. */
static void check_bounds(struct fleet_time time, int64_t since_ms)
{
	int64_t spent_ms = clock_boot_ms() - since_ms;

	CHECK(time.earliest_ms <= time.latest_ms);
	CHECK(time.earliest_ms >= THEN_MS - spent_ms - 1);
	CHECK(time.earliest_ms <= THEN_MS + 1000 + spent_ms + 1);
	CHECK(time.latest_ms >= THEN_MS);
	CHECK(time.latest_ms <= THEN_MS + 1000 + spent_ms + 1);
}

static void test_now(void)
{
	int64_t since_ms = clock_boot_ms();

	start();
	PLAY({200, THEN});
	check_bounds(now_within_ms(10000, OUTCOME_OK), since_ms);
	CHECK_EQ(requests_seen(), 1);
	check_line(0, "HEAD /fleet/ HTTP/1.1");
	check_bounds(now_within_ms(10000, OUTCOME_OK), since_ms);
	check_bounds(now_within_ms(0, OUTCOME_OK), since_ms);
	CHECK_EQ(requests_seen(), 1);
	finish();
}

static void test_now_by_any_answer(void)
{
	static const struct reply replies[] = {
		{200, THEN "ETag: \"e\"\r\n", "x"},
		{404, THEN, ERROR_XML("NoSuchKey")},
		{412, THEN, NULL},
		{500, THEN, NULL},
		{403, THEN, NULL},
		{200, THEN, NULL, CUT},
	};

	for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
		int64_t since_ms = clock_boot_ms();

		start();
		PLAY(replies[i]);
		(void)swap();
		check_bounds(now_within_ms(10000, OUTCOME_OK), since_ms);
		CHECK_EQ(requests_seen(), 1);
		PLAY(GOOD);
		CHECK_EQ(get(), OUTCOME_OK);
		check_signed_then(0);
		finish();
	}
}

static void test_no_time(void)
{
	start();
	PLAY({200, "Date: yesterday\r\n"});
	now_within_ms(10000, OUTCOME_FAILED);
	/* no request could be signed with these, so none would mend them */
	PLAY({200, "Date: Wed, 31 Dec 1969 23:00:00 GMT\r\n"});
	now_within_ms(10000, OUTCOME_FAILED);
	PLAY({200, "Date: Fri, 31 Dec 9999 23:59:59 GMT\r\n"});
	now_within_ms(10000, OUTCOME_FAILED);
	PLAY({200, NULL});
	now_within_ms(10000, OUTCOME_FAILED);
	now_within_ms(0, OUTCOME_TIMEOUT);
	CHECK_EQ(requests_seen(), 1);
	PLAY({403, NULL});
	now_within_ms(10000, OUTCOME_DENIED);
	PLAY({403, THEN}); /* it refuses, and says what time it is */
	now_within_ms(10000, OUTCOME_OK);
	finish();
}

/* A clock that steps is followed, and puts are signed by the new time. */
static void test_step(void)
{
	int64_t since_ms;

	start();
	PLAY({200, "Date: Mon, 12 Oct 2009 16:50:30 GMT\r\nETag: \"e\"\r\n"},
	     {200, THEN "ETag: \"e\"\r\n"});
	CHECK_EQ(swap(), OUTCOME_OK);
	since_ms = clock_boot_ms();
	CHECK_EQ(swap(), OUTCOME_OK);
	check_bounds(now_within_ms(10000, OUTCOME_OK), since_ms);
	CHECK_EQ(swap(), OUTCOME_OK);
	check_signed_then(2);
	finish();
}

/* The store's clock was known, and is another one now. */
static void test_skew_after_a_step(void)
{
	start();
	PLAY({200, "Date: Mon, 12 Oct 2009 16:50:30 GMT\r\nETag: \"e\"\r\n"},
	     {403, THEN, ERROR_XML("RequestTimeTooSkewed")}, GOOD);
	CHECK_EQ(swap(), OUTCOME_OK);
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_EQ(requests_seen(), 3);
	check_signed_then(2);
	finish();
}

/* --- Two at once ---------------------------------------------------------- */

static void wait_for_both(unsigned number)
{
	while (number < 2 && requests_seen() < 2)
		server_sleep_ms(1);
}

static void *get_in_thread(void *outcome)
{
	struct limits limits = within_ms(20000);
	struct object own;
	struct answer own_answer;

	object_init(&own);
	*(enum outcome *)outcome =
		store_get(store, &limits, KEY, NULL, &own, &own_answer);
	object_release(&own);
	return NULL;
}

/* Two calls learn the same at the same time: both go on. */
static void check_both(struct reply refusal)
{
	enum outcome outcomes[2];
	pthread_t threads[2];

	PLAY(refusal, refusal, GOOD);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, get_in_thread, &outcomes[i]);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(requests_seen(), 4);
	CHECK_EQ(outcomes[0], OUTCOME_OK);
	CHECK_EQ(outcomes[1], OUTCOME_OK);
}

static void rotate_for_both(unsigned number)
{
	wait_for_both(number);
	if (number == 0)
		write_keys("AKnew");
	if (number == 1) /* the other one has the new keys by now */
		server_sleep_ms(50);
}

static void test_both_get_new_keys(void)
{
	start_with_file(rotate_for_both);
	check_both((struct reply){403, NULL, ERROR_XML("ExpiredToken")});
	finish();
}

static void test_both_follow_the_region(void)
{
	start();
	do_before_answers(wait_for_both);
	check_both((struct reply){301, EU});
	finish();
}

static void test_both_follow_the_clock(void)
{
	start();
	do_before_answers(wait_for_both);
	check_both(
		(struct reply){403, THEN, ERROR_XML("RequestTimeTooSkewed")});
	finish();
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	object_init(&object);
	RUN(test_region);
	RUN(test_region_for_the_next_put);
	RUN(test_region_once);
	RUN(test_regions_in_turn);
	RUN(test_regions_in_a_circle);
	RUN(test_bucket_moves);
	RUN(test_no_region);
	RUN(test_no_other_host);
	RUN(test_rotated_keys);
	RUN(test_keys_once);
	RUN(test_no_keys);
	RUN(test_skewed_clock);
	RUN(test_date_that_lies);
	RUN(test_clocks_in_turn);
	RUN(test_now);
	RUN(test_now_by_any_answer);
	RUN(test_no_time);
	RUN(test_step);
	RUN(test_both_get_new_keys);
	RUN(test_both_follow_the_clock);
	RUN(test_skewed_clock_once_for_puts);
	RUN(test_both_follow_the_region);
	RUN(test_skew_after_a_step);
	object_release(&object);
	return 0;
}
