#include "cas.h"

#include "clock.h"

#include <string.h>

/* One cas_put() under way. */
struct swap {
	struct store *store;
	const struct limits *limits;
	const struct cas_write *write;
	struct cas_result *result;
	struct attempt attempt;
	bool may_have_landed; /* some request's fate is unknown; never unset */
	int64_t settle_until_ms; /* after an interrupt; 0 = not interrupted */
	unsigned refusals_in_a_row; /* "not done" answers, for the back-off */
};

/* What reading back said. */
enum settled {
	SETTLED_OURS,	    /* our attempt id: applied */
	SETTLED_NOT_YET,    /* the guarded state is still there */
	SETTLED_NEVER,	    /* another record, and it proves that ours is not
			     * below it */
	SETTLED_SUPERSEDED, /* another record, or none: no proof */
	SETTLED_UNREADABLE,
};

#define BACKOFF_FIRST_MS 50
#define BACKOFF_MOST_MS	 2000
#define TRY_LEAST_MS	 1000

/* What bounds this write from now on. An interrupt ends whatever was not sent;
 * what was sent may settle for another second, and then the stop must not end
 * the requests that settle it. */
static struct limits bounds(const struct swap *swap)
{
	struct limits limits = *swap->limits;

	if (swap->settle_until_ms) {
		limits.stop = NULL;
		if (swap->settle_until_ms < limits.deadline_ms)
			limits.deadline_ms = swap->settle_until_ms;
	}
	return limits;
}

/* The bounds of one try: at most half of what is left, so that settling has
 * time, but at least a second. */
static struct limits try_bounds(const struct swap *swap)
{
	struct limits limits = bounds(swap);
	int64_t left_ms = limits_left_ms(&limits);
	int64_t share_ms =
		left_ms / 2 > TRY_LEAST_MS ? left_ms / 2 : TRY_LEAST_MS;

	if (share_ms < left_ms)
		limits.deadline_ms = clock_boot_ms() + share_ms;
	return limits;
}

/* An interrupt after something was sent starts the second that is left. */
static void note_stop(struct swap *swap)
{
	if (swap->result->sent && swap->settle_until_ms == 0 &&
	    swap->limits->stop && stop_requested(swap->limits->stop))
		swap->settle_until_ms =
			clock_boot_ms() + CAS_SETTLE_AFTER_STOP_MS;
}

static bool time_is_up(const struct swap *swap)
{
	struct limits limits = bounds(swap);

	return limits_left_ms(&limits) == 0;
}

/* Waits before another try. False when the time for it is up. */
static bool back_off(struct swap *swap)
{
	int64_t wait_ms = swap->result->answer.wait_ms;
	enum outcome outcome;
	int64_t until_ms;

	if (wait_ms == 0) {
		unsigned doublings = swap->refusals_in_a_row;

		wait_ms = BACKOFF_MOST_MS;
		if (doublings < 6 &&
		    ((int64_t)BACKOFF_FIRST_MS << doublings) < wait_ms)
			wait_ms = (int64_t)BACKOFF_FIRST_MS << doublings;
		/* half of it is jitter, so that rejected crowds spread out;
		 * the attempt id is as good a source as any */
		wait_ms = wait_ms / 2 +
			  (wait_ms / 2) *
				  (unsigned char)swap->attempt
					  .hex[swap->refusals_in_a_row % 32] /
				  256;
	}
	swap->refusals_in_a_row++;
	until_ms = clock_boot_ms() + wait_ms;
	do {
		struct limits limits;

		note_stop(swap);
		limits = bounds(swap);
		outcome = limits_sleep(&limits, until_ms);
		/* an interrupt does not end the wait but starts the second
		 * that is left, whose bounds no interrupt ends */
	} while (outcome == OUTCOME_INTERRUPTED && swap->result->sent);
	return outcome == OUTCOME_OK;
}

static enum settled read_back_once(struct swap *swap)
{
	const struct cas_write *write = swap->write;
	struct limits limits = try_bounds(swap);
	struct object found;
	enum settled settled = SETTLED_SUPERSEDED;
	struct answer answer = {0};
	enum outcome outcome;

	object_init(&found);
	swap->result->gets++;
	outcome = store_get(swap->store, &limits, write->key, NULL, &found,
			    &answer);
	/* the answer that is told is the PUT's; this one may ask for a pause */
	swap->result->answer.wait_ms = answer.wait_ms;
	if (outcome == OUTCOME_ABSENT)
		settled = write->guard.kind == GUARD_ABSENT
				  ? SETTLED_NOT_YET
				  : SETTLED_SUPERSEDED;
	else if (outcome == OUTCOME_TOO_LARGE)
		settled = SETTLED_SUPERSEDED; /* no record that we sent */
	else if (outcome != OUTCOME_OK)
		settled = SETTLED_UNREADABLE;
	else if (strcmp(found.attempt.hex, swap->attempt.hex) == 0)
		settled = SETTLED_OURS;
	else if (guard_matches(&write->guard, found.etag))
		settled = SETTLED_NOT_YET;
	else if (write->disproves &&
		 write->disproves(write->disproves_arg, &found))
		settled = SETTLED_NEVER;
	if (settled == SETTLED_OURS)
		memcpy(swap->result->etag, found.etag, ETAG_SIZE);
	object_release(&found);
	return settled;
}

static enum settled read_back(struct swap *swap)
{
	for (;;) {
		enum settled settled;

		note_stop(swap);
		settled = read_back_once(swap);
		if (settled != SETTLED_UNREADABLE)
			return settled;
		note_stop(swap);
		if (time_is_up(swap) || !back_off(swap))
			return settled;
	}
}

static enum outcome put_once(struct swap *swap)
{
	const struct cas_write *write = swap->write;
	struct limits limits = try_bounds(swap);
	struct answer answer = {0};
	enum outcome outcome;

	swap->result->puts++;
	outcome = store_put_if(swap->store, &limits, write->key, write->body,
			       write->len, &write->guard, &swap->attempt,
			       swap->result->etag, &answer);
	swap->result->answer = answer;
	if (outcome != OUTCOME_TIMEOUT && outcome != OUTCOME_INTERRUPTED)
		swap->result->sent = true;
	return outcome;
}

/* May another request leave? Not OK: what to return if nothing has landed. */
static enum outcome may_send(struct swap *swap)
{
	enum outcome outcome = OUTCOME_OK;

	if (swap->write->may_send)
		outcome = swap->write->may_send(swap->write->may_send_arg);
	if (outcome != OUTCOME_OK)
		return outcome;
	note_stop(swap);
	if (swap->settle_until_ms)
		return time_is_up(swap) ? OUTCOME_TIMEOUT : OUTCOME_OK;
	return limits_check(swap->limits);
}

/* The fate of a request is unknown, or a refusal may be the echo of an earlier
 * one that landed. True: *OUTCOME is final; false: send again. */
static bool settle(struct swap *swap, enum outcome *outcome)
{
	struct reason *reason = &swap->result->answer.reason;

	switch (read_back(swap)) {
	case SETTLED_OURS:
		*outcome = OUTCOME_OK;
		return true;
	case SETTLED_NEVER:
		*outcome = reason_set(reason, OUTCOME_REJECTED,
				      "the record that is there now proves "
				      "that this write never landed");
		return true;
	case SETTLED_SUPERSEDED:
		*outcome = reason_set(reason, OUTCOME_UNKNOWN,
				      "superseded: another record is there "
				      "now, and this write may have been "
				      "below it");
		return true;
	case SETTLED_UNREADABLE:
		*outcome = reason_set(reason, OUTCOME_UNKNOWN,
				      "no answer in time, and reading back "
				      "could not settle it: the write may "
				      "have happened");
		return true;
	case SETTLED_NOT_YET:
		break;
	}
	return false;
}

/* How a write ends that may not or cannot be sent (again). */
static enum outcome give_up(struct swap *swap, enum outcome outcome)
{
	if (!swap->may_have_landed)
		return outcome;
	return reason_set(&swap->result->answer.reason, OUTCOME_UNKNOWN,
			  "not applied when it was last read back, but a "
			  "request may still be under way: the write may yet "
			  "happen");
}

enum outcome cas_put(struct store *store, const struct limits *limits,
		     const struct cas_write *write, struct cas_result *result)
{
	struct swap swap = {
		.store = store,
		.limits = limits,
		.write = write,
		.result = result,
	};
	enum outcome outcome;
	bool refused = false;

	memset(result, 0, sizeof(*result));
	if (write->guard.kind == GUARD_NONE)
		return reason_set(&result->answer.reason, OUTCOME_FORBIDDEN,
				  "a write without a guard is never sent");
	outcome = attempt_new(&swap.attempt);
	if (outcome != OUTCOME_OK)
		return outcome;

	for (;;) {
		outcome = may_send(&swap);
		if (outcome != OUTCOME_OK)
			return refused && outcome == OUTCOME_TIMEOUT
				       ? give_up(&swap, OUTCOME_NOT_DONE)
				       : give_up(&swap, outcome);
		outcome = put_once(&swap);
		note_stop(&swap);
		switch (outcome) {
		case OUTCOME_OK:
			return OUTCOME_OK;
		case OUTCOME_NOT_DONE:
			refused = true;
			if (swap.may_have_landed && settle(&swap, &outcome))
				return outcome;
			if (!back_off(&swap))
				return give_up(&swap, OUTCOME_NOT_DONE);
			break;
		case OUTCOME_REJECTED:
			if (!swap.may_have_landed)
				return OUTCOME_REJECTED;
			if (settle(&swap, &outcome))
				return outcome;
			if (!back_off(&swap))
				return give_up(&swap, OUTCOME_REJECTED);
			break;
		case OUTCOME_UNCHANGED:
		case OUTCOME_EXISTS:
		case OUTCOME_ABSENT:
		case OUTCOME_COUNT:
			/* no answers to a write: they prove nothing */
			__attribute__((fallthrough));
		case OUTCOME_UNKNOWN:
			swap.may_have_landed = true;
			if (settle(&swap, &outcome))
				return outcome;
			/* not applied yet, and it may still be: the same guard
			 * and attempt id make a resend harmless */
			if (!back_off(&swap))
				return give_up(&swap, OUTCOME_UNKNOWN);
			break;
		case OUTCOME_TIMEOUT:
			/* nothing was sent, and it was only this try's time, or
			 * there is nobody to send it to for the moment; whether
			 * there is time for another is asked above */
			(void)back_off(&swap);
			break;
		case OUTCOME_INTERRUPTED:
			/* nor now; what was sent before has its second */
			if (!swap.settle_until_ms)
				return give_up(&swap, outcome);
			break;
		case OUTCOME_DENIED:
		case OUTCOME_FAILED:
		case OUTCOME_FORBIDDEN:
		case OUTCOME_INVALID:
		case OUTCOME_TOO_LARGE:
		case OUTCOME_FENCED:
		case OUTCOME_NO_MEMORY:
			return give_up(&swap, outcome);
		}
	}
}
