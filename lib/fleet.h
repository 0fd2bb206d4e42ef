/* fleet: what time it is by the store's clock, as bounds. Pure.
 *
 * Source: PROTOCOL "Fleet time". Every answer of a store carries its Date in
 * whole seconds. If a request was sent at boot time s and answered at r, the
 * store's clock read something in [Date, Date + 1 s) at some instant in [s, r],
 * so for the offset (store time - CLOCK_BOOTTIME):
 *
 *	Date - r  <=  offset  <  Date + 1 s - s
 *
 * Samples are intersected, each bound loosened by FLEET_DRIFT_PPM since it was
 * found, which narrows them to about a round trip.
 *
 * Behind one name there may be several gateways, whose clocks are never quite the
 * same. Then the lower bound, which the fastest clock has raised, can come to lie
 * above the upper one, which the slowest has lowered. Up to FLEET_APART_MS they
 * are taken for that: all clocks lie between them, as far as whole seconds tell,
 * and -o skew-ms covers the rest.
 *
 * Invariants:
 * 1. If the store has one clock, it and CLOCK_BOOTTIME drift by at most
 *    FLEET_DRIFT_PPM, and neither steps, the store's time is never outside the
 *    bounds.
 * 2. When it steps, the first sample that contradicts the bounds by more than
 *    FLEET_APART_MS replaces them and is reported; until then they are those of
 *    the time before the step.
 *    What was judged by the old time and what was written by it needs a while
 *    to come right: fleet_time.since_step_ms tells for how long it had that.
 *
 * Who hears of the store for the first time after a step cannot know of it. Until
 * the holders have heard of a step forward and written by the new time, which
 * takes them less than half of their ttl, their leases look expired to such a one.
 *
 * Not thread-safe: its store's lock guards it.
 */
#ifndef CELLDFS_FLEET_H
#define CELLDFS_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#define FLEET_DRIFT_PPM 100
#define FLEET_APART_MS	500
#define FLEET_CLOSE_MS	100

/* A store's clock at some instant, in ms since 1970. */
struct fleet_time {
	int64_t earliest_ms;
	int64_t latest_ms;
	int64_t since_step_ms; /* since it was last seen to step; INT64_MAX:
				* never */
	unsigned steps;	       /* how often it was seen to step */
};

struct fleet {
	bool known; /* there was a sample */
	int64_t low_ms, low_at_ms;   /* the offset's lower bound, and when it */
	int64_t high_ms, high_at_ms; /* was found; likewise the upper one */
	unsigned steps;	       /* how often the clock was seen to step, */
	int64_t stepped_at_ms; /* and when it was last seen */
};

/* Takes in an answer's DATE_MS (ms since 1970, whole seconds) to a request that
 * was sent at SENT_MS and answered at RECEIVED_MS (CLOCK_BOOTTIME). False: it
 * contradicts what was known: a clock has stepped, and the bounds start anew
 * with this sample. */
bool fleet_sample(struct fleet *fleet, int64_t date_ms, int64_t sent_ms,
		  int64_t received_ms);

/* The store's time at BOOT_MS. False: no sample yet. */
bool fleet_now(const struct fleet *fleet, int64_t boot_ms,
	       struct fleet_time *time);

/* TIME becomes what it was MS ago. What was stepped since was not known then:
 * since_step_ms is negative. */
void fleet_time_back(struct fleet_time *time, int64_t ms);

/* In how many ms, at most a second, an answer halves the bounds: then the middle
 * between them, a whole second, turns out to be past or still ahead. INT64_MAX:
 * they are within FLEET_CLOSE_MS already, nearer than answers come. */
int64_t fleet_halves_ms(const struct fleet_time *time);

/* How far two clocks that differ by FLEET_DRIFT_PPM can part within ELAPSED_MS,
 * rounded up. */
int64_t fleet_drift_ms(int64_t elapsed_ms);

#endif
