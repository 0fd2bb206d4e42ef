#include "claim.h"

#include "clock.h"
#include "fetch.h"
#include "handle.h"
#include "holds.h"
#include "judge.h"
#include "keeper.h"
#include "mount.h"
#include "put.h"

#include <stdio.h>
#include <string.h>

#define JUDGE_AGAIN_MS 2000  /* an owner whose lease tells no time, */
#define JUDGE_MOST_MS  10000 /* or a long one: it may be given up before */

static void hold(struct claim *claim, const struct glimpse *ours)
{
	claim->held = true;
	claim->ours = *ours;
	claim->unsure = false;
	claim->looked = false;
}

/* ---- looking ---- */

/* Reads the record. OK: claim->last is what is there, or nothing. An unsure
 * claim that is there is held from now on. */
static enum outcome look(struct mount *mount, const struct limits *limits,
			 struct claim *claim, struct reason *why)
{
	struct answer answer = {0};
	struct object object;
	enum outcome outcome;

	object_init(&object);
	outcome = fetch_object(mount, limits, NODE_OWN, claim->key, &object,
			       &claim->last, &answer);
	if (outcome == OUTCOME_ABSENT) {
		claim->last = (struct glimpse){.form = GUARDED_ABSENT};
		outcome = OUTCOME_OK;
	} else if (outcome != OUTCOME_OK) {
		reason_set(why, outcome, "the record cannot be read: %s",
			   answer.reason.text);
	} else if (!claim->last.etag[0]) {
		outcome = reason_set(why, OUTCOME_INVALID,
				     "the store sent no ETag with this record: "
				     "it cannot be guarded");
	}
	claim->looked = outcome == OUTCOME_OK;
	if (claim->looked && claim->unsure &&
	    strcmp(claim->attempt.hex, object.attempt.hex) == 0)
		hold(claim, &claim->last);
	object_release(&object);
	return outcome;
}

/* ---- taking ---- */

/* Rule 3, without asking for a lease that has been judged and not run out. */
static enum outcome check_owner(struct mount *mount,
				const struct limits *limits,
				struct claim *claim, struct reason *why)
{
	struct verdict verdict;
	enum outcome outcome;
	int64_t again_ms;

	if (clock_boot_ms() < claim->owner_until_ms)
		return reason_set(why, OUTCOME_REJECTED,
				  "owned by %.40s at epoch %llu; its lease has "
				  "not run out",
				  claim->last.own.node,
				  (unsigned long long)claim->last.own.epoch);
	outcome =
		judge_takeover(mount, limits, &claim->last.own, &verdict, why);
	again_ms = verdict.dead_in_ms > 0 ? verdict.dead_in_ms : JUDGE_AGAIN_MS;
	if (again_ms > JUDGE_MOST_MS)
		again_ms = JUDGE_MOST_MS;
	claim->owner_until_ms =
		outcome == OUTCOME_OK ? 0 : clock_boot_ms() + again_ms;
	return outcome;
}

static enum outcome check(struct mount *mount, const struct limits *limits,
			  struct claim *claim, struct own *next,
			  struct reason *why)
{
	const struct own *found = &claim->last.own;
	bool ask_lease;
	enum outcome outcome;

	outcome = ownership_claim(mount->rules.node, claim->last.form, found,
				  next, &ask_lease, why);
	if (outcome == OUTCOME_OK && ask_lease)
		return check_owner(mount, limits, claim, why);
	if (outcome == OUTCOME_OK && mount->keeper &&
	    claim->last.form == GUARDED_OWN &&
	    strcmp(found->node, mount->rules.node) == 0 &&
	    !holds_has(mount->holds, claim->key, found->epoch) &&
	    keeper_old_run_lives(mount->keeper, why))
		return OUTCOME_REJECTED;
	return outcome;
}

#define BODY_SIZE (NAME_NODE_MAX + 64)

static void print_own(const struct own *own, char body[BODY_SIZE])
{
	snprintf(body, BODY_SIZE, "{\"node\":\"%s\",\"epoch\":%llu}\n",
		 own->node, (unsigned long long)own->epoch);
}

/* Writes OWN over the record whose ETag is ETAG, "" = over none; GOES_ON as in
 * struct put. */
static enum outcome write_own(struct mount *mount, const struct limits *limits,
			      struct claim *claim, const struct own *own,
			      const char *etag, const struct attempt *goes_on,
			      struct put *put, struct reason *why)
{
	char text[PUT_TEXT_SIZE];
	char body[BODY_SIZE];
	enum outcome outcome = OUTCOME_OK;

	print_own(own, body);
	*put = (struct put){
		.kind = NODE_OWN,
		.key = claim->key,
		.body = body,
		.len = strlen(body),
		.own = own,
		.guard = {.kind = GUARD_ABSENT},
		.goes_on = goes_on,
	};
	if (etag[0])
		outcome = guard_of_etag(&put->guard, etag,
					&put->result.answer.reason);
	if (outcome == OUTCOME_OK)
		outcome = put_send(mount, limits, put);
	put_tell(mount, put, outcome, text);
	reason_set(why, outcome, "%s", text);
	return outcome;
}

/* Claims the record that was read last, if the rules allow. While a claim over
 * it is unsure that one is sent again: of several, one could land when nobody
 * knows of it any more. */
static enum outcome try_last(struct mount *mount, const struct limits *limits,
			     struct claim *claim, struct reason *why)
{
	struct own next;
	struct put put;
	enum outcome outcome = check(mount, limits, claim, &next, why);

	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = write_own(mount, limits, claim, &next, claim->last.etag,
			    claim->unsure ? &claim->attempt : NULL, &put, why);
	claim->unsure = outcome == OUTCOME_UNKNOWN;
	if (put.applied) {
		put.written.own = next;
		hold(claim, &put.written);
	} else if (claim->unsure) {
		memcpy(claim->unsure_etag, claim->last.etag, ETAG_SIZE);
		claim->attempt = put.result.attempt;
	}
	return outcome;
}

/* Can a try do without a look? What the mount remembers may be old: then the
 * store refuses the claim, and nothing is lost but a request. And an owner
 * whose lease has just run out is judged after what was read of the record
 * before. Neither is enough to fail. */
static bool can_guess(struct mount *mount, struct claim *claim, bool guess)
{
	if (claim->unsure)
		return false;
	if (claim->looked && claim->owner_until_ms > 0 &&
	    clock_boot_ms() >= claim->owner_until_ms)
		return true;
	if (!guess || !seen_get(mount->seen, claim->key, &claim->last) ||
	    !claim->last.fetched)
		return false;
	claim->owner_until_ms = 0;
	return claim->looked = true;
}

/* Reads the record, and forgets what was known of another version. */
static enum outcome look_again(struct mount *mount, const struct limits *limits,
			       struct claim *claim, struct reason *why)
{
	char before[ETAG_SIZE];
	enum outcome outcome;

	memcpy(before, claim->last.etag, ETAG_SIZE);
	outcome = look(mount, limits, claim, why);
	if (outcome != OUTCOME_OK || claim->held)
		return outcome;
	if (strcmp(before, claim->last.etag) != 0)
		claim->owner_until_ms = 0;
	/* what was sent over an older version never lands */
	if (strcmp(claim->unsure_etag, claim->last.etag) != 0)
		claim->unsure = false;
	return outcome;
}

static enum outcome take(struct mount *mount, const struct limits *limits,
			 struct claim *claim, bool guess, struct reason *why)
{
	enum outcome outcome = put_check_authority(mount, why);

	if (outcome == OUTCOME_OK && can_guess(mount, claim, guess)) {
		outcome = try_last(mount, limits, claim, why);
		if (outcome != OUTCOME_REJECTED && outcome != OUTCOME_INVALID)
			return outcome;
		outcome = OUTCOME_OK;
	}
	if (outcome == OUTCOME_OK)
		outcome = look_again(mount, limits, claim, why);
	if (outcome == OUTCOME_OK && !claim->held)
		outcome = try_last(mount, limits, claim, why);
	return outcome;
}

/* A claim that was had, or found, when the authority had ended is none, and one
 * that may still happen is protected by nothing: a fenced mount follows none.
 */
static enum outcome check_authority_after(struct mount *mount,
					  struct claim *claim,
					  enum outcome outcome,
					  struct reason *why)
{
	if (outcome == OUTCOME_OK)
		outcome = put_check_authority(mount, why);
	if (outcome == OUTCOME_FENCED) {
		claim->held = false;
		claim->unsure = false;
	}
	return outcome;
}

enum outcome claim_take(struct mount *mount, const struct limits *limits,
			struct claim *claim, bool guess, int64_t *again_ms,
			struct reason *why)
{
	enum outcome outcome = take(mount, limits, claim, guess, why);

	outcome = check_authority_after(mount, claim, outcome, why);
	*again_ms = claim->owner_until_ms;
	return outcome;
}

enum outcome claim_settle(struct mount *mount, const struct limits *limits,
			  struct claim *claim, struct reason *why)
{
	enum outcome outcome = put_check_authority(mount, why);

	if (outcome == OUTCOME_OK)
		outcome = look_again(mount, limits, claim, why);
	/* it has not landed so far: only a version above it keeps it from
	 * landing later */
	if (outcome == OUTCOME_OK && claim->unsure)
		outcome = try_last(mount, limits, claim, why);
	return check_authority_after(mount, claim, outcome, why);
}

void claim_show(const struct claim *claim, struct handle *handle)
{
	char text[BODY_SIZE];
	struct buf body;

	print_own(&claim->ours.own, text);
	buf_init(&body, RECORD_WRITE_MAX);
	/* without memory it shows what it has shown */
	if (buf_set(&body, text, strlen(text)) == OUTCOME_OK)
		handle_applied(handle, &body, &claim->ours);
	buf_release(&body);
}

/* ---- giving back ---- */

static enum outcome no_more(struct claim *claim)
{
	claim->held = false;
	claim->release_unsure = false;
	return OUTCOME_OK;
}

/* A release may have happened, or the ETag of what we hold did not come. OK:
 * nothing is held any more; UNKNOWN: it is still there, to be released. */
static enum outcome find_ours(struct mount *mount, const struct limits *limits,
			      struct claim *claim, struct reason *why)
{
	enum outcome outcome = look(mount, limits, claim, why);
	const struct glimpse *last = &claim->last;

	if (outcome != OUTCOME_OK)
		return outcome;
	if (!claim->ours.etag[0] && last->form == GUARDED_OWN &&
	    strcmp(last->own.node, claim->ours.own.node) == 0 &&
	    last->own.epoch == claim->ours.own.epoch)
		memcpy(claim->ours.etag, last->etag, ETAG_SIZE);
	if (!claim->ours.etag[0] || strcmp(last->etag, claim->ours.etag) != 0)
		return no_more(claim);
	return OUTCOME_UNKNOWN;
}

enum outcome claim_release(struct mount *mount, const struct limits *limits,
			   struct claim *claim, struct reason *why)
{
	struct own none = {.node = "", .epoch = claim->ours.own.epoch};
	struct put put;
	enum outcome outcome = put_check_authority(mount, why);

	if (outcome == OUTCOME_FENCED) {
		(void)no_more(claim);
		return outcome;
	}
	if (claim->release_unsure || !claim->ours.etag[0]) {
		outcome = find_ours(mount, limits, claim, why);
		if (outcome != OUTCOME_UNKNOWN)
			return outcome;
	}
	outcome = write_own(mount, limits, claim, &none, claim->ours.etag, NULL,
			    &put, why);
	/* another version is there: it is not ours any more */
	if (put.applied || outcome == OUTCOME_REJECTED)
		return no_more(claim);
	claim->release_unsure = outcome == OUTCOME_UNKNOWN;
	return outcome;
}
