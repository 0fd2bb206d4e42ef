/* The holder holds its lease: it renews it, settles what became of that, and
 * is fenced when its time is up or somebody else is there. */
#include "lease_fixture.h"

#define IN(ms) (STORE_T0 + (ms)) /* of the start, by the store's clock */

/* Held since T0 as "e1"; the first renewal is asked for. */
static void set_up_renewing(void)
{
	set_up_held();
	sleep_through();
	EXPECT_WRITE("\"e1\"");
	CHECK_EQ(boot_ms, T0 + TTL / 3);
}

static const enum outcome unknowns[] = {OUTCOME_UNKNOWN, OUTCOME_REJECTED,
					OUTCOME_UNCHANGED, OUTCOME_ABSENT,
					OUTCOME_EXISTS};
#define UNKNOWNS (sizeof(unknowns) / sizeof(unknowns[0]))

static const enum outcome nevers[] = {
	OUTCOME_NOT_DONE,  OUTCOME_TIMEOUT, OUTCOME_INTERRUPTED,
	OUTCOME_NO_MEMORY, OUTCOME_DENIED,  OUTCOME_FAILED,
	OUTCOME_FORBIDDEN, OUTCOME_INVALID, OUTCOME_TOO_LARGE};
#define NEVERS (sizeof(nevers) / sizeof(nevers[0]))

/* ---- renewals ---- */

static void it_is_renewed_after_a_third(void)
{
	int64_t anchor = T0;
	char etag[] = "\"e1\"";

	set_up_held();
	for (int i = 0; i < 5; i++) {
		EXPECT_HELD(anchor);
		sleep_through();
		EXPECT_WRITE(etag);
		anchor = boot_ms;
		boot_ms += 300;
		etag[2]++;
		applied(etag);
	}
	EXPECT_HELD(anchor);
	CHECK_EQ(anchor, T0 + 5 * (TTL / 3));
}

/* Whoever wakes up late renews at once, and counts from then. */
static void a_late_renewal_counts_from_its_own_time(void)
{
	set_up_held();
	boot_ms = T0 + TTL - 1;
	look();
	EXPECT_WRITE("\"e1\"");
	CHECK_EQ(action.until_ms, T0 + TTL);
	applied("\"e2\"");
	EXPECT_HELD(T0 + TTL - 1);
}

static void looking_too_early_changes_nothing(void)
{
	set_up_held();
	for (; boot_ms < T0 + TTL / 3; boot_ms++) {
		look();
		EXPECT_HELD(T0);
	}
	look();
	EXPECT_WRITE("\"e1\"");
}

/* ---- when time is up ---- */

static void authority_ends_by_time_alone(void)
{
	set_up_held();
	CHECK_EQ(lease_authority_ms(&holder), T0 + TTL);
	boot_ms = T0 + TTL;
	look();
	EXPECT_FENCED("expired");
	CHECK_EQ(write_count, 0);

	set_up_held();
	boot_ms = T0 + 1000 * TTL; /* suspended */
	look();
	EXPECT_FENCED("expired");
	CHECK_EQ(write_count, 0);
}

/* The new deadline would be ahead. The old one is not. */
static void an_answer_after_the_old_deadline_does_not_revive(void)
{
	set_up_renewing();
	boot_ms = T0 + TTL - 1;
	applied("\"e2\"");
	EXPECT_HELD(T0 + TTL / 3);

	set_up_renewing();
	boot_ms = T0 + TTL;
	applied("\"e2\"");
	EXPECT_FENCED("expired");
}

static void nor_does_what_is_read_back(void)
{
	set_up_renewing();
	answered(OUTCOME_UNKNOWN);
	boot_ms = T0 + TTL - 1;
	found_write(0, "\"e2\"");
	EXPECT_HELD(T0 + TTL / 3);

	set_up_renewing();
	answered(OUTCOME_UNKNOWN);
	boot_ms = T0 + TTL;
	found_write(0, "\"e2\"");
	EXPECT_FENCED("expired");
}

/* Whatever is known by then, it is the first thing that has ended it. */
static void what_is_found_too_late_is_not_asked_about(void)
{
	set_up_renewing();
	answered(OUTCOME_UNKNOWN);
	boot_ms = T0 + TTL;
	absent();
	EXPECT_FENCED("expired");
	set_up_renewing();
	answered(OUTCOME_UNKNOWN);
	boot_ms = T0 + TTL;
	found("\"theirs\"", IN(50000));
	EXPECT_FENCED("expired");
}

static void it_wakes_up_for_the_end(void)
{
	set_up_renewing();
	boot_ms = T0 + TTL - 10;
	answered(OUTCOME_NOT_DONE);
	EXPECT_SLEEP(T0 + TTL);
	sleep_through();
	EXPECT_FENCED("expired");
	EXPECT_REASON("it cannot be written: so it says");
}

/* ---- definitely not applied ---- */

static void what_was_not_applied_is_sent_again_soon(void)
{
	for (unsigned i = 0; i < NEVERS; i++) {
		set_up_renewing();
		boot_ms += 40;
		answered(nevers[i]);
		EXPECT_REASON("it cannot be written: so it says");
		EXPECT_SLEEP(boot_ms + PAUSE);
		CHECK_EQ(holder.try_count, 0);
		CHECK_EQ(holder.state, LEASE_HELD);
		CHECK_EQ(lease_authority_ms(&holder), T0 + TTL);
		sleep_through();
		EXPECT_WRITE("\"e1\"");
		applied("\"e2\"");
		EXPECT_HELD(T0 + TTL / 3 + 40 + PAUSE);
	}
}

static void until_time_is_up(void)
{
	for (unsigned i = 0; i < NEVERS; i++) {
		set_up_renewing();
		while (action.kind != LEASE_END) {
			if (action.kind == LEASE_WRITE)
				answered(nevers[i]);
			else
				sleep_through();
		}
		EXPECT_FENCED("expired");
		CHECK_EQ(boot_ms, T0 + TTL);
		CHECK(write_count >= TTL * 2 / 3 / PAUSE);
	}
}

/* The store's wish, but not more than half of what is left. */
static void the_stores_wish_for_a_pause_is_heeded(void)
{
	set_up_renewing();
	told_to_wait(2000);
	EXPECT_SLEEP(boot_ms + 2000);
	sleep_through();
	EXPECT_WRITE("\"e1\"");
	told_to_wait(1); /* less than the usual pause */
	EXPECT_SLEEP(boot_ms + PAUSE);
	sleep_through();
	EXPECT_WRITE("\"e1\"");
	told_to_wait(60000);
	EXPECT_SLEEP(boot_ms + (T0 + TTL - boot_ms) / 2);

	/* and of reads */
	set_up_renewing();
	answered(OUTCOME_UNKNOWN);
	told_to_wait(2000);
	EXPECT_SLEEP(boot_ms + 2000);
	sleep_through();
	EXPECT_READ();
	told_to_wait(INT64_MAX / 4);
	EXPECT_SLEEP(boot_ms + (T0 + TTL - boot_ms) / 2);
}

/* ---- not known to have been applied ---- */

static void a_lost_answer_is_read_back(void)
{
	for (unsigned i = 0; i < UNKNOWNS; i++) {
		set_up_renewing();
		boot_ms += 900;
		answered(unknowns[i]);
		EXPECT_READ(); /* at once */
		EXPECT_REASON("not known to have been applied: so it says");
		CHECK_EQ(lease_authority_ms(&holder), T0 + TTL);
		boot_ms += 900;
		found_write(0, "\"e2\"");
		EXPECT_HELD(T0 + TTL / 3);
		sleep_through();
		EXPECT_WRITE("\"e2\"");
	}
}

static void a_lost_request_is_sent_again_soon(void)
{
	for (unsigned i = 0; i < UNKNOWNS; i++) {
		set_up_renewing();
		answered(unknowns[i]);
		found("\"e1\"", IN(10041)); /* who wrote it does not matter */
		EXPECT_SLEEP(T0 + TTL / 3 + PAUSE);
		CHECK_EQ(lease_authority_ms(&holder), T0 + TTL);
		sleep_through();
		EXPECT_WRITE("\"e1\"");
		applied("\"e2\"");
		EXPECT_HELD(T0 + TTL / 3 + PAUSE);
	}
}

static void another_record_fences(void)
{
	for (unsigned i = 0; i < UNKNOWNS; i++) {
		set_up_renewing();
		answered(unknowns[i]);
		found("\"theirs\"", IN(20000));
		EXPECT_FENCED("replaced");
		EXPECT_REASON("another record is there: addr 10.0.0.5:7000, "
			      "generation g7");
		CHECK_EQ(write_count, 1);
	}
	/* dead, a tombstone, none of anybody's, of another node, too large */
	set_up_renewing();
	answered(OUTCOME_UNKNOWN);
	found("\"theirs\"", IN(-50000));
	EXPECT_FENCED("replaced");
	set_up_renewing();
	answered(OUTCOME_UNKNOWN);
	found("\"theirs\"", 0);
	EXPECT_FENCED("replaced");
	set_up_renewing();
	answered(OUTCOME_UNKNOWN);
	found_bytes("\"theirs\"", "", "<html>");
	EXPECT_FENCED("replaced");
	set_up_renewing();
	answered(OUTCOME_UNKNOWN);
	found_bytes("\"theirs\"", "", "{\"node\":\"n2\",\"expires_ms\":0}");
	EXPECT_FENCED("replaced");
	set_up_renewing();
	answered(OUTCOME_UNKNOWN);
	found("", IN(10041));
	EXPECT_FENCED("replaced");
	set_up_renewing();
	answered(OUTCOME_UNKNOWN);
	unreadable(OUTCOME_TOO_LARGE);
	EXPECT_FENCED("replaced");
}

static void a_record_that_is_gone_fences_and_is_not_made_anew(void)
{
	for (unsigned i = 0; i < UNKNOWNS; i++) {
		set_up_renewing();
		answered(unknowns[i]);
		absent();
		EXPECT_FENCED("removed");
		EXPECT_REASON("the record is gone");
		CHECK_EQ(write_count, 1);
	}
}

static void what_cannot_be_read_is_read_again_soon(void)
{
	static const enum outcome outcomes[] = {
		OUTCOME_FAILED,	     OUTCOME_TIMEOUT,	OUTCOME_DENIED,
		OUTCOME_INTERRUPTED, OUTCOME_NO_MEMORY, OUTCOME_NOT_DONE};

	for (int i = 0; i < 6; i++) {
		set_up_renewing();
		answered(OUTCOME_UNKNOWN);
		unreadable(outcomes[i]);
		EXPECT_REASON("it cannot be read back: so it says");
		EXPECT_SLEEP(boot_ms + PAUSE);
		sleep_through();
		EXPECT_READ();
		found_write(0, "\"e2\"");
		EXPECT_HELD(T0 + TTL / 3);

		/* until time is up */
		set_up_renewing();
		answered(OUTCOME_UNKNOWN);
		while (action.kind != LEASE_END) {
			if (action.kind == LEASE_READ)
				unreadable(outcomes[i]);
			else
				sleep_through();
		}
		EXPECT_FENCED("expired");
		CHECK_EQ(boot_ms, T0 + TTL);
		CHECK_EQ(write_count, 1);
	}
}

static void an_answer_without_an_etag_is_read_back(void)
{
	static const char *const etags[] = {"", "W/\"2\"", "*"};

	for (int i = 0; i < 3; i++) {
		set_up_renewing();
		applied(etags[i]);
		CHECK_EQ(lease_authority_ms(&holder), T0 + TTL);
		EXPECT_SLEEP(boot_ms + PAUSE);
		sleep_through();
		EXPECT_READ();
		found_write(0, "\"e2\"");
		EXPECT_HELD(T0 + TTL / 3);
	}
}

/* ---- several tries ---- */

/* As many as COUNT, the last of which is neither answered nor read back. */
static void set_up_tries(unsigned count)
{
	set_up_renewing();
	while (write_count < count) {
		answered(OUTCOME_UNKNOWN);
		found("\"e1\"", IN(10041));
		sleep_through();
	}
	EXPECT_WRITE("\"e1\"");
}

/* Whichever has landed counts from its own time, and no other can land. */
static void an_earlier_try_is_adopted_with_its_anchor(void)
{
	for (unsigned which = 0; which < 5; which++) {
		set_up_tries(5);
		for (unsigned i = 0; i < 5; i++)
			CHECK_EQ(anchors[i], T0 + TTL / 3 + PAUSE * i);
		/* the guard of the last one does not hold any more */
		answered(OUTCOME_REJECTED);
		found_write(which, "\"e2\"");
		EXPECT_HELD(anchors[which]);
		sleep_through();
		EXPECT_WRITE("\"e2\"");
		CHECK_EQ(holder.try_count, 1);
	}
}

static void an_adopted_one_may_be_due_already(void)
{
	set_up_tries(9);
	CHECK(boot_ms >= anchors[0] + TTL / 3);
	answered(OUTCOME_REJECTED);
	found_write(0, "\"e2\"");
	EXPECT_HELD(anchors[0]);
	EXPECT_WRITE("\"e2\""); /* at once */
	CHECK_EQ(anchors[9], boot_ms);
}

/* The tries of the version before are no longer ours to find. */
static void what_was_adopted_ends_the_others(void)
{
	set_up_tries(3);
	answered(OUTCOME_UNKNOWN);
	found_write(1, "\"e2\"");
	EXPECT_HELD(anchors[1]);
	sleep_through();
	EXPECT_WRITE("\"e2\"");
	answered(OUTCOME_REJECTED);
	found_write(0, "\"e3\"");
	EXPECT_FENCED("replaced");

	set_up_tries(2);
	applied("\"e2\"");
	EXPECT_HELD(anchors[1]);
	sleep_through();
	answered(OUTCOME_REJECTED);
	found_write(0, "\"e3\"");
	EXPECT_FENCED("replaced");
}

/* A refusal for sure takes back the last try only. */
static void the_tries_before_a_refusal_are_kept(void)
{
	set_up_tries(3);
	answered(OUTCOME_NOT_DONE);
	CHECK_EQ(holder.try_count, 2);
	sleep_through();
	EXPECT_WRITE("\"e1\"");
	answered(OUTCOME_REJECTED);
	found_write(1, "\"e2\"");
	EXPECT_HELD(anchors[1]);
}

/* As many as the shortest pauses allow, up to the end. */
static void there_is_room_for_all_tries(void)
{
	set_up_held();
	byte = 0;
	sleep_through();
	while (action.kind != LEASE_END) {
		if (action.kind == LEASE_WRITE) {
			answered(OUTCOME_UNKNOWN);
		} else if (action.kind == LEASE_READ) {
			CHECK(holder.try_count > 0);
			found("\"e1\"", IN(10041));
			CHECK(action.kind != LEASE_READ);
		} else {
			sleep_through();
		}
	}
	EXPECT_FENCED("expired");
	CHECK(write_count >= 17);
	CHECK(write_count < LEASE_TRIES_MAX);
}

/* ---- words ---- */

static void each_end_has_its_word(void)
{
	CHECK_STR(lease_fence_word(LEASE_NOT_FENCED), "");
	CHECK_STR(lease_fence_word(LEASE_EXPIRED), "expired");
	CHECK_STR(lease_fence_word(LEASE_REPLACED), "replaced");
	CHECK_STR(lease_fence_word(LEASE_REMOVED), "removed");
}

int main(void)
{
	RUN(it_is_renewed_after_a_third);
	RUN(a_late_renewal_counts_from_its_own_time);
	RUN(looking_too_early_changes_nothing);
	RUN(authority_ends_by_time_alone);
	RUN(an_answer_after_the_old_deadline_does_not_revive);
	RUN(nor_does_what_is_read_back);
	RUN(what_is_found_too_late_is_not_asked_about);
	RUN(it_wakes_up_for_the_end);
	RUN(what_was_not_applied_is_sent_again_soon);
	RUN(until_time_is_up);
	RUN(the_stores_wish_for_a_pause_is_heeded);
	RUN(a_lost_answer_is_read_back);
	RUN(a_lost_request_is_sent_again_soon);
	RUN(another_record_fences);
	RUN(a_record_that_is_gone_fences_and_is_not_made_anew);
	RUN(what_cannot_be_read_is_read_again_soon);
	RUN(an_answer_without_an_etag_is_read_back);
	RUN(an_earlier_try_is_adopted_with_its_anchor);
	RUN(an_adopted_one_may_be_due_already);
	RUN(what_was_adopted_ends_the_others);
	RUN(the_tries_before_a_refusal_are_kept);
	RUN(there_is_room_for_all_tries);
	RUN(each_end_has_its_word);
	return 0;
}
