#include "lease.h"

#include "ownership.h"
#include "record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY_LEAST_MS	  250
#define TRY_MOST_MS	  2500
#define POLL_LEAST_MS	  250
#define POLL_MOST_MS	  1000
#define PAUSE_LEAST_MS	  20
#define LATE_MOST	  3
#define NONSENSE_LEAST_MS 60000

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
	return value < low ? low : value > high ? high : value;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Both in the order of their enums. */
const char *lease_fence_word(enum lease_fence fence)
{
	static const char *const words[] = {"", "expired", "replaced",
					    "removed"};

	return words[fence];
}

const char *lease_state_word(const struct lease_holder *holder)
{
	static const char *const words[] = {"acquiring", "held",    "stopping",
					    "fenced",	 "refused", "stopped"};

	return holder->waiting ? "waiting" : words[holder->state];
}

int64_t lease_authority_ms(const struct lease_holder *holder)
{
	return holder->state == LEASE_HELD ? holder->until_ms : INT64_MIN;
}

void lease_init(struct lease_holder *holder, const struct lease_config *config,
		int64_t boot_ms)
{
	memset(holder, 0, sizeof(*holder));
	holder->config = *config;
	holder->must_read = true;
	holder->next_ms = boot_ms;
	holder->patience_until_ms = boot_ms + config->patience_ms;
}

/* ---- what every state does ---- */

static void end(struct lease_holder *holder, enum lease_state state)
{
	holder->state = state;
	holder->waiting = false;
}

static void note(struct lease_holder *holder, const char *what, const char *why)
{
	reason_set(&holder->reason, OUTCOME_OK, "%s%s%s", what,
		   why && why[0] ? ": " : "", why ? why : "");
}

static void refuse(struct lease_holder *holder, const char *what,
		   const char *why)
{
	note(holder, what, why);
	end(holder, LEASE_REFUSED);
}

static void fence(struct lease_holder *holder, enum lease_fence why)
{
	holder->fence = why;
	end(holder, LEASE_FENCED);
}

static void read_next(struct lease_holder *holder, int64_t at_ms)
{
	holder->must_read = true;
	holder->next_ms = at_ms;
}

static void write_next(struct lease_holder *holder, int64_t at_ms)
{
	holder->must_read = false;
	holder->next_ms = at_ms;
}

/* When to try again: after ttl/20, a quarter more or less, so that two never
 * keep step, or as long as the store wishes; but never after more than half of
 * what is left of the authority. */
static int64_t soon(const struct lease_holder *holder, int64_t wait_ms,
		    const struct lease_now *now)
{
	int64_t most_ms = holder->config.ttl_ms / 2;
	int64_t pause_ms = holder->config.ttl_ms / 20;
	char digits[3] = {now->fresh.hex[0], now->fresh.hex[1], 0};

	if (holder->state != LEASE_ACQUIRING)
		most_ms = (holder->until_ms - now->boot_ms) / 2;
	pause_ms = pause_ms * 3 / 4 +
		   pause_ms / 2 * strtol(digits, NULL, 16) / 255;
	if (pause_ms < wait_ms)
		pause_ms = wait_ms;
	pause_ms = least(pause_ms, most_ms);
	if (pause_ms < PAUSE_LEAST_MS)
		pause_ms = PAUSE_LEAST_MS;
	return now->boot_ms + pause_ms;
}

/* The try that made OBJECT; NULL: it is not ours, or from long ago. */
static const struct lease_try *find_try(const struct lease_holder *holder,
					const struct object *object)
{
	for (unsigned i = 0; i < holder->try_count; i++)
		if (strcmp(holder->tries[i].attempt.hex, object->attempt.hex) ==
		    0)
			return &holder->tries[i];
	return NULL;
}

/* One of our tries, with ANCHOR_MS, is what ETAG names. */
static void take(struct lease_holder *holder, int64_t anchor_ms,
		 const char *etag, const struct lease_now *now)
{
	struct guard guard;

	if (guard_of_etag(&guard, etag, &holder->reason) != OUTCOME_OK) {
		read_next(holder, soon(holder, 0, now));
		return;
	}
	/* the guard of all others never holds again */
	holder->try_count = 0;
	holder->guard = guard;
	holder->waiting = false;
	holder->looked = true;
	snprintf(holder->first_etag, ETAG_SIZE, "%s", etag);
	if (now->boot_ms < anchor_ms + holder->config.ttl_ms) {
		holder->state = LEASE_HELD;
		holder->anchor_ms = anchor_ms;
		holder->until_ms = anchor_ms + holder->config.ttl_ms;
		holder->reason.text[0] = '\0';
		write_next(holder, anchor_ms + holder->config.ttl_ms / 3);
	} else if (++holder->late >= LATE_MOST) {
		refuse(holder, "the store takes longer than ttl-ms to answer",
		       "");
	} else {
		write_next(holder, now->boot_ms);
	}
}

/* ---- acquiring ---- */

/* Who is there, for people. */
static void describe(const struct lease *lease, const struct lease_now *now,
		     struct reason *text)
{
	int64_t left_ms = 0;

	if (lease->expires_ms > 0 && lease->expires_ms <= INT64_MAX)
		left_ms = (int64_t)lease->expires_ms - now->fleet.earliest_ms;
	reason_set(text, OUTCOME_OK,
		   "addr %.48s, generation %.40s, expires_ms %" PRIu64
		   " (%s%lld.%lld s%s)",
		   lease->addr[0] ? lease->addr : "none",
		   lease->generation[0] ? lease->generation : "none",
		   lease->expires_ms, left_ms >= 0 ? "in " : "",
		   llabs(left_ms) / 1000, llabs(left_ms) % 1000 / 100,
		   left_ms >= 0 ? "" : " ago");
}

/* Further ahead than any holder's clock and ttl explain? */
static bool is_nonsense(const struct lease_holder *holder, uint64_t expires_ms,
			const struct lease_now *now)
{
	int64_t most_ms = 6 * holder->config.ttl_ms;

	if (most_ms < NONSENSE_LEAST_MS)
		most_ms = NONSENSE_LEAST_MS;
	return expires_ms > INT64_MAX ||
	       (int64_t)expires_ms - now->fleet.latest_ms > most_ms;
}

/* When to look at a living predecessor again: when its time is up, and before
 * to see whether somebody renews it, and what time it is. */
static int64_t look_again(const struct lease_holder *holder,
			  uint64_t expires_ms, const struct lease_now *now)
{
	int64_t ttl_ms = holder->config.ttl_ms;
	int64_t poll_ms = least(clamp(ttl_ms / 6, POLL_LEAST_MS, POLL_MOST_MS),
				fleet_halves_ms(&now->fleet));
	int64_t left_ms = (int64_t)expires_ms - now->fleet.earliest_ms +
			  (int64_t)holder->config.skew_ms;

	if (left_ms < 1 || left_ms > poll_ms)
		left_ms = poll_ms;
	return now->boot_ms + left_ms;
}

/* The guard for replacing the predecessor has been found: write, but after a
 * try whose fate is unknown not in the same breath. */
static void write_over(struct lease_holder *holder, const struct lease_now *now)
{
	holder->waiting = false;
	holder->must_read = holder->try_count == LEASE_TRIES_MAX;
	holder->next_ms =
		holder->try_count > 0 ? soon(holder, 0, now) : now->boot_ms;
}

/* LEASE is there, under our name, and not from us: may it be replaced? */
static void judge(struct lease_holder *holder, const struct lease *lease,
		  int64_t modified_ms, const struct lease_now *now)
{
	const struct lease_config *config = &holder->config;
	const char *log = ownership_unsealed(lease->log);
	struct reason who, life_reason;
	enum life life;

	describe(lease, now, &who);
	if (log) {
		note(holder, "celld must recover it first: its log is", log);
		refuse(holder, holder->reason.text, who.text);
		return;
	}
	life = ownership_life(config->node, lease, modified_ms, &now->fleet,
			      config->skew_ms, &life_reason);
	if (life == LIFE_DEAD) {
		write_over(holder, now);
	} else if (config->replace) {
		uint64_t ends_ms =
			lease->expires_ms > UINT64_MAX - config->skew_ms
				? UINT64_MAX
				: lease->expires_ms + config->skew_ms;

		if (ends_ms > holder->old_run_ends_ms)
			holder->old_run_ends_ms = ends_ms;
		write_over(holder, now);
	} else if (is_nonsense(holder, lease->expires_ms, now)) {
		refuse(holder,
		       "its expiry is too far ahead to be waited for; if no "
		       "process keeps it, mount with -o replace",
		       who.text);
	} else {
		holder->waiting = true;
		holder->patience_until_ms = now->boot_ms + config->patience_ms;
		note(holder, "an earlier run's lease has to run out", who.text);
		read_next(holder, look_again(holder, lease->expires_ms, now));
	}
}

static void acquire_found(struct lease_holder *holder,
			  const struct object *object,
			  const struct lease_now *now)
{
	const struct lease_try *ours = find_try(holder, object);
	bool changed =
		holder->looked && strcmp(holder->first_etag, object->etag) != 0;
	struct lease lease = {.addr = ""};
	struct reason why = {""}, who;
	enum outcome outcome;

	if (ours) {
		take(holder, ours->anchor_ms, object->etag, now);
		return;
	}
	outcome = record_parse_lease(&lease, object->body.bytes,
				     object->body.len, &why);
	if (changed)
		holder->try_count = 0; /* their guard holds never more */
	if (outcome == OUTCOME_NO_MEMORY) {
		note(holder, "out of memory", "");
		read_next(holder, soon(holder, 0, now));
	} else if (changed && !holder->config.replace) {
		describe(&lease, now, &who);
		refuse(holder, "another process keeps it", who.text);
	} else if (outcome != OUTCOME_OK) {
		refuse(holder, "the lease that is there is malformed",
		       why.text);
	} else if (strcmp(lease.node, holder->config.node) != 0) {
		refuse(holder, "the lease that is there names another node",
		       lease.node);
	} else if (guard_of_etag(&holder->guard, object->etag, &why) !=
		   OUTCOME_OK) {
		refuse(holder, "the lease that is there cannot be guarded",
		       why.text);
	} else {
		holder->looked = true;
		memcpy(holder->first_etag, object->etag, ETAG_SIZE);
		judge(holder, &lease, object->modified_ms, now);
	}
}

static void acquire_absent(struct lease_holder *holder,
			   const struct lease_now *now)
{
	if (holder->looked && holder->first_etag[0])
		holder->try_count = 0;
	holder->looked = true;
	holder->first_etag[0] = '\0';
	holder->guard = (struct guard){.kind = GUARD_ABSENT};
	write_over(holder, now);
}

static void acquire_read(struct lease_holder *holder,
			 const struct lease_event *event,
			 const struct lease_now *now)
{
	if (event->outcome == OUTCOME_ABSENT && now->known) {
		acquire_absent(holder, now);
	} else if (event->outcome == OUTCOME_OK && now->known) {
		acquire_found(holder, event->object, now);
	} else if (event->outcome == OUTCOME_DENIED ||
		   event->outcome == OUTCOME_TOO_LARGE) {
		refuse(holder, "it cannot be read", event->why);
	} else {
		note(holder, "it cannot be read", event->why);
		read_next(holder, soon(holder, event->wait_ms, now));
	}
}

/* ---- held, and given up ---- */

static void held_found(struct lease_holder *holder, const struct object *object,
		       const struct lease_now *now)
{
	const struct lease_try *ours = find_try(holder, object);
	struct reason who = {""};
	struct lease lease;

	if (ours) {
		take(holder, ours->anchor_ms, object->etag, now);
		return;
	}
	if (guard_matches(&holder->guard, object->etag)) {
		write_next(holder, soon(holder, 0, now));
		return;
	}
	if (record_parse_lease(&lease, object->body.bytes, object->body.len,
			       NULL) == OUTCOME_OK)
		describe(&lease, now, &who);
	note(holder, "another record is there", who.text);
	fence(holder, LEASE_REPLACED);
}

/* The same while stopping: whatever else is there, nothing is left to do. */
static void stopping_found(struct lease_holder *holder,
			   const struct object *object,
			   const struct lease_now *now)
{
	const struct lease_try *ours = find_try(holder, object);

	if (ours && !ours->gives_up &&
	    guard_of_etag(&holder->guard, object->etag, NULL) == OUTCOME_OK) {
		holder->try_count = 0;
		write_next(holder, now->boot_ms);
	} else if (!ours && guard_matches(&holder->guard, object->etag)) {
		write_next(holder, soon(holder, 0, now));
	} else {
		end(holder, LEASE_STOPPED);
	}
}

static void held_read(struct lease_holder *holder,
		      const struct lease_event *event,
		      const struct lease_now *now)
{
	bool stopping = holder->state == LEASE_STOPPING;

	if (event->outcome == OUTCOME_OK && stopping) {
		stopping_found(holder, event->object, now);
	} else if (event->outcome == OUTCOME_OK) {
		held_found(holder, event->object, now);
	} else if (stopping && (event->outcome == OUTCOME_ABSENT ||
				event->outcome == OUTCOME_TOO_LARGE)) {
		end(holder, LEASE_STOPPED);
	} else if (event->outcome == OUTCOME_ABSENT) {
		note(holder, "the record is gone", "");
		fence(holder, LEASE_REMOVED);
	} else if (event->outcome == OUTCOME_TOO_LARGE) {
		note(holder, "another record is there", event->why);
		fence(holder, LEASE_REPLACED);
	} else {
		note(holder, "it cannot be read back", event->why);
		read_next(holder, soon(holder, event->wait_ms, now));
	}
}

/* ---- written, in any state ---- */

/* Will it be refused again, however often it is tried? */
static bool is_final(enum outcome outcome)
{
	return outcome == OUTCOME_DENIED || outcome == OUTCOME_FAILED ||
	       outcome == OUTCOME_FORBIDDEN || outcome == OUTCOME_INVALID ||
	       outcome == OUTCOME_TOO_LARGE;
}

static bool is_never(enum outcome outcome)
{
	return is_final(outcome) || outcome == OUTCOME_NOT_DONE ||
	       outcome == OUTCOME_TIMEOUT || outcome == OUTCOME_INTERRUPTED ||
	       outcome == OUTCOME_NO_MEMORY;
}

/* A rejection may be the echo of a try of ours that has landed, and what is no
 * answer to a write proves nothing: the record tells. */
static void written(struct lease_holder *holder,
		    const struct lease_event *event,
		    const struct lease_now *now)
{
	bool acquiring = holder->state == LEASE_ACQUIRING;
	int64_t anchor_ms = holder->tries[holder->try_count - 1].anchor_ms;

	if (event->outcome == OUTCOME_OK && holder->state == LEASE_STOPPING) {
		end(holder, LEASE_STOPPED);
	} else if (event->outcome == OUTCOME_OK) {
		take(holder, anchor_ms, event->etag, now);
	} else if (!is_never(event->outcome)) {
		note(holder, "the last write is not known to have been applied",
		     event->why);
		read_next(holder, now->boot_ms);
	} else {
		holder->try_count--;
		note(holder, "it cannot be written", event->why);
		if (acquiring && is_final(event->outcome))
			end(holder, LEASE_REFUSED);
		else if (acquiring)
			read_next(holder, soon(holder, event->wait_ms, now));
		else
			write_next(holder, soon(holder, event->wait_ms, now));
	}
}

/* ---- the step ---- */

static bool has_ended(const struct lease_holder *holder)
{
	return holder->state >= LEASE_FENCED;
}

/* What time alone brings. */
static void pass_time(struct lease_holder *holder, const struct lease_now *now)
{
	if (holder->state == LEASE_HELD && now->boot_ms >= holder->until_ms)
		fence(holder, LEASE_EXPIRED);
	else if (holder->state == LEASE_STOPPING &&
		 now->boot_ms >= holder->until_ms)
		end(holder, LEASE_STOPPED);
}

static void stop(struct lease_holder *holder, const struct lease_event *event,
		 const struct lease_now *now)
{
	/* what is dead at once must not be what an earlier run relies on */
	bool alone =
		now->fleet.earliest_ms >= 0 &&
		(uint64_t)now->fleet.earliest_ms >= holder->old_run_ends_ms;

	if (holder->state != LEASE_HELD || event->holds || !alone ||
	    event->until_ms <= now->boot_ms) {
		end(holder, LEASE_STOPPED);
		return;
	}
	holder->state = LEASE_STOPPING;
	holder->until_ms = least(holder->until_ms, event->until_ms);
	write_next(holder, now->boot_ms);
}

static void take_in(struct lease_holder *holder,
		    const struct lease_event *event,
		    const struct lease_now *now)
{
	switch (event->kind) {
	case LEASE_TIME:
		break;
	case LEASE_WAS_READ:
		if (holder->state == LEASE_ACQUIRING)
			acquire_read(holder, event, now);
		else
			held_read(holder, event, now);
		break;
	case LEASE_WAS_WRITTEN:
		written(holder, event, now);
		break;
	case LEASE_STOP:
		stop(holder, event, now);
		break;
	}
}

/* How long one request may take: half of what is left of the authority. */
static int64_t try_until(const struct lease_holder *holder,
			 const struct lease_now *now)
{
	int64_t left_ms = holder->config.ttl_ms;

	if (holder->state == LEASE_ACQUIRING)
		return now->boot_ms +
		       clamp(left_ms / 2, TRY_LEAST_MS, TRY_MOST_MS);
	left_ms = holder->until_ms - now->boot_ms;
	return now->boot_ms +
	       least(clamp(left_ms / 2, TRY_LEAST_MS, TRY_MOST_MS), left_ms);
}

/* The expiry that a write publishes which is anchored now: no earlier than the
 * end of its authority, by any clock that drifts as little as the store's. It
 * differs from the last one, so that no two versions have the same bytes. */
static uint64_t expiry(struct lease_holder *holder, const struct lease_now *now)
{
	int64_t ttl_ms = holder->config.ttl_ms;
	int64_t latest_ms = now->fleet.latest_ms > 0 ? now->fleet.latest_ms : 0;
	uint64_t expires_ms =
		(uint64_t)(latest_ms + ttl_ms + fleet_drift_ms(ttl_ms));

	if (expires_ms == holder->last_expires_ms)
		expires_ms++;
	holder->last_expires_ms = expires_ms;
	return expires_ms;
}

static void prepare_write(struct lease_holder *holder,
			  const struct lease_now *now,
			  struct lease_action *action)
{
	bool gives_up = holder->state == LEASE_STOPPING;

	action->kind = LEASE_WRITE;
	action->until_ms = try_until(holder, now);
	action->guard = holder->guard;
	action->attempt = now->fresh;
	action->expires_ms = gives_up ? 0 : expiry(holder, now);
	holder->tries[holder->try_count++] = (struct lease_try){
		.attempt = now->fresh,
		.anchor_ms = now->boot_ms,
		.gives_up = gives_up,
	};
}

/* Peers judge by the store's clock. If it has stepped since the last write, the
 * expiry that they read means another time than was meant. A renewal that has
 * been tried already goes on at its pace. */
static void heed_step(struct lease_holder *holder, const struct lease_now *now)
{
	int64_t ttl_ms = holder->config.ttl_ms;

	if (holder->state == LEASE_HELD && now->known &&
	    now->fleet.since_step_ms <= now->boot_ms - holder->anchor_ms &&
	    holder->next_ms == holder->anchor_ms + ttl_ms / 3)
		holder->next_ms = holder->anchor_ms + ttl_ms / 10;
}

static void decide(struct lease_holder *holder, const struct lease_now *now,
		   struct lease_action *action)
{
	memset(action, 0, sizeof(*action));
	if (holder->state == LEASE_ACQUIRING &&
	    now->boot_ms >= holder->patience_until_ms) {
		struct reason last = holder->reason;

		refuse(holder, "given up", last.text);
	}
	if (has_ended(holder)) {
		action->kind = LEASE_END;
		return;
	}
	heed_step(holder, now);
	if (now->boot_ms < holder->next_ms) {
		action->kind = LEASE_SLEEP;
		action->until_ms = holder->next_ms;
		if (holder->state != LEASE_ACQUIRING)
			action->until_ms =
				least(holder->next_ms, holder->until_ms);
	} else if (holder->must_read || !now->known ||
		   holder->try_count == LEASE_TRIES_MAX) {
		action->kind = LEASE_READ;
		action->until_ms = try_until(holder, now);
	} else {
		prepare_write(holder, now, action);
	}
}

void lease_step(struct lease_holder *holder, const struct lease_event *event,
		const struct lease_now *now, struct lease_action *action)
{
	pass_time(holder, now);
	if (!has_ended(holder))
		take_in(holder, event, now);
	decide(holder, now, action);
}
