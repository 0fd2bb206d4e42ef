/* The clock of a store that is only seen through whole seconds and delays. */
#include "check.h"
#include "fleet.h"

#include <stdbool.h>

static uint64_t seed;

static int64_t pick(int64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (int64_t)(seed % (uint64_t)below);
}

static int64_t whole_second(int64_t ms)
{
	return ms - ms % 1000;
}

static void nothing_is_known_before_the_first_sample(void)
{
	struct fleet fleet = {0};
	struct fleet_time now;

	CHECK(!fleet_now(&fleet, 5, &now));
}

static void one_sample_bounds_by_its_second_and_its_delay(void)
{
	struct fleet fleet = {0};
	struct fleet_time now;

	CHECK(fleet_sample(&fleet, 1700000000000, 5000, 5200));
	CHECK(fleet_now(&fleet, 5200, &now));
	CHECK_EQ(now.since_step_ms, INT64_MAX);
	CHECK_EQ(now.steps, 0);
	CHECK_EQ(now.earliest_ms, 1700000000000);
	CHECK_EQ(now.latest_ms, 1700000001200);
}

static void samples_on_both_sides_of_a_second_narrow_it(void)
{
	struct fleet fleet = {0};
	struct fleet_time now;

	CHECK(fleet_sample(&fleet, 1700000000000, 5990, 6000));
	CHECK(fleet_sample(&fleet, 1700000001000, 6000, 6010));
	CHECK(fleet_now(&fleet, 6010, &now));
	CHECK(now.latest_ms - now.earliest_ms <= 22);
	CHECK(now.earliest_ms <= 1700000001010);
}

static void bounds_loosen_with_time(void)
{
	struct fleet fleet = {0};
	struct fleet_time now;

	CHECK(fleet_sample(&fleet, 1700000000000, 0, 0));
	CHECK(fleet_now(&fleet, 100000000, &now));
	CHECK_EQ(now.earliest_ms, 1700000000000 + 100000000 - 10000);
	CHECK_EQ(now.latest_ms, 1700000001000 + 100000000 + 10000);
}

static void a_step_is_reported_and_starts_anew(void)
{
	struct fleet fleet = {0};
	struct fleet_time now, then;

	CHECK(fleet_sample(&fleet, 1700000000000, 0, 10));
	CHECK(!fleet_sample(&fleet, 1700003600000, 20, 30));
	CHECK_EQ(fleet.steps, 1);
	CHECK(fleet_now(&fleet, 30, &now));
	CHECK_EQ(now.earliest_ms, 1700003600000);
	CHECK_EQ(now.since_step_ms, 0);
	CHECK(fleet_sample(&fleet, 1700003600000, 35, 38));
	CHECK(fleet_now(&fleet, 40, &now));
	CHECK_EQ(now.since_step_ms, 10);
	CHECK(!fleet_sample(&fleet, 1600000000000, 40, 50));
	CHECK_EQ(fleet.steps, 2);
	CHECK(fleet_now(&fleet, 57, &now));
	CHECK_EQ(now.since_step_ms, 7);
	CHECK_EQ(now.steps, 2);
	then = now;
	fleet_time_back(&then, 10);
	CHECK_EQ(then.earliest_ms, now.earliest_ms - 10);
	CHECK_EQ(then.latest_ms, now.latest_ms - 10);
	CHECK_EQ(then.since_step_ms, -3);
}

/* What a gateway whose clock is OFF_MS ahead says at boot time AT_MS; it takes
 * 10 ms to it, and back. */
static bool sample_of(struct fleet *fleet, int64_t off_ms, int64_t at_ms)
{
	int64_t date_ms = whole_second(1700000000000 + at_ms + off_ms);

	return fleet_sample(fleet, date_ms, at_ms - 10, at_ms + 10);
}

/* None of three, of which one is 150 ms and one 300 ms ahead, is a step, and
 * all are within the bounds when they are known well. */
static void gateways_that_differ_a_little_are_no_step(void)
{
	for (seed = 1; seed < 200;) {
		uint64_t first = seed;
		struct fleet fleet = {0};
		struct fleet_time now;
		int64_t at_ms = 1000;

		for (int i = 0; i < 3000; i++) {
			at_ms += pick(3000);
			CHECK(sample_of(&fleet, pick(3) * 150, at_ms));
			CHECK(fleet_now(&fleet, at_ms, &now));
			CHECK(now.earliest_ms <= 1700000000300 + at_ms);
			CHECK(now.latest_ms >= 1700000000000 + at_ms);
			CHECK_EQ(now.since_step_ms, INT64_MAX);
		}
		CHECK(now.earliest_ms <= 1700000000100 + at_ms);
		CHECK(now.latest_ms >= 1700000000200 + at_ms);
		CHECK(now.latest_ms - now.earliest_ms < 320);
		seed = first + 1;
	}
}

/* The bounds of a clock that is known to 20 ms. */
static struct fleet known_well(void)
{
	struct fleet fleet = {0};

	CHECK(sample_of(&fleet, 0, 1000 - 1));
	CHECK(sample_of(&fleet, 0, 1000));
	return fleet;
}

static void they_widen_the_bounds(void)
{
	struct fleet fleet = known_well();
	struct fleet_time before, after;

	CHECK(fleet_now(&fleet, 2000, &before));
	CHECK(sample_of(&fleet, 400, 1600)); /* it says 2000, or later */
	CHECK(fleet_now(&fleet, 2000, &after));
	CHECK_EQ(after.earliest_ms, before.latest_ms);
	CHECK_EQ(after.latest_ms, 1700000002000 + 2000 - 1610 - 1);
	/* what fits, and what differs less, changes nothing */
	CHECK(sample_of(&fleet, 0, 2500));
	CHECK(sample_of(&fleet, 200, 2800));
	CHECK(sample_of(&fleet, -90, 3080)); /* it is not 3000 yet */
	CHECK(fleet_now(&fleet, 3000, &after));
	CHECK_EQ(after.earliest_ms, 1700000003000 - (3070 - 3000) + 1);
	CHECK_EQ(after.latest_ms, 1700000002000 + 3000 - 1610 - 1);
}

static void more_is_a_step_even_if_it_is_on_both_sides(void)
{
	struct fleet fleet = known_well();
	struct fleet_time now;

	CHECK(!sample_of(&fleet, 600, 2400));
	CHECK(fleet_now(&fleet, 2410, &now));
	CHECK_EQ(now.since_step_ms, 0);
	CHECK_EQ(now.earliest_ms, 1700000003000);

	fleet = known_well();
	CHECK(!sample_of(&fleet, -600, 2590));

	fleet = known_well();
	CHECK(sample_of(&fleet, 300, 2700));
	CHECK(!sample_of(&fleet, -300, 3290));
	CHECK_EQ(fleet.steps, 1);
	/* nothing is left of what was before */
	CHECK(fleet_now(&fleet, 3300, &now));
	CHECK_EQ(now.earliest_ms, 1700000002000);
	CHECK_EQ(now.latest_ms, 1700000003000 + 20);
	CHECK(sample_of(&fleet, -600, 3310));
}

/* Many samples in a short time must not loosen what they cannot tighten. */
static void roundings_do_not_add_up(void)
{
	struct fleet fleet = {0};
	struct fleet_time now;

	CHECK(fleet_sample(&fleet, 1700000000000, 990, 1000));
	CHECK(fleet_sample(&fleet, 1700000001000, 1000, 1010));
	for (int64_t t = 1011; t < 1900; t++)
		CHECK(fleet_sample(&fleet, 1700000001000, t, t + 200));
	CHECK(fleet_now(&fleet, 2100, &now));
	CHECK(now.latest_ms - now.earliest_ms <= 25);
}

/* Whoever asks at the instants that are named knows the time within 3 s as well
 * as whole seconds and the delay allow, and then need not ask. */
static void asked_at_the_right_time_the_store_tells_soon(void)
{
	for (int64_t phase = 0; phase < 1000; phase += 7) {
		int64_t base = 1700000000000 + phase;
		struct fleet fleet = {0};
		struct fleet_time now;
		int64_t boot = 0, pause;

		for (unsigned asked = 1;; asked++) {
			CHECK(fleet_sample(&fleet,
					   whole_second(base + boot + 5), boot,
					   boot + 10));
			boot += 10;
			CHECK(fleet_now(&fleet, boot, &now));
			pause = fleet_halves_ms(&now);
			if (pause == INT64_MAX)
				break;
			CHECK(asked < 6);
			CHECK(pause > 0 && pause <= 1000);
			boot += pause;
		}
		CHECK(now.latest_ms - now.earliest_ms <= FLEET_CLOSE_MS);
		CHECK(boot < 3100);
	}
}

/* Any drift within the limit, any delay on either way, any pause: the true time
 * is never outside, and no step is seen. */
static void the_truth_is_never_outside(void)
{
	for (seed = 1; seed < 2000;) {
		uint64_t first = seed;
		struct fleet fleet = {0};
		int64_t boot = pick(100000);
		int64_t ppm = pick(2 * FLEET_DRIFT_PPM + 1) - FLEET_DRIFT_PPM;
		int64_t origin = boot;
		int64_t base = 1700000000000 + pick(1000000);

		for (int i = 0; i < 200; i++) {
			struct fleet_time now;
			int64_t sent = boot, at, received, truth;

			at = sent + pick(pick(2) ? 3000 : 20);
			received = at + pick(pick(2) ? 3000 : 20);
			truth = base + (at - origin) +
				(at - origin) * ppm / 1000000;
			CHECK(fleet_sample(&fleet, whole_second(truth), sent,
					   received));
			boot = received + pick(pick(8) ? 100 : 600000);
			truth = base + (boot - origin) +
				(boot - origin) * ppm / 1000000;
			CHECK(fleet_now(&fleet, boot, &now));
			CHECK(now.earliest_ms <= truth);
			CHECK(now.latest_ms >= truth);
		}
		seed = first + 1;
	}
}

int main(void)
{
	RUN(nothing_is_known_before_the_first_sample);
	RUN(one_sample_bounds_by_its_second_and_its_delay);
	RUN(samples_on_both_sides_of_a_second_narrow_it);
	RUN(bounds_loosen_with_time);
	RUN(a_step_is_reported_and_starts_anew);
	RUN(gateways_that_differ_a_little_are_no_step);
	RUN(they_widen_the_bounds);
	RUN(more_is_a_step_even_if_it_is_on_both_sides);
	RUN(roundings_do_not_add_up);
	RUN(asked_at_the_right_time_the_store_tells_soon);
	RUN(the_truth_is_never_outside);
	return 0;
}
