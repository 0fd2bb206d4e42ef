#include "ownership.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DAY_MS	     UINT64_C(86400000)
#define TEN_YEARS_MS (DAY_MS * 36525 / 10)

#define SPAN_MOST_MS  UINT64_C(3600000) /* of a lease that makes sense */
#define SPAN_LEAST_MS UINT64_C(60000)

static bool names_a_node(const struct own *own)
{
	return own->node[0] != '\0';
}

/* Rule 2 without a guarded record. */
static enum outcome check_first(const struct own *next, struct reason *reason)
{
	if (!names_a_node(next))
		return reason_set(reason, OUTCOME_INVALID,
				  "a first record must name a node");
	if (next->epoch < 1)
		return reason_set(reason, OUTCOME_INVALID,
				  "a first record's epoch must be at least 1");
	return OUTCOME_OK;
}

static enum outcome check_release(const struct ownership_rules *rules,
				  const struct own *next,
				  const struct own *guarded,
				  struct reason *reason)
{
	if (guarded->epoch > next->epoch)
		return reason_set(reason, OUTCOME_REJECTED,
				  "stale epoch: a release of epoch %" PRIu64
				  ", but the record is at %" PRIu64,
				  next->epoch, guarded->epoch);
	if (!names_a_node(guarded))
		return reason_set(reason, OUTCOME_INVALID,
				  "nothing to release: the record at epoch "
				  "%" PRIu64 " names no node",
				  guarded->epoch);
	if (next->epoch > guarded->epoch)
		return reason_set(reason, OUTCOME_INVALID,
				  "a release keeps the epoch: expected "
				  "%" PRIu64 ", not %" PRIu64,
				  guarded->epoch, next->epoch);
	if (rules->node && strcmp(rules->node, guarded->node) != 0)
		return reason_set(reason, OUTCOME_FORBIDDEN,
				  "this mount is node %s and does not release "
				  "what %s owns",
				  rules->node, guarded->node);
	return OUTCOME_OK;
}

static enum outcome check_claim(const struct own *next,
				const struct own *guarded,
				struct reason *reason)
{
	if (next->epoch <= guarded->epoch)
		return reason_set(reason, OUTCOME_REJECTED,
				  "stale epoch: a claim at epoch %" PRIu64
				  ", but the record is at %" PRIu64,
				  next->epoch, guarded->epoch);
	if (next->epoch - guarded->epoch > OWNERSHIP_EPOCH_STEP_MAX)
		return reason_set(reason, OUTCOME_INVALID,
				  "the epoch goes from %" PRIu64 " to %" PRIu64
				  ": more than %d at once",
				  guarded->epoch, next->epoch,
				  OWNERSHIP_EPOCH_STEP_MAX);
	return OUTCOME_OK;
}

enum outcome ownership_check_own(const struct ownership_rules *rules,
				 const struct own *next,
				 enum ownership_guarded guarded,
				 const struct own *guarded_record,
				 bool *ask_lease, struct reason *reason)
{
	enum outcome outcome;

	*ask_lease = false;
	if (rules->node && names_a_node(next) &&
	    strcmp(rules->node, next->node) != 0)
		return reason_set(reason, OUTCOME_FORBIDDEN,
				  "this mount is node %s and does not claim "
				  "for %s",
				  rules->node, next->node);
	switch (guarded) {
	case GUARDED_ABSENT:
		return check_first(next, reason);
	case GUARDED_OWN:
		break;
	case GUARDED_MALFORMED:
	default:
		return reason_set(reason, OUTCOME_REJECTED,
				  "the guarded record is malformed");
	}
	if (!names_a_node(next))
		return check_release(rules, next, guarded_record, reason);
	outcome = check_claim(next, guarded_record, reason);
	*ask_lease = outcome == OUTCOME_OK && !rules->takeover_any &&
		     names_a_node(guarded_record) &&
		     strcmp(guarded_record->node, next->node) != 0;
	return outcome;
}

enum outcome ownership_claim(const char *node, enum ownership_guarded guarded,
			     const struct own *guarded_record, struct own *next,
			     bool *ask_lease, struct reason *reason)
{
	uint64_t epoch = guarded == GUARDED_OWN ? guarded_record->epoch : 0;

	*ask_lease = false;
	if (guarded == GUARDED_MALFORMED)
		return reason_set(reason, OUTCOME_INVALID,
				  "the record is malformed");
	if (epoch == UINT64_MAX)
		return reason_set(reason, OUTCOME_INVALID,
				  "the epoch is at its end");
	snprintf(next->node, sizeof(next->node), "%s", node);
	next->epoch = epoch + 1;
	*ask_lease = guarded == GUARDED_OWN && names_a_node(guarded_record) &&
		     strcmp(guarded_record->node, node) != 0;
	return OUTCOME_OK;
}

enum outcome ownership_check_lease(const struct ownership_rules *rules,
				   const char *node, const struct lease *next,
				   bool *warn, struct reason *reason)
{
	*warn = false;
	if (rules->node && strcmp(rules->node, node) != 0)
		return reason_set(reason, OUTCOME_FORBIDDEN,
				  "this mount is node %s and does not write "
				  "the lease of %s",
				  rules->node, node);
	if (rules->node && !rules->clients_keep)
		return reason_set(reason, OUTCOME_FORBIDDEN,
				  "this mount keeps the lease of %s itself",
				  node);
	if (strcmp(next->node, node) != 0)
		return reason_set(reason, OUTCOME_INVALID,
				  "the lease of %s names %s", node, next->node);
	*warn = next->addr[0] == '\0';
	return OUTCOME_OK;
}

struct span {
	char text[40];
};

static const char *span_print(uint64_t ms, struct span *span)
{
	if (ms < 2 * DAY_MS)
		snprintf(span->text, sizeof(span->text),
			 "%" PRIu64 ".%" PRIu64 " s", ms / 1000,
			 ms % 1000 / 100);
	else
		snprintf(span->text, sizeof(span->text), "%" PRIu64 " days",
			 ms / DAY_MS);
	return span->text;
}

static enum life judge_alive(const struct lease *lease, uint64_t left_ms,
			     struct reason *reason)
{
	const char *addr = lease->addr[0] ? lease->addr : "none";
	struct span left;

	span_print(left_ms, &left);
	if (left_ms > TEN_YEARS_MS)
		reason_set(reason, OUTCOME_OK,
			   "its lease is alive and expires in %s: a wrong "
			   "clock? (addr %s)",
			   left.text, addr);
	else
		reason_set(reason, OUTCOME_OK,
			   "its lease is alive for another %s (addr %s)",
			   left.text, addr);
	return LIFE_ALIVE;
}

const char *ownership_unsealed(enum lease_log log)
{
	switch (log) {
	case LEASE_LOG_NONE:
	case LEASE_LOG_SEALED:
		return NULL;
	case LEASE_LOG_OPEN:
		return "open";
	case LEASE_LOG_RECOVERING:
		return "recovering";
	case LEASE_LOG_UNKNOWN:
	default:
		return "in a state that is not known here";
	}
}

static enum life judge_ended(enum lease_log log, const char *ended,
			     struct reason *reason)
{
	const char *state = ownership_unsealed(log);

	if (state) {
		reason_set(reason, OUTCOME_OK,
			   "%s, but its log is %s: only celld can recover it",
			   ended, state);
		return LIFE_UNKNOWN;
	}
	reason_set(reason, OUTCOME_OK, "%s", ended);
	return LIFE_DEAD;
}

/* After the store's clock has stepped: for how long may a holder that has not
 * heard of it rely on its lease? For the lease's span, which its two times tell
 * unless the step lies between them: so for a minute at least. */
static uint64_t trust_ms(const struct lease *lease, int64_t modified_ms)
{
	uint64_t from = modified_ms > 0 ? (uint64_t)modified_ms : 0;
	uint64_t span_ms = lease->expires_ms - from;

	if (lease->expires_ms <= from || span_ms < SPAN_LEAST_MS ||
	    span_ms > SPAN_MOST_MS)
		return SPAN_LEAST_MS;
	return span_ms + 1000; /* Last-Modified is cut */
}

enum life ownership_life(const char *node, const struct lease *lease,
			 int64_t modified_ms, const struct fleet_time *now,
			 uint64_t skew_ms, struct reason *reason)
{
	char ended[80];
	struct span past;
	uint64_t now_ms, past_ms, since_step_ms;

	if (!lease) {
		reason_set(reason, OUTCOME_OK, "it has no lease");
		return LIFE_DEAD;
	}
	if (strcmp(lease->node, node) != 0) {
		reason_set(reason, OUTCOME_OK, "the lease of %s names %s", node,
			   lease->node);
		return LIFE_UNKNOWN;
	}
	if (lease->expires_ms == 0)
		return judge_ended(lease->log, "its lease was given up",
				   reason);
	now_ms = now->earliest_ms > 0 ? (uint64_t)now->earliest_ms : 0;
	if (now_ms < lease->expires_ms)
		return judge_alive(lease, lease->expires_ms - now_ms, reason);
	/* Not expires + skew, which can overflow. */
	past_ms = now_ms - lease->expires_ms;
	if (past_ms < skew_ms) {
		reason_set(reason, OUTCOME_OK,
			   "its lease expired %" PRIu64
			   " ms ago, within the skew margin of %" PRIu64 " ms",
			   past_ms, skew_ms);
		return LIFE_UNKNOWN;
	}
	since_step_ms =
		now->since_step_ms > 0 ? (uint64_t)now->since_step_ms : 0;
	if (since_step_ms < trust_ms(lease, modified_ms)) {
		reason_set(reason, OUTCOME_OK,
			   "its lease expired %s ago, but the store's clock "
			   "stepped %" PRIu64
			   " ms ago: its holder may not know yet",
			   span_print(past_ms, &past), since_step_ms);
		return LIFE_UNKNOWN;
	}
	snprintf(ended, sizeof(ended), "its lease expired %s ago",
		 span_print(past_ms, &past));
	return judge_ended(lease->log, ended, reason);
}

enum outcome ownership_check_takeover(enum life life, struct reason *reason)
{
	switch (life) {
	case LIFE_DEAD:
		return OUTCOME_OK;
	case LIFE_ALIVE:
		return OUTCOME_REJECTED;
	case LIFE_UNKNOWN:
	default:
		return reason_set(reason, OUTCOME_REJECTED,
				  "not known to be dead: %s",
				  reason ? reason->text : "");
	}
}

bool ownership_disproves(const struct own *ours, const struct own *found)
{
	return names_a_node(ours) && names_a_node(found) &&
	       found->epoch <= ours->epoch;
}
