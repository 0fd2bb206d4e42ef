#include "arm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct armed {
	struct armed *next;
	struct guard guard;
	int64_t expires_ms;
};

/* All that is armed for one record and uid. */
struct place {
	struct place *next;
	char *key;
	uid_t uid;
	struct armed *first;	/* oldest first; all with the same ETag */
	unsigned refusals_left; /* > 0: a contest */
	int64_t contest_until_ms;
};

/* Armed guards live for a minute at most and are few: a list will do. */
struct arms {
	pthread_mutex_t lock; /* guards everything below */
	struct place *places;
	unsigned count; /* writes still to be served or refused */
};

struct arms *arms_new(void)
{
	struct arms *arms = calloc(1, sizeof(*arms));

	if (arms)
		pthread_mutex_init(&arms->lock, NULL);
	return arms;
}

static void pop_armed(struct arms *arms, struct place *place)
{
	struct armed *armed = place->first;

	place->first = armed->next;
	free(armed);
	arms->count--;
}

static void end_contest(struct arms *arms, struct place *place)
{
	arms->count -= place->refusals_left;
	place->refusals_left = 0;
}

static void place_free(struct arms *arms, struct place *place)
{
	end_contest(arms, place);
	while (place->first)
		pop_armed(arms, place);
	free(place->key);
	free(place);
}

void arms_free(struct arms *arms)
{
	if (!arms)
		return;
	while (arms->places) {
		struct place *place = arms->places;

		arms->places = place->next;
		place_free(arms, place);
	}
	pthread_mutex_destroy(&arms->lock);
	free(arms);
}

/* Drops what has lapsed, everywhere, and finds the place. */
static struct place *find(struct arms *arms, const char *key, uid_t uid,
			  int64_t now_ms)
{
	struct place **at = &arms->places;
	struct place *found = NULL;

	while (*at) {
		struct place *place = *at;

		while (place->first && place->first->expires_ms <= now_ms)
			pop_armed(arms, place);
		if (place->contest_until_ms <= now_ms)
			end_contest(arms, place);
		if (!place->first && !place->refusals_left) {
			*at = place->next;
			place_free(arms, place);
			continue;
		}
		if (place->uid == uid && strcmp(place->key, key) == 0)
			found = place;
		at = &place->next;
	}
	return found;
}

static struct place *find_or_add(struct arms *arms, const char *key, uid_t uid,
				 int64_t now_ms)
{
	struct place *place = find(arms, key, uid, now_ms);

	if (place)
		return place;
	place = calloc(1, sizeof(*place));
	if (!place)
		return NULL;
	place->key = strdup(key);
	if (!place->key) {
		free(place);
		return NULL;
	}
	place->uid = uid;
	place->next = arms->places;
	arms->places = place;
	return place;
}

/* An arming that is void: one write more is to be refused. */
static void join_contest(struct arms *arms, struct place *place,
			 int64_t expires_ms)
{
	place->refusals_left++;
	arms->count++;
	if (place->contest_until_ms < expires_ms)
		place->contest_until_ms = expires_ms;
}

static void start_contest(struct arms *arms, struct place *place)
{
	while (place->first) {
		int64_t expires_ms = place->first->expires_ms;

		pop_armed(arms, place);
		join_contest(arms, place, expires_ms);
	}
}

static enum outcome add_locked(struct arms *arms, const char *key, uid_t uid,
			       const struct guard *guard, int64_t expires_ms,
			       int64_t now_ms)
{
	struct armed *armed = NULL;
	struct armed **at;
	struct place *place;

	if (arms->count >= ARM_MOST)
		find(arms, key, uid, now_ms);
	if (arms->count < ARM_MOST)
		armed = calloc(1, sizeof(*armed));
	place = armed ? find_or_add(arms, key, uid, now_ms) : NULL;
	if (!place) {
		free(armed);
		return OUTCOME_NO_MEMORY;
	}
	if (place->first && !guard_equal(&place->first->guard, guard))
		start_contest(arms, place);
	if (place->refusals_left) {
		free(armed);
		join_contest(arms, place, expires_ms);
		return OUTCOME_OK;
	}
	armed->guard = *guard;
	armed->expires_ms = expires_ms;
	for (at = &place->first; *at && (*at)->expires_ms <= expires_ms;)
		at = &(*at)->next;
	armed->next = *at;
	*at = armed;
	arms->count++;
	return OUTCOME_OK;
}

enum outcome arms_add(struct arms *arms, const char *key, uid_t uid,
		      const struct guard *guard, int64_t now_ms)
{
	enum outcome outcome;

	pthread_mutex_lock(&arms->lock);
	outcome =
		add_locked(arms, key, uid, guard, now_ms + ARM_LIFE_MS, now_ms);
	pthread_mutex_unlock(&arms->lock);
	return outcome;
}

void arms_return(struct arms *arms, const char *key, uid_t uid,
		 const struct guard *guard, int64_t expires_ms, int64_t now_ms)
{
	if (expires_ms <= now_ms)
		return; /* lapsed meanwhile: it contests nothing */
	pthread_mutex_lock(&arms->lock);
	/* without memory the guard is lost, and the next write is EPERM */
	(void)add_locked(arms, key, uid, guard, expires_ms, now_ms);
	pthread_mutex_unlock(&arms->lock);
}

static enum arms_found look(const struct place *place, struct guard *guard)
{
	if (!place)
		return ARMS_NONE;
	if (place->refusals_left)
		return ARMS_CONTEST;
	if (guard)
		*guard = place->first->guard;
	return ARMS_GUARD;
}

enum arms_found arms_peek(struct arms *arms, const char *key, uid_t uid,
			  int64_t now_ms, struct guard *guard)
{
	enum arms_found found;

	pthread_mutex_lock(&arms->lock);
	found = look(find(arms, key, uid, now_ms), guard);
	pthread_mutex_unlock(&arms->lock);
	return found;
}

enum arms_found arms_take(struct arms *arms, const char *key, uid_t uid,
			  int64_t now_ms, struct guard *guard,
			  int64_t *expires_ms)
{
	enum arms_found found;
	struct place *place;

	pthread_mutex_lock(&arms->lock);
	place = find(arms, key, uid, now_ms);
	found = look(place, guard);
	if (found == ARMS_CONTEST) {
		place->refusals_left--;
		arms->count--;
	}
	if (found == ARMS_GUARD) {
		*expires_ms = place->first->expires_ms;
		pop_armed(arms, place);
	}
	pthread_mutex_unlock(&arms->lock);
	return found;
}

enum arms_found arms_drop(struct arms *arms, const char *key, uid_t uid,
			  int64_t now_ms)
{
	enum arms_found found;
	struct place *place;

	pthread_mutex_lock(&arms->lock);
	place = find(arms, key, uid, now_ms);
	found = look(place, NULL);
	while (found == ARMS_GUARD && place->first)
		pop_armed(arms, place);
	pthread_mutex_unlock(&arms->lock);
	return found;
}
