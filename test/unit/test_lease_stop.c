/* The holder comes to an orderly end: it gives its lease up, or lets it run
 * out. */
#include "lease_fixture.h"

#define IN(ms)	(STORE_T0 + (ms)) /* of the start, by the store's clock */
#define SOON_MS (T0 + 5000)	  /* when a stop must be over */

static const enum outcome unknowns[] = {OUTCOME_UNKNOWN, OUTCOME_REJECTED,
					OUTCOME_UNCHANGED, OUTCOME_ABSENT,
					OUTCOME_EXISTS};
#define UNKNOWNS (sizeof(unknowns) / sizeof(unknowns[0]))

/* Held since T0 as "e1", told to stop a second later, and nothing is held. */
static void set_up_stopping(void)
{
	set_up_held();
	boot_ms += 1000;
	stop_by(false, SOON_MS);
	CHECK_STR(lease_state_word(&holder), "stopping");
	EXPECT_WRITE("\"e1\""); /* at once */
	CHECK_EQ(action.expires_ms, 0);
}

static void with_cells_the_lease_runs_out(void)
{
	set_up_held();
	boot_ms += 1000;
	stop_by(true, SOON_MS);
	EXPECT_STOPPED();
	CHECK_EQ(write_count, 0);
}

static void without_it_is_given_up(void)
{
	set_up_stopping();
	applied("\"e2\"");
	EXPECT_STOPPED();
	CHECK_EQ(write_count, 1);

	/* a store that tells no ETag has applied it all the same */
	set_up_stopping();
	applied("");
	EXPECT_STOPPED();
}

/* Who was replaced alive may not know yet, and its cells are under this name: a
 * lease that is dead at once would give them away. */
static void nor_is_it_while_an_earlier_run_may_live(void)
{
	static const int64_t after_ms[] = {0, 8000 + SKEW - 1, 8000 + SKEW};

	for (int i = 0; i < 3; i++) {
		struct lease_config c = usual_config();

		c.replace = true;
		set_up_with(&c);
		found("\"old\"", IN(8000));
		applied("\"e1\"");
		sleep_through();
		applied("\"e2\"");
		write_count = 0;
		boot_ms = T0 + after_ms[i];
		stop_by(false, boot_ms + 5000);
		if (i < 2) {
			EXPECT_STOPPED();
			CHECK_EQ(write_count, 0);
		} else {
			EXPECT_WRITE("\"e2\"");
			CHECK_EQ(action.expires_ms, 0);
		}
	}
}

/* From then on nobody may rely on it, whatever becomes of the write. */
static void a_stop_ends_the_authority(void)
{
	set_up_held();
	CHECK_EQ(lease_authority_ms(&holder), T0 + TTL);
	stop_by(false, SOON_MS);
	CHECK_EQ(lease_authority_ms(&holder), INT64_MIN);
	answered(OUTCOME_UNKNOWN);
	CHECK_EQ(lease_authority_ms(&holder), INT64_MIN);
	found("\"e1\"", IN(10041));
	CHECK_EQ(lease_authority_ms(&holder), INT64_MIN);
	sleep_through();
	EXPECT_WRITE("\"e1\"");
	CHECK_EQ(lease_authority_ms(&holder), INT64_MIN);
}

static void nothing_is_held_before_it_was_acquired(void)
{
	set_up();
	stop_by(false, SOON_MS);
	EXPECT_STOPPED();

	/* it lands or it does not: it runs out */
	set_up();
	absent();
	answered(OUTCOME_UNKNOWN);
	stop_by(false, SOON_MS);
	EXPECT_STOPPED();
	CHECK_EQ(write_count, 1);

	set_up();
	found("\"old\"", IN(8000));
	CHECK_STR(lease_state_word(&holder), "waiting");
	stop_by(false, SOON_MS);
	EXPECT_STOPPED();
}

static void what_has_ended_does_not_stop(void)
{
	set_up_held();
	boot_ms = T0 + TTL;
	stop_by(false, boot_ms + 5000);
	EXPECT_FENCED("expired");
	CHECK_EQ(write_count, 0);
	set_up();
	unreadable(OUTCOME_DENIED);
	stop_by(false, SOON_MS);
	EXPECT_REFUSED("it cannot be read");
}

static void a_second_stop_ends_it_at_once(void)
{
	set_up_stopping();
	answered(OUTCOME_NOT_DONE);
	stop_by(false, SOON_MS);
	EXPECT_STOPPED();
	CHECK_EQ(write_count, 1);
}

/* ---- how long it may take ---- */

static void it_is_tried_until_the_deadline(void)
{
	static const enum outcome outcomes[] = {
		OUTCOME_NOT_DONE,  OUTCOME_TIMEOUT, OUTCOME_INTERRUPTED,
		OUTCOME_NO_MEMORY, OUTCOME_DENIED,  OUTCOME_FAILED,
		OUTCOME_FORBIDDEN, OUTCOME_INVALID, OUTCOME_TOO_LARGE};

	for (int i = 0; i < 9; i++) {
		set_up_stopping();
		answered(outcomes[i]);
		EXPECT_SLEEP(boot_ms + PAUSE);
		EXPECT_REASON("it cannot be written: so it says");
		sleep_through();
		EXPECT_WRITE("\"e1\"");
		while (action.kind != LEASE_END) {
			if (action.kind == LEASE_WRITE)
				answered(outcomes[i]);
			else
				sleep_through();
		}
		EXPECT_STOPPED();
		CHECK_EQ(boot_ms, SOON_MS);
	}
}

static void each_try_has_half_of_what_is_left(void)
{
	set_up_held();
	stop_by(false, T0 + 3000);
	EXPECT_WRITE("\"e1\"");
	CHECK_EQ(action.until_ms, T0 + 1500);
	boot_ms += 2600;
	answered(OUTCOME_UNKNOWN);
	EXPECT_READ();
	CHECK_EQ(action.until_ms, T0 + 2850);
	set_up_held();
	stop_by(false, T0 + 100);
	EXPECT_WRITE("\"e1\"");
	CHECK_EQ(action.until_ms, T0 + 100);
}

static void a_stop_without_time_writes_nothing(void)
{
	set_up_held();
	boot_ms += 1000;
	stop_by(false, boot_ms);
	EXPECT_STOPPED();
	CHECK_EQ(write_count, 0);
	set_up_held();
	boot_ms += 1000;
	stop_by(false, T0);
	EXPECT_STOPPED();
	CHECK_EQ(write_count, 0);
}

/* Without authority there is nothing to be given up: it has run out. */
static void nor_is_it_tried_beyond_the_authority(void)
{
	set_up_held();
	boot_ms = T0 + TTL - 100;
	stop_by(false, boot_ms + 60000);
	EXPECT_WRITE("\"e1\"");
	CHECK_EQ(action.until_ms, T0 + TTL);
	answered(OUTCOME_NOT_DONE);
	while (action.kind == LEASE_SLEEP) {
		sleep_through();
		if (action.kind == LEASE_WRITE)
			answered(OUTCOME_NOT_DONE);
	}
	EXPECT_STOPPED();
	CHECK_EQ(boot_ms, T0 + TTL);
}

static void an_answer_after_that_changes_nothing(void)
{
	set_up_stopping();
	boot_ms = SOON_MS;
	answered(OUTCOME_UNKNOWN);
	EXPECT_STOPPED();
	set_up_stopping();
	answered(OUTCOME_UNKNOWN);
	boot_ms = SOON_MS;
	found("\"theirs\"", IN(20000));
	EXPECT_STOPPED();
}

static void the_stores_wish_for_a_pause_is_heeded(void)
{
	set_up_stopping();
	told_to_wait(1500);
	EXPECT_SLEEP(T0 + 1000 + 1500);
	sleep_through();
	told_to_wait(60000);
	EXPECT_SLEEP(boot_ms + (SOON_MS - boot_ms) / 2);
}

/* ---- an unknown outcome ---- */

static void a_lost_answer_is_read_back(void)
{
	for (unsigned i = 0; i < UNKNOWNS; i++) {
		set_up_stopping();
		answered(unknowns[i]);
		EXPECT_READ();
		found_write(0, "\"e2\"");
		EXPECT_STOPPED();
		CHECK_EQ(write_count, 1);
	}
}

static void a_lost_request_is_sent_again_soon(void)
{
	for (unsigned i = 0; i < UNKNOWNS; i++) {
		set_up_stopping();
		answered(unknowns[i]);
		found("\"e1\"", IN(10041));
		EXPECT_SLEEP(boot_ms + PAUSE);
		sleep_through();
		EXPECT_WRITE("\"e1\"");
		CHECK_EQ(action.expires_ms, 0);
		applied("\"e2\"");
		EXPECT_STOPPED();
	}
}

static void nobody_else_is_stopped(void)
{
	for (unsigned i = 0; i < UNKNOWNS; i++) {
		set_up_stopping();
		answered(unknowns[i]);
		found("\"theirs\"", IN(20000));
		EXPECT_STOPPED();
		set_up_stopping();
		answered(unknowns[i]);
		found_bytes("\"theirs\"", "", "<html>");
		EXPECT_STOPPED();
		set_up_stopping();
		answered(unknowns[i]);
		unreadable(OUTCOME_TOO_LARGE);
		EXPECT_STOPPED();
		set_up_stopping();
		answered(unknowns[i]);
		absent();
		EXPECT_STOPPED();
		CHECK_EQ(write_count, 1);
	}
}

static void what_cannot_be_read_is_read_again_soon(void)
{
	static const enum outcome outcomes[] = {
		OUTCOME_FAILED,	     OUTCOME_TIMEOUT,	OUTCOME_DENIED,
		OUTCOME_INTERRUPTED, OUTCOME_NO_MEMORY, OUTCOME_NOT_DONE};

	for (int i = 0; i < 6; i++) {
		set_up_stopping();
		answered(OUTCOME_UNKNOWN);
		unreadable(outcomes[i]);
		EXPECT_SLEEP(boot_ms + PAUSE);
		sleep_through();
		EXPECT_READ();
		found_write(0, "\"e2\"");
		EXPECT_STOPPED();
	}
}

/* The first of two has landed after the second was sent. */
static void it_may_land_late(void)
{
	set_up_stopping();
	answered(OUTCOME_UNKNOWN);
	found("\"e1\"", IN(10041));
	sleep_through();
	EXPECT_WRITE("\"e1\"");
	answered(OUTCOME_REJECTED);
	EXPECT_READ();
	found_write(0, "\"e2\"");
	EXPECT_STOPPED();
}

/* ---- renewals that are still under way ---- */

/* One of them has landed: what it made is ours, and is given up, too. */
static void a_renewal_that_landed_is_given_up(void)
{
	for (unsigned which = 0; which < 2; which++) {
		set_up_held();
		sleep_through();
		answered(OUTCOME_UNKNOWN);
		found("\"e1\"", IN(10041));
		sleep_through();
		EXPECT_WRITE("\"e1\"");
		answered(OUTCOME_UNKNOWN);
		EXPECT_READ();
		stop_by(false, SOON_MS);
		EXPECT_WRITE("\"e1\"");
		CHECK_EQ(action.expires_ms, 0);
		answered(OUTCOME_REJECTED);
		EXPECT_READ();
		found_write(which, "\"e2\"");
		EXPECT_WRITE("\"e2\""); /* at once */
		CHECK_EQ(action.expires_ms, 0);
		CHECK_EQ(lease_authority_ms(&holder), INT64_MIN);
		applied("\"e3\"");
		EXPECT_STOPPED();
		CHECK_EQ(write_count, 4);
	}
}

/* ... and what it made cannot be guarded. */
static void what_cannot_be_guarded_runs_out(void)
{
	set_up_held();
	sleep_through();
	answered(OUTCOME_UNKNOWN);
	stop_by(false, SOON_MS);
	answered(OUTCOME_REJECTED);
	found_write(0, "");
	EXPECT_STOPPED();
}

/* The tombstone lands after what was found has been written over: never. */
static void a_tombstone_of_the_old_version_is_forgotten(void)
{
	set_up_held();
	sleep_through();
	answered(OUTCOME_UNKNOWN);
	stop_by(false, SOON_MS);
	answered(OUTCOME_UNKNOWN);
	found_write(0, "\"e2\"");
	EXPECT_WRITE("\"e2\"");
	CHECK_EQ(holder.try_count, 1);
}

int main(void)
{
	RUN(with_cells_the_lease_runs_out);
	RUN(without_it_is_given_up);
	RUN(nor_is_it_while_an_earlier_run_may_live);
	RUN(a_stop_ends_the_authority);
	RUN(nothing_is_held_before_it_was_acquired);
	RUN(what_has_ended_does_not_stop);
	RUN(a_second_stop_ends_it_at_once);
	RUN(it_is_tried_until_the_deadline);
	RUN(each_try_has_half_of_what_is_left);
	RUN(a_stop_without_time_writes_nothing);
	RUN(nor_is_it_tried_beyond_the_authority);
	RUN(an_answer_after_that_changes_nothing);
	RUN(the_stores_wish_for_a_pause_is_heeded);
	RUN(a_lost_answer_is_read_back);
	RUN(a_lost_request_is_sent_again_soon);
	RUN(nobody_else_is_stopped);
	RUN(what_cannot_be_read_is_read_again_soon);
	RUN(it_may_land_late);
	RUN(a_renewal_that_landed_is_given_up);
	RUN(what_cannot_be_guarded_runs_out);
	RUN(a_tombstone_of_the_old_version_is_forgotten);
	return 0;
}
