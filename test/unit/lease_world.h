/* lease_world: a world for one lease holder: a store with one record and a clock
 * of whole seconds, everybody's boot clocks, writes of the node on their way, a
 * rival who takes the name over when he finds its lease dead, watchers who judge
 * it, and an operator who removes and replaces the record. All of it happens
 * while the node waits: world_go_on().
 *
 * Who judges here keeps the rules: by bounds of his own, of before the lease was
 * read (it may have been renewed since) and after (the answer may tell of a
 * step), and by no skew at all.
 */
#ifndef CELLDFS_TEST_LEASE_WORLD_H
#define CELLDFS_TEST_LEASE_WORLD_H

#include "check.h"
#include "lease.h"
#include "ownership.h"

/* Not every test uses every one of them. */
#pragma GCC diagnostic ignored "-Wunused-function"

#define NODE	     "n1"
#define WATCHERS     2
#define FLIGHTS_MOST 64
#define LANDED_MOST  64
#define NEVER	     INT64_MAX
#define NONE	     (INT64_MIN / 2) /* no authority */
#define STEP_LEAST   8000 /* more than the bounds of an answer are apart */
#define STEP_MOST    3600000
#define ROUNDING_MS  3 /* all clocks are read in whole milliseconds */

enum owner { NOBODY, THE_NODE, THE_RIVAL, THE_OPERATOR };

struct version {
	bool exists;
	enum owner owner;
	unsigned run; /* of the node's processes */
	uint64_t expires_ms;
	char etag[40];
	struct attempt attempt;
	int64_t modified_ms;
};

/* A clock that runs PPM faster than the world. */
struct clock {
	int64_t base_ms, ppm;
};

/* A write of the node's on its way. */
struct flight {
	int64_t at_ms; /* when it arrives */
	struct lease_action write;
	int64_t anchor_ms;
	unsigned run;
	bool replace;
};

enum phase { IDLE, ASKING, READING, WRITING, WRITTEN };

/* A watcher, or the rival. */
struct peer {
	struct clock clock;
	struct fleet fleet;
	enum phase phase;
	int64_t next_ms;
	int64_t sent_ms, date_ms; /* of the request */
	struct fleet_time before; /* it was sent */
	struct version seen;
	int64_t seen_at_ms;

	/* the rival's lease */
	struct guard guard;
	bool gives_up, applied;
	uint64_t expires_ms;
	int64_t write_anchor_ms;
	int64_t anchor_ms, until_ms; /* of its authority */
};

struct world {
	uint64_t seed, random;

	/* how it is */
	bool etags_by_content; /* as S3's: equal bytes, equal ETag */
	bool healthy;	       /* nothing is lost, late, or paused */
	bool steps;	       /* of the store's clock */
	int64_t ttl_ms;

	int64_t now_ms;
	struct clock clock; /* the store's */
	int64_t next_step_ms, next_operator_ms;
	unsigned stepped;
	struct version record;
	unsigned versions;
	int64_t meddled_ms; /* when the operator did last; -1 */
	struct peer rival, watchers[WATCHERS];

	/* the node, for test_lease_random.c to drive */
	struct clock node_clock;
	struct lease_config config;
	struct lease_holder holder;
	unsigned run;
	int64_t held_since_ms;
	struct flight flights[FLIGHTS_MOST];
	unsigned flight_count;
	int64_t landed[LANDED_MOST]; /* anchors of what was applied */
	unsigned landed_count;
	char awaited[ATTEMPT_SIZE]; /* the write that it waits for; then: */
	bool applied;
	char etag[40];
};

/* What has been tried, over all worlds. */
static struct {
	unsigned steps, writes, held, adopted, late, refused, stopped,
		tombstones, crashed, landed_late, overlaps;
	unsigned fences[LEASE_REMOVED + 1];
	unsigned taken_over, dead, alive, meddled, steps_seen;
} seen;

#define CHECK_SEED(condition)                                                  \
	do {                                                                   \
		if (!(condition))                                              \
			CHECK_FAIL("seed %" PRIu64 " after %" PRId64           \
				   " ms: not true: %s",                        \
				   w->seed, w->now_ms, #condition);            \
	} while (0)

/* splitmix64 */
static uint64_t next_random(struct world *w)
{
	uint64_t z = (w->random += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static int64_t below(struct world *w, int64_t n)
{
	return (int64_t)(next_random(w) % (uint64_t)n);
}

static bool chance(struct world *w, unsigned percent)
{
	return below(w, 100) < percent;
}

static int64_t clock_at(const struct clock *clock, int64_t world_ms)
{
	return clock->base_ms + world_ms + world_ms * clock->ppm / 1000000;
}

static int64_t store_now_ms(const struct world *w)
{
	return clock_at(&w->clock, w->now_ms);
}

/* As an answer tells it. */
static int64_t store_date_ms(const struct world *w)
{
	return store_now_ms(w) - store_now_ms(w) % 1000;
}

static int64_t node_now_ms(const struct world *w)
{
	return clock_at(&w->node_clock, w->now_ms);
}

static int64_t peer_now_ms(const struct world *w, const struct peer *peer)
{
	return clock_at(&peer->clock, w->now_ms);
}

/* ---- what everybody believes ---- */

static bool node_believes(const struct world *w)
{
	return w->holder.state == LEASE_HELD &&
	       node_now_ms(w) < lease_authority_ms(&w->holder) - ROUNDING_MS;
}

static bool rival_believes(const struct world *w)
{
	return peer_now_ms(w, &w->rival) < w->rival.until_ms - ROUNDING_MS;
}

/* The operator has interfered since what was written at ANCHOR_MS, and whoever
 * has written it cannot know. */
static bool is_deceived(const struct world *w, const struct clock *clock,
			int64_t anchor_ms)
{
	return w->meddled_ms >= 0 &&
	       clock_at(clock, w->meddled_ms) >= anchor_ms;
}

static bool node_is_deceived(const struct world *w)
{
	return is_deceived(w, &w->node_clock, w->holder.anchor_ms);
}

static bool rival_is_deceived(const struct world *w)
{
	return is_deceived(w, &w->rival.clock, w->rival.anchor_ms);
}

static void check_beliefs(struct world *w)
{
	int64_t store_ms = store_now_ms(w) - ROUNDING_MS;

	if (!node_believes(w) || node_is_deceived(w))
		return;
	CHECK_SEED(w->record.exists);
	CHECK_SEED(w->record.owner == THE_NODE && w->record.run == w->run);
	/* no bounds are tighter than the truth */
	if (!w->stepped)
		CHECK_SEED((int64_t)w->record.expires_ms > store_ms);
	if (!rival_believes(w) || rival_is_deceived(w))
		return;
	CHECK_SEED(w->config.replace);
	if (!w->stepped)
		CHECK_SEED((int64_t)w->holder.old_run_ends_ms >= store_ms);
	seen.overlaps++;
}

/* Somebody has found the lease dead that he read at READ_MS. Whoever has
 * acquired it since then is another matter. */
static void check_nobody_is_robbed(struct world *w, int64_t read_ms)
{
	if (!node_is_deceived(w) && w->held_since_ms < read_ms)
		CHECK_SEED(!node_believes(w));
}

/* ---- the record ---- */

static void put_version(struct world *w, enum owner owner, unsigned run,
			uint64_t expires_ms, const char *attempt)
{
	struct version *v = &w->record;

	*v = (struct version){.exists = true,
			      .owner = owner,
			      .run = run,
			      .expires_ms = expires_ms,
			      .modified_ms = store_date_ms(w)};
	w->versions++;
	if (w->etags_by_content)
		snprintf(v->etag, sizeof(v->etag), "\"%d-%u-%" PRIu64 "\"",
			 (int)owner, run, expires_ms);
	else
		snprintf(v->etag, sizeof(v->etag), "\"%u\"", w->versions);
	snprintf(v->attempt.hex, sizeof(v->attempt.hex), "%s", attempt);
}

static bool guard_holds(const struct world *w, const struct guard *guard)
{
	return w->record.exists ? guard_matches(guard, w->record.etag)
				: guard->kind == GUARD_ABSENT;
}

/* A write of the node's reaches the store. */
static void land(struct world *w, const struct flight *flight)
{
	bool awaited = strcmp(w->awaited, flight->write.attempt.hex) == 0;
	bool applied = guard_holds(w, &flight->write.guard);

	if (applied) {
		if (w->record.owner == THE_RIVAL && !rival_is_deceived(w) &&
		    !flight->replace)
			CHECK_SEED(!rival_believes(w));
		put_version(w, THE_NODE, flight->run, flight->write.expires_ms,
			    flight->write.attempt.hex);
		w->landed[w->landed_count++ % LANDED_MOST] = flight->anchor_ms;
		seen.landed_late += !awaited;
	}
	if (awaited) {
		w->applied = applied;
		snprintf(w->etag, sizeof(w->etag), "%s", w->record.etag);
	}
}

/* ---- who judges ---- */

static int64_t quick(struct world *w)
{
	return below(w, chance(w, 80) ? 20 : 300);
}

static void peer_asks(struct world *w, struct peer *peer)
{
	peer->sent_ms = peer_now_ms(w, peer);
	if (!fleet_now(&peer->fleet, peer->sent_ms, &peer->before))
		peer->before.earliest_ms = 0;
	peer->phase = ASKING;
	peer->next_ms = w->now_ms + quick(w);
}

static void peer_is_asked_for(struct world *w, struct peer *peer)
{
	peer->seen = w->record;
	peer->seen_at_ms = w->now_ms;
	peer->date_ms = store_date_ms(w);
	peer->phase = READING;
	peer->next_ms = w->now_ms + quick(w);
	/* a stuck answer says little of a step */
	if (!w->steps && chance(w, 5))
		peer->next_ms += below(w, 3 * w->ttl_ms);
}

static enum life peer_judges(struct world *w, struct peer *peer)
{
	int64_t boot_ms = peer_now_ms(w, peer);
	struct lease lease = {.node = NODE,
			      .expires_ms = peer->seen.expires_ms};
	struct fleet_time now;
	enum life life;

	seen.steps_seen += !fleet_sample(&peer->fleet, peer->date_ms,
					 peer->sent_ms, boot_ms);
	CHECK_SEED(fleet_now(&peer->fleet, boot_ms, &now));
	if (now.earliest_ms > peer->before.earliest_ms)
		now.earliest_ms = peer->before.earliest_ms;
	life = ownership_life(NODE, peer->seen.exists ? &lease : NULL,
			      peer->seen.modified_ms, &now, 0, NULL);
	seen.alive += life == LIFE_ALIVE;
	if (life == LIFE_DEAD) {
		check_nobody_is_robbed(w, peer->seen_at_ms);
		seen.dead++;
	}
	return life;
}

static void watch(struct world *w, struct peer *peer)
{
	if (peer->phase == IDLE) {
		peer_asks(w, peer);
	} else if (peer->phase == ASKING) {
		peer_is_asked_for(w, peer);
	} else {
		peer_judges(w, peer);
		peer->phase = IDLE;
		peer->next_ms = w->now_ms + below(w, w->ttl_ms);
	}
}

/* ---- the rival ---- */

static void rival_writes(struct world *w, bool gives_up)
{
	struct peer *rival = &w->rival;
	struct fleet_time now;

	rival->sent_ms = rival->write_anchor_ms = peer_now_ms(w, rival);
	CHECK_SEED(fleet_now(&rival->fleet, rival->sent_ms, &now));
	rival->gives_up = gives_up;
	rival->expires_ms = (uint64_t)(now.latest_ms + w->ttl_ms +
				       fleet_drift_ms(w->ttl_ms));
	if (gives_up) {
		rival->expires_ms = 0;
		rival->until_ms = NONE;
	}
	rival->phase = WRITING;
	rival->next_ms = w->now_ms + quick(w);
}

static void rival_lands(struct world *w)
{
	struct peer *rival = &w->rival;

	rival->applied = guard_holds(w, &rival->guard);
	if (rival->applied) {
		if (!node_is_deceived(w))
			CHECK_SEED(!node_believes(w));
		seen.taken_over += w->record.owner == THE_NODE;
		put_version(w, THE_RIVAL, 0, rival->expires_ms, "");
		CHECK_SEED(guard_of_etag(&rival->guard, w->record.etag, NULL) ==
			   OUTCOME_OK);
	}
	rival->date_ms = store_date_ms(w);
	rival->phase = WRITTEN;
	rival->next_ms = w->now_ms + quick(w);
}

static void rival_is_answered(struct world *w)
{
	struct peer *rival = &w->rival;
	int64_t boot_ms = peer_now_ms(w, rival);
	bool renewed = rival->until_ms != NONE;

	rival->phase = IDLE;
	rival->next_ms = w->now_ms + below(w, w->ttl_ms / 2);
	seen.steps_seen += !fleet_sample(&rival->fleet, rival->date_ms,
					 rival->sent_ms, boot_ms);
	if (!rival->applied || rival->gives_up ||
	    (renewed && boot_ms >= rival->until_ms) ||
	    boot_ms >= rival->write_anchor_ms + w->ttl_ms) {
		rival->until_ms = NONE;
	} else {
		rival->anchor_ms = rival->write_anchor_ms;
		rival->until_ms = rival->anchor_ms + w->ttl_ms;
	}
}

/* He keeps what he has got for a while, and gives it up or goes away. */
static void rival_goes_on(struct world *w)
{
	struct peer *rival = &w->rival;

	if (rival->until_ms == NONE) {
		peer_asks(w, rival);
	} else if (peer_now_ms(w, rival) < rival->until_ms && chance(w, 85)) {
		rival_writes(w, chance(w, 10));
	} else {
		rival->until_ms = NONE;
		rival->next_ms = w->now_ms + below(w, 20 * w->ttl_ms);
	}
}

static void rival_takes_over(struct world *w)
{
	struct peer *rival = &w->rival;

	rival->phase = IDLE;
	rival->next_ms = w->now_ms + below(w, w->ttl_ms);
	if (peer_judges(w, rival) != LIFE_DEAD)
		return;
	rival->guard = (struct guard){.kind = GUARD_ABSENT};
	if (rival->seen.exists)
		CHECK_SEED(guard_of_etag(&rival->guard, rival->seen.etag,
					 NULL) == OUTCOME_OK);
	rival_writes(w, false);
}

static void compete(struct world *w)
{
	switch (w->rival.phase) {
	case IDLE:
		rival_goes_on(w);
		break;
	case ASKING:
		peer_is_asked_for(w, &w->rival);
		break;
	case READING:
		rival_takes_over(w);
		break;
	case WRITING:
		rival_lands(w);
		break;
	case WRITTEN:
		rival_is_answered(w);
		break;
	}
}

/* ---- what else happens ---- */

static void operate(struct world *w)
{
	int64_t ahead_ms = below(w, 2 * w->ttl_ms);

	w->next_operator_ms = w->now_ms + 1000 + below(w, 15 * w->ttl_ms);
	w->meddled_ms = w->now_ms;
	seen.meddled += node_believes(w);
	if (chance(w, 50))
		w->record = (struct version){.exists = false};
	else
		put_version(w, THE_OPERATOR, 0,
			    chance(w, 50)
				    ? 0
				    : (uint64_t)(store_now_ms(w) + ahead_ms),
			    "");
}

static void step_clock(struct world *w)
{
	int64_t most_ms = chance(w, 50) ? 5 * STEP_LEAST : STEP_MOST;
	int64_t by_ms = STEP_LEAST + below(w, most_ms - STEP_LEAST);

	w->clock.base_ms += chance(w, 50) ? by_ms : -by_ms;
	w->stepped++;
	w->next_step_ms = w->now_ms + 200000 + below(w, 200000);
}

/* At this very instant. */
static void turn(struct world *w)
{
	for (unsigned i = 0; i < w->flight_count; i++)
		if (w->flights[i].at_ms <= w->now_ms) {
			struct flight flight = w->flights[i];

			w->flights[i--] = w->flights[--w->flight_count];
			land(w, &flight);
		}
	if (w->next_step_ms <= w->now_ms)
		step_clock(w);
	if (w->next_operator_ms <= w->now_ms)
		operate(w);
	if (w->rival.next_ms <= w->now_ms)
		compete(w);
	for (unsigned i = 0; i < WATCHERS; i++)
		if (w->watchers[i].next_ms <= w->now_ms)
			watch(w, &w->watchers[i]);
	check_beliefs(w);
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The world goes on for so long. */
static void world_go_on(struct world *w, int64_t ms)
{
	int64_t until_ms = w->now_ms + ms, next_ms;

	do {
		next_ms = earlier(w->next_step_ms, w->next_operator_ms);
		next_ms = earlier(next_ms, w->rival.next_ms);
		for (unsigned i = 0; i < w->flight_count; i++)
			next_ms = earlier(next_ms, w->flights[i].at_ms);
		for (unsigned i = 0; i < WATCHERS; i++)
			next_ms = earlier(next_ms, w->watchers[i].next_ms);
		if (w->now_ms < earlier(next_ms, until_ms))
			w->now_ms = earlier(next_ms, until_ms);
		turn(w);
	} while (next_ms < until_ms);
}

/* ---- its beginning ---- */

/* No two clocks differ by more than FLEET_DRIFT_PPM. */
static void set_clock(struct world *w, struct clock *clock, int64_t base_ms)
{
	clock->base_ms = base_ms;
	clock->ppm = chance(w, 50) ? below(w, 101) - 50 : below(w, 3) * 50 - 50;
}

static void set_peer(struct world *w, struct peer *peer)
{
	set_clock(w, &peer->clock, below(w, 1000000000));
	peer->until_ms = NONE;
	peer_asks(w, peer);
}

/* A world of SEED, in which nothing goes wrong yet. */
static void world_init(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->seed = w->random = seed;
	w->meddled_ms = -1;
	w->etags_by_content = chance(w, 30);
	w->next_step_ms = w->next_operator_ms = NEVER;
	set_clock(w, &w->clock, INT64_C(1700000000000) + below(w, 1000000));
	set_clock(w, &w->node_clock, below(w, 1000000000));
	set_peer(w, &w->rival);
	for (unsigned i = 0; i < WATCHERS; i++)
		set_peer(w, &w->watchers[i]);
}

#endif
