#include "cas.h"

#include "clock.h"

#include <stdlib.h>
#include <string.h>

/* One cas_put() under way. */
struct put {
	struct store *store;
	const struct limits *limits;
	const struct cas_write *write;
	struct cas_result *result;
	struct attempt attempt;
	bool may_have_landed; /* some request's fate is unknown; never unset */
	int64_t settle_until_ms; /* after an interrupt; 0 = not interrupted */
	int64_t until_ms;	 /* of the last permission to send */
	unsigned waits;		 /* so far, for the back-off */
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

/* What bounds this write from now on. An interrupt ends whatever was not sent;
 * what was sent may settle for another second, and then the stop must not end
 * the requests that settle it. */
static struct limits bounds(const struct put *put)
{
	struct limits limits = *put->limits;

	if (put->until_ms < limits.deadline_ms)
		limits.deadline_ms = put->until_ms;
	if (put->settle_until_ms) {
		limits.stop = NULL;
		if (put->settle_until_ms < limits.deadline_ms)
			limits.deadline_ms = put->settle_until_ms;
	}
	return limits;
}

/* The bounds of one try: settling must have time, too. */
static struct limits try_bounds(const struct put *put)
{
	struct limits limits = bounds(put);

	return limits_for_try(&limits);
}

/* An interrupt after something was sent starts the second that is left. */
static void note_stop(struct put *put)
{
	if (put->result->sent && put->settle_until_ms == 0 &&
	    put->limits->stop && stop_requested(put->limits->stop))
		put->settle_until_ms =
			clock_boot_ms() + CAS_SETTLE_AFTER_STOP_MS;
}

static bool time_is_up(const struct put *put)
{
	struct limits limits = bounds(put);

	return limits_left_ms(&limits) == 0;
}

/* A number from 0 to 255 that differs from wait to wait and from write to
 * write: two digits of the attempt id, which is random. */
static int64_t jitter(const struct put *put)
{
	char digits[3] = {0};

	memcpy(digits, put->attempt.hex + 2 * (put->waits % 16), 2);
	return strtol(digits, NULL, 16);
}

/* Waits before another try, or until the time for it is up: whether there may
 * be another is asked above it. False: it is up. */
static bool back_off(struct put *put)
{
	int64_t wait_ms = put->result->answer.wait_ms;
	enum outcome outcome;
	int64_t until_ms;

	if (wait_ms == 0) {
		wait_ms = BACKOFF_MOST_MS;
		if (put->waits < 6 &&
		    ((int64_t)BACKOFF_FIRST_MS << put->waits) < wait_ms)
			wait_ms = (int64_t)BACKOFF_FIRST_MS << put->waits;
		/* half of it is jitter, so that rejected crowds spread out */
		wait_ms = wait_ms / 2 + wait_ms / 2 * jitter(put) / 256;
	}
	put->waits++;
	until_ms = clock_boot_ms() + wait_ms;
	do {
		struct limits limits;

		note_stop(put);
		limits = bounds(put);
		outcome = limits_sleep(&limits, until_ms);
		/* an interrupt does not end the wait but starts the second
		 * that is left, whose bounds no interrupt ends */
	} while (outcome == OUTCOME_INTERRUPTED && put->result->sent);
	return outcome == OUTCOME_OK;
}

/* What the version that is there says of the write. */
static enum settled judge(const struct put *put, const struct object *found)
{
	const struct cas_write *write = put->write;
	struct guard shown;

	if (strcmp(found->attempt.hex, put->attempt.hex) == 0)
		return SETTLED_OURS;
	if (guard_matches(&write->guard, found->etag))
		return SETTLED_NOT_YET;
	/* no ETag says that it is not the guarded version, on which a request
	 * that is under way can still land */
	if (write->guard.kind == GUARD_MATCH &&
	    guard_of_etag(&shown, found->etag, NULL) != OUTCOME_OK)
		return SETTLED_UNREADABLE;
	if (write->disproves && write->disproves(write->disproves_arg, found))
		return SETTLED_NEVER;
	return SETTLED_SUPERSEDED;
}

static enum settled read_back_once(struct put *put)
{
	struct limits limits = try_bounds(put);
	struct object found;
	enum settled settled = SETTLED_UNREADABLE;
	struct answer answer = {0};
	enum outcome outcome;

	object_init(&found);
	put->result->gets++;
	outcome = store_get(put->store, &limits, put->write->key, NULL, &found,
			    &answer);
	/* the answer that is told is the PUT's; this one may ask for a pause */
	put->result->answer.wait_ms = answer.wait_ms;
	if (outcome == OUTCOME_OK)
		settled = judge(put, &found);
	else if (outcome == OUTCOME_ABSENT)
		settled = put->write->guard.kind == GUARD_ABSENT
				  ? SETTLED_NOT_YET
				  : SETTLED_SUPERSEDED;
	else if (outcome == OUTCOME_TOO_LARGE)
		settled = SETTLED_SUPERSEDED; /* no record that we sent */
	if (settled == SETTLED_OURS)
		memcpy(put->result->etag, found.etag, ETAG_SIZE);
	object_release(&found);
	return settled;
}

static enum settled read_back(struct put *put)
{
	for (;;) {
		enum settled settled;

		note_stop(put);
		settled = read_back_once(put);
		if (settled != SETTLED_UNREADABLE)
			return settled;
		note_stop(put);
		if (time_is_up(put) || !back_off(put))
			return settled;
	}
}

static enum outcome put_once(struct put *put)
{
	const struct cas_write *write = put->write;
	struct limits limits = try_bounds(put);
	struct answer answer = {0};
	enum outcome outcome;

	put->result->puts++;
	outcome = store_put_if(put->store, &limits, write->key, write->body,
			       write->len, &write->guard, &put->attempt,
			       put->result->etag, &answer);
	put->result->answer = answer;
	if (outcome != OUTCOME_TIMEOUT && outcome != OUTCOME_INTERRUPTED)
		put->result->sent = true;
	return outcome;
}

/* May another request leave? Not OK: what to return if nothing has landed. */
static enum outcome may_send(struct put *put)
{
	enum outcome outcome = OUTCOME_OK;

	if (put->write->may_send)
		outcome = put->write->may_send(put->write->may_send_arg,
					       &put->until_ms);
	if (outcome != OUTCOME_OK)
		return outcome;
	note_stop(put);
	if (put->settle_until_ms)
		return time_is_up(put) ? OUTCOME_TIMEOUT : OUTCOME_OK;
	return limits_check(put->limits);
}

/* The fate of a request is unknown, or a refusal may be the echo of an earlier
 * one that landed. True: *OUTCOME is final; false: send again. */
static bool settle(struct put *put, enum outcome *outcome)
{
	struct reason *reason = &put->result->answer.reason;

	switch (read_back(put)) {
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

/* The store has said "not done" of an earlier try, and refuses this one. Should
 * it have done it nevertheless, the record tells; if it cannot be read, the
 * store's word stands. */
static bool is_there(struct put *put)
{
	return read_back_once(put) == SETTLED_OURS;
}

/* How a write ends that may not or cannot be sent (again). */
static enum outcome give_up(struct put *put, enum outcome outcome)
{
	if (!put->may_have_landed)
		return outcome;
	return reason_set(&put->result->answer.reason, OUTCOME_UNKNOWN,
			  "not applied when it was last read back, but a "
			  "request may still be under way: the write may yet "
			  "happen");
}

enum outcome cas_put(struct store *store, const struct limits *limits,
		     const struct cas_write *write, struct cas_result *result)
{
	struct put put = {
		.store = store,
		.limits = limits,
		.write = write,
		.result = result,
		.until_ms = INT64_MAX,
	};
	enum outcome outcome;
	bool refused = false;

	memset(result, 0, sizeof(*result));
	if (write->guard.kind == GUARD_NONE)
		return reason_set(&result->answer.reason, OUTCOME_FORBIDDEN,
				  "a write without a guard is never sent");
	if (write->goes_on) {
		put.attempt = *write->goes_on;
		put.may_have_landed = true;
	} else {
		outcome = attempt_new(&put.attempt);
		if (outcome != OUTCOME_OK)
			return outcome;
	}
	result->attempt = put.attempt;

	for (;;) {
		outcome = may_send(&put);
		if (outcome != OUTCOME_OK)
			return refused && outcome == OUTCOME_TIMEOUT
				       ? give_up(&put, OUTCOME_NOT_DONE)
				       : give_up(&put, outcome);
		outcome = put_once(&put);
		note_stop(&put);
		switch (outcome) {
		case OUTCOME_OK:
			return OUTCOME_OK;
		case OUTCOME_NOT_DONE:
			refused = true;
			if (put.may_have_landed && settle(&put, &outcome))
				return outcome;
			back_off(&put);
			break;
		case OUTCOME_REJECTED:
			if (!put.may_have_landed)
				return refused && is_there(&put)
					       ? OUTCOME_OK
					       : OUTCOME_REJECTED;
			if (settle(&put, &outcome))
				return outcome;
			back_off(&put);
			break;
		case OUTCOME_UNCHANGED:
		case OUTCOME_EXISTS:
		case OUTCOME_ABSENT:
		case OUTCOME_COUNT:
			/* no answers to a write: they prove nothing */
			__attribute__((fallthrough));
		case OUTCOME_UNKNOWN:
			put.may_have_landed = true;
			if (settle(&put, &outcome))
				return outcome;
			/* not applied yet, and it may still be: the same guard
			 * and attempt id make a resend harmless */
			back_off(&put);
			break;
		case OUTCOME_TIMEOUT:
			/* nothing was sent, and it was only this try's time, or
			 * there is nobody to send it to for the moment */
			back_off(&put);
			break;
		case OUTCOME_INTERRUPTED:
			/* nor now; what was sent before has its second */
			if (!put.settle_until_ms)
				return give_up(&put, outcome);
			break;
		case OUTCOME_DENIED:
		case OUTCOME_FAILED:
		case OUTCOME_FORBIDDEN:
		case OUTCOME_INVALID:
		case OUTCOME_TOO_LARGE:
		case OUTCOME_FENCED:
		case OUTCOME_NO_MEMORY:
			return give_up(&put, outcome);
		}
	}
}
