/* The holder and time: how long a request may take, how long a pause is, what
 * is published, and what happens when the store's clock steps. */
#include "lease_fixture.h"

#define IN(ms) (STORE_T0 + (ms)) /* of the start, by the store's clock */

/* ---- requests ---- */

/* Half of what is left, from 250 to 2500 ms, and never beyond the end. */
static void a_request_has_half_of_what_is_left(void)
{
	static const struct {
		int64_t ttl_ms, left_ms, want_ms;
	} cases[] = {
		{10000, 6667, 2500}, {10000, 5001, 2500}, {10000, 4998, 2499},
		{10000, 1000, 500},  {10000, 502, 251},	  {10000, 500, 250},
		{10000, 300, 250},   {10000, 250, 250},	  {10000, 249, 249},
		{10000, 1, 1},	     {6000, 4000, 2000},  {60000, 40000, 2500},
		{600, 400, 250},     {300, 200, 200},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lease_config c = usual_config();

		c.ttl_ms = cases[i].ttl_ms;
		set_up_held_with(&c);
		boot_ms = T0 + c.ttl_ms - cases[i].left_ms;
		look();
		EXPECT_WRITE("\"e1\"");
		CHECK_EQ(action.until_ms, boot_ms + cases[i].want_ms);
		/* and the read behind it */
		answered(OUTCOME_UNKNOWN);
		EXPECT_READ();
		CHECK_EQ(action.until_ms, boot_ms + cases[i].want_ms);
	}
}

/* While nothing is held, the whole ttl is left. */
static void while_acquiring_it_has_half_of_the_ttl(void)
{
	static const int64_t cases[][2] = {{10000, 2500},
					   {5000, 2500},
					   {4998, 2499},
					   {600, 300},
					   {400, 250}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lease_config c = usual_config();

		c.ttl_ms = cases[i][0];
		set_up_with(&c);
		EXPECT_READ();
		CHECK_EQ(action.until_ms, T0 + cases[i][1]);
		boot_ms += 20000;
		absent();
		EXPECT_CREATE();
		CHECK_EQ(action.until_ms, boot_ms + cases[i][1]);
	}
}

/* ---- pauses ---- */

/* ttl/20, by chance a quarter less or more. */
static void soon_is_a_twentieth_more_or_less(void)
{
	int64_t sum_ms = 0;

	for (unsigned i = 0; i < 256; i++) {
		int64_t pause_ms;

		set_up_held();
		sleep_through();
		byte = i;
		answered(OUTCOME_NOT_DONE);
		CHECK_EQ(action.kind, LEASE_SLEEP);
		pause_ms = action.until_ms - boot_ms;
		CHECK(pause_ms >= TTL / 20 * 3 / 4);
		CHECK(pause_ms <= TTL / 20 * 5 / 4);
		if (i == 0)
			CHECK_EQ(pause_ms, TTL / 20 * 3 / 4);
		if (i == 255)
			CHECK_EQ(pause_ms, TTL / 20 * 5 / 4);
		sum_ms += pause_ms;
	}
	CHECK(llabs(sum_ms / 256 - TTL / 20) <= 1);
}

static void but_never_nothing(void)
{
	struct lease_config c = usual_config();

	c.ttl_ms = 100;
	set_up_held_with(&c);
	sleep_through();
	answered(OUTCOME_NOT_DONE);
	EXPECT_SLEEP(boot_ms + 20);
}

/* Towards the end they are short enough for one more request, and one more. */
static void nor_more_than_half_of_what_is_left(void)
{
	set_up_held();
	byte = 255;
	boot_ms = T0 + TTL - 700;
	look();
	answered(OUTCOME_NOT_DONE);
	EXPECT_SLEEP(boot_ms + 350);
	sleep_through();
	answered(OUTCOME_UNKNOWN);
	unreadable(OUTCOME_TIMEOUT);
	EXPECT_SLEEP(boot_ms + 175);
	sleep_through();
	found("\"e1\"", IN(10041));
	EXPECT_SLEEP(boot_ms + 87);
	sleep_through();
	EXPECT_WRITE("\"e1\"");
	applied("\"e2\"");
	EXPECT_HELD(T0 + TTL - 88);
}

/* ---- a blip ---- */

/* For 3.5 s from BEGIN_MS on, every request comes to nothing within a
 * millisecond; all others take RTT_MS. Returns how many came to nothing. */
static unsigned renew_through_a_blip(int64_t begin_ms, int64_t rtt_ms,
				     unsigned chance,
				     enum outcome write_outcome)
{
	struct lease_config c = usual_config();
	unsigned lost = 0;

	c.ttl_ms = 6000;
	set_up_held_with(&c);
	byte = chance;
	while (boot_ms < T0 + 10000) {
		bool write = action.kind == LEASE_WRITE;

		if (action.kind == LEASE_SLEEP) {
			sleep_through();
		} else if (boot_ms + rtt_ms < begin_ms ||
			   boot_ms > begin_ms + 3500) {
			boot_ms += rtt_ms;
			if (write)
				applied("\"e1\"");
			else
				found("\"e1\"", IN(10041));
		} else {
			lost++;
			boot_ms++;
			if (write)
				answered(write_outcome);
			else
				unreadable(OUTCOME_TIMEOUT);
		}
		if (holder.state != LEASE_HELD)
			CHECK_FAIL("a blip after %" PRId64 " ms is fatal",
				   begin_ms - T0);
	}
	return lost;
}

static void a_blip_is_not_fatal(void)
{
	static const int64_t rtts[] = {0, 5, 50};
	static const unsigned bytes[] = {0, 128, 255};

	for (int64_t begin_ms = T0 + 3; begin_ms < T0 + 5000; begin_ms += 7) {
		for (int i = 0; i < 3 * 3 * 2; i++) {
			unsigned lost;

			lost = renew_through_a_blip(
				begin_ms, rtts[i / 3 % 3], bytes[i % 3],
				i < 9 ? OUTCOME_UNKNOWN : OUTCOME_TIMEOUT);
			CHECK(lost >= 4);
		}
	}
}

/* ---- what is published ---- */

/* Not before the end of the authority, by any clock that drifts as little. */
static void the_expiry_is_the_latest_time_and_the_ttl(void)
{
	static const int64_t cases[][2] = {{10000, 1},
					   {10001, 2},
					   {20000, 2},
					   {600000, 60},
					   {2500000, 250}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lease_config c = usual_config();

		c.ttl_ms = cases[i][0];
		c.patience_ms = 10000000;
		set_up_with(&c);
		boot_ms += 77;
		width_ms = 1234;
		absent();
		CHECK_EQ(action.expires_ms,
			 IN(77 + 1234 + cases[i][0] + cases[i][1]));
	}
}

/* However the bounds are narrowed, no two versions have the same bytes. */
static void two_in_a_row_differ(void)
{
	struct lease_config c = usual_config();
	uint64_t last;

	c.patience_ms = 100 * TTL;
	set_up_with(&c);
	absent();
	last = action.expires_ms;
	for (int i = 0; i < 100; i++) {
		int64_t pause_ms;

		answered(OUTCOME_NOT_DONE);
		pause_ms = action.until_ms - boot_ms;
		/* the latest time is what it was */
		width_ms += 100000;
		offset_ms -= pause_ms + 100000;
		sleep_through();
		absent();
		EXPECT_CREATE();
		CHECK(action.expires_ms == last + 1 ||
		      action.expires_ms == last - 1);
		last = action.expires_ms;
	}
}

static void a_store_before_1970_is_no_reason_to_wrap(void)
{
	set_up();
	offset_ms = -10 * T0;
	absent();
	EXPECT_CREATE();
	CHECK_EQ(action.expires_ms, TTL + DRIFT);
}

/* Without it there is nothing to publish: the record is looked at meanwhile. */
static void nothing_is_published_without_the_stores_clock(void)
{
	set_up_held();
	clock_known = false;
	sleep_through();
	for (int i = 0; i < 3; i++) {
		EXPECT_READ();
		found("\"e1\"", IN(10041));
		EXPECT_SLEEP(boot_ms + PAUSE);
		sleep_through();
	}
	EXPECT_READ();
	clock_known = true;
	found("\"e1\"", IN(10041));
	sleep_through();
	EXPECT_WRITE("\"e1\"");

	set_up();
	absent();
	answered(OUTCOME_UNKNOWN);
	absent();
	clock_known = false;
	sleep_through();
	EXPECT_READ();
	absent();
	EXPECT_SLEEP(boot_ms + PAUSE);
}

/* ---- the store's clock steps ---- */

/* What was published means another time now: it is soon published anew. */
static void a_step_renews_early(void)
{
	set_up_held();
	boot_ms = T0 + 200;
	stepped_at_ms = T0 + 100;
	look();
	EXPECT_SLEEP(T0 + TTL / 10);
	sleep_through();
	EXPECT_WRITE("\"e1\"");
	CHECK_EQ(boot_ms, T0 + TTL / 10);
	boot_ms += 10;
	applied("\"e2\"");
	EXPECT_HELD(T0 + TTL / 10); /* and not once more */

	set_up_held();
	boot_ms = T0 + TTL / 5;
	stepped_at_ms = boot_ms - 1;
	look();
	EXPECT_WRITE("\"e1\"");
	applied("\"e2\"");
	EXPECT_HELD(T0 + TTL / 5);
}

/* The answer to the write itself shows it. */
static void a_step_in_the_answer_renews_early(void)
{
	set_up_held();
	sleep_through();
	boot_ms += 30;
	stepped_at_ms = boot_ms;
	offset_ms += 3600000;
	applied("\"e2\"");
	CHECK_EQ(lease_authority_ms(&holder), T0 + TTL / 3 + TTL);
	EXPECT_SLEEP(T0 + TTL / 3 + TTL / 10);
	sleep_through();
	EXPECT_WRITE("\"e2\"");
	CHECK_EQ(action.expires_ms, latest() + TTL + DRIFT);
	applied("\"e3\"");
	EXPECT_HELD(T0 + TTL / 3 + TTL / 10);
}

/* It may have been just before or just after the bounds were taken. */
static void a_step_in_the_same_millisecond_renews_early(void)
{
	set_up_held();
	sleep_through();
	stepped_at_ms = boot_ms;
	boot_ms += 30;
	applied("\"e2\"");
	EXPECT_SLEEP(T0 + TTL / 3 + TTL / 10);
}

/* A store in trouble is not asked without end because its clock has stepped. */
static void a_step_does_not_do_away_with_pauses(void)
{
	set_up_held();
	sleep_through();
	boot_ms += 30;
	stepped_at_ms = boot_ms;
	told_to_wait(2000);
	EXPECT_SLEEP(boot_ms + 2000);
	sleep_through();
	answered(OUTCOME_FAILED);
	EXPECT_SLEEP(boot_ms + PAUSE);
	sleep_through();
	answered(OUTCOME_UNKNOWN);
	unreadable(OUTCOME_FAILED);
	EXPECT_SLEEP(boot_ms + PAUSE);
	sleep_through();
	found("\"e1\"", IN(10041));
	EXPECT_SLEEP(boot_ms + PAUSE);
}

static void a_step_before_the_write_does_not(void)
{
	struct lease_config usual = usual_config();

	set_up_with(&usual);
	stepped_at_ms = T0 - 1;
	absent();
	boot_ms += 400;
	applied("\"e1\"");
	EXPECT_HELD(T0);
}

static void a_step_is_nothing_to_whoever_acquires(void)
{
	set_up();
	stepped_at_ms = T0;
	boot_ms += 10;
	found("\"old\"", IN(8000));
	EXPECT_SLEEP(boot_ms + POLL);
}

/* ---- over a day ---- */

/* A store whose clock runs differently and tells whole seconds only. */
struct day {
	struct fleet fleet;
	int64_t ppm;
	uint64_t random;
	char etag[32];
};

static int64_t day_store_ms(const struct day *day)
{
	return STORE_T0 + (boot_ms - T0) + (boot_ms - T0) * day->ppm / 1000000;
}

static int64_t day_delay(struct day *day)
{
	day->random = day->random * UINT64_C(6364136223846793005) + 1;
	return 1 + (int64_t)(day->random >> 33) % 120;
}

/* Carries a request out, and takes in the Date of its answer. */
static void day_request(struct day *day)
{
	int64_t sent_ms = boot_ms, date_ms;

	boot_ms += day_delay(day);
	date_ms = day_store_ms(day);
	boot_ms += day_delay(day);
	CHECK(fleet_sample(&day->fleet, date_ms - date_ms % 1000, sent_ms,
			   boot_ms));
}

static void day_step(struct day *day, const struct lease_event *event)
{
	struct lease_now n = {.boot_ms = boot_ms};

	n.known = fleet_now(&day->fleet, boot_ms, &n.fleet);
	snprintf(n.fresh.hex, sizeof(n.fresh.hex), "%032u", ++steps);
	lease_step(&holder, event, &n, &action);
}

static unsigned renewals_of_a_day(int64_t ppm)
{
	struct day day = {.ppm = ppm, .random = (uint64_t)ppm};
	struct lease_config usual = usual_config();
	struct lease_event event = {.kind = LEASE_TIME};
	unsigned written = 0;

	config = usual;
	boot_ms = T0;
	lease_init(&holder, &config, boot_ms);
	while (boot_ms < T0 + INT64_C(86400000) || action.kind != LEASE_SLEEP) {
		day_step(&day, &event);
		event = (struct lease_event){.kind = LEASE_TIME};
		if (action.kind == LEASE_SLEEP) {
			CHECK_EQ(holder.try_count, 0);
			boot_ms = action.until_ms + day_delay(&day) % 3;
			continue;
		}
		day_request(&day);
		CHECK(boot_ms < action.until_ms);
		if (action.kind == LEASE_READ) {
			CHECK_EQ(written, 0);
			event.kind = LEASE_WAS_READ;
			event.outcome = OUTCOME_ABSENT;
			continue;
		}
		CHECK_EQ(action.kind, LEASE_WRITE);
		CHECK((int64_t)action.expires_ms <
		      day_store_ms(&day) + TTL + 2000);
		event.kind = LEASE_WAS_WRITTEN;
		event.etag = day.etag;
		snprintf(day.etag, sizeof(day.etag), "\"%u\"", ++written);
	}
	CHECK_EQ(holder.state, LEASE_HELD);
	CHECK_EQ(holder.try_count, 0);
	return written;
}

static void a_day_of_renewals(void)
{
	static const int64_t ppm[] = {-FLEET_DRIFT_PPM, 0, FLEET_DRIFT_PPM};

	for (int i = 0; i < 3; i++) {
		unsigned written = renewals_of_a_day(ppm[i]);

		CHECK(written > 25800 && written <= 25923);
	}
}

int main(void)
{
	RUN(a_request_has_half_of_what_is_left);
	RUN(while_acquiring_it_has_half_of_the_ttl);
	RUN(soon_is_a_twentieth_more_or_less);
	RUN(but_never_nothing);
	RUN(nor_more_than_half_of_what_is_left);
	RUN(a_blip_is_not_fatal);
	RUN(the_expiry_is_the_latest_time_and_the_ttl);
	RUN(two_in_a_row_differ);
	RUN(a_store_before_1970_is_no_reason_to_wrap);
	RUN(nothing_is_published_without_the_stores_clock);
	RUN(a_step_renews_early);
	RUN(a_step_in_the_answer_renews_early);
	RUN(a_step_in_the_same_millisecond_renews_early);
	RUN(a_step_does_not_do_away_with_pauses);
	RUN(a_step_before_the_write_does_not);
	RUN(a_step_is_nothing_to_whoever_acquires);
	RUN(a_day_of_renewals);
	return 0;
}
