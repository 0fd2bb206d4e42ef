#include "judge.h"

#include "clock.h"
#include "fetch.h"
#include "mount.h"

/* A lease is well-formed only with a whole load, or none. */
static enum outcome parse(struct lease *lease, const struct buf *body,
			  struct reason *reason)
{
	enum outcome outcome =
		record_parse_lease(lease, body->bytes, body->len, reason);

	if (outcome == OUTCOME_OK)
		outcome = record_parse_load(lease, body->bytes, body->len,
					    reason);
	return outcome;
}

/* How long until LEASE can be found dead; 0: that is not a matter of time, or
 * of no sensible one. */
static int64_t left_ms(const struct mount *mount, const struct lease *lease,
		       const struct fleet_time *now)
{
	int64_t left_ms = 0;

	if (lease->expires_ms < INT64_MAX / 2)
		left_ms = (int64_t)lease->expires_ms - now->earliest_ms +
			  (int64_t)mount->rules.skew_ms;
	return left_ms > 0 ? left_ms : 0;
}

/* OBJECT is NODE's lease as it was at BEGUN_MS (CLOCK_BOOTTIME) or later: its
 * holder may have renewed it since, so it is judged by the time of then. */
static enum outcome judge_object(struct mount *mount,
				 const struct limits *limits, const char *node,
				 const struct object *object, int64_t begun_ms,
				 struct verdict *verdict)
{
	struct reason *reason = &verdict->reason;
	struct fleet_time now;
	struct lease lease;
	enum outcome outcome = parse(&lease, &object->body, reason);

	if (outcome == OUTCOME_NO_MEMORY)
		return reason_set(reason, outcome, "out of memory");
	if (outcome != OUTCOME_OK) {
		struct reason why = *reason;

		return reason_set(reason, OUTCOME_OK,
				  "its lease is malformed: %s", why.text);
	}
	outcome = store_now(mount->store, limits, &now);
	if (outcome != OUTCOME_OK)
		return reason_set(reason, outcome,
				  "the store's clock cannot be read");
	fleet_time_back(&now, clock_boot_ms() - begun_ms);
	verdict->life = ownership_life(node, &lease, object->modified_ms, &now,
				       mount->rules.skew_ms, reason);
	if (verdict->life != LIFE_DEAD)
		verdict->dead_in_ms = left_ms(mount, &lease, &now);
	return OUTCOME_OK;
}

enum outcome judge_node(struct mount *mount, const struct limits *limits,
			const char *node, struct verdict *verdict)
{
	int64_t begun_ms = clock_boot_ms();
	char key[NAME_KEY_SIZE];
	struct answer answer = {0};
	struct glimpse glimpse;
	struct object object;
	enum outcome outcome;

	*verdict = (struct verdict){.life = LIFE_UNKNOWN};
	name_lease_key(key, node);
	object_init(&object);
	outcome = fetch_object(mount, limits, NODE_LEASE, key, &object,
			       &glimpse, &answer);
	if (outcome == OUTCOME_OK) {
		outcome = judge_object(mount, limits, node, &object, begun_ms,
				       verdict);
	} else if (outcome == OUTCOME_ABSENT) {
		verdict->life = ownership_life(node, NULL, 0, NULL, 0,
					       &verdict->reason);
		outcome = OUTCOME_OK;
	} else {
		reason_set(&verdict->reason, outcome,
			   "the lease of %s cannot be read: %s", node,
			   answer.reason.text);
	}
	object_release(&object);
	return outcome;
}

enum outcome judge_takeover(struct mount *mount, const struct limits *limits,
			    const struct own *owned, struct verdict *verdict,
			    struct reason *reason)
{
	enum outcome outcome = judge_node(mount, limits, owned->node, verdict);
	struct reason found = verdict->reason;

	if (outcome == OUTCOME_OK)
		outcome = ownership_check_takeover(verdict->life, &found);
	if (outcome == OUTCOME_OK)
		return OUTCOME_OK;
	return reason_set(reason, outcome, "owned by %.40s at epoch %llu; %s",
			  owned->node, (unsigned long long)owned->epoch,
			  found.text);
}
