/* cas, against a store that fails at random, and writers who compete.
 *
 * Thousands of writes, each from a seed of its own: answers are lost, requests
 * dropped, delayed and doubled, reads fail and show what was, stops and refused
 * permits come at any time, and other nodes claim and release by the rules of
 * celldfs.8. What must hold then:
 *
 * 1. The record was changed by our write once at most, also when everything
 *    that was under way has landed.
 * 2. OK: it was applied, and the ETag is that version's.
 * 3. All but OK and UNKNOWN: it was not applied, and never will be.
 * 4. INTERRUPTED and TIMEOUT: nothing was sent. UNKNOWN: something was.
 * 5. One guard, one body, one attempt id.
 * 6. It ends by the deadline, and a second after a stop.
 */
#include "cas.h"

#include "check.h"
#include "clock.h"
#include "ownership.h"
#include "record.h"

#include <stdbool.h>
#include <stddef.h>

#define SEEDS	 100000
#define SLACK_MS 100
#define KEY	 "cells/c/own.json"
#define OUR_NODE "n1"

/* A millisecond whenever somebody looks; the store's pauses are one long. */
static int64_t ticks;

static int64_t tick(void)
{
	return ++ticks;
}

/* ---- the store ---- */

struct version {
	bool exists;
	struct own own;
	char etag[ETAG_SIZE];
	struct attempt attempt;
};

#define VERSIONS_MOST 4096
#define PENDING_MOST  64

struct chaos {
	struct store store; /* first */
	uint64_t seed, state;

	/* how this seed's world is */
	bool etags_by_content; /* as S3's: equal bytes, equal ETag */
	bool stale_reads;
	bool competitors;
	bool removals; /* only if nothing is created anew */
	bool stops;
	bool bad_answers; /* denied, failed */
	unsigned faults;  /* in 100 */

	/* the record, and all that it was */
	struct version versions[VERSIONS_MOST];
	unsigned now; /* the current one */

	/* our write */
	struct cas_write write;
	struct own own;
	char body[200];
	struct limits limits;
	struct stop stop;
	int64_t stopped_at_ms; /* 0: not yet */
	struct attempt ours;
	unsigned puts, gets;
	unsigned pending; /* requests of ours that may still land */
	unsigned applied;
	char applied_etag[ETAG_SIZE];
	int permits;
};

/* splitmix64 */
static uint64_t next_random(struct chaos *chaos)
{
	uint64_t z = (chaos->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static unsigned below(struct chaos *chaos, unsigned n)
{
	return (unsigned)(next_random(chaos) % n);
}

static bool chance(struct chaos *chaos, unsigned percent)
{
	return below(chaos, 100) < percent;
}

#define CHECK_SEED(condition)                                                  \
	do {                                                                   \
		if (!(condition))                                              \
			CHECK_FAIL("seed %" PRIu64 ": not true: %s",           \
				   chaos->seed, #condition);                   \
	} while (0)

static struct version *current(struct chaos *chaos)
{
	return &chaos->versions[chaos->now];
}

static struct version *add_version(struct chaos *chaos)
{
	CHECK_SEED(chaos->now + 1 < VERSIONS_MOST);
	return &chaos->versions[++chaos->now];
}

static void set_version(struct chaos *chaos, const char *node, uint64_t epoch,
			const char *attempt)
{
	struct version *version = add_version(chaos);

	*version = (struct version){.exists = true, .own.epoch = epoch};
	snprintf(version->own.node, sizeof(version->own.node), "%s", node);
	snprintf(version->attempt.hex, sizeof(version->attempt.hex), "%s",
		 attempt);
	if (chaos->etags_by_content)
		snprintf(version->etag, sizeof(version->etag),
			 "\"%s-%" PRIu64 "\"", node, epoch);
	else
		snprintf(version->etag, sizeof(version->etag), "\"%u\"",
			 chaos->now);
}

static bool guard_holds(struct chaos *chaos)
{
	if (!current(chaos)->exists)
		return chaos->write.guard.kind == GUARD_ABSENT;
	return guard_matches(&chaos->write.guard, current(chaos)->etag);
}

/* One of our requests reaches the record. */
static bool apply(struct chaos *chaos)
{
	if (!guard_holds(chaos))
		return false;
	set_version(chaos, chaos->own.node, chaos->own.epoch, chaos->ours.hex);
	memcpy(chaos->applied_etag, current(chaos)->etag, ETAG_SIZE);
	chaos->applied++;
	return true;
}

/* Another client writes, by the rules; two shells on our node are two. */
static void compete(struct chaos *chaos)
{
	static const char *const nodes[] = {OUR_NODE, "n0", "n9"};
	const char *node = nodes[below(chaos, 3)];
	struct version *version = current(chaos);

	if (!version->exists) {
		if (!chaos->removals)
			set_version(chaos, node, 1 + below(chaos, 2), "");
	} else if (chaos->removals && chance(chaos, 20)) {
		*add_version(chaos) = (struct version){.exists = false};
	} else if (version->own.node[0] && chance(chaos, 40)) {
		set_version(chaos, "", version->own.epoch, "");
	} else {
		set_version(chaos, node,
			    version->own.epoch + 1 + below(chaos, 2), "");
	}
}

/* What the world does between two requests. */
static void let_the_world_turn(struct chaos *chaos)
{
	if (chaos->competitors && chance(chaos, 15))
		compete(chaos);
	if (chaos->pending > 0 && chance(chaos, 30)) {
		chaos->pending--;
		apply(chaos);
	}
	if (chaos->stops && chaos->stopped_at_ms == 0 && chance(chaos, 10)) {
		chaos->stopped_at_ms = ticks;
		stop_request(&chaos->stop);
	}
	if (chance(chaos, 10))
		ticks += below(chaos, 20);
}

static void check_request(struct chaos *chaos, const struct limits *limits,
			  const char *key)
{
	CHECK_STR(key, KEY);
	CHECK_SEED(limits->deadline_ms <= chaos->limits.deadline_ms);
	CHECK_SEED(ticks <= chaos->limits.deadline_ms + SLACK_MS);
}

static void wait_for_nothing(const struct limits *limits)
{
	if (!limits->stop || !stop_requested(limits->stop))
		ticks = limits->deadline_ms;
}

static enum outcome send_put(struct chaos *chaos, const struct limits *limits,
			     char etag[ETAG_SIZE])
{
	/* a proxy on the way may double a request */
	if (chance(chaos, 5) && chaos->pending < PENDING_MOST)
		chaos->pending++;
	if (!chance(chaos, chaos->faults)) {
		if (apply(chaos)) {
			memcpy(etag, current(chaos)->etag, ETAG_SIZE);
			return OUTCOME_OK;
		}
		/* Ceph says 500 to most losers */
		return chance(chaos, 50) ? OUTCOME_REJECTED : OUTCOME_UNKNOWN;
	}
	if (chance(chaos, 10))
		wait_for_nothing(limits);
	switch (below(chaos, 3)) {
	case 0:
		apply(chaos);
		break;
	case 1:
		if (chaos->pending < PENDING_MOST)
			chaos->pending++;
		break;
	default:
		break;
	}
	return OUTCOME_UNKNOWN;
}

static enum outcome chaos_put(struct store *store, const struct limits *limits,
			      const char *key, const char *body, size_t len,
			      const struct guard *guard,
			      const struct attempt *attempt,
			      char etag[ETAG_SIZE], struct answer *answer)
{
	struct chaos *chaos = (struct chaos *)store;
	enum outcome outcome;

	check_request(chaos, limits, key);
	CHECK_SEED(body == chaos->body && len == strlen(chaos->body));
	CHECK_SEED(guard_equal(guard, &chaos->write.guard));
	if (chaos->puts++ == 0)
		chaos->ours = *attempt;
	CHECK_STR(attempt->hex, chaos->ours.hex);
	answer->wait_ms = 1;

	let_the_world_turn(chaos);
	if (limits->stop && stop_requested(limits->stop) && chance(chaos, 50))
		return OUTCOME_INTERRUPTED;
	if (chance(chaos, chaos->faults / 4))
		return OUTCOME_NOT_DONE;
	if (chance(chaos, chaos->faults / 8)) {
		wait_for_nothing(limits);
		return OUTCOME_TIMEOUT;
	}
	if (chaos->bad_answers && chance(chaos, 5))
		return chance(chaos, 50) ? OUTCOME_DENIED : OUTCOME_FAILED;
	outcome = send_put(chaos, limits, etag);
	let_the_world_turn(chaos);
	return outcome;
}

static enum outcome chaos_get(struct store *store, const struct limits *limits,
			      const char *key, const char *known,
			      struct object *object, struct answer *answer)
{
	static const enum outcome failures[] = {
		OUTCOME_FAILED, OUTCOME_NOT_DONE, OUTCOME_DENIED,
		OUTCOME_TIMEOUT};
	struct chaos *chaos = (struct chaos *)store;
	const struct version *version;

	check_request(chaos, limits, key);
	CHECK_SEED(known == NULL);
	chaos->gets++;
	answer->wait_ms = 1;
	let_the_world_turn(chaos);
	if (limits->stop && stop_requested(limits->stop) && chance(chaos, 50))
		return OUTCOME_INTERRUPTED;
	if (chance(chaos, chaos->faults / 2))
		return failures[below(chaos, 4)];
	version = current(chaos);
	if (chaos->stale_reads && chance(chaos, 30))
		version = &chaos->versions[below(chaos, chaos->now + 1)];
	let_the_world_turn(chaos);
	if (!version->exists)
		return OUTCOME_ABSENT;
	memcpy(object->etag, version->etag, ETAG_SIZE);
	object->attempt = version->attempt;
	return buf_printf(&object->body,
			  "{\"node\":\"%s\",\"epoch\":%" PRIu64 "}",
			  version->own.node, version->own.epoch);
}

static const struct store_ops chaos_ops = {
	.get = chaos_get,
	.put_if = chaos_put,
};

/* ---- a write ---- */

/* As fs/swap.c asks it. */
static bool disproves(const void *arg, const struct object *found)
{
	struct own own;

	return record_parse_own(&own, found->body.bytes, found->body.len,
				NULL) == OUTCOME_OK &&
	       ownership_disproves(arg, &own);
}

static enum outcome may_send(const void *arg, int64_t *until_ms)
{
	struct chaos *const *chaos = arg;

	(void)until_ms;
	return (*chaos)->permits-- > 0 ? OUTCOME_OK : OUTCOME_FENCED;
}

/* A first claim, a claim, a takeover or a release. */
static void choose_write(struct chaos *chaos)
{
	static const char *const owners[] = {"n0", OUR_NODE, ""};
	struct guard *guard = &chaos->write.guard;
	const char *owner = owners[below(chaos, 3)];
	uint64_t epoch = 1 + below(chaos, 5);

	chaos->own = (struct own){OUR_NODE, 1 + below(chaos, 3)};
	guard->kind = GUARD_ABSENT;
	if (chance(chaos, 75)) {
		set_version(chaos, owner, epoch, "");
		CHECK_EQ(guard_of_etag(guard, current(chaos)->etag, NULL),
			 OUTCOME_OK);
		chaos->own.epoch += epoch;
		if (strcmp(owner, OUR_NODE) == 0 && chance(chaos, 50))
			chaos->own = (struct own){"", epoch};
	}
	/* a removed record begins again at epoch 1, and then nothing proves
	 * anything: nobody does that */
	chaos->removals = guard->kind == GUARD_MATCH && chance(chaos, 20);
	snprintf(chaos->body, sizeof(chaos->body),
		 "{\"node\":\"%s\",\"epoch\":%" PRIu64 "}", chaos->own.node,
		 chaos->own.epoch);
	chaos->write.key = KEY;
	chaos->write.body = chaos->body;
	chaos->write.len = strlen(chaos->body);
	if (chance(chaos, 80)) {
		chaos->write.disproves = disproves;
		chaos->write.disproves_arg = &chaos->own;
	}
}

static void chaos_init(struct chaos *chaos, uint64_t seed)
{
	memset(chaos, 0, offsetof(struct chaos, versions));
	memset(&chaos->now, 0, sizeof(*chaos) - offsetof(struct chaos, now));
	chaos->store.ops = &chaos_ops;
	chaos->seed = chaos->state = seed;
	chaos->etags_by_content = chance(chaos, 30);
	chaos->stale_reads = chance(chaos, 20);
	chaos->competitors = chance(chaos, 70);
	chaos->stops = chance(chaos, 20);
	chaos->bad_answers = chance(chaos, 20);
	chaos->faults = below(chaos, 4) * 30;
	chaos->versions[0] = (struct version){.exists = false};
	choose_write(chaos);
	ticks = 1000;
	stop_init(&chaos->stop);
	chaos->limits.stop = &chaos->stop;
	chaos->limits.deadline_ms = ticks + 20 + below(chaos, 3) * 1500;
}

static enum outcome chaos_run(struct chaos *chaos, struct cas_result *result)
{
	struct chaos *arg = chaos;
	enum outcome outcome;

	if (chance(chaos, 10)) {
		chaos->permits = (int)below(chaos, 4);
		chaos->write.may_send = may_send;
		chaos->write.may_send_arg = &arg;
	}
	outcome = cas_put(&chaos->store, &chaos->limits, &chaos->write, result);
	CHECK_SEED(result->puts == chaos->puts && result->gets == chaos->gets);
	CHECK_SEED(ticks <= chaos->limits.deadline_ms + SLACK_MS);
	if (chaos->stopped_at_ms)
		CHECK_SEED(ticks <= chaos->stopped_at_ms + 2 * SLACK_MS +
					    CAS_SETTLE_AFTER_STOP_MS);
	stop_release(&chaos->stop);
	return outcome;
}

/* Everything that is still under way arrives, between other writes. */
static void run_out(struct chaos *chaos)
{
	while (chaos->pending > 0) {
		if (chaos->competitors && chance(chaos, 20))
			compete(chaos);
		chaos->pending--;
		apply(chaos);
	}
}

static void check_outcome(struct chaos *chaos, enum outcome outcome,
			  const struct cas_result *result)
{
	unsigned applied_then = chaos->applied;

	run_out(chaos);
	CHECK_SEED(chaos->applied <= 1);
	if (outcome == OUTCOME_OK) {
		CHECK_SEED(applied_then == 1);
		CHECK_STR(result->etag, chaos->applied_etag);
	} else if (outcome != OUTCOME_UNKNOWN) {
		if (chaos->applied != 0)
			CHECK_FAIL("seed %" PRIu64 ": %s, and it was applied",
				   chaos->seed, outcome_word(outcome));
	}
	if (outcome == OUTCOME_UNKNOWN)
		CHECK_SEED(result->sent);
	if (outcome == OUTCOME_INTERRUPTED || outcome == OUTCOME_TIMEOUT)
		CHECK_SEED(!result->sent);
}

static void test_random_faults(void)
{
	static struct chaos chaos_space;
	struct chaos *chaos = &chaos_space;
	unsigned seen[OUTCOME_COUNT] = {0}, settled = 0, disproved = 0;
	unsigned seeds = getenv("CELLDFS_VALGRIND") ? SEEDS / 20 : SEEDS;

	clock_replace(tick, NULL);
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct cas_result result;
		enum outcome outcome;

		chaos_init(chaos, seed);
		outcome = chaos_run(chaos, &result);
		check_outcome(chaos, outcome, &result);
		seen[outcome]++;
		settled += outcome == OUTCOME_OK && result.gets > 0;
		disproved += outcome == OUTCOME_REJECTED && result.gets > 0;
	}
	clock_replace(NULL, NULL);

	/* and all of it has been tried */
	CHECK(settled > seeds / 50);
	CHECK(disproved > seeds / 100);
	CHECK(seen[OUTCOME_OK] > seeds / 10);
	CHECK(seen[OUTCOME_REJECTED] > seeds / 20);
	CHECK(seen[OUTCOME_UNKNOWN] > seeds / 20);
	CHECK(seen[OUTCOME_NOT_DONE] > 0);
	CHECK(seen[OUTCOME_TIMEOUT] > 0);
	CHECK(seen[OUTCOME_INTERRUPTED] > 0);
	CHECK(seen[OUTCOME_FENCED] > 0);
	CHECK(seen[OUTCOME_DENIED] > 0);
	CHECK(seen[OUTCOME_FAILED] > 0);
}

int main(void)
{
	RUN(test_random_faults);
	return 0;
}
