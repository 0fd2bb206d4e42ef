/* The holder acquires its lease: who is there, and what may be done about it.
 */
#include "lease_fixture.h"

/* The store's clock, at the earliest, stands at STORE_T0 when a test begins. */
#define IN(ms) (STORE_T0 + (ms))

/* ---- what is found ---- */

static void it_reads_first(void)
{
	set_up();
	EXPECT_READ();
	CHECK_STR(lease_state_word(&holder), "acquiring");
	CHECK_EQ(holder.old_run_ends_ms, 0);
}

static void an_absent_lease_is_created(void)
{
	set_up();
	absent();
	EXPECT_CREATE();
	boot_ms += 70;
	applied("\"e1\"");
	EXPECT_HELD(T0); /* before it was sent, not when it was answered */
	CHECK_EQ(holder.old_run_ends_ms, 0);
	sleep_through();
	EXPECT_WRITE("\"e1\"");
}

static void a_dead_one_is_replaced_by_its_etag(void)
{
	set_up();
	found("\"old\"", IN(-SKEW));
	EXPECT_WRITE("\"old\"");
	applied("\"e1\"");
	EXPECT_HELD(T0);
	CHECK_EQ(holder.old_run_ends_ms, 0);
}

static void a_tombstone_knows_no_skew(void)
{
	struct lease_config patient = usual_config();

	patient.skew_ms = 3600000;
	set_up_with(&patient);
	found("\"old\"", 0);
	EXPECT_WRITE("\"old\"");
}

static void a_sealed_log_is_no_hindrance(void)
{
	set_up();
	found_more("\"old\"", IN(-SKEW),
		   ",\"log\":{\"state\":\"sealed\",\"epoch\":1,\"ensemble\":[],"
		   "\"tiered\":0}");
	EXPECT_WRITE("\"old\"");
	set_up();
	found_more("\"old\"", 0, ",\"log\":null");
	EXPECT_WRITE("\"old\"");
}

/* One millisecond decides, by the earliest time that it can be. */
static void within_the_skew_it_is_waited_for(void)
{
	set_up();
	found("\"old\"", IN(-SKEW + 1));
	CHECK_STR(lease_state_word(&holder), "waiting");
	EXPECT_SLEEP(T0 + 1);
	sleep_through();
	EXPECT_READ();
	found("\"old\"", IN(-SKEW + 1));
	EXPECT_WRITE("\"old\"");
	CHECK_STR(lease_state_word(&holder), "acquiring");

	set_up();
	width_ms = 5000;
	found("\"old\"", IN(-SKEW + 1));
	EXPECT_SLEEP(T0 + 1);
}

/* Looking at the right time tells what time it is. */
static void meanwhile_the_time_is_found_out(void)
{
	set_up();
	width_ms = 1000;
	found("\"old\"", IN(8300));
	EXPECT_SLEEP(T0 + 1000 - (earliest() + width_ms / 2) % 1000);
	CHECK(action.until_ms < T0 + POLL);
}

static void a_living_one_is_waited_out(void)
{
	int64_t expires_ms = IN(8300);
	unsigned polls = 0;

	set_up();
	found("\"old\"", expires_ms);
	CHECK_STR(lease_state_word(&holder), "waiting");
	EXPECT_REASON("an earlier run's lease has to run out");
	EXPECT_REASON("addr 10.0.0.5:7000, generation g7");
	EXPECT_REASON("(in 8.3 s)");
	for (; action.kind == LEASE_SLEEP; polls++) {
		CHECK(action.until_ms <= boot_ms + POLL);
		CHECK(action.until_ms <= boot_of(expires_ms + SKEW));
		sleep_through();
		EXPECT_READ();
		boot_ms += 3;
		found("\"old\"", expires_ms);
	}
	EXPECT_WRITE("\"old\"");
	CHECK(polls >= 9 && polls <= 12);
	/* not before its time, and not much after */
	CHECK(boot_ms >= boot_of(expires_ms + SKEW));
	CHECK(boot_ms <= boot_of(expires_ms + SKEW) + 10);
	applied("\"e1\"");
	EXPECT_HELD(anchors[0]);
	CHECK_EQ(holder.old_run_ends_ms, 0);
}

/* It is asked for every ttl/6, from 250 to 1000 ms. */
static void the_polls_follow_the_ttl(void)
{
	static const int64_t cases[][2] = {{600, 250},
					   {1500, 250},
					   {3000, 500},
					   {6000, 1000},
					   {60000, 1000}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lease_config c = usual_config();

		c.ttl_ms = cases[i][0];
		set_up_with(&c);
		found("\"old\"", IN(20000));
		EXPECT_SLEEP(T0 + cases[i][1]);
	}
}

static void a_lease_that_goes_away_meanwhile_is_created(void)
{
	set_up();
	found("\"old\"", IN(5000));
	sleep_through();
	absent();
	EXPECT_CREATE();
}

static void one_that_is_given_up_meanwhile_is_another_version(void)
{
	set_up();
	found("\"old\"", IN(5000));
	sleep_through();
	found("\"old2\"", 0);
	EXPECT_REFUSED("another process keeps it");
}

/* ---- a twin ---- */

static void whoever_renews_it_meanwhile_is_a_twin(void)
{
	set_up();
	found("\"old\"", IN(1000));
	sleep_through();
	found("\"old2\"", IN(15200));
	EXPECT_REFUSED("another process keeps it: addr 10.0.0.5:7000, "
		       "generation g7, expires_ms 17000000152");
	CHECK_EQ(write_count, 0);
}

static void whoever_creates_it_meanwhile_is_a_twin(void)
{
	set_up();
	absent();
	EXPECT_CREATE();
	answered(OUTCOME_REJECTED);
	EXPECT_READ();
	found("\"twin\"", IN(9000));
	EXPECT_REFUSED("another process keeps it");
}

static void whoever_replaces_it_first_is_a_twin(void)
{
	static const enum outcome outcomes[] = {
		OUTCOME_REJECTED, OUTCOME_UNKNOWN, OUTCOME_NOT_DONE};

	for (int i = 0; i < 3; i++) {
		set_up();
		found("\"old\"", IN(-9000));
		EXPECT_WRITE("\"old\"");
		answered(outcomes[i]);
		if (outcomes[i] == OUTCOME_NOT_DONE)
			sleep_through();
		EXPECT_READ();
		/* dead or alive */
		found("\"twin\"", IN(i == 1 ? -8000 : 9000));
		EXPECT_REFUSED("another process keeps it");
		CHECK_EQ(write_count, 1);
	}
}

static void whoever_replaces_our_own_is_a_twin(void)
{
	set_up();
	absent();
	answered(OUTCOME_UNKNOWN);
	boot_ms += TTL;
	found_write(0, "\"e1\""); /* too late to be authority */
	EXPECT_WRITE("\"e1\"");
	answered(OUTCOME_REJECTED);
	found("\"twin\"", IN(19000));
	EXPECT_REFUSED("another process keeps it");
}

static void a_twin_may_write_what_it_likes(void)
{
	set_up();
	found("\"old\"", IN(1000));
	sleep_through();
	found_bytes("\"twin\"", "", "what is this?");
	EXPECT_REFUSED("another process keeps it");
}

/* ---- refused at once ---- */

/* Further ahead than max(60 s, 6 ttl), at the least. */
static void an_expiry_far_ahead_is_nonsense(void)
{
	static const int64_t cases[][2] = {
		{2000, 60000}, {TTL, 60000}, {10001, 60006}, {20000, 120000}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lease_config c = usual_config();
		int64_t most = cases[i][1] + WIDTH_MS;

		c.ttl_ms = cases[i][0];
		set_up_with(&c);
		found("\"old\"", IN(most));
		CHECK_STR(lease_state_word(&holder), "waiting");
		set_up_with(&c);
		found("\"old\"", IN(most + 1));
		EXPECT_REFUSED("-o replace");
		EXPECT_REASON("addr 10.0.0.5:7000, generation g7");
	}
	set_up();
	found_more("\"old\"", UINT64_MAX, "");
	EXPECT_REFUSED("too far ahead");
	set_up();
	found_more("\"old\"", (uint64_t)INT64_MAX + 1, "");
	EXPECT_REFUSED("too far ahead");
}

static void an_unsealed_log_is_for_celld(void)
{
	static const char *const logs[][2] = {
		{"\"open\",\"epoch\":1,\"ensemble\":[],\"tiered\":0", "open"},
		{"\"recovering\",\"epoch\":1,\"ensemble\":[],\"tiered\":0",
		 "recovering"},
		{"\"sealing\",\"epoch\":1,\"ensemble\":[],\"tiered\":0",
		 "not known"},
		{"\"sealed\"", "not known"},
	};
	static const int64_t expiries[] = {0, IN(-SKEW), IN(5000)};

	for (int i = 0; i < 4 * 3 * 2; i++) {
		struct lease_config c = usual_config();
		char more[120];

		c.replace = i % 2;
		snprintf(more, sizeof(more), ",\"log\":{\"state\":%s}",
			 logs[i / 6][0]);
		set_up_with(&c);
		found_more("\"old\"", (uint64_t)expiries[i / 2 % 3], more);
		EXPECT_REFUSED("celld must recover it first: its log is");
		EXPECT_REASON(logs[i / 6][1]);
		EXPECT_REASON("addr 10.0.0.5:7000");
		CHECK_EQ(write_count, 0);
	}
}

static void a_malformed_one_is_not_replaced(void)
{
	static const char *const bodies[] = {
		"",
		"<html>",
		"{\"node\":\"" NODE "\"}",
		"{\"expires_ms\":0}",
		"{\"node\":\"" NODE "\",\"expires_ms\":\"0\"}",
		"{\"node\":\"" NODE "\",\"expires_ms\":-1}",
		"{\"node\":\"" NODE "\",\"expires_ms\":0} x",
	};

	for (unsigned i = 0; i < 2 * sizeof(bodies) / sizeof(bodies[0]); i++) {
		struct lease_config c = usual_config();

		c.replace = i % 2;
		set_up_with(&c);
		found_bytes("\"old\"", "", bodies[i / 2]);
		EXPECT_REFUSED("malformed");
		CHECK_EQ(write_count, 0);
	}
}

static void another_nodes_name_is_not_replaced(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct lease_config c = usual_config();

		c.replace = i;
		set_up_with(&c);
		found_bytes("\"old\"", "",
			    "{\"node\":\"N1\",\"expires_ms\":0}");
		EXPECT_REFUSED("names another node: N1");
		CHECK_EQ(write_count, 0);
	}
}

static void what_has_no_strong_etag_is_not_replaced(void)
{
	static const char *const etags[] = {"", "W/\"1\"", "*"};

	for (int i = 0; i < 3; i++) {
		set_up();
		found(etags[i], 0);
		EXPECT_REFUSED("cannot be guarded");
	}
}

static void no_right_to_read_is_told_at_once(void)
{
	set_up();
	unreadable(OUTCOME_DENIED);
	EXPECT_REFUSED("it cannot be read: so it says");
	set_up();
	unreadable(OUTCOME_TOO_LARGE);
	EXPECT_REFUSED("it cannot be read");
	/* also when somebody is waited for */
	set_up();
	found("\"old\"", IN(5000));
	sleep_through();
	unreadable(OUTCOME_DENIED);
	EXPECT_REFUSED("it cannot be read");
}

/* ---- patience ---- */

static const enum outcome no_answers[] = {OUTCOME_FAILED, OUTCOME_TIMEOUT,
					  OUTCOME_INTERRUPTED,
					  OUTCOME_NO_MEMORY, OUTCOME_NOT_DONE};
#define NO_ANSWERS (sizeof(no_answers) / sizeof(no_answers[0]))

static void errors_are_borne_for_a_while(void)
{
	unsigned reads = 0;

	set_up();
	for (; action.kind != LEASE_END; reads++) {
		unreadable(no_answers[reads % NO_ANSWERS]);
		EXPECT_REASON("it cannot be read");
		EXPECT_SLEEP(boot_ms + PAUSE);
		CHECK(boot_ms < T0 + PATIENCE);
		sleep_through();
	}
	EXPECT_REFUSED("given up: it cannot be read");
	CHECK(boot_ms >= T0 + PATIENCE);
	CHECK_EQ(reads, PATIENCE / PAUSE);
}

static void it_ends_also_while_it_only_writes(void)
{
	set_up();
	absent();
	while (action.kind != LEASE_END) {
		if (action.kind == LEASE_WRITE)
			answered(OUTCOME_NOT_DONE);
		else if (action.kind == LEASE_READ)
			absent();
		else
			sleep_through();
	}
	EXPECT_REFUSED("given up: it cannot be written: so it says");
	CHECK(boot_ms >= T0 + PATIENCE && boot_ms < T0 + PATIENCE + 2 * PAUSE);
}

/* Nobody gives up because a predecessor lives for long. */
static void waiting_is_no_error(void)
{
	struct lease_config c = usual_config();
	int64_t expires_ms = IN(50000);

	c.patience_ms = 3000;
	set_up_with(&c);
	found("\"old\"", expires_ms);
	while (action.kind == LEASE_SLEEP) {
		sleep_through();
		/* and an error now and then is none */
		for (int i = 0; i < 3; i++) {
			unreadable(OUTCOME_TIMEOUT);
			sleep_through();
		}
		found("\"old\"", expires_ms);
	}
	EXPECT_WRITE("\"old\"");

	/* but not one after the other */
	set_up_with(&c);
	found("\"old\"", expires_ms);
	sleep_through();
	while (action.kind == LEASE_READ) {
		unreadable(OUTCOME_TIMEOUT);
		if (action.kind == LEASE_SLEEP)
			sleep_through();
	}
	EXPECT_REFUSED("given up: it cannot be read");
}

static void the_stores_wish_for_a_pause_is_heeded(void)
{
	set_up();
	told_to_wait(2000);
	EXPECT_SLEEP(T0 + 2000);
	sleep_through();
	EXPECT_READ();
	told_to_wait(1); /* less than the usual pause */
	EXPECT_SLEEP(boot_ms + PAUSE);
	sleep_through();
	told_to_wait(3600000); /* within reason */
	EXPECT_SLEEP(boot_ms + TTL / 2);
	sleep_through();
	absent();
	EXPECT_CREATE();
	told_to_wait(2000);
	EXPECT_SLEEP(boot_ms + 2000);
	sleep_through();
	EXPECT_READ();
}

/* Without the store's clock nothing can be judged, nor an expiry be told. */
static void nothing_is_done_without_the_stores_clock(void)
{
	set_up();
	clock_known = false;
	found("\"old\"", 0);
	EXPECT_SLEEP(T0 + PAUSE);
	sleep_through();
	EXPECT_READ();
	clock_known = true;
	found("\"old\"", 0);
	EXPECT_WRITE("\"old\"");

	set_up();
	clock_known = false;
	absent();
	EXPECT_SLEEP(T0 + PAUSE);
	sleep_through();
	EXPECT_READ();
	absent();
	EXPECT_SLEEP(T0 + 2 * PAUSE);
	sleep_through();
	clock_known = true;
	absent();
	EXPECT_CREATE();
}

static void a_clock_that_has_just_stepped_kills_nobody(void)
{
	set_up();
	stepped_at_ms = T0 - 30000;
	found("\"old\"", IN(-SKEW));
	CHECK_STR(lease_state_word(&holder), "waiting");
	while (action.kind == LEASE_SLEEP) {
		CHECK(boot_ms < stepped_at_ms + 60000);
		sleep_through();
		found("\"old\"", IN(-SKEW));
	}
	EXPECT_WRITE("\"old\"");
	CHECK(boot_ms >= stepped_at_ms + 60000);
}

int main(void)
{
	RUN(it_reads_first);
	RUN(an_absent_lease_is_created);
	RUN(a_dead_one_is_replaced_by_its_etag);
	RUN(a_tombstone_knows_no_skew);
	RUN(a_sealed_log_is_no_hindrance);
	RUN(within_the_skew_it_is_waited_for);
	RUN(meanwhile_the_time_is_found_out);
	RUN(a_living_one_is_waited_out);
	RUN(the_polls_follow_the_ttl);
	RUN(a_lease_that_goes_away_meanwhile_is_created);
	RUN(one_that_is_given_up_meanwhile_is_another_version);
	RUN(whoever_renews_it_meanwhile_is_a_twin);
	RUN(whoever_creates_it_meanwhile_is_a_twin);
	RUN(whoever_replaces_it_first_is_a_twin);
	RUN(whoever_replaces_our_own_is_a_twin);
	RUN(a_twin_may_write_what_it_likes);
	RUN(an_expiry_far_ahead_is_nonsense);
	RUN(an_unsealed_log_is_for_celld);
	RUN(a_malformed_one_is_not_replaced);
	RUN(another_nodes_name_is_not_replaced);
	RUN(what_has_no_strong_etag_is_not_replaced);
	RUN(no_right_to_read_is_told_at_once);
	RUN(errors_are_borne_for_a_while);
	RUN(it_ends_also_while_it_only_writes);
	RUN(waiting_is_no_error);
	RUN(the_stores_wish_for_a_pause_is_heeded);
	RUN(nothing_is_done_without_the_stores_clock);
	RUN(a_clock_that_has_just_stepped_kills_nobody);
	return 0;
}
