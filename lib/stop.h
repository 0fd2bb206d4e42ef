/* stop: what bounds one operation: a deadline, and a request to end early.
 *
 * Invariants:
 * 1. A stop request is never lost: it may come before, while or after the
 *    operation waits; stop_on() runs its wake function at once if it came
 *    before.
 * 2. After stop_off() returned, the wake function is not running and will not
 *    run any more, so what it points to may be freed.
 *
 * A stop belongs to one operation, in one thread at a time; stop_request() may
 * be called from any thread.
 */
#ifndef CELLDFS_STOP_H
#define CELLDFS_STOP_H

#include "outcome.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct stop {
	pthread_mutex_t lock;	/* guards the three fields below */
	bool requested;
	void (*wake)(void *);	/* how to wake the operation where it waits */
	void *wake_arg;
};

void stop_init(struct stop *stop);
void stop_release(struct stop *stop);

/* Asks the operation to end early. Idempotent; from any thread. */
void stop_request(struct stop *stop);

bool stop_requested(struct stop *stop);

/* From now on stop_request() calls WAKE(ARG), and no earlier one, with the
 * stop's lock held: WAKE must be short and must not call back into the stop. If
 * the request has been made already, WAKE runs before this returns. */
void stop_on(struct stop *stop, void (*wake)(void *), void *arg);
void stop_off(struct stop *stop);

/* The bounds of one operation, handed down through every layer. */
struct limits {
	int64_t deadline_ms; /* of CLOCK_BOOTTIME; nothing waits beyond it */
	struct stop *stop;   /* not owned; NULL: cannot be interrupted */
	bool urgent;	     /* the lease keeper's: does not queue behind users'
			      * swaps, and no pause is made for it */
};

/* Milliseconds left until the deadline, never negative. */
int64_t limits_left_ms(const struct limits *limits);

/* The bounds of one try of several: at most half of what is left, so that
 * another one has time, but a second, if there is one. */
struct limits limits_for_try(const struct limits *limits);

/* OK while there is time and no stop request; else TIMEOUT or INTERRUPTED. */
enum outcome limits_check(const struct limits *limits) MUST_CHECK;

/* Sleeps until UNTIL_MS (CLOCK_BOOTTIME), the deadline or a stop request,
 * whichever is first. Returns OK if UNTIL_MS was reached, else as
 * limits_check(). */
enum outcome limits_sleep(const struct limits *limits,
			  int64_t until_ms) MUST_CHECK;

#endif
