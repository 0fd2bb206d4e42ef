#include "swap.h"

#include "arm.h"
#include "clock.h"
#include "fetch.h"
#include "holds.h"
#include "judge.h"
#include "keeper.h"
#include "lock.h"
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
	struct put put;	    /* put.guard: what it goes under */
	bool armed;	    /* the guard was armed by path, until: */
	int64_t armed_until_ms;
	bool refused; /* by rules 2-5 */
	bool stale;   /* the guard is known not to hold any more */
	bool known;   /* `guarded` is the version that the guard names */
	struct glimpse guarded;
	struct reason *reason; /* of put.result.answer */
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

	if (retry && arms_peek(arms, key, swap->uid, now_ms,
			       &swap->put.guard) != ARMS_GUARD)
		return OUTCOME_ABSENT;
	switch (arms_take(arms, key, swap->uid, now_ms, &swap->put.guard,
			  &swap->armed_until_ms)) {
	case ARMS_GUARD:
		if (!handle_borrow(swap->handle, &swap->put.guard)) {
			arms_return(arms, key, swap->uid, &swap->put.guard,
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
	swap->put.guard = intent.guard;
	if (intent.stale)
		return reason_set(swap->reason, OUTCOME_REJECTED,
				  "the guard of this open file was refused "
				  "before: read the record again");
	if (swap->put.guard.kind == GUARD_NONE)
		return reason_set(swap->reason, OUTCOME_FORBIDDEN,
				  "no guard: read the record on this "
				  "descriptor before writing, or setfattr -n "
				  "user.celld.if-match -v ETAG first");
	if (swap->put.guard.kind == GUARD_MATCH && !swap->put.guard.etag[0])
		return reason_set(swap->reason, OUTCOME_FAILED,
				  "the store sent no usable ETag with this "
				  "record: it cannot be guarded");
	swap->known = intent.known && intent.glimpse.fetched;
	if (swap->known)
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

	if (swap->put.guard.kind == GUARD_ABSENT || swap->known)
		return OUTCOME_OK;
	if (seen_get(mount->seen, swap->node->key, &swap->guarded) &&
	    swap->guarded.fetched &&
	    guard_matches(&swap->put.guard, swap->guarded.etag))
		return OUTCOME_OK;
	object_init(&object);
	outcome = fetch_object(mount, swap->limits, swap->node->kind,
			       swap->node->key, &object, &swap->guarded,
			       &swap->put.result.answer);
	object_release(&object);
	swap->stale = outcome == OUTCOME_ABSENT ||
		      (outcome == OUTCOME_OK &&
		       !guard_matches(&swap->put.guard, swap->guarded.etag));
	if (swap->stale)
		swap->put.result.answer.status =
			0; /* the read's, not a swap's */
	if (outcome == OUTCOME_ABSENT)
		return reason_set(swap->reason, OUTCOME_REJECTED,
				  "the guarded record is gone");
	if (swap->stale)
		return reason_set(swap->reason, OUTCOME_REJECTED,
				  "the record's ETag is %s now",
				  swap->guarded.etag);
	return outcome;
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
	struct verdict verdict;
	bool ask_lease = false;
	enum outcome outcome;

	outcome = locks_check_write(swap->mount->locks, swap->handle,
				    &swap->own, swap->reason);
	if (outcome == OUTCOME_OK)
		outcome = find_guarded(swap);
	if (outcome != OUTCOME_OK)
		return outcome;
	if (swap->put.guard.kind == GUARD_MATCH)
		form = swap->guarded.form;
	outcome = ownership_check_own(rules, &swap->own, form, guarded,
				      &ask_lease, swap->reason);
	if (outcome != OUTCOME_OK)
		return outcome;
	if (ask_lease)
		return judge_takeover(swap->mount, swap->limits, guarded,
				      &verdict, swap->reason);
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

enum outcome swap_write(struct mount *mount, struct handle *handle, uid_t uid,
			const struct limits *limits, struct buf *body,
			char text[PUT_TEXT_SIZE])
{
	struct swap swap = {
		.mount = mount,
		.handle = handle,
		.node = handle->node,
		.limits = limits,
		.uid = uid,
		.body = body,
		.put =
			{
				.kind = handle->node->kind,
				.key = handle->node->key,
				.body = body->bytes,
				.len = body->len,
			},
	};
	enum outcome outcome;

	swap.put.own = &swap.own;
	swap.reason = &swap.put.result.answer.reason;
	outcome = check_record(&swap);
	if (outcome == OUTCOME_OK)
		outcome = put_check_authority(mount, swap.reason);
	if (outcome == OUTCOME_OK)
		outcome = find_guard(&swap);
	if (outcome == OUTCOME_OK)
		outcome = check_rules(&swap);
	if (outcome == OUTCOME_OK) {
		outcome = put_send(mount, limits, &swap.put);
		swap.stale = outcome == OUTCOME_REJECTED;
	}
	if (swap.armed && outcome != OUTCOME_OK && !swap.refused &&
	    !swap.put.result.sent) {
		arms_return(mount->arms, swap.node->key, uid, &swap.put.guard,
			    swap.armed_until_ms, clock_boot_ms());
		handle_give_back(handle);
	}
	put_tell(mount, &swap.put, outcome, text);
	if (swap.put.applied && swap.node->kind == NODE_OWN)
		locks_wrote(mount->locks, handle, &swap.own);
	if (swap.put.applied)
		handle_applied(handle, body, &swap.put.written);
	else if (swap.stale)
		handle_refused(handle, &swap.put.guard);
	return outcome;
}
