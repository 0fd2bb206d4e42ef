#include "swap.h"

#include "arm.h"
#include "clock.h"
#include "fetch.h"
#include "holds.h"
#include "keeper.h"
#include "log.h"
#include "mount.h"

#include <stdio.h>
#include <string.h>

/* One record on its way. */
struct swap {
	struct mount *mount;
	struct handle *handle;
	const struct node *node;
	const struct limits *limits;
	uid_t uid;
	struct buf *body;

	struct own own;	    /* node->kind == NODE_OWN: what is written */
	struct lease lease; /* NODE_LEASE */
	struct guard guard; /* what it goes under */
	bool armed;	    /* the guard was armed by path, until: */
	int64_t armed_until_ms;
	bool refused; /* by rules 2-5 */
	bool stale;   /* the guard is known not to hold any more */
	bool known;   /* `guarded` is the version that the guard names */
	bool applied;
	struct glimpse guarded;
	struct cas_result result;
	struct reason *reason; /* of result.answer */
};

/* Rule 1. */
static enum outcome check_record(struct swap *swap)
{
	const struct buf *body = swap->body;

	if (swap->node->kind == NODE_OWN)
		return record_parse_own(&swap->own, body->bytes, body->len,
					swap->reason);
	return record_parse_lease(&swap->lease, body->bytes, body->len,
				  swap->reason);
}

static enum outcome refuse_contest(struct swap *swap)
{
	return reason_set(swap->reason, OUTCOME_REJECTED,
			  "different guards were armed for this record by the "
			  "same user: all are void; read, arm and write again");
}

/* Takes a guard that was armed by path. OK; ABSENT: none is; REJECTED. A retry
 * through a file that was in a contest before is not one more write of it. */
static enum outcome take_armed(struct swap *swap, bool retry)
{
	struct arms *arms = swap->mount->arms;
	const char *key = swap->node->key;
	int64_t now_ms = clock_boot_ms();

	if (retry &&
	    arms_peek(arms, key, swap->uid, now_ms, &swap->guard) != ARMS_GUARD)
		return OUTCOME_ABSENT;
	switch (arms_take(arms, key, swap->uid, now_ms, &swap->guard,
			  &swap->armed_until_ms)) {
	case ARMS_GUARD:
		if (!handle_borrow(swap->handle, &swap->guard)) {
			arms_return(arms, key, swap->uid, &swap->guard,
				    swap->armed_until_ms, now_ms);
			return reason_set(swap->reason, OUTCOME_REJECTED,
					  "another thread has read this open "
					  "file while it was written");
		}
		swap->armed = true;
		return OUTCOME_OK;
	case ARMS_CONTEST:
		(void)handle_borrow(swap->handle, NULL);
		return refuse_contest(swap);
	case ARMS_NONE:
		break;
	}
	return OUTCOME_ABSENT;
}

/* Finds the guard. An open file that has read, or that was given a guard, goes
 * by its own; every other by the one that was armed by path, even one that this
 * open has created (the record is gone then, and it must not be made anew). */
static enum outcome find_guard(struct swap *swap)
{
	struct handle_intent intent;
	enum outcome outcome;

	handle_intent(swap->handle, &intent);
	if (intent.guard.kind != GUARD_MATCH || intent.borrowed) {
		outcome = take_armed(swap, intent.borrowed);
		if (outcome != OUTCOME_ABSENT)
			return outcome;
	}
	swap->guard = intent.guard;
	if (intent.stale)
		return reason_set(swap->reason, OUTCOME_REJECTED,
				  "the guard of this open file was refused "
				  "before: read the record again");
	if (swap->guard.kind == GUARD_NONE)
		return reason_set(swap->reason, OUTCOME_FORBIDDEN,
				  "no guard: read the record on this "
				  "descriptor before writing, or setfattr -n "
				  "user.celld.if-match -v ETAG first");
	if (swap->guard.kind == GUARD_MATCH && !swap->guard.etag[0])
		return reason_set(swap->reason, OUTCOME_FAILED,
				  "the store sent no usable ETag with this "
				  "record: it cannot be guarded");
	swap->known = intent.known;
	if (intent.known)
		swap->guarded = intent.glimpse;
	return OUTCOME_OK;
}

/* Finds the record that the guard stands for: what this file showed, what the
 * mount remembers, or the object itself. */
static enum outcome find_guarded(struct swap *swap)
{
	struct mount *mount = swap->mount;
	struct object object;
	enum outcome outcome;

	if (swap->guard.kind == GUARD_ABSENT || swap->known)
		return OUTCOME_OK;
	if (seen_get(mount->seen, swap->node->key, &swap->guarded) &&
	    swap->guarded.fetched &&
	    guard_matches(&swap->guard, swap->guarded.etag))
		return OUTCOME_OK;
	object_init(&object);
	outcome = fetch_object(mount, swap->limits, swap->node->kind,
			       swap->node->key, &object, &swap->guarded,
			       &swap->result.answer);
	object_release(&object);
	swap->stale = outcome == OUTCOME_ABSENT ||
		      (outcome == OUTCOME_OK &&
		       !guard_matches(&swap->guard, swap->guarded.etag));
	if (swap->stale)
		swap->result.answer.status = 0; /* the read's, not a swap's */
	if (outcome == OUTCOME_ABSENT)
		return reason_set(swap->reason, OUTCOME_REJECTED,
				  "the guarded record is gone");
	if (swap->stale)
		return reason_set(swap->reason, OUTCOME_REJECTED,
				  "the record's ETag is %s now",
				  swap->guarded.etag);
	return outcome;
}

/* A lease is well-formed only with a whole load, or none. */
static bool parse_lease(struct lease *lease, const struct buf *body,
			struct reason *reason)
{
	return record_parse_lease(lease, body->bytes, body->len, reason) ==
		       OUTCOME_OK &&
	       record_parse_load(lease, body->bytes, body->len, reason) ==
		       OUTCOME_OK;
}

enum outcome swap_life(struct mount *mount, const struct limits *limits,
		       const char *node, enum life *life, struct reason *reason)
{
	char key[NAME_KEY_SIZE];
	struct answer answer = {0};
	struct fleet_time now;
	struct glimpse glimpse;
	struct object object;
	struct lease lease;
	enum outcome outcome;

	*life = LIFE_UNKNOWN;
	name_lease_key(key, node);
	object_init(&object);
	outcome = fetch_object(mount, limits, NODE_LEASE, key, &object,
			       &glimpse, &answer);
	if (outcome == OUTCOME_ABSENT) {
		*life = ownership_life(node, NULL, 0, NULL, 0, reason);
		outcome = OUTCOME_OK;
	} else if (outcome != OUTCOME_OK) {
		outcome = reason_set(reason, outcome,
				     "the lease of %s cannot be read: %s", node,
				     answer.reason.text);
	} else if (!parse_lease(&lease, &object.body, reason)) {
		struct reason why = *reason;

		reason_set(reason, OUTCOME_OK, "its lease is malformed: %s",
			   why.text);
	} else {
		outcome = store_now(mount->store, limits, &now);
		if (outcome == OUTCOME_OK)
			*life = ownership_life(node, &lease, object.modified_ms,
					       &now, mount->rules.skew_ms,
					       reason);
		else
			reason_set(reason, outcome,
				   "the store's clock cannot be read");
	}
	object_release(&object);
	return outcome;
}

/* Rule 3. */
static enum outcome check_owner(struct swap *swap)
{
	const struct own *guarded = &swap->guarded.own;
	struct reason found = {""};
	enum outcome outcome;
	enum life life;

	outcome = swap_life(swap->mount, swap->limits, guarded->node, &life,
			    &found);
	if (outcome == OUTCOME_OK)
		outcome = ownership_check_takeover(life, &found);
	if (outcome == OUTCOME_OK)
		return OUTCOME_OK;
	return reason_set(swap->reason, outcome,
			  "owned by %.40s at epoch %llu; %s", guarded->node,
			  (unsigned long long)guarded->epoch, found.text);
}

/* What is ours may be an earlier run's, which has not noticed its end. */
static enum outcome check_old_run(struct swap *swap)
{
	struct mount *mount = swap->mount;
	const struct own *guarded = &swap->guarded.own;

	if (!mount->keeper || strcmp(guarded->node, mount->rules.node) != 0 ||
	    holds_has(mount->holds, swap->node->key, guarded->epoch) ||
	    !keeper_old_run_lives(mount->keeper, swap->reason))
		return OUTCOME_OK;
	return OUTCOME_REJECTED;
}

static enum outcome check_own(struct swap *swap)
{
	const struct ownership_rules *rules = &swap->mount->rules;
	enum ownership_guarded form = GUARDED_ABSENT;
	const struct own *guarded = &swap->guarded.own;
	bool ask_lease = false;
	enum outcome outcome;

	outcome = find_guarded(swap);
	if (outcome != OUTCOME_OK)
		return outcome;
	if (swap->guard.kind == GUARD_MATCH)
		form = swap->guarded.form;
	outcome = ownership_check_own(rules, &swap->own, form, guarded,
				      &ask_lease, swap->reason);
	if (outcome != OUTCOME_OK)
		return outcome;
	if (ask_lease)
		return check_owner(swap);
	if (form == GUARDED_OWN)
		outcome = check_old_run(swap);
	if (outcome != OUTCOME_OK)
		return outcome;
	if (rules->takeover_any && form == GUARDED_OWN && guarded->node[0] &&
	    swap->own.node[0] && strcmp(guarded->node, swap->own.node) != 0)
		log_line(LOG_WARNING,
			 "takeover=any: %s is taken from %s at epoch %llu by "
			 "%s without looking at its lease",
			 swap->node->key, guarded->node,
			 (unsigned long long)guarded->epoch, swap->own.node);
	return OUTCOME_OK;
}

static enum outcome check_lease(struct swap *swap)
{
	const struct buf *body = swap->body;
	bool warn = false;
	enum outcome outcome;

	outcome = record_parse_load(&swap->lease, body->bytes, body->len,
				    swap->reason);
	if (outcome == OUTCOME_OK)
		outcome = ownership_check_lease(&swap->mount->rules,
						swap->node->name, &swap->lease,
						&warn, swap->reason);
	if (warn)
		log_line(LOG_WARNING,
			 "%s: the addr is empty: celld takes such a node for "
			 "dead and takes its cells",
			 swap->node->key);
	return outcome;
}

/* Rules 2-5. */
static enum outcome check_rules(struct swap *swap)
{
	enum outcome outcome = swap->node->kind == NODE_OWN ? check_own(swap)
							    : check_lease(swap);

	/* a record or a lease that cannot be read refuses, too; an interrupt
	 * says nothing of the write, and it may be tried again */
	swap->refused = outcome != OUTCOME_OK &&
			outcome != OUTCOME_INTERRUPTED &&
			outcome != OUTCOME_NO_MEMORY;
	return outcome;
}

static bool disproves(const void *arg, const struct object *found)
{
	struct own own;

	return record_parse_own(&own, found->body.bytes, found->body.len,
				NULL) == OUTCOME_OK &&
	       ownership_disproves(arg, &own);
}

/* A fenced mount writes nothing. */
static enum outcome check_authority(struct swap *swap)
{
	struct keeper *keeper = swap->mount->keeper;
	int64_t until_ms;
	enum outcome outcome = keeper_permit(keeper, &until_ms);

	if (outcome != OUTCOME_OK)
		keeper_why(keeper, swap->reason);
	return outcome;
}

static enum outcome may_send(const void *keeper, int64_t *until_ms)
{
	return keeper_permit(keeper, until_ms);
}

/* The authority may have ended while the write was on its way. */
static enum outcome check_authority_after(struct swap *swap,
					  enum outcome outcome)
{
	int64_t until_ms;

	if (keeper_permit(swap->mount->keeper, &until_ms) == OUTCOME_OK)
		return outcome;
	if (outcome == OUTCOME_OK || outcome == OUTCOME_NOT_DONE ||
	    outcome == OUTCOME_TIMEOUT || outcome == OUTCOME_FENCED) {
		keeper_why(swap->mount->keeper, swap->reason);
		return OUTCOME_FENCED;
	}
	return outcome;
}

static enum outcome send(struct swap *swap, struct glimpse *written)
{
	struct mount *mount = swap->mount;
	struct cas_write write = {
		.key = swap->node->key,
		.body = swap->body->bytes,
		.len = swap->body->len,
		.guard = swap->guard,
		.may_send = may_send,
		.may_send_arg = mount->keeper,
	};
	struct fleet_time now;
	enum outcome outcome;
	uint64_t ticket;

	if (swap->node->kind == NODE_OWN) {
		write.disproves = disproves;
		write.disproves_arg = &swap->own;
	}
	outcome = cas_put(mount->store, swap->limits, &write, &swap->result);
	swap->stale = outcome == OUTCOME_REJECTED;
	swap->applied = outcome == OUTCOME_OK;
	/* a claim that may have happened is held until it is known */
	if (swap->node->kind == NODE_OWN &&
	    (swap->applied ||
	     (outcome == OUTCOME_UNKNOWN && swap->own.node[0])))
		holds_wrote(mount->holds, swap->node->key, &swap->own);
	outcome = check_authority_after(swap, outcome);
	if (!swap->applied)
		return outcome;
	ticket = seen_ticket(mount->seen);
	memset(written, 0, sizeof(*written));
	memcpy(written->etag, swap->result.etag, ETAG_SIZE);
	written->size_bytes = swap->body->len;
	/* an answer to a PUT carries no Last-Modified: the store's clock is as
	 * near as it gets without another request */
	written->modified_ms =
		store_now(mount->store, swap->limits, &now) == OUTCOME_OK
			? now.latest_ms
			: clock_wall_ms();
	written->at_ms = written->fetched_ms = clock_boot_ms();
	written->fetched = true;
	/* without memory to read it the next one asks the store */
	if (fetch_judge(written, swap->node->kind, swap->body->bytes,
			swap->body->len) != OUTCOME_OK)
		written->fetched = false;
	seen_exists(mount->seen, swap->node->key, written, ticket);
	return outcome;
}

/* One line for user.celld.outcome and the log: word, guard once one was found,
 * what the store said, why. */
static void describe(const struct swap *swap, enum outcome outcome,
		     char text[SWAP_TEXT_SIZE])
{
	const struct answer *answer = &swap->result.answer;
	bool guarded = swap->guard.kind != GUARD_NONE;
	char guard[ETAG_SIZE + 16];
	char status[32] = "";
	char request[96] = "";
	char etag[ETAG_SIZE + 16] = "";

	if (answer->status)
		snprintf(status, sizeof(status), "; status %d", answer->status);
	if (answer->request_id[0])
		snprintf(request, sizeof(request), "; request %s",
			 answer->request_id);
	if (swap->applied)
		snprintf(etag, sizeof(etag), "; ETag now %s",
			 swap->result.etag);
	snprintf(text, SWAP_TEXT_SIZE, "%s%s%s%s%s%s%s%s%s",
		 swap->applied && outcome != OUTCOME_OK ? "applied, " : "",
		 outcome_word(outcome), guarded ? "; " : "",
		 guarded ? guard_print(&swap->guard, guard) : "", status,
		 request, etag, swap->reason->text[0] ? "; " : "",
		 swap->reason->text);
}

static void count(struct mount *mount, enum outcome outcome)
{
	if (outcome == OUTCOME_OK)
		mount->swaps_applied++;
	else if (outcome == OUTCOME_REJECTED)
		mount->swaps_rejected++;
	else if (outcome == OUTCOME_UNKNOWN)
		mount->swaps_unknown++;
}

enum outcome swap_write(struct mount *mount, struct handle *handle, uid_t uid,
			const struct limits *limits, struct buf *body,
			char text[SWAP_TEXT_SIZE])
{
	struct swap swap = {
		.mount = mount,
		.handle = handle,
		.node = handle->node,
		.limits = limits,
		.uid = uid,
		.body = body,
	};
	struct glimpse written;
	enum outcome outcome;

	swap.reason = &swap.result.answer.reason;
	outcome = check_record(&swap);
	if (outcome == OUTCOME_OK)
		outcome = check_authority(&swap);
	if (outcome == OUTCOME_OK)
		outcome = find_guard(&swap);
	if (outcome == OUTCOME_OK)
		outcome = check_rules(&swap);
	if (outcome == OUTCOME_OK)
		outcome = send(&swap, &written);
	if (swap.armed && outcome != OUTCOME_OK && !swap.refused &&
	    !swap.result.sent) {
		arms_return(mount->arms, swap.node->key, uid, &swap.guard,
			    swap.armed_until_ms, clock_boot_ms());
		handle_give_back(handle);
	}
	describe(&swap, outcome, text);
	seen_set_note(mount->seen, swap.node->key, SEEN_OUTCOME, text);
	count(mount, outcome);
	if (swap.applied)
		handle_applied(handle, body, &written);
	else if (swap.stale)
		handle_refused(handle, &swap.guard);
	return outcome;
}
