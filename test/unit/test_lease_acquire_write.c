/* The holder acquires its lease: what becomes of the write, and -o replace. */
#include "lease_fixture.h"

#define IN(ms) (STORE_T0 + (ms)) /* of the start, by the store's clock */

/* ---- -o replace ---- */

static void set_up_replacing(void)
{
	struct lease_config c = usual_config();

	c.replace = true;
	set_up_with(&c);
}

static void replace_does_not_wait(void)
{
	set_up_replacing();
	found("\"old\"", IN(8000));
	EXPECT_WRITE("\"old\"");
	CHECK_EQ(holder.old_run_ends_ms, IN(8000 + SKEW));
	applied("\"e1\"");
	EXPECT_HELD(T0);
	CHECK_EQ(holder.old_run_ends_ms, IN(8000 + SKEW));
}

static void replace_needs_no_mercy_for_the_dead(void)
{
	set_up_replacing();
	found("\"old\"", IN(-SKEW));
	EXPECT_WRITE("\"old\"");
	CHECK_EQ(holder.old_run_ends_ms, 0);
	set_up_replacing();
	found("\"old\"", IN(-SKEW + 1));
	EXPECT_WRITE("\"old\"");
	CHECK_EQ(holder.old_run_ends_ms, IN(1));
	set_up_replacing();
	found("\"old\"", 0);
	EXPECT_WRITE("\"old\"");
	CHECK_EQ(holder.old_run_ends_ms, 0);
}

/* Also of what renews itself meanwhile; the latest of its expiries counts. */
static void replace_takes_it_from_a_twin(void)
{
	set_up_replacing();
	found("\"old\"", IN(8000));
	answered(OUTCOME_REJECTED);
	found("\"old2\"", IN(12000));
	EXPECT_WRITE("\"old2\""); /* at once: no earlier try can land now */
	CHECK_EQ(holder.old_run_ends_ms, IN(12000 + SKEW));
	answered(OUTCOME_REJECTED);
	found("\"old3\"", IN(5000));
	EXPECT_WRITE("\"old3\"");
	CHECK_EQ(holder.old_run_ends_ms, IN(12000 + SKEW));
	applied("\"e1\"");
	EXPECT_HELD(T0);
}

static void replace_takes_nonsense(void)
{
	set_up_replacing();
	found("\"old\"", IN(3600000));
	EXPECT_WRITE("\"old\"");
	CHECK_EQ(holder.old_run_ends_ms, IN(3600000 + SKEW));
	set_up_replacing();
	found_more("\"old\"", UINT64_MAX - SKEW + 1, "");
	EXPECT_WRITE("\"old\"");
	CHECK(holder.old_run_ends_ms == UINT64_MAX);
	set_up_replacing();
	found_more("\"old\"", UINT64_MAX - SKEW, "");
	CHECK(holder.old_run_ends_ms == UINT64_MAX);
}

/* ---- what became of the write ---- */

static void a_refusal_for_good_ends_it(void)
{
	static const enum outcome outcomes[] = {
		OUTCOME_DENIED, OUTCOME_FAILED, OUTCOME_FORBIDDEN,
		OUTCOME_INVALID, OUTCOME_TOO_LARGE};

	for (int i = 0; i < 5; i++) {
		set_up();
		absent();
		answered(outcomes[i]);
		EXPECT_REFUSED("it cannot be written: so it says");
	}
}

static void what_was_not_done_is_read_again_soon(void)
{
	static const enum outcome outcomes[] = {
		OUTCOME_NOT_DONE, OUTCOME_TIMEOUT, OUTCOME_INTERRUPTED,
		OUTCOME_NO_MEMORY};

	for (int i = 0; i < 4; i++) {
		set_up();
		absent();
		answered(outcomes[i]);
		CHECK_EQ(holder.try_count, 0); /* it will never land */
		EXPECT_SLEEP(T0 + PAUSE);
		sleep_through();
		EXPECT_READ();
		absent();
		EXPECT_CREATE(); /* at once */
		applied("\"e1\"");
		EXPECT_HELD(T0 + PAUSE);
	}
}

static const enum outcome unknowns[] = {OUTCOME_UNKNOWN, OUTCOME_REJECTED,
					OUTCOME_UNCHANGED, OUTCOME_ABSENT,
					OUTCOME_EXISTS};
#define UNKNOWNS (sizeof(unknowns) / sizeof(unknowns[0]))

static void a_lost_answer_is_read_back(void)
{
	for (unsigned i = 0; i < UNKNOWNS; i++) {
		set_up();
		absent();
		EXPECT_CREATE();
		boot_ms += 900;
		answered(unknowns[i]);
		EXPECT_READ(); /* at once */
		boot_ms += 80;
		found_write(0, "\"e1\"");
		EXPECT_HELD(T0);
		sleep_through();
		EXPECT_WRITE("\"e1\"");
	}
}

static void a_lost_request_is_sent_again_soon(void)
{
	for (unsigned i = 0; i < UNKNOWNS; i++) {
		set_up();
		absent();
		answered(unknowns[i]);
		absent();
		EXPECT_SLEEP(T0 + PAUSE);
		sleep_through();
		EXPECT_CREATE();
		applied("\"e1\"");
		EXPECT_HELD(T0 + PAUSE);

		set_up();
		found("\"old\"", 0);
		answered(unknowns[i]);
		found("\"old\"", 0);
		EXPECT_SLEEP(T0 + PAUSE);
		sleep_through();
		EXPECT_WRITE("\"old\"");
	}
}

/* No try over what has been removed can land any more: that is no reason to
 * pause. */
static void what_was_removed_meanwhile_is_created(void)
{
	for (unsigned i = 0; i < UNKNOWNS; i++) {
		set_up();
		found("\"old\"", 0);
		answered(unknowns[i]);
		absent();
		EXPECT_CREATE(); /* at once */
		CHECK_EQ(holder.try_count, 1);
		applied("\"e1\"");
		EXPECT_HELD(T0);
	}
}

/* The first of three tries has landed after all, and counts from its time. */
static void an_earlier_try_is_as_good(void)
{
	for (unsigned which = 0; which < 3; which++) {
		set_up();
		absent();
		for (int i = 0; i < 3; i++) {
			if (action.kind == LEASE_SLEEP)
				sleep_through();
			EXPECT_CREATE();
			boot_ms += 100;
			answered(i < 2 ? OUTCOME_UNKNOWN : OUTCOME_REJECTED);
			if (i < 2)
				absent();
		}
		found_write(which, "\"e1\"");
		EXPECT_HELD(anchors[which]);
	}
}

/* Also after the store's clock has gone back, and the predecessor seems alive
 * again. */
static void a_try_may_land_while_it_waits(void)
{
	set_up();
	found("\"old\"", IN(-SKEW));
	answered(OUTCOME_UNKNOWN);
	offset_ms -= 5000;
	stepped_at_ms = boot_ms;
	found("\"old\"", IN(-SKEW));
	CHECK_STR(lease_state_word(&holder), "waiting");
	sleep_through();
	found_write(0, "\"e1\"");
	CHECK_STR(lease_state_word(&holder), "held");
	CHECK_EQ(lease_authority_ms(&holder), T0 + TTL);
	/* what it publishes is by the old time */
	EXPECT_WRITE("\"e1\"");
	applied("\"e2\"");
	EXPECT_HELD(T0 + POLL);
}

static void an_answer_without_an_etag_is_read_back(void)
{
	set_up();
	absent();
	applied("");
	CHECK_EQ(holder.state, LEASE_ACQUIRING);
	EXPECT_SLEEP(T0 + PAUSE);
	sleep_through();
	EXPECT_READ();
	found_write(0, "\"e1\"");
	EXPECT_HELD(T0);
}

/* ---- too late ---- */

static void what_lands_after_its_own_expiry_is_no_authority(void)
{
	set_up();
	absent();
	boot_ms += TTL - 1;
	applied("\"e1\"");
	EXPECT_HELD(T0); /* just in time */

	set_up();
	absent();
	boot_ms += TTL;
	applied("\"e1\"");
	CHECK_EQ(holder.state, LEASE_ACQUIRING);
	EXPECT_WRITE("\"e1\""); /* at once, by the new sample */
	CHECK((int64_t)action.expires_ms >= latest() + TTL);
	boot_ms += 20;
	applied("\"e2\"");
	EXPECT_HELD(T0 + TTL);
}

static void three_times_too_late_is_too_slow(void)
{
	static const char *const etags[] = {"\"e0\"", "\"e1\"", "\"e2\""};
	struct lease_config c = usual_config();

	c.patience_ms = 10 * TTL;
	for (int read = 0; read < 2; read++) {
		set_up_with(&c);
		absent();
		for (unsigned i = 0; i < 3; i++) {
			CHECK_EQ(action.kind, LEASE_WRITE);
			boot_ms += TTL;
			if (read) {
				answered(OUTCOME_UNKNOWN);
				found_write(i, etags[i]);
			} else {
				applied(etags[i]);
			}
		}
		EXPECT_REFUSED("the store takes longer than ttl-ms");
		CHECK_EQ(write_count, 3);
	}
}

/* What landed too late is ours, but nobody knows it any more: it has to run
 * out as any other. */
static void it_waits_for_its_own_late_one(void)
{
	set_up();
	absent();
	boot_ms += TTL;
	applied("\"e1\"");
	EXPECT_WRITE("\"e1\"");
	answered(OUTCOME_UNKNOWN);
	found_write(0, "\"e1\"");
	CHECK_STR(lease_state_word(&holder), "waiting");
	while (holder.waiting) {
		sleep_through();
		found_write(0, "\"e1\"");
	}
	CHECK(earliest() >= (int64_t)writes[0].expires_ms + SKEW);
	sleep_through();
	EXPECT_WRITE("\"e1\"");
	/* or the second one lands */
	answered(OUTCOME_REJECTED);
	boot_ms = anchors[1] + TTL - 1;
	found_write(1, "\"e2\"");
	EXPECT_HELD(anchors[1]);
}

/* ---- many tries ---- */

static void set_up_tries(unsigned count)
{
	struct lease_config c = usual_config();

	c.patience_ms = 10 * TTL;
	set_up_with(&c);
	absent();
	while (write_count < count) {
		if (action.kind == LEASE_SLEEP)
			sleep_through();
		EXPECT_CREATE();
		answered(OUTCOME_UNKNOWN);
		absent();
	}
}

static void no_more_tries_than_can_be_remembered(void)
{
	set_up_tries(LEASE_TRIES_MAX);
	while (action.kind != LEASE_END) {
		if (action.kind == LEASE_SLEEP) {
			sleep_through();
		} else {
			EXPECT_READ();
			absent();
		}
	}
	EXPECT_REFUSED("given up");
	CHECK_EQ(write_count, LEASE_TRIES_MAX);
}

static void each_of_them_is_known(void)
{
	for (unsigned i = 12; i < LEASE_TRIES_MAX; i++) {
		set_up_tries(LEASE_TRIES_MAX);
		sleep_through();
		EXPECT_READ();
		boot_ms = anchors[31] + 500;
		found_write(i, "\"e1\"");
		if (anchors[i] + TTL <= boot_ms)
			CHECK_EQ(holder.state, LEASE_ACQUIRING);
		else
			EXPECT_HELD(anchors[i]);
	}
}

static void another_version_makes_room_again(void)
{
	struct lease_config c = usual_config();

	c.patience_ms = 10 * TTL;
	c.replace = true;
	set_up_with(&c);
	found("\"old\"", IN(1000));
	while (write_count < LEASE_TRIES_MAX) {
		if (action.kind == LEASE_SLEEP)
			sleep_through();
		answered(OUTCOME_UNKNOWN);
		found("\"old\"", IN(1000));
	}
	sleep_through();
	EXPECT_READ();
	found("\"old2\"", IN(1000));
	EXPECT_WRITE("\"old2\"");
	CHECK_EQ(holder.try_count, 1);
}

int main(void)
{
	RUN(replace_does_not_wait);
	RUN(replace_needs_no_mercy_for_the_dead);
	RUN(replace_takes_it_from_a_twin);
	RUN(replace_takes_nonsense);
	RUN(a_refusal_for_good_ends_it);
	RUN(what_was_not_done_is_read_again_soon);
	RUN(a_lost_answer_is_read_back);
	RUN(a_lost_request_is_sent_again_soon);
	RUN(what_was_removed_meanwhile_is_created);
	RUN(an_earlier_try_is_as_good);
	RUN(a_try_may_land_while_it_waits);
	RUN(an_answer_without_an_etag_is_read_back);
	RUN(what_lands_after_its_own_expiry_is_no_authority);
	RUN(three_times_too_late_is_too_slow);
	RUN(it_waits_for_its_own_late_one);
	RUN(no_more_tries_than_can_be_remembered);
	RUN(each_of_them_is_known);
	RUN(another_version_makes_room_again);
	return 0;
}
