/* arm: guards armed by path: one serves one write, different ones contest. */
#include "arm.h"

#include "check.h"

#include <stdbool.h>

#define K1 "cells/a/own.json"
#define K2 "cells/b/own.json"

static struct guard match(const char *etag)
{
	struct guard guard;

	CHECK_EQ(guard_of_etag(&guard, etag, NULL), OUTCOME_OK);
	return guard;
}

static void add(struct arms *arms, const char *key, uid_t uid, const char *etag,
		int64_t now_ms)
{
	struct guard guard = match(etag);

	CHECK_EQ(arms_add(arms, key, uid, &guard, now_ms), OUTCOME_OK);
}

/* What a write finds: the ETag, "contest" or "none". */
static const char *take(struct arms *arms, const char *key, uid_t uid,
			int64_t now_ms, int64_t *expires_ms)
{
	static struct guard guard;
	struct guard peeked;
	enum arms_found found = arms_peek(arms, key, uid, now_ms, &peeked);
	int64_t until_ms = 0;

	CHECK_EQ(arms_take(arms, key, uid, now_ms, &guard, &until_ms), found);
	if (expires_ms)
		*expires_ms = until_ms;
	if (found != ARMS_GUARD)
		return found == ARMS_CONTEST ? "contest" : "none";
	CHECK(guard_equal(&guard, &peeked));
	CHECK_EQ(guard.kind, GUARD_MATCH);
	return guard.etag;
}

#define CHECK_TAKE(arms, now_ms, want)                                         \
	CHECK_STR(take(arms, K1, 7, now_ms, NULL), want)

static void test_one_serves_one(void)
{
	struct arms *arms = arms_new();

	CHECK_TAKE(arms, 0, "none");
	add(arms, K1, 7, "\"e1\"", 0);
	CHECK_TAKE(arms, 1, "e1");
	CHECK_TAKE(arms, 2, "none");
	/* the same ETag, with quotes or without, arms as many writes */
	add(arms, K1, 7, "\"e1\"", 10);
	add(arms, K1, 7, "e1", 11);
	CHECK_TAKE(arms, 12, "e1");
	add(arms, K1, 7, "e1", 13);
	CHECK_TAKE(arms, 14, "e1");
	CHECK_TAKE(arms, 15, "e1");
	CHECK_TAKE(arms, 16, "none");
	/* one after the other is no contest */
	add(arms, K1, 7, "e2", 20);
	CHECK_TAKE(arms, 21, "e2");
	CHECK_TAKE(arms, 22, "none");
	arms_free(arms);
	arms_free(NULL);
}

static void test_contest(void)
{
	struct arms *arms = arms_new();

	/* two shells */
	add(arms, K1, 7, "e1", 0);
	add(arms, K1, 7, "e2", 1);
	CHECK_TAKE(arms, 2, "contest");
	CHECK_TAKE(arms, 3, "contest");
	CHECK_TAKE(arms, 4, "none");

	/* the drawing in arm.h, and whoever arms meanwhile joins */
	add(arms, K1, 7, "e1", 10);
	add(arms, K1, 7, "e1", 11);
	add(arms, K1, 7, "e2", 12);
	CHECK_TAKE(arms, 13, "contest");
	add(arms, K1, 7, "e1", 14);
	CHECK_TAKE(arms, 15, "contest");
	CHECK_TAKE(arms, 16, "contest");
	add(arms, K1, 7, "e3", 17);
	CHECK_TAKE(arms, 18, "contest");
	CHECK_TAKE(arms, 19, "contest");
	CHECK_TAKE(arms, 20, "none");

	/* afterwards all is as before */
	add(arms, K1, 7, "e1", 21);
	CHECK_TAKE(arms, 22, "e1");
	CHECK_TAKE(arms, 23, "none");
	arms_free(arms);
}

static void test_places_are_apart(void)
{
	struct arms *arms = arms_new();

	add(arms, K1, 7, "e1", 0);
	add(arms, K1, 8, "e2", 0);
	add(arms, K2, 7, "e3", 0);
	CHECK_STR(take(arms, K2, 8, 1, NULL), "none");
	CHECK_STR(take(arms, K2, 7, 1, NULL), "e3");
	CHECK_STR(take(arms, K1, 8, 1, NULL), "e2");
	CHECK_STR(take(arms, K1, 7, 1, NULL), "e1");
	/* a contest, too */
	add(arms, K1, 7, "e1", 2);
	add(arms, K1, 7, "e2", 2);
	add(arms, K1, 8, "e1", 2);
	add(arms, K2, 7, "e1", 2);
	CHECK_STR(take(arms, K1, 8, 3, NULL), "e1");
	CHECK_STR(take(arms, K2, 7, 3, NULL), "e1");
	CHECK_STR(take(arms, K1, 7, 3, NULL), "contest");
	arms_free(arms);
}

static void test_lapse(void)
{
	struct arms *arms = arms_new();
	int64_t expires_ms;

	add(arms, K1, 7, "e1", 0);
	add(arms, K1, 7, "e1", 1000);
	CHECK_STR(take(arms, K1, 7, ARM_LIFE_MS - 1, &expires_ms), "e1");
	CHECK_EQ(expires_ms, ARM_LIFE_MS);
	CHECK_STR(take(arms, K1, 7, ARM_LIFE_MS, &expires_ms), "e1");
	CHECK_EQ(expires_ms, ARM_LIFE_MS + 1000);

	add(arms, K1, 7, "e1", 100000);
	add(arms, K1, 7, "e1", 100001);
	CHECK_TAKE(arms, 100000 + ARM_LIFE_MS, "e1");
	CHECK_TAKE(arms, 100000 + ARM_LIFE_MS, "none");

	/* what has lapsed contests nothing */
	add(arms, K1, 7, "e1", 200000);
	add(arms, K1, 7, "e2", 200000 + ARM_LIFE_MS);
	CHECK_TAKE(arms, 200001 + ARM_LIFE_MS, "e2");

	/* a contest ends a minute after the last arming */
	add(arms, K1, 7, "e1", 300000);
	add(arms, K1, 7, "e2", 310000);
	add(arms, K1, 7, "e2", 320000);
	CHECK_TAKE(arms, 319999 + ARM_LIFE_MS, "contest");
	CHECK_TAKE(arms, 320000 + ARM_LIFE_MS, "none");
	add(arms, K1, 7, "e2", 320001 + ARM_LIFE_MS);
	CHECK_TAKE(arms, 320002 + ARM_LIFE_MS, "e2");
	arms_free(arms);
}

static void give_back(struct arms *arms, const char *etag, int64_t expires_ms,
		      int64_t now_ms)
{
	struct guard guard = match(etag);

	arms_return(arms, K1, 7, &guard, expires_ms, now_ms);
}

static void test_return(void)
{
	struct arms *arms = arms_new();
	int64_t expires_ms;

	add(arms, K1, 7, "e1", 0);
	take(arms, K1, 7, 10, &expires_ms);
	give_back(arms, "e1", expires_ms, 20);
	CHECK_TAKE(arms, 30, "e1");
	CHECK_TAKE(arms, 31, "none");
	/* its minute goes on from when it was armed */
	give_back(arms, "e1", expires_ms, 40);
	CHECK_TAKE(arms, ARM_LIFE_MS, "none");
	/* the oldest of some serves first, as before */
	add(arms, K1, 7, "e1", 100000);
	add(arms, K1, 7, "e1", 100500);
	take(arms, K1, 7, 100600, &expires_ms);
	CHECK_EQ(expires_ms, 100000 + ARM_LIFE_MS);
	give_back(arms, "e1", expires_ms, 100700);
	take(arms, K1, 7, 100800, &expires_ms);
	CHECK_EQ(expires_ms, 100000 + ARM_LIFE_MS);
	CHECK_TAKE(arms, 100900, "e1");
	CHECK_TAKE(arms, 100901, "none");
	/* somebody armed another meanwhile: a contest, until both are old */
	add(arms, K1, 7, "e2", 200000);
	give_back(arms, "e1", 190000 + ARM_LIFE_MS, 200010);
	CHECK_TAKE(arms, 200020, "contest");
	CHECK_TAKE(arms, 199999 + ARM_LIFE_MS, "contest");
	CHECK_TAKE(arms, 199999 + ARM_LIFE_MS, "none");
	add(arms, K1, 7, "e2", 300000);
	give_back(arms, "e1", 290000 + ARM_LIFE_MS, 300010);
	CHECK_TAKE(arms, 300000 + ARM_LIFE_MS, "none");
	/* it joins a contest */
	add(arms, K1, 7, "e2", 400000);
	add(arms, K1, 7, "e3", 400000);
	give_back(arms, "e1", 390000 + ARM_LIFE_MS, 400010);
	CHECK_TAKE(arms, 400020, "contest");
	CHECK_TAKE(arms, 400020, "contest");
	CHECK_TAKE(arms, 400020, "contest");
	CHECK_TAKE(arms, 400020, "none");
	/* and if its minute is over, it is gone and contests nothing */
	add(arms, K1, 7, "e2", 500000);
	give_back(arms, "e1", 500010, 500010);
	CHECK_TAKE(arms, 500020, "e2");
	CHECK_TAKE(arms, 500021, "none");
	arms_free(arms);
}

static void test_peek_and_drop(void)
{
	struct arms *arms = arms_new();
	struct guard guard;

	CHECK_EQ(arms_peek(arms, K1, 7, 0, &guard), ARMS_NONE);
	CHECK_EQ(arms_drop(arms, K1, 7, 0), ARMS_NONE);
	add(arms, K1, 7, "e1", 0);
	add(arms, K1, 7, "e1", 0);
	add(arms, K1, 8, "e1", 0);
	CHECK_EQ(arms_peek(arms, K1, 7, 1, &guard), ARMS_GUARD);
	CHECK_EQ(arms_peek(arms, K1, 7, 2, &guard), ARMS_GUARD);
	CHECK_STR(guard.etag, "e1");
	CHECK_EQ(arms_drop(arms, K1, 7, 3), ARMS_GUARD);
	CHECK_EQ(arms_peek(arms, K1, 7, 4, &guard), ARMS_NONE);
	CHECK_EQ(arms_drop(arms, K1, 7, 5), ARMS_NONE);
	CHECK_STR(take(arms, K1, 8, 6, NULL), "e1");
	/* a contest stays as it is */
	add(arms, K1, 7, "e1", 10);
	add(arms, K1, 7, "e2", 10);
	CHECK_EQ(arms_peek(arms, K1, 7, 11, &guard), ARMS_CONTEST);
	CHECK_EQ(arms_drop(arms, K1, 7, 12), ARMS_CONTEST);
	CHECK_TAKE(arms, 13, "contest");
	CHECK_TAKE(arms, 13, "contest");
	CHECK_TAKE(arms, 13, "none");
	/* dropped in time, there is none */
	add(arms, K1, 7, "e1", 20);
	CHECK_EQ(arms_drop(arms, K1, 7, 21), ARMS_GUARD);
	add(arms, K1, 7, "e2", 22);
	CHECK_TAKE(arms, 23, "e2");
	arms_free(arms);
}

static void fill(struct arms *arms, bool contests, int64_t now_ms)
{
	char key[32];

	for (int i = 0; i < ARM_MOST; i++) {
		snprintf(key, sizeof(key), "cells/c%d/own.json", i / 256);
		add(arms, key, 7, contests && i % 2 ? "e2" : "e1", now_ms);
	}
}

static void test_most(void)
{
	struct arms *arms = arms_new();
	struct guard guard = match("e1");

	fill(arms, false, 0);
	CHECK_EQ(arms_add(arms, K1, 7, &guard, 1), OUTCOME_NO_MEMORY);
	CHECK_EQ(arms_add(arms, "cells/c0/own.json", 7, &guard, 1),
		 OUTCOME_NO_MEMORY);
	/* one that was taken leaves room for one */
	CHECK_STR(take(arms, "cells/c5/own.json", 7, 2, NULL), "e1");
	CHECK_EQ(arms_add(arms, K1, 7, &guard, 3), OUTCOME_OK);
	CHECK_EQ(arms_add(arms, K1, 7, &guard, 4), OUTCOME_NO_MEMORY);
	/* and so does what has lapsed, for all */
	fill(arms, true, 10 + ARM_LIFE_MS);

	/* contests count */
	CHECK_EQ(arms_add(arms, K1, 7, &guard, 11 + ARM_LIFE_MS),
		 OUTCOME_NO_MEMORY);
	CHECK_STR(take(arms, "cells/c5/own.json", 7, 12 + ARM_LIFE_MS, NULL),
		  "contest");
	CHECK_EQ(arms_add(arms, K1, 7, &guard, 13 + ARM_LIFE_MS), OUTCOME_OK);
	CHECK_EQ(arms_add(arms, K1, 7, &guard, 14 + ARM_LIFE_MS),
		 OUTCOME_NO_MEMORY);
	fill(arms, false, 20 + 2 * ARM_LIFE_MS);
	arms_free(arms);
}

/* ---- against a plain model ---- */

/* One place; every arming ever made is a line in a list. */
struct model {
	struct line {
		int etag;
		int64_t expires_ms;
	} lines[4096];
	int count;
	bool contest;
};

static void model_lapse(struct model *model, int64_t now_ms)
{
	int64_t last_ms = 0;
	int kept = 0;

	for (int i = 0; i < model->count; i++)
		if (model->lines[i].expires_ms > last_ms)
			last_ms = model->lines[i].expires_ms;
	/* a contest lasts as long as the youngest of it */
	if (model->contest && last_ms > now_ms)
		return;
	for (int i = 0; i < model->count; i++)
		if (model->lines[i].expires_ms > now_ms)
			model->lines[kept++] = model->lines[i];
	model->count = kept;
	if (kept == 0)
		model->contest = false;
}

static void model_add(struct model *model, int etag, int64_t expires_ms,
		      int64_t now_ms)
{
	model_lapse(model, now_ms);
	if (expires_ms <= now_ms)
		return;
	if (model->count > 0 && model->lines[0].etag != etag)
		model->contest = true;
	CHECK(model->count < 4096);
	model->lines[model->count++] = (struct line){etag, expires_ms};
}

/* Takes the line that expires first; in a contest it is one of so many. */
static int model_take(struct model *model, int64_t now_ms, int64_t *expires_ms)
{
	int first = 0, etag;

	model_lapse(model, now_ms);
	if (model->count == 0)
		return -1;
	for (int i = 1; i < model->count; i++)
		if (model->lines[i].expires_ms < model->lines[first].expires_ms)
			first = i;
	etag = model->contest ? 0 : model->lines[first].etag;
	*expires_ms = model->lines[first].expires_ms;
	model->lines[first] = model->lines[--model->count];
	if (model->count == 0)
		model->contest = false;
	return etag;
}

static unsigned random_below(uint64_t *state, unsigned n)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (unsigned)(*state >> 33) % n;
}

struct place_pair {
	const char *key;
	uid_t uid;
	struct model model;
	int held[8]; /* ETags that were taken, for arms_return() */
	int64_t held_until_ms[8];
	int held_count;
};

static void step(struct arms *arms, struct place_pair *place, uint64_t *state,
		 int64_t now_ms)
{
	/* mostly one ETag, so that contests are not all there is */
	int etag = random_below(state, 4) ? 1 : 1 + (int)random_below(state, 3);
	char text[16];
	struct guard guard;
	int64_t got_ms = 0, want_ms = 0;
	const char *got;
	int want, last;

	snprintf(text, sizeof(text), "e%d", etag);
	guard = match(text);
	switch (random_below(state, 8)) {
	case 0:
	case 1:
	case 2:
		CHECK_EQ(arms_add(arms, place->key, place->uid, &guard, now_ms),
			 OUTCOME_OK);
		model_add(&place->model, etag, now_ms + ARM_LIFE_MS, now_ms);
		break;
	case 3:
		if (random_below(state, 3))
			break;
		model_lapse(&place->model, now_ms);
		CHECK_EQ(arms_drop(arms, place->key, place->uid, now_ms),
			 place->model.contest	  ? ARMS_CONTEST
			 : place->model.count > 0 ? ARMS_GUARD
						  : ARMS_NONE);
		if (!place->model.contest)
			place->model.count = 0;
		break;
	case 4:
		if (place->held_count == 0)
			break;
		last = --place->held_count;
		snprintf(text, sizeof(text), "e%d", place->held[last]);
		guard = match(text);
		arms_return(arms, place->key, place->uid, &guard,
			    place->held_until_ms[last], now_ms);
		model_add(&place->model, place->held[last],
			  place->held_until_ms[last], now_ms);
		break;
	default:
		want = model_take(&place->model, now_ms, &want_ms);
		got = take(arms, place->key, place->uid, now_ms, &got_ms);
		snprintf(text, sizeof(text), "e%d", want);
		CHECK_STR(got, want < 0 ? "none" : want ? text : "contest");
		if (want <= 0)
			break;
		CHECK_EQ(got_ms, want_ms);
		if (place->held_count < 8) {
			place->held[place->held_count] = want;
			place->held_until_ms[place->held_count++] = want_ms;
		}
		break;
	}
}

static void test_against_a_model(void)
{
	static struct place_pair places[4];
	uint64_t state = 1;

	for (int round = 0; round < 200; round++) {
		struct arms *arms = arms_new();
		int64_t now_ms = 0;

		memset(places, 0, sizeof(places));
		for (int i = 0; i < 4; i++) {
			places[i].key = i % 2 ? K1 : K2;
			places[i].uid = i < 2 ? 7 : 8;
		}
		for (int i = 0; i < 1000; i++) {
			now_ms += random_below(&state, 3) * 500;
			if (random_below(&state, 50) == 0)
				now_ms += random_below(&state, ARM_LIFE_MS);
			step(arms, &places[random_below(&state, 4)], &state,
			     now_ms);
		}
		arms_free(arms);
	}
}

int main(void)
{
	RUN(test_one_serves_one);
	RUN(test_contest);
	RUN(test_places_are_apart);
	RUN(test_lapse);
	RUN(test_return);
	RUN(test_peek_and_drop);
	RUN(test_most);
	RUN(test_against_a_model);
	return 0;
}
