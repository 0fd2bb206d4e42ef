#include "put.h"

#include "clock.h"
#include "fetch.h"
#include "holds.h"
#include "keeper.h"
#include "mount.h"

#include <stdio.h>
#include <string.h>

enum outcome put_check_authority(struct mount *mount, struct reason *reason)
{
	int64_t until_ms;
	enum outcome outcome = keeper_permit(mount->keeper, &until_ms);

	if (outcome != OUTCOME_OK)
		keeper_why(mount->keeper, reason);
	return outcome;
}

static enum outcome may_send(const void *keeper, int64_t *until_ms)
{
	return keeper_permit(keeper, until_ms);
}

static bool disproves(const void *arg, const struct object *found)
{
	struct own own;

	return record_parse_own(&own, found->body.bytes, found->body.len,
				NULL) == OUTCOME_OK &&
	       ownership_disproves(arg, &own);
}

/* The authority may have ended while the write was on its way. */
static enum outcome check_authority_after(struct mount *mount, struct put *put,
					  enum outcome outcome)
{
	struct reason *reason = &put->result.answer.reason;

	if (outcome == OUTCOME_OK || outcome == OUTCOME_NOT_DONE ||
	    outcome == OUTCOME_TIMEOUT || outcome == OUTCOME_FENCED) {
		if (put_check_authority(mount, reason) != OUTCOME_OK)
			return OUTCOME_FENCED;
	}
	return outcome;
}

/* What is there after PUT was applied. */
static void remember(struct mount *mount, const struct limits *limits,
		     struct put *put)
{
	uint64_t ticket = seen_ticket(mount->seen);
	struct glimpse *written = &put->written;
	struct fleet_time now;

	memset(written, 0, sizeof(*written));
	memcpy(written->etag, put->result.etag, ETAG_SIZE);
	written->size_bytes = put->len;
	/* an answer to a PUT carries no Last-Modified: the store's clock is as
	 * near as it gets without another request */
	written->modified_ms =
		store_now(mount->store, limits, &now) == OUTCOME_OK
			? now.latest_ms
			: clock_wall_ms();
	written->at_ms = written->fetched_ms = clock_boot_ms();
	written->fetched = fetch_judge(written, put->kind, put->body,
				       put->len) == OUTCOME_OK;
	/* without its ETag, or memory to read it, the next one asks the store
	 */
	if (written->fetched && written->etag[0])
		seen_exists(mount->seen, put->key, written, ticket);
	else
		seen_absent(mount->seen, put->key, ticket);
}

enum outcome put_send(struct mount *mount, const struct limits *limits,
		      struct put *put)
{
	struct cas_write write = {
		.key = put->key,
		.body = put->body,
		.len = put->len,
		.guard = put->guard,
		.goes_on = put->goes_on,
		.may_send = may_send,
		.may_send_arg = mount->keeper,
	};
	enum outcome outcome;

	if (put->kind == NODE_OWN) {
		write.disproves = disproves;
		write.disproves_arg = put->own;
	}
	outcome = cas_put(mount->store, limits, &write, &put->result);
	put->applied = outcome == OUTCOME_OK;
	/* a claim that may have happened is held until it is known */
	if (put->kind == NODE_OWN &&
	    (put->applied || (outcome == OUTCOME_UNKNOWN && put->own->node[0])))
		holds_wrote(mount->holds, put->key, put->own);
	if (put->applied)
		remember(mount, limits, put);
	return check_authority_after(mount, put, outcome);
}

static void describe(const struct put *put, enum outcome outcome,
		     char text[PUT_TEXT_SIZE])
{
	const struct answer *answer = &put->result.answer;
	bool guarded = put->guard.kind != GUARD_NONE;
	char guard[ETAG_SIZE + 16];
	char status[32] = "";
	char request[96] = "";
	char etag[ETAG_SIZE + 16] = "";

	if (answer->status)
		snprintf(status, sizeof(status), "; status %d", answer->status);
	if (answer->request_id[0])
		snprintf(request, sizeof(request), "; request %s",
			 answer->request_id);
	if (put->applied && put->result.etag[0])
		snprintf(etag, sizeof(etag), "; ETag now %s", put->result.etag);
	else if (put->applied)
		snprintf(etag, sizeof(etag),
			 "; the new ETag is not known: read the record before "
			 "it is written again");
	snprintf(text, PUT_TEXT_SIZE, "%s%s%s%s%s%s%s%s%s",
		 put->applied && outcome != OUTCOME_OK ? "applied, " : "",
		 outcome_word(outcome), guarded ? "; " : "",
		 guarded ? guard_print(&put->guard, guard) : "", status,
		 request, etag, answer->reason.text[0] ? "; " : "",
		 answer->reason.text);
	text_make_plain(text, strlen(text));
}

void put_tell(struct mount *mount, const struct put *put, enum outcome outcome,
	      char text[PUT_TEXT_SIZE])
{
	describe(put, outcome, text);
	seen_set_note(mount->seen, put->key, SEEN_OUTCOME, text);
	if (outcome == OUTCOME_OK)
		mount->swaps_applied++;
	else if (outcome == OUTCOME_REJECTED)
		mount->swaps_rejected++;
	else if (outcome == OUTCOME_UNKNOWN)
		mount->swaps_unknown++;
}
