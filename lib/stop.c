#include "stop.h"

#include "clock.h"

#include <stddef.h>
#include <time.h>

/* CLOCK_MONOTONIC stands still while the machine is suspended and
 * CLOCK_BOOTTIME does not; a condition variable knows only the former. So one
 * wait is never longer than this, and a sleep that was due during the
 * suspension ends that soon after it. */
#define SLICE_MS 200

#define TRY_LEAST_MS 1000

void stop_init(struct stop *stop)
{
	pthread_mutex_init(&stop->lock, NULL);
	stop->requested = false;
	stop->wake = NULL;
	stop->wake_arg = NULL;
}

void stop_release(struct stop *stop)
{
	pthread_mutex_destroy(&stop->lock);
}

void stop_request(struct stop *stop)
{
	pthread_mutex_lock(&stop->lock);
	if (!stop->requested) {
		stop->requested = true;
		if (stop->wake != NULL)
			stop->wake(stop->wake_arg);
	}
	pthread_mutex_unlock(&stop->lock);
}

bool stop_requested(struct stop *stop)
{
	bool requested;

	pthread_mutex_lock(&stop->lock);
	requested = stop->requested;
	pthread_mutex_unlock(&stop->lock);
	return requested;
}

void stop_on(struct stop *stop, void (*wake)(void *), void *arg)
{
	pthread_mutex_lock(&stop->lock);
	stop->wake = wake;
	stop->wake_arg = arg;
	if (stop->requested)
		wake(arg);
	pthread_mutex_unlock(&stop->lock);
}

void stop_off(struct stop *stop)
{
	pthread_mutex_lock(&stop->lock);
	stop->wake = NULL;
	stop->wake_arg = NULL;
	pthread_mutex_unlock(&stop->lock);
}

int64_t limits_left_ms(const struct limits *limits)
{
	int64_t now_ms = clock_boot_ms();

	return limits->deadline_ms > now_ms ? limits->deadline_ms - now_ms : 0;
}

struct limits limits_for_try(const struct limits *limits)
{
	struct limits share = *limits;
	int64_t left_ms = limits_left_ms(limits);
	int64_t share_ms =
		left_ms / 2 > TRY_LEAST_MS ? left_ms / 2 : TRY_LEAST_MS;

	if (share_ms < left_ms)
		share.deadline_ms = clock_boot_ms() + share_ms;
	return share;
}

enum outcome limits_check(const struct limits *limits)
{
	if (limits->stop != NULL && stop_requested(limits->stop))
		return OUTCOME_INTERRUPTED;
	return limits_left_ms(limits) > 0 ? OUTCOME_OK : OUTCOME_TIMEOUT;
}

/* A sleeping operation. Lock order: the stop's lock, then this one. */
struct sleeper {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool woken; /* guarded by lock */
};

static void wake_sleeper(void *arg)
{
	struct sleeper *sleeper = arg;

	pthread_mutex_lock(&sleeper->lock);
	sleeper->woken = true;
	pthread_cond_signal(&sleeper->cond);
	pthread_mutex_unlock(&sleeper->lock);
}

/* Waits until woken (true), or until UNTIL_MS of CLOCK_BOOTTIME (false). */
static bool wait_for_wake(struct sleeper *sleeper, int64_t until_ms)
{
	bool woken;

	pthread_mutex_lock(&sleeper->lock);
	while (!sleeper->woken) {
		int64_t left_ms = until_ms - clock_boot_ms();
		struct timespec end;

		if (left_ms <= 0)
			break;
		if (left_ms > SLICE_MS)
			left_ms = SLICE_MS;
		clock_gettime(CLOCK_MONOTONIC, &end);
		end.tv_nsec += (long)left_ms * 1000000;
		end.tv_sec += end.tv_nsec / 1000000000;
		end.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&sleeper->cond, &sleeper->lock, &end);
	}
	woken = sleeper->woken;
	pthread_mutex_unlock(&sleeper->lock);
	return woken;
}

enum outcome limits_sleep(const struct limits *limits, int64_t until_ms)
{
	int64_t end_ms =
		until_ms < limits->deadline_ms ? until_ms : limits->deadline_ms;
	struct sleeper sleeper = {.woken = false};
	pthread_condattr_t attr;
	bool woken;

	pthread_mutex_init(&sleeper.lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&sleeper.cond, &attr);
	pthread_condattr_destroy(&attr);

	if (limits->stop != NULL)
		stop_on(limits->stop, wake_sleeper, &sleeper);
	woken = wait_for_wake(&sleeper, end_ms);
	if (limits->stop != NULL)
		stop_off(limits->stop);

	pthread_cond_destroy(&sleeper.cond);
	pthread_mutex_destroy(&sleeper.lock);
	if (woken)
		return OUTCOME_INTERRUPTED;
	return end_ms == until_ms ? OUTCOME_OK : OUTCOME_TIMEOUT;
}
