/* stop and clock: deadlines, and requests to end early. */
#include "check.h"

#include "clock.h"
#include "stop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

static int64_t fake_boot = 1000, fake_wall = 77;

static int64_t boot_of_test(void)
{
	return fake_boot;
}

static int64_t wall_of_test(void)
{
	return fake_wall;
}

static void test_clock(void)
{
	int64_t before = clock_boot_ms(), wall = clock_wall_ms();
	struct timespec pause = {.tv_nsec = 20000000};

	nanosleep(&pause, NULL);
	CHECK(clock_boot_ms() - before >= 20);
	CHECK(clock_boot_ms() - before < 5000);
	CHECK(wall > INT64_C(1600000000000)); /* 2020 */

	clock_replace(boot_of_test, wall_of_test);
	CHECK_EQ(clock_boot_ms(), 1000);
	CHECK_EQ(clock_wall_ms(), 77);
	clock_replace(NULL, NULL);
	CHECK(clock_boot_ms() >= before + 20);
	CHECK(clock_wall_ms() >= wall);
}

static void test_limits(void)
{
	struct stop stop;
	struct limits limits = {.deadline_ms = 1500, .stop = &stop};

	stop_init(&stop);
	clock_replace(boot_of_test, wall_of_test);
	fake_boot = 1000;
	CHECK_EQ(limits_left_ms(&limits), 500);
	CHECK_EQ(limits_check(&limits), OUTCOME_OK);
	fake_boot = 1499;
	CHECK_EQ(limits_left_ms(&limits), 1);
	CHECK_EQ(limits_check(&limits), OUTCOME_OK);
	fake_boot = 1500;
	CHECK_EQ(limits_left_ms(&limits), 0);
	CHECK_EQ(limits_check(&limits), OUTCOME_TIMEOUT);
	fake_boot = 9000;
	CHECK_EQ(limits_left_ms(&limits), 0);
	fake_boot = 1000;
	stop_request(&stop);
	CHECK_EQ(limits_check(&limits), OUTCOME_INTERRUPTED);
	limits.stop = NULL;
	CHECK_EQ(limits_check(&limits), OUTCOME_OK);
	clock_replace(NULL, NULL);
	stop_release(&stop);
}

static int64_t given_ms(int64_t left_ms)
{
	struct stop stop;
	struct limits limits = {
		.deadline_ms = 1000 + left_ms, .stop = &stop, .urgent = true};
	struct limits share = limits_for_try(&limits);

	CHECK(share.stop == &stop);
	CHECK(share.urgent);
	return share.deadline_ms - 1000;
}

static void test_one_try(void)
{
	clock_replace(boot_of_test, wall_of_test);
	fake_boot = 1000;
	CHECK_EQ(given_ms(15000), 7500);
	CHECK_EQ(given_ms(2002), 1001);
	CHECK_EQ(given_ms(2000), 1000);
	CHECK_EQ(given_ms(1500), 1000);
	CHECK_EQ(given_ms(1000), 1000);
	CHECK_EQ(given_ms(300), 300);
	CHECK_EQ(given_ms(0), 0);
	CHECK_EQ(given_ms(-5), -5);
	clock_replace(NULL, NULL);
}

static void count(void *arg)
{
	(*(int *)arg)++;
}

static void test_wake(void)
{
	struct stop stop;
	int woken = 0, late = 0;

	stop_init(&stop);
	CHECK(!stop_requested(&stop));
	stop_on(&stop, count, &woken);
	stop_off(&stop);
	CHECK_EQ(woken, 0);
	stop_on(&stop, count, &woken);
	stop_request(&stop);
	stop_request(&stop);
	CHECK_EQ(woken, 1);
	CHECK(stop_requested(&stop));
	stop_off(&stop);
	stop_request(&stop);
	CHECK_EQ(woken, 1);
	/* a request that came before is not lost */
	stop_on(&stop, count, &late);
	CHECK_EQ(late, 1);
	stop_off(&stop);
	stop_release(&stop);
}

static void test_sleep(void)
{
	struct stop stop;
	int64_t start = clock_boot_ms();
	struct limits limits = {.deadline_ms = start + 60000, .stop = &stop};

	stop_init(&stop);
	CHECK_EQ(limits_sleep(&limits, start - 5), OUTCOME_OK);
	CHECK_EQ(limits_sleep(&limits, start + 300), OUTCOME_OK);
	CHECK(clock_boot_ms() >= start + 300);
	CHECK(clock_boot_ms() < start + 5000);

	start = clock_boot_ms();
	limits.deadline_ms = start + 50;
	CHECK_EQ(limits_sleep(&limits, start + 60000), OUTCOME_TIMEOUT);
	CHECK(clock_boot_ms() >= start + 50);
	limits.stop = NULL;
	CHECK_EQ(limits_sleep(&limits, start + 60000), OUTCOME_TIMEOUT);
	CHECK(clock_boot_ms() < start + 5000);
	stop_release(&stop);
}

static void *request_soon(void *arg)
{
	struct timespec pause = {.tv_nsec = 50000000};

	nanosleep(&pause, NULL);
	stop_request(arg);
	return NULL;
}

static void test_sleep_is_stopped(void)
{
	struct stop stop;
	int64_t start = clock_boot_ms();
	struct limits limits = {.deadline_ms = start + 60000, .stop = &stop};
	pthread_t thread;

	stop_init(&stop);
	CHECK_EQ(pthread_create(&thread, NULL, request_soon, &stop), 0);
	CHECK_EQ(limits_sleep(&limits, start + 30000), OUTCOME_INTERRUPTED);
	CHECK(clock_boot_ms() - start >= 50);
	CHECK(clock_boot_ms() - start < 5000);
	pthread_join(thread, NULL);
	/* and at once when it was requested before */
	start = clock_boot_ms();
	CHECK_EQ(limits_sleep(&limits, start + 30000), OUTCOME_INTERRUPTED);
	CHECK(clock_boot_ms() - start < 1000);
	stop_release(&stop);
}

/* What the wake function points to may be gone after stop_off(). */
struct target {
	atomic_int gone, touched_late;
};

static void touch(void *arg)
{
	struct target *target = arg;

	if (atomic_load(&target->gone))
		atomic_store(&target->touched_late, 1);
}

static void *request_now(void *arg)
{
	stop_request(arg);
	return NULL;
}

static void test_off_ends_wakes(void)
{
	for (int i = 0; i < 500; i++) {
		struct target target = {0};
		struct stop stop;
		pthread_t thread;

		stop_init(&stop);
		CHECK_EQ(pthread_create(&thread, NULL, request_now, &stop), 0);
		stop_on(&stop, touch, &target);
		stop_off(&stop);
		atomic_store(&target.gone, 1);
		pthread_join(thread, NULL);
		CHECK_EQ(atomic_load(&target.touched_late), 0);
		stop_release(&stop);
	}
}

int main(void)
{
	RUN(test_clock);
	RUN(test_limits);
	RUN(test_one_try);
	RUN(test_wake);
	RUN(test_sleep);
	RUN(test_sleep_is_stopped);
	RUN(test_off_ends_wakes);
	return 0;
}
