#include "leash.h"

#define KILL_LEAST_MS	500 /* for the last process to be gone by then */
#define KILL_MOST_MS	2000
#define POLL_MOST_MS	1000
#define FENCED_LEAST_MS 200
#define FENCED_MOST_MS	500

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
	return value < low ? low : value > high ? high : value;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

bool leash_terms(struct leash_terms *terms, int64_t ttl_ms)
{
	if (ttl_ms < LEASH_TTL_LEAST_MS)
		return false;
	terms->ttl_ms = ttl_ms;
	terms->poll_ms = least(ttl_ms / 10, POLL_MOST_MS);
	terms->start_ms = ttl_ms / 2;
	terms->kill_ms = clamp(ttl_ms / 10, KILL_LEAST_MS, KILL_MOST_MS);
	terms->grace_ms = ttl_ms * 3 / 20;
	terms->term_ms = terms->kill_ms + terms->grace_ms;
	terms->fenced_grace_ms =
		clamp(ttl_ms / 20, FENCED_LEAST_MS, FENCED_MOST_MS);
	return true;
}

void leash_init(struct leash *leash, const struct leash_terms *terms)
{
	*leash = (struct leash){.terms = *terms, .last = LEASH_WAIT};
}

void leash_pull(struct leash *leash, int64_t now_ms, int64_t until_ms,
		int64_t grace_ms)
{
	int64_t kill_at_ms =
		least(now_ms + grace_ms, until_ms - leash->terms.kill_ms);

	if (leash->pulled)
		kill_at_ms = least(kill_at_ms, leash->kill_at_ms);
	leash->pulled = true;
	leash->kill_at_ms = kill_at_ms;
}

enum leash_action leash_step(struct leash *leash, int64_t now_ms,
			     int64_t until_ms, int64_t *next_ms)
{
	enum leash_action action = LEASH_WAIT;

	if (!leash->pulled && now_ms >= until_ms - leash->terms.term_ms)
		leash_pull(leash, now_ms, until_ms, INT64_MAX - now_ms);
	if (!leash->pulled)
		*next_ms = until_ms - leash->terms.term_ms;
	else if (now_ms < leash->kill_at_ms)
		*next_ms = leash->kill_at_ms;
	else
		*next_ms = INT64_MAX;

	if (leash->pulled && *next_ms == INT64_MAX)
		action = LEASH_KILL;
	else if (leash->pulled)
		action = LEASH_TERM;
	if (action <= leash->last)
		return LEASH_WAIT;
	leash->last = action;
	return action;
}
