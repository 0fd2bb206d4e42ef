/* lease_fixture: a holder on the bench. Time stands still until a test moves it,
 * the store's clock is known to within WIDTH_MS, and a test says what became of
 * each request. What holds after every step is checked after every step.
 *
 * There is no wall clock here, nor in the machine: it has none to ask.
 */
#ifndef CELLDFS_TEST_LEASE_FIXTURE_H
#define CELLDFS_TEST_LEASE_FIXTURE_H

#include "check.h"
#include "lease.h"

/* Not every test uses every one of them. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"

#define T0	 INT64_C(5000000)	 /* the boot time at the start, */
#define STORE_T0 INT64_C(1700000000000)	 /* the store's clock then, */
#define WIDTH_MS 40			 /* at the earliest, and so much later */
#define TTL	 INT64_C(10000)		 /* at the latest */
#define SKEW	 INT64_C(1000)
#define PATIENCE INT64_C(30000)
#define DRIFT	 1 /* of two clocks within TTL */
#define POLL	 1000
#define NODE	 "n1"
#define PAUSE	 (500 * 3 / 4 + 250 * 128 / 255) /* TTL / 20, at BYTE 128 */

static struct lease_config config;
static struct lease_holder holder;
static struct lease_action action; /* what the last step said */

static int64_t boot_ms;
static int64_t offset_ms; /* the store's clock less boot_ms, at the earliest */
static int64_t width_ms;
static int64_t stepped_at_ms; /* the store's clock was seen to */
static bool clock_known;
static unsigned byte; /* the first random one of every step */

static unsigned steps;
static struct lease_action writes[128]; /* all that were asked for, */
static int64_t anchors[128];		/* and when */
static unsigned write_count;

static int64_t earliest(void)
{
	return boot_ms + offset_ms;
}

static int64_t latest(void)
{
	return earliest() + width_ms;
}

/* The same instant by the boot clock. */
static int64_t boot_of(int64_t store_ms)
{
	return store_ms - offset_ms;
}

static struct lease_now now(void)
{
	struct lease_now n = {.boot_ms = boot_ms, .known = clock_known};

	if (clock_known)
		n.fleet = (struct fleet_time){
			.earliest_ms = earliest(),
			.latest_ms = latest(),
			.since_step_ms = stepped_at_ms == INT64_MIN
						 ? INT64_MAX
						 : boot_ms - stepped_at_ms,
		};
	snprintf(n.fresh.hex, sizeof(n.fresh.hex), "%02x%030u", byte, ++steps);
	return n;
}

/* ---- what holds after every step ---- */

static void check_write(const struct lease_now *n, uint64_t last_expires_ms)
{
	CHECK(clock_known);
	CHECK(action.guard.kind == GUARD_ABSENT ||
	      action.guard.kind == GUARD_MATCH);
	CHECK_STR(action.attempt.hex, n->fresh.hex);
	if (holder.state == LEASE_STOPPING) {
		CHECK_EQ(action.expires_ms, 0);
	} else {
		CHECK((int64_t)action.expires_ms >= latest() + config.ttl_ms);
		CHECK(action.expires_ms != last_expires_ms);
	}
	CHECK(write_count < sizeof(writes) / sizeof(writes[0]));
	writes[write_count] = action;
	anchors[write_count++] = boot_ms;
}

static void check_step(const struct lease_now *n, uint64_t last_expires_ms)
{
	bool ended = holder.state >= LEASE_FENCED;
	bool request = action.kind == LEASE_READ || action.kind == LEASE_WRITE;

	CHECK_EQ(action.kind == LEASE_END, ended);
	CHECK_EQ(holder.fence != LEASE_NOT_FENCED,
		 holder.state == LEASE_FENCED);
	if (holder.state == LEASE_HELD) {
		CHECK_EQ(lease_authority_ms(&holder),
			 holder.anchor_ms + config.ttl_ms);
		CHECK(boot_ms < lease_authority_ms(&holder));
	} else {
		CHECK_EQ(lease_authority_ms(&holder), INT64_MIN);
	}
	CHECK(holder.try_count <= LEASE_TRIES_MAX);
	if (!ended)
		CHECK(action.until_ms > boot_ms);
	if (request)
		CHECK(action.until_ms <= boot_ms + 2500);
	if (!ended && holder.state != LEASE_ACQUIRING)
		CHECK(action.until_ms <= holder.until_ms);
	if (action.kind == LEASE_WRITE)
		check_write(n, last_expires_ms);
}

/* ---- the events ---- */

static void step(const struct lease_event *event)
{
	struct lease_now n = now();
	uint64_t last_expires_ms = holder.last_expires_ms;

	lease_step(&holder, event, &n, &action);
	check_step(&n, last_expires_ms);
}

static void look(void)
{
	step(&(struct lease_event){.kind = LEASE_TIME});
}

/* The driver wakes up when it was told to. */
static void sleep_through(void)
{
	CHECK_EQ(action.kind, LEASE_SLEEP);
	boot_ms = action.until_ms;
	look();
}

static void answered(enum outcome outcome)
{
	CHECK_EQ(action.kind, LEASE_WRITE);
	step(&(struct lease_event){.kind = LEASE_WAS_WRITTEN,
				   .outcome = outcome,
				   .why = "so it says"});
}

static void applied(const char *etag)
{
	CHECK_EQ(action.kind, LEASE_WRITE);
	step(&(struct lease_event){.kind = LEASE_WAS_WRITTEN, .etag = etag});
}

/* "Not done", and the store wants WAIT_MS. */
static void told_to_wait(int64_t wait_ms)
{
	bool read = action.kind == LEASE_READ;

	CHECK(read || action.kind == LEASE_WRITE);
	step(&(struct lease_event){.kind = read ? LEASE_WAS_READ
						: LEASE_WAS_WRITTEN,
				   .outcome = OUTCOME_NOT_DONE,
				   .wait_ms = wait_ms});
}

static void unreadable(enum outcome outcome)
{
	CHECK_EQ(action.kind, LEASE_READ);
	step(&(struct lease_event){.kind = LEASE_WAS_READ,
				   .outcome = outcome,
				   .why = "so it says"});
}

static void absent(void)
{
	unreadable(OUTCOME_ABSENT);
}

/* The bytes BODY were read, written by ATTEMPT ("": nobody's). */
static void found_bytes(const char *etag, const char *attempt, const char *body)
{
	struct object object;

	CHECK_EQ(action.kind, LEASE_READ);
	object_init(&object);
	CHECK_EQ(buf_set(&object.body, body, strlen(body)), OUTCOME_OK);
	snprintf(object.etag, sizeof(object.etag), "%s", etag);
	snprintf(object.attempt.hex, sizeof(object.attempt.hex), "%s", attempt);
	object.modified_ms = earliest() - earliest() % 1000;
	step(&(struct lease_event){.kind = LEASE_WAS_READ, .object = &object});
	object_release(&object);
}

/* A lease of NODE that expires at EXPIRES_MS, with MORE fields. */
static void found_more(const char *etag, uint64_t expires_ms, const char *more)
{
	char body[400];

	snprintf(body, sizeof(body),
		 "{\"node\":\"" NODE "\",\"expires_ms\":%" PRIu64
		 ",\"addr\":\"10.0.0.5:7000\","
		 "\"ownership_index_generation\":\"g7\"%s}",
		 expires_ms, more);
	found_bytes(etag, "d00000000000000000000000000000d0", body);
}

static void found(const char *etag, int64_t expires_ms)
{
	found_more(etag, (uint64_t)expires_ms, "");
}

/* What the holder's own WRITE-th write has made of the record. */
static void found_write(unsigned write, const char *etag)
{
	char body[200];

	CHECK(write < write_count);
	snprintf(body, sizeof(body),
		 "{\"node\":\"" NODE "\",\"expires_ms\":%" PRIu64 "}",
		 writes[write].expires_ms);
	found_bytes(etag, writes[write].attempt.hex, body);
}

static void stop_by(bool holds, int64_t until_ms)
{
	step(&(struct lease_event){
		.kind = LEASE_STOP, .holds = holds, .until_ms = until_ms});
}

/* ---- what is expected ---- */

#define EXPECT_SLEEP(until)                                                    \
	do {                                                                   \
		CHECK_EQ(action.kind, LEASE_SLEEP);                            \
		CHECK_EQ(action.until_ms, until);                              \
	} while (0)

#define EXPECT_READ() CHECK_EQ(action.kind, LEASE_READ)

/* A write over the version ETAG. */
#define EXPECT_WRITE(etag)                                                     \
	do {                                                                   \
		CHECK_EQ(action.kind, LEASE_WRITE);                            \
		CHECK(guard_matches(&action.guard, etag));                     \
	} while (0)

#define EXPECT_CREATE()                                                        \
	do {                                                                   \
		CHECK_EQ(action.kind, LEASE_WRITE);                            \
		CHECK_EQ(action.guard.kind, GUARD_ABSENT);                     \
	} while (0)

/* Authority by the write that was anchored then, and the next in time. */
#define EXPECT_HELD(anchor)                                                    \
	do {                                                                   \
		CHECK_EQ(holder.state, LEASE_HELD);                            \
		CHECK_EQ(holder.anchor_ms, anchor);                            \
		CHECK_EQ(lease_authority_ms(&holder),                          \
			 (anchor) + config.ttl_ms);                            \
		CHECK_STR(lease_state_word(&holder), "held");                  \
		CHECK_STR(holder.reason.text, "");                             \
		if (boot_ms < (anchor) + config.ttl_ms / 3) {                  \
			EXPECT_SLEEP((anchor) + config.ttl_ms / 3);            \
			CHECK_EQ(holder.try_count, 0);                         \
		}                                                              \
	} while (0)

#define EXPECT_REASON(part)                                                    \
	do {                                                                   \
		if (!strstr(holder.reason.text, part))                         \
			CHECK_FAIL("the reason is '%s', expected '%s'",        \
				   holder.reason.text, part);                  \
	} while (0)

/* The end; and it stays the end, whatever comes. */
#define EXPECT_END(want, word)                                                 \
	do {                                                                   \
		CHECK_EQ(holder.state, want);                                  \
		CHECK_STR(lease_state_word(&holder), word);                    \
		expect_no_more();                                              \
		CHECK_EQ(holder.state, want);                                  \
	} while (0)

#define EXPECT_REFUSED(part)                                                   \
	do {                                                                   \
		EXPECT_END(LEASE_REFUSED, "refused");                          \
		EXPECT_REASON(part);                                           \
	} while (0)

#define EXPECT_FENCED(why)                                                     \
	do {                                                                   \
		EXPECT_END(LEASE_FENCED, "fenced");                            \
		CHECK_STR(lease_fence_word(holder.fence), why);                \
	} while (0)

#define EXPECT_STOPPED() EXPECT_END(LEASE_STOPPED, "stopped")

static void expect_no_more(void)
{
	static const enum outcome outcomes[] = {OUTCOME_OK, OUTCOME_ABSENT,
						OUTCOME_UNKNOWN,
						OUTCOME_NOT_DONE};
	struct reason reason = holder.reason;
	enum lease_fence fence = holder.fence;
	struct object object;
	int64_t then_ms = boot_ms;

	object_init(&object);
	snprintf(object.etag, sizeof(object.etag), "\"later\"");
	if (holder.try_count > 0)
		object.attempt = holder.tries[holder.try_count - 1].attempt;
	for (int i = 0; i < 8; i++) {
		struct lease_event event = {.outcome = outcomes[i / 2],
					    .object = &object,
					    .etag = "\"later\""};

		for (unsigned kind = LEASE_TIME; kind <= LEASE_STOP; kind++) {
			event.kind = kind;
			step(&event);
			CHECK_EQ(action.kind, LEASE_END);
		}
		boot_ms += i * config.ttl_ms;
	}
	boot_ms = then_ms;
	look();
	CHECK_EQ(holder.fence, fence);
	CHECK_STR(holder.reason.text, reason.text);
	object_release(&object);
}

/* ---- the beginning ---- */

/* A holder with this CONFIG that has done nothing yet. */
static void set_up_with(const struct lease_config *with)
{
	config = *with;
	boot_ms = T0;
	offset_ms = STORE_T0 - T0;
	width_ms = WIDTH_MS;
	stepped_at_ms = INT64_MIN;
	clock_known = true;
	byte = 128;
	write_count = 0;
	lease_init(&holder, &config, boot_ms);
	look();
}

static struct lease_config usual_config(void)
{
	return (struct lease_config){.node = NODE,
				     .ttl_ms = TTL,
				     .skew_ms = SKEW,
				     .patience_ms = PATIENCE};
}

static void set_up(void)
{
	struct lease_config usual = usual_config();

	set_up_with(&usual);
}

/* The lease is held since T0, as version "e1", and nothing was ever there. */
static void set_up_held_with(const struct lease_config *with)
{
	set_up_with(with);
	absent();
	EXPECT_CREATE();
	applied("\"e1\"");
	EXPECT_HELD(T0);
	write_count = 0;
}

static void set_up_held(void)
{
	struct lease_config usual = usual_config();

	set_up_held_with(&usual);
}

#endif
