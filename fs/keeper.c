#include "keeper.h"

#include "clock.h"
#include "holds.h"
#include "load.h"
#include "log.h"
#include "record.h"
#include "thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOAD_MAX     1024
#define CLOCK_OFF_MS 1000 /* that is worth a word */

struct keeper {
	struct keeper_config config;
	struct store *store;
	struct holds *holds;
	char key[NAME_KEY_SIZE];
	char generation[ATTEMPT_SIZE];
	pthread_t thread;
	struct stop stop;	  /* ends its sleep, not its requests */
	_Atomic int64_t until_ms; /* lease_authority_ms() */

	pthread_mutex_t lock;	    /* guards the next three */
	pthread_cond_t changed;	    /* the state, or what it waits for */
	struct lease_holder holder; /* the thread alone writes it */
	uint64_t renewals, renewal_errors;

	/* the thread's own */
	struct object found; /* what was read last */
	struct buf base; /* what the next lease is made from; "" = nothing */
	char etag[ETAG_SIZE]; /* of what was written last */
	struct load load;
	int64_t stop_within_ms; /* set before `stop` is requested */
	bool stopping, clock_told;
};

/* ---- what is written ---- */

static enum outcome edit_text(struct buf *record, const char *field,
			      const char *value)
{
	char text[256 + 3];

	/* names, host names and hex digits: nothing that has to be escaped */
	snprintf(text, sizeof(text), "\"%s\"", value);
	return record_edit(record, field, text);
}

static enum outcome edit_number(struct buf *record, const char *field,
				uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return record_edit(record, field, text);
}

/* Everything that an earlier lease says and this node does not know stays. */
static enum outcome make_record(struct keeper *keeper, uint64_t expires_ms,
				struct buf *record)
{
	struct buf load;
	enum outcome outcome =
		keeper->base.len > 0
			? buf_set(record, keeper->base.bytes, keeper->base.len)
			: buf_printf(record, "{\"node\":\"%s\"}\n",
				     keeper->config.lease.node);

	buf_init(&load, LOAD_MAX);
	if (outcome == OUTCOME_OK)
		outcome = load_sample(&keeper->load, holds_count(keeper->holds),
				      &load);
	if (outcome == OUTCOME_OK)
		outcome = buf_append(&load, "", 1);
	if (outcome == OUTCOME_OK)
		outcome = edit_number(record, "expires_ms", expires_ms);
	if (outcome == OUTCOME_OK)
		outcome = edit_text(record, "addr", keeper->config.addr);
	if (outcome == OUTCOME_OK)
		outcome = edit_text(record, "probe_public_key", "");
	if (outcome == OUTCOME_OK)
		outcome = edit_number(record, "peer_protocol",
				      keeper->config.peer_protocol);
	if (outcome == OUTCOME_OK)
		outcome = edit_text(record, "ownership_index_generation",
				    keeper->generation);
	if (outcome == OUTCOME_OK)
		outcome = record_edit(record, "load", load.bytes);
	buf_release(&load);
	return outcome;
}

/* ---- what the machine asks for ---- */

static void read_now(struct keeper *keeper, struct lease_now *now)
{
	struct limits at_once = {0};

	now->boot_ms = clock_boot_ms();
	now->known =
		store_now(keeper->store, &at_once, &now->fleet) == OUTCOME_OK;
	if (attempt_new(&now->fresh) != OUTCOME_OK)
		/* no two writes of one process at the same time */
		snprintf(now->fresh.hex, sizeof(now->fresh.hex), "%.16s%016llx",
			 keeper->generation, (unsigned long long)now->boot_ms);
}

static void do_read(struct keeper *keeper, const struct lease_action *action,
		    struct lease_event *event, struct answer *answer)
{
	struct limits limits = {.deadline_ms = action->until_ms,
				.urgent = true};

	event->kind = LEASE_WAS_READ;
	event->outcome = store_get(keeper->store, &limits, keeper->key, NULL,
				   &keeper->found, answer);
	event->object = &keeper->found;
	/* what is there is what an acquired lease is made from */
	if (keeper->holder.state != LEASE_ACQUIRING)
		return;
	buf_clear(&keeper->base);
	if (event->outcome == OUTCOME_OK &&
	    buf_set(&keeper->base, keeper->found.body.bytes,
		    keeper->found.body.len) != OUTCOME_OK)
		event->outcome = OUTCOME_NO_MEMORY;
}

static void do_write(struct keeper *keeper, const struct lease_action *action,
		     struct lease_event *event, struct answer *answer)
{
	struct limits limits = {.deadline_ms = action->until_ms,
				.urgent = true};
	struct buf record;

	buf_init(&record, RECORD_WRITE_MAX);
	event->kind = LEASE_WAS_WRITTEN;
	event->etag = keeper->etag;
	event->outcome = make_record(keeper, action->expires_ms, &record);
	if (event->outcome == OUTCOME_OK)
		event->outcome =
			store_put_if(keeper->store, &limits, keeper->key,
				     record.bytes, record.len, &action->guard,
				     &action->attempt, keeper->etag, answer);
	else
		reason_set(&answer->reason, OUTCOME_OK,
			   "the lease cannot be made from what is there: %s",
			   outcome_word(event->outcome));
	buf_release(&record);
}

/* ---- what is told ---- */

static void tell_fence(struct keeper *keeper, const struct lease_holder *holder)
{
	log_line(LOG_ERR,
		 "SELF-FENCE: %s: %s: this mount writes nothing any more; "
		 "reads go on; mount anew to get a new lease%s%s",
		 lease_fence_word(holder->fence), keeper->key,
		 holder->reason.text[0] ? "; " : "", holder->reason.text);
	if (keeper->config.fence_exits)
		_exit(KEEPER_FENCE_STATUS);
}

/* One line for each thing that went wrong while the lease was held. */
static void tell_trouble(struct keeper *keeper, const struct lease_event *event,
			 const struct lease_holder *holder)
{
	int64_t left_ms = holder->until_ms - clock_boot_ms();

	if (holder->state != LEASE_HELD || !holder->reason.text[0] ||
	    event->kind == LEASE_TIME ||
	    (event->kind == LEASE_WAS_READ && event->outcome == OUTCOME_OK))
		return;
	log_line(LOG_WARNING, "%s: %s; %lld ms of authority left", keeper->key,
		 holder->reason.text, (long long)(left_ms > 0 ? left_ms : 0));
}

/* Nothing depends on the wall clock, but people read it. */
static void tell_clock(struct keeper *keeper, const struct lease_now *now)
{
	int64_t wall_ms = clock_wall_ms();
	int64_t off_ms = 0;

	if (!now->known)
		return;
	if (wall_ms > now->fleet.latest_ms)
		off_ms = wall_ms - now->fleet.latest_ms;
	else if (wall_ms < now->fleet.earliest_ms)
		off_ms = wall_ms - now->fleet.earliest_ms;
	if (llabs(off_ms) <= CLOCK_OFF_MS) {
		keeper->clock_told = false;
	} else if (!keeper->clock_told) {
		keeper->clock_told = true;
		log_line(LOG_WARNING,
			 "this machine's wall clock is %lld ms %s the store's; "
			 "the lease goes by the store's",
			 llabs(off_ms), off_ms > 0 ? "ahead of" : "behind");
	}
}

static void tell_held(struct keeper *keeper)
{
	log_line(LOG_NOTICE,
		 "%s: the lease is held; addr %s, generation %s, ttl %lld ms",
		 keeper->key, keeper->config.addr, keeper->generation,
		 (long long)keeper->config.lease.ttl_ms);
}

/* ---- the thread ---- */

static void count(struct keeper *keeper, const struct lease_event *event,
		  int64_t anchor_before_ms)
{
	if (keeper->holder.anchor_ms != anchor_before_ms)
		keeper->renewals++;
	else if (event->kind == LEASE_WAS_WRITTEN)
		keeper->renewal_errors++;
}

/* One step, made known to all before anything is told or done. */
static void step(struct keeper *keeper, const struct lease_event *event,
		 struct lease_action *action)
{
	struct lease_holder *holder = &keeper->holder;
	enum lease_state before = holder->state;
	int64_t anchor_before_ms = holder->anchor_ms;
	struct lease_now now;

	read_now(keeper, &now);
	pthread_mutex_lock(&keeper->lock);
	lease_step(holder, event, &now, action);
	count(keeper, event, anchor_before_ms);
	keeper->until_ms = lease_authority_ms(holder);
	pthread_cond_broadcast(&keeper->changed);
	pthread_mutex_unlock(&keeper->lock);
	tell_clock(keeper, &now);
	if (before != LEASE_HELD && holder->state == LEASE_HELD)
		tell_held(keeper);
	else if (before != LEASE_FENCED && holder->state == LEASE_FENCED)
		tell_fence(keeper, holder);
	else
		tell_trouble(keeper, event, holder);
}

/* Makes a stop that was requested the EVENT, once. */
static void take_stop(struct keeper *keeper, struct lease_event *event)
{
	if (keeper->stopping || !stop_requested(&keeper->stop))
		return;
	keeper->stopping = true;
	*event = (struct lease_event){
		.kind = LEASE_STOP,
		.holds = holds_count(keeper->holds) > 0,
		.until_ms = clock_boot_ms() + keeper->stop_within_ms,
	};
}

static void sleep_until(struct keeper *keeper, int64_t until_ms)
{
	struct limits limits = {.deadline_ms = until_ms,
				/* a stop is heard once */
				.stop = keeper->stopping ? NULL
							 : &keeper->stop};
	/* a user's request may show meanwhile that the store's clock steps */
	int64_t look_ms = clock_boot_ms() + keeper->config.lease.ttl_ms / 20;
	/* whatever ends it, the machine looks at the clock again */
	enum outcome ended =
		limits_sleep(&limits, until_ms < look_ms ? until_ms : look_ms);

	(void)ended;
}

static void *run(void *arg)
{
	struct keeper *keeper = arg;
	struct lease_event event = {.kind = LEASE_TIME};
	struct lease_action action;
	struct answer answer;

	for (;;) {
		step(keeper, &event, &action);
		memset(&answer, 0, sizeof(answer));
		event = (struct lease_event){.kind = LEASE_TIME};
		switch (action.kind) {
		case LEASE_SLEEP:
			sleep_until(keeper, action.until_ms);
			take_stop(keeper, &event);
			break;
		case LEASE_READ:
			do_read(keeper, &action, &event, &answer);
			break;
		case LEASE_WRITE:
			do_write(keeper, &action, &event, &answer);
			break;
		case LEASE_END:
			return NULL;
		}
		event.wait_ms = answer.wait_ms;
		event.why = answer.reason.text;
	}
}

/* ---- start and end ---- */

/* Until the lease is held, or cannot be had. */
static enum outcome wait_for_lease(struct keeper *keeper, struct reason *reason)
{
	const struct lease_holder *holder = &keeper->holder;
	enum outcome outcome;
	bool told = false;

	pthread_mutex_lock(&keeper->lock);
	while (holder->state == LEASE_ACQUIRING) {
		if (holder->waiting && !told && keeper->config.waits) {
			keeper->config.waits(&holder->reason);
			told = true;
		}
		pthread_cond_wait(&keeper->changed, &keeper->lock);
	}
	*reason = holder->reason;
	outcome =
		holder->state == LEASE_REFUSED ? OUTCOME_REJECTED : OUTCOME_OK;
	pthread_mutex_unlock(&keeper->lock);
	return outcome;
}

static void free_keeper(struct keeper *keeper)
{
	object_release(&keeper->found);
	buf_release(&keeper->base);
	stop_release(&keeper->stop);
	pthread_cond_destroy(&keeper->changed);
	pthread_mutex_destroy(&keeper->lock);
	free(keeper);
}

enum outcome keeper_start(struct keeper **started, struct store *store,
			  struct holds *holds,
			  const struct keeper_config *config,
			  struct reason *reason)
{
	struct keeper *keeper = calloc(1, sizeof(*keeper));
	struct attempt generation;
	enum outcome outcome;

	if (!keeper)
		return OUTCOME_NO_MEMORY;
	keeper->config = *config;
	keeper->store = store;
	keeper->holds = holds;
	name_lease_key(keeper->key, config->lease.node);
	stop_init(&keeper->stop);
	pthread_mutex_init(&keeper->lock, NULL);
	pthread_cond_init(&keeper->changed, NULL);
	object_init(&keeper->found);
	buf_init(&keeper->base, RECORD_READ_MAX);
	lease_init(&keeper->holder, &config->lease, clock_boot_ms());
	keeper->until_ms = lease_authority_ms(&keeper->holder);
	outcome = attempt_new(&generation);
	if (outcome == OUTCOME_OK) {
		memcpy(keeper->generation, generation.hex, ATTEMPT_SIZE);
		if (!thread_start(&keeper->thread, run, keeper))
			outcome = OUTCOME_NO_MEMORY;
	}
	if (outcome != OUTCOME_OK) {
		free_keeper(keeper);
		return outcome;
	}
	outcome = wait_for_lease(keeper, reason);
	if (outcome == OUTCOME_OK)
		*started = keeper;
	else
		keeper_stop(keeper, 0);
	return outcome;
}

void keeper_stop(struct keeper *keeper, int64_t within_ms)
{
	if (!keeper)
		return;
	keeper->stop_within_ms = within_ms;
	stop_request(&keeper->stop);
	pthread_join(keeper->thread, NULL);
	free_keeper(keeper);
}

/* ---- asked from other threads ---- */

enum outcome keeper_permit(const struct keeper *keeper, int64_t *until_ms)
{
	*until_ms = keeper ? keeper->until_ms : INT64_MAX;
	return clock_boot_ms() < *until_ms ? OUTCOME_OK : OUTCOME_FENCED;
}

void keeper_why(struct keeper *keeper, struct reason *reason)
{
	struct keeper_status status;

	keeper_status(keeper, &status);
	reason_set(reason, OUTCOME_FENCED,
		   "this mount is fenced (%s): its lease %s is lost; mount "
		   "anew to get a new one",
		   status.fence[0] ? status.fence
				   : lease_fence_word(LEASE_EXPIRED),
		   keeper->key);
}

bool keeper_old_run_lives(struct keeper *keeper, struct reason *reason)
{
	struct limits at_once = {0};
	struct fleet_time now = {0};
	uint64_t ends_ms, now_ms;

	pthread_mutex_lock(&keeper->lock);
	ends_ms = keeper->holder.old_run_ends_ms;
	pthread_mutex_unlock(&keeper->lock);
	if (ends_ms == 0)
		return false;
	if (store_now(keeper->store, &at_once, &now) != OUTCOME_OK ||
	    now.earliest_ms < 0)
		now.earliest_ms = 0;
	now_ms = (uint64_t)now.earliest_ms;
	if (now_ms >= ends_ms)
		return false;
	reason_set(reason, OUTCOME_REJECTED,
		   "an earlier run of this node, which -o replace put aside, "
		   "may hold this cell for another %llu ms",
		   (unsigned long long)(ends_ms - now_ms));
	return true;
}

void keeper_status(struct keeper *keeper, struct keeper_status *status)
{
	const struct lease_holder *holder = &keeper->holder;
	int64_t now_ms = clock_boot_ms();

	pthread_mutex_lock(&keeper->lock);
	status->state = lease_state_word(holder);
	status->fence = lease_fence_word(holder->fence);
	status->reason = holder->reason;
	status->authority_ms = 0;
	if (lease_authority_ms(holder) > now_ms)
		status->authority_ms = lease_authority_ms(holder) - now_ms;
	status->renewed_ms_ago =
		keeper->renewals ? now_ms - holder->anchor_ms : -1;
	status->renewals = keeper->renewals;
	status->renewal_errors = keeper->renewal_errors;
	pthread_mutex_unlock(&keeper->lock);
	memcpy(status->generation, keeper->generation, ATTEMPT_SIZE);
}
