/* leash: when a command that acts under a lease is ended. */
#include "check.h"

#include "leash.h"

static const int64_t ttls[] = {2000, 2500, 3000, 6000, 10000, 60000, 600000};
#define TTLS (sizeof(ttls) / sizeof(ttls[0]))

static struct leash leash_of(int64_t ttl_ms)
{
	struct leash_terms terms;
	struct leash leash;

	CHECK(leash_terms(&terms, ttl_ms));
	leash_init(&leash, &terms);
	return leash;
}

static void test_terms(void)
{
	struct leash_terms terms;

	CHECK(!leash_terms(&terms, 0));
	CHECK(!leash_terms(&terms, 1999));

	CHECK(leash_terms(&terms, 3000));
	CHECK_EQ(terms.poll_ms, 300);
	CHECK_EQ(terms.kill_ms, 500);
	CHECK_EQ(terms.term_ms, 950);
	CHECK_EQ(terms.fenced_grace_ms, 200);

	CHECK(leash_terms(&terms, 10000));
	CHECK_EQ(terms.poll_ms, 1000);
	CHECK_EQ(terms.kill_ms, 1000);
	CHECK_EQ(terms.term_ms, 2500);
	CHECK_EQ(terms.fenced_grace_ms, 500);

	CHECK(leash_terms(&terms, 600000));
	CHECK_EQ(terms.poll_ms, 1000);
	CHECK_EQ(terms.kill_ms, 2000);
	CHECK_EQ(terms.term_ms, 92000);
}

/* What has to hold between them, whatever the ttl. */
static void test_terms_fit(void)
{
	for (int64_t ttl_ms = 2000; ttl_ms <= 600000; ttl_ms += 100) {
		struct leash_terms terms;
		int64_t least_ms; /* known of, when all is well */

		CHECK(leash_terms(&terms, ttl_ms));
		CHECK_EQ(terms.ttl_ms, ttl_ms);
		CHECK(terms.poll_ms > 0);
		CHECK(terms.kill_ms >= 500);
		CHECK(terms.grace_ms >= 250);
		CHECK_EQ(terms.term_ms, terms.kill_ms + terms.grace_ms);
		CHECK(terms.fenced_grace_ms <= terms.grace_ms);
		/* replaced: dead within a renewal's period and the margin */
		CHECK(terms.poll_ms + terms.fenced_grace_ms < terms.term_ms);

		least_ms = ttl_ms - ttl_ms / 3 - terms.poll_ms;
		CHECK(least_ms - terms.term_ms >= ttl_ms / 10);
		CHECK(terms.start_ms < least_ms);
		CHECK(terms.start_ms > terms.term_ms);
	}
}

/* Renewals every third, each heard of a whole poll later. */
static void test_healthy(void)
{
	for (size_t i = 0; i < TTLS; i++) {
		struct leash leash = leash_of(ttls[i]);
		int64_t start_ms = 1000000, next_ms;

		for (int64_t t = 0; t < 5 * ttls[i]; t++) {
			int64_t heard = t - leash.terms.poll_ms;
			int64_t anchor =
				heard < 0 ? 0 : heard - heard % (ttls[i] / 3);
			int64_t until_ms = start_ms + anchor + ttls[i];

			CHECK_EQ(leash_step(&leash, start_ms + t, until_ms,
					    &next_ms),
				 LEASH_WAIT);
			CHECK_EQ(next_ms, until_ms - leash.terms.term_ms);
		}
	}
}

/* No renewal any more: the two margins, to the millisecond. */
static void test_margins(void)
{
	for (size_t i = 0; i < TTLS; i++) {
		struct leash leash = leash_of(ttls[i]);
		int64_t until_ms = 5000000, next_ms;
		int64_t term_ms = until_ms - leash.terms.term_ms;
		int64_t kill_ms = until_ms - leash.terms.kill_ms;

		CHECK_EQ(leash_step(&leash, term_ms - 1, until_ms, &next_ms),
			 LEASH_WAIT);
		CHECK_EQ(next_ms, term_ms);
		CHECK_EQ(leash_step(&leash, term_ms, until_ms, &next_ms),
			 LEASH_TERM);
		CHECK_EQ(next_ms, kill_ms);
		CHECK_EQ(leash_step(&leash, kill_ms - 1, until_ms, &next_ms),
			 LEASH_WAIT);
		CHECK_EQ(next_ms, kill_ms);
		CHECK_EQ(leash_step(&leash, kill_ms, until_ms, &next_ms),
			 LEASH_KILL);
		CHECK_EQ(next_ms, INT64_MAX);
		CHECK_EQ(leash_step(&leash, kill_ms + 1, until_ms, &next_ms),
			 LEASH_WAIT);
		CHECK_EQ(next_ms, INT64_MAX);
	}
}

static void test_no_way_back(void)
{
	struct leash leash = leash_of(10000);
	int64_t next_ms;

	CHECK_EQ(leash_step(&leash, 97500, 100000, &next_ms), LEASH_TERM);
	CHECK_EQ(leash_step(&leash, 98000, 108000, &next_ms), LEASH_WAIT);
	CHECK_EQ(next_ms, 99000);
	CHECK_EQ(leash_step(&leash, 99000, 109000, &next_ms), LEASH_KILL);
	CHECK_EQ(leash_step(&leash, 99001, 119000, &next_ms), LEASH_WAIT);
}

/* The machine was suspended, or the process stopped: time has jumped. */
static void test_jump(void)
{
	struct leash leash = leash_of(10000);
	int64_t next_ms;

	CHECK_EQ(leash_step(&leash, 1000, 11000, &next_ms), LEASH_WAIT);
	CHECK_EQ(leash_step(&leash, 3600000, 11000, &next_ms), LEASH_KILL);
	CHECK_EQ(next_ms, INT64_MAX);

	leash = leash_of(10000);
	CHECK_EQ(leash_step(&leash, 8500, 11000, &next_ms), LEASH_TERM);
	CHECK_EQ(leash_step(&leash, 3600000, 11000, &next_ms), LEASH_KILL);

	/* nothing is known at all */
	leash = leash_of(10000);
	CHECK_EQ(leash_step(&leash, 1, 0, &next_ms), LEASH_KILL);
}

static void test_pull(void)
{
	struct leash leash = leash_of(10000);
	int64_t next_ms;

	/* a grace of its own */
	leash_pull(&leash, 1000, 11000, 500);
	CHECK_EQ(leash_step(&leash, 1000, 11000, &next_ms), LEASH_TERM);
	CHECK_EQ(next_ms, 1500);
	CHECK_EQ(leash_step(&leash, 1499, 11400, &next_ms), LEASH_WAIT);
	CHECK_EQ(leash_step(&leash, 1500, 11400, &next_ms), LEASH_KILL);

	/* never longer than the authority lasts */
	leash = leash_of(10000);
	leash_pull(&leash, 9500, 11000, 1500);
	CHECK_EQ(leash_step(&leash, 9500, 11000, &next_ms), LEASH_TERM);
	CHECK_EQ(next_ms, 10000);
	CHECK_EQ(leash_step(&leash, 10000, 11000, &next_ms), LEASH_KILL);

	/* none at all: no SIGTERM */
	leash = leash_of(10000);
	leash_pull(&leash, 1000, 11000, 0);
	CHECK_EQ(leash_step(&leash, 1000, 11000, &next_ms), LEASH_KILL);

	/* the earliest of several counts */
	leash = leash_of(10000);
	leash_pull(&leash, 1000, 11000, 1500);
	CHECK_EQ(leash_step(&leash, 1000, 11000, &next_ms), LEASH_TERM);
	leash_pull(&leash, 1200, 11000, 500);
	leash_pull(&leash, 1300, 21000, 1500);
	CHECK_EQ(leash_step(&leash, 1300, 21000, &next_ms), LEASH_WAIT);
	CHECK_EQ(next_ms, 1700);
	CHECK_EQ(leash_step(&leash, 1700, 21000, &next_ms), LEASH_KILL);

	/* for as long as the margin lets it */
	leash = leash_of(10000);
	leash_pull(&leash, 1000, 11000, INT64_MAX - 1000);
	CHECK_EQ(leash_step(&leash, 1000, 11000, &next_ms), LEASH_TERM);
	CHECK_EQ(next_ms, 10000);
}

/* The same numbers on every run. */
static unsigned next_random(void)
{
	static unsigned state = 5;

	state = state * 1103515245U + 12345U;
	return state >> 16;
}

/* Renewals that come, come late, or do not; wake-ups that come late: whatever
 * is known of the authority when SIGKILL is said, it had kill_ms left, less
 * than the wake-up was late. */
static void test_random(void)
{
	for (int round = 0; round < 20000; round++) {
		struct leash leash = leash_of(ttls[next_random() % TTLS]);
		int64_t ttl_ms = leash.terms.ttl_ms;
		int64_t now_ms = 1000, until_ms = now_ms + ttl_ms;
		int64_t next_ms = now_ms, late_ms = 0, term_until_ms = 0;
		enum leash_action action = LEASH_WAIT;

		for (int turn = 0; turn < 50 && action != LEASH_KILL; turn++) {
			action = leash_step(&leash, now_ms, until_ms, &next_ms);
			if (action == LEASH_TERM)
				term_until_ms = until_ms;
			if (action == LEASH_KILL)
				break;
			CHECK(next_ms > now_ms);
			late_ms = (int)(next_random() % 50);
			now_ms = next_ms + late_ms;
			if ((int)(next_random() % 4))
				until_ms = now_ms - (int)(next_random() % 100) +
					   ttl_ms;
		}
		if (action != LEASH_KILL)
			continue;
		if (term_until_ms == 0)
			term_until_ms = until_ms;
		CHECK(now_ms <= term_until_ms - leash.terms.kill_ms + late_ms);
	}
}

int main(void)
{
	RUN(test_terms);
	RUN(test_terms_fit);
	RUN(test_healthy);
	RUN(test_margins);
	RUN(test_no_way_back);
	RUN(test_jump);
	RUN(test_pull);
	RUN(test_random);
	return 0;
}
