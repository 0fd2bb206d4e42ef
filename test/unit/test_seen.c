/* seen: what the mount remembers is never older than what it knew. */
#include "seen.h"

#include "check.h"
#include "clock.h"

#include <pthread.h>
#include <stdbool.h>

static int64_t fake_ms = 1000;

static int64_t fake_clock(void)
{
	return fake_ms;
}

/* As a fetch reports it: everything follows from NUMBER. */
static struct glimpse fetched(unsigned number)
{
	struct glimpse glimpse = {
		.size_bytes = number,
		.modified_ms = number + 1000,
		.at_ms = number + 2000,
		.fetched = true,
		.fetched_ms = number + 2000,
		.form = GUARDED_OWN,
		.own = {"n1", number},
	};

	snprintf(glimpse.etag, sizeof(glimpse.etag), "\"%u\"", number);
	return glimpse;
}

static void fetch(struct seen *seen, const char *key, unsigned number,
		  uint64_t ticket)
{
	struct glimpse glimpse = fetched(number);

	seen_exists(seen, key, &glimpse, ticket);
}

static void list(struct seen *seen, const char *key, unsigned number,
		 uint64_t ticket)
{
	struct glimpse glimpse = {
		.size_bytes = number,
		.modified_ms = number + 1000,
		.at_ms = number + 2000,
	};

	seen_exists(seen, key, &glimpse, ticket);
}

/* What is remembered of KEY: its number; -1: nothing. */
static long long number_of(struct seen *seen, const char *key)
{
	struct glimpse glimpse = {.size_bytes = 12345};

	if (!seen_get(seen, key, &glimpse)) {
		CHECK_EQ(glimpse.size_bytes, 12345);
		return -1;
	}
	CHECK_EQ(glimpse.modified_ms, (int64_t)glimpse.size_bytes + 1000);
	CHECK_EQ(glimpse.at_ms, (int64_t)glimpse.size_bytes + 2000);
	return (long long)glimpse.size_bytes;
}

static void test_tickets(void)
{
	struct seen *seen = seen_new();
	uint64_t last = 0, older, newer;

	for (int i = 0; i < 100; i++) {
		uint64_t ticket = seen_ticket(seen);

		CHECK(ticket > last);
		last = ticket;
	}
	CHECK_EQ(number_of(seen, "a"), -1);
	older = seen_ticket(seen);
	newer = seen_ticket(seen);
	fetch(seen, "a", 2, newer);
	fetch(seen, "a", 1, older);
	CHECK_EQ(number_of(seen, "a"), 2);
	list(seen, "a", 1, older);
	CHECK_EQ(number_of(seen, "a"), 2);
	seen_absent(seen, "a", older);
	CHECK_EQ(number_of(seen, "a"), 2);
	fetch(seen, "a", 3, seen_ticket(seen));
	CHECK_EQ(number_of(seen, "a"), 3);
	CHECK_EQ(number_of(seen, "b"), -1);
	/* one key's tickets are not another's */
	fetch(seen, "b", 1, older);
	CHECK_EQ(number_of(seen, "b"), 1);
	seen_free(seen);
	seen_free(NULL);
}

static void test_absence(void)
{
	struct seen *seen = seen_new();
	uint64_t oldest = seen_ticket(seen), older = seen_ticket(seen);

	fetch(seen, "a", 1, oldest);
	seen_absent(seen, "a", seen_ticket(seen));
	CHECK_EQ(number_of(seen, "a"), -1);
	/* a read that was sent before comes back late */
	fetch(seen, "a", 1, older);
	CHECK_EQ(number_of(seen, "a"), -1);
	list(seen, "a", 1, older);
	CHECK_EQ(number_of(seen, "a"), -1);
	fetch(seen, "a", 2, seen_ticket(seen));
	CHECK_EQ(number_of(seen, "a"), 2);

	/* the same for a record that was never seen */
	older = seen_ticket(seen);
	seen_absent(seen, "b", seen_ticket(seen));
	fetch(seen, "b", 1, older);
	CHECK_EQ(number_of(seen, "b"), -1);

	/* and for one of which a note is kept */
	fetch(seen, "c", 1, seen_ticket(seen));
	seen_set_note(seen, "c", SEEN_OUTCOME, "kept");
	older = seen_ticket(seen);
	seen_absent(seen, "c", seen_ticket(seen));
	fetch(seen, "c", 2, older);
	CHECK_EQ(number_of(seen, "c"), -1);
	/* also if the note comes behind */
	seen_absent(seen, "d", seen_ticket(seen));
	seen_set_note(seen, "d", SEEN_OUTCOME, "kept");
	fetch(seen, "d", 2, older);
	CHECK_EQ(number_of(seen, "d"), -1);
	fetch(seen, "d", 3, seen_ticket(seen));
	CHECK_EQ(number_of(seen, "d"), 3);
	seen_free(seen);
}

static void test_listing(void)
{
	struct seen *seen = seen_new();
	struct glimpse glimpse;

	/* a listing alone knows no ETag */
	list(seen, "a", 1, seen_ticket(seen));
	CHECK(seen_get(seen, "a", &glimpse));
	CHECK(!glimpse.fetched);
	CHECK_STR(glimpse.etag, "");
	fetch(seen, "a", 2, seen_ticket(seen));
	CHECK(seen_get(seen, "a", &glimpse));
	CHECK(glimpse.fetched);
	CHECK_STR(glimpse.etag, "\"2\"");
	/* after a fetch it brings size and times, and the rest stays */
	list(seen, "a", 3, seen_ticket(seen));
	CHECK_EQ(number_of(seen, "a"), 3);
	CHECK(seen_get(seen, "a", &glimpse));
	CHECK(glimpse.fetched);
	CHECK_EQ(glimpse.fetched_ms, 2002);
	CHECK_STR(glimpse.etag, "\"2\"");
	CHECK_EQ(glimpse.form, GUARDED_OWN);
	CHECK_EQ(glimpse.own.epoch, 2);
	CHECK_STR(glimpse.own.node, "n1");
	/* but not over an absence */
	seen_set_note(seen, "a", SEEN_OUTCOME, "so that it is kept");
	seen_absent(seen, "a", seen_ticket(seen));
	list(seen, "a", 4, seen_ticket(seen));
	CHECK(seen_get(seen, "a", &glimpse));
	CHECK(!glimpse.fetched);
	CHECK_STR(glimpse.etag, "");
	seen_free(seen);
}

static const char *key_of(unsigned i)
{
	static char key[32];

	snprintf(key, sizeof(key), "cells/c%u/own.json", i);
	return key;
}

static unsigned known(struct seen *seen, unsigned from, unsigned to)
{
	unsigned n = 0;

	/* the look itself touches: from old to new keeps the order */
	for (unsigned i = from; i < to; i++)
		n += number_of(seen, key_of(i)) >= 0;
	return n;
}

static void test_bound(void)
{
	struct seen *seen = seen_new();
	uint64_t first = seen_ticket(seen);
	char text[16];

	for (unsigned i = 0; i < SEEN_MOST; i++)
		fetch(seen, key_of(i), i, seen_ticket(seen));
	CHECK_EQ(known(seen, 0, SEEN_MOST), SEEN_MOST);
	/* touch three of the oldest, in three ways */
	CHECK_EQ(number_of(seen, key_of(0)), 0);
	fetch(seen, key_of(1), 1, seen_ticket(seen));
	seen_set_note(seen, key_of(2), SEEN_WHY, "x");
	for (unsigned i = 0; i < 100; i++)
		list(seen, key_of(SEEN_MOST + i), i, seen_ticket(seen));
	CHECK_EQ(number_of(seen, key_of(3)), -1);
	CHECK_EQ(number_of(seen, key_of(102)), -1);
	CHECK_EQ(number_of(seen, key_of(103)), 103);
	CHECK_EQ(known(seen, 0, 3), 3);
	CHECK_EQ(known(seen, 3, 103), 0);
	CHECK_EQ(known(seen, 103, SEEN_MOST + 100), SEEN_MOST - 3);
	CHECK(seen_note(seen, key_of(2), SEEN_WHY, 0, text, sizeof(text)));

	/* what was forgotten is not made anew by what is older */
	fetch(seen, key_of(50), 7, first);
	CHECK_EQ(number_of(seen, key_of(50)), -1);
	fetch(seen, key_of(50), 8, seen_ticket(seen));
	CHECK_EQ(number_of(seen, key_of(50)), 8);

	/* notes count, too, and the look at what is not there does not */
	for (unsigned i = 0; i < 2 * SEEN_MOST; i++) {
		CHECK_EQ(number_of(seen, key_of(900000 + i)), -1);
		seen_set_note(seen, key_of(500000 + i), SEEN_OUTCOME, "x");
	}
	CHECK_EQ(known(seen, 0, SEEN_MOST + 100), 0);
	CHECK(!seen_note(seen, key_of(500000 + SEEN_MOST - 1), SEEN_OUTCOME, 0,
			 text, sizeof(text)));
	CHECK(seen_note(seen, key_of(500000 + SEEN_MOST), SEEN_OUTCOME, 0, text,
			sizeof(text)));
	seen_free(seen);
}

static void test_notes(void)
{
	struct seen *seen = seen_new();
	char text[16] = "-";

	clock_replace(fake_clock, NULL);
	CHECK(!seen_note(seen, "a", SEEN_OUTCOME, 0, text, sizeof(text)));
	CHECK_STR(text, "-");
	fake_ms = 5000;
	seen_set_note(seen, "a", SEEN_OUTCOME, "rejected");
	CHECK(!seen_note(seen, "a", SEEN_WHY, 0, text, sizeof(text)));
	CHECK(!seen_note(seen, "b", SEEN_OUTCOME, 0, text, sizeof(text)));
	CHECK(!seen_note(seen, "a", SEEN_OUTCOME, 5001, text, sizeof(text)));
	CHECK(seen_note(seen, "a", SEEN_OUTCOME, 5000, text, sizeof(text)));
	CHECK_STR(text, "rejected");
	/* a note does not make a record */
	CHECK_EQ(number_of(seen, "a"), -1);
	fake_ms = 6000;
	seen_set_note(seen, "a", SEEN_OUTCOME, "applied");
	seen_set_note(seen, "a", SEEN_WHY, "alive");
	CHECK(seen_note(seen, "a", SEEN_OUTCOME, 6000, text, sizeof(text)));
	CHECK_STR(text, "applied");
	CHECK(seen_note(seen, "a", SEEN_WHY, 6000, text, sizeof(text)));
	CHECK_STR(text, "alive");
	CHECK(seen_note(seen, "a", SEEN_WHY, 0, text, 3));
	CHECK_STR(text, "al");
	/* the last outcome outlives the record, and stays with a new one */
	fetch(seen, "a", 1, seen_ticket(seen));
	CHECK_EQ(number_of(seen, "a"), 1);
	seen_absent(seen, "a", seen_ticket(seen));
	CHECK_EQ(number_of(seen, "a"), -1);
	CHECK(seen_note(seen, "a", SEEN_OUTCOME, 0, text, sizeof(text)));
	fetch(seen, "a", 2, seen_ticket(seen));
	CHECK_EQ(number_of(seen, "a"), 2);
	CHECK(seen_note(seen, "a", SEEN_OUTCOME, 0, text, sizeof(text)));
	CHECK_STR(text, "applied");
	/* why a claim would be refused does not */
	fetch(seen, "b", 1, seen_ticket(seen));
	seen_set_note(seen, "b", SEEN_WHY, "alive");
	seen_absent(seen, "b", seen_ticket(seen));
	CHECK(!seen_note(seen, "b", SEEN_WHY, 0, text, sizeof(text)));
	clock_replace(NULL, NULL);
	seen_free(seen);
}

/* Eight threads report one record; who has the highest ticket is right. */
struct reporter {
	struct seen *seen;
	uint64_t highest;
};

static void *report(void *arg)
{
	struct reporter *reporter = arg;

	for (int i = 0; i < 2000; i++) {
		uint64_t ticket = seen_ticket(reporter->seen);

		fetch(reporter->seen, "a", (unsigned)ticket, ticket);
		CHECK(number_of(reporter->seen, "a") >= (long long)ticket);
		seen_set_note(reporter->seen, "a", SEEN_WHY, "x");
		reporter->highest = ticket;
	}
	return NULL;
}

static void test_threads(void)
{
	struct reporter reporters[8];
	pthread_t threads[8];
	uint64_t highest = 0;
	struct seen *seen = seen_new();

	for (int i = 0; i < 8; i++) {
		reporters[i] = (struct reporter){.seen = seen};
		CHECK_EQ(pthread_create(&threads[i], NULL, report,
					&reporters[i]),
			 0);
	}
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], NULL);
		if (reporters[i].highest > highest)
			highest = reporters[i].highest;
	}
	CHECK_EQ(number_of(seen, "a"), (long long)highest);
	seen_free(seen);
}

int main(void)
{
	RUN(test_tickets);
	RUN(test_absence);
	RUN(test_listing);
	RUN(test_bound);
	RUN(test_notes);
	RUN(test_threads);
	return 0;
}
