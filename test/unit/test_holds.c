/* holds: what is claimed through a mount is held until it is seen to be over.
 */
#include "holds.h"

#include "check.h"

#include <pthread.h>

#define KEY "cells/c/own.json"

static void wrote(struct holds *holds, const char *key, const char *node,
		  uint64_t epoch)
{
	struct own own = {.epoch = epoch};

	snprintf(own.node, sizeof(own.node), "%s", node);
	holds_wrote(holds, key, &own);
}

static void was_read(struct holds *holds, const char *key, const char *node,
		     uint64_t epoch)
{
	struct own own = {.epoch = epoch};

	snprintf(own.node, sizeof(own.node), "%s", node);
	holds_read(holds, key, &own);
}

/* What n1 holds once it has claimed KEY at epoch 5. */
static struct holds *claimed(void)
{
	struct holds *holds = holds_new("n1");

	CHECK(holds != NULL);
	wrote(holds, KEY, "n1", 5);
	CHECK(holds_has(holds, KEY, 5));
	CHECK_EQ(holds_count(holds), 1);
	return holds;
}

static void nothing_is_held_at_first(void)
{
	struct holds *holds = holds_new("n1");

	CHECK_EQ(holds_count(holds), 0);
	CHECK(!holds_has(holds, KEY, 0));
	was_read(holds, KEY, "n1", 5);
	CHECK_EQ(holds_count(holds), 0);
	holds_free(holds);
}

static void a_claim_is_held_at_its_epoch_alone(void)
{
	struct holds *holds = claimed();

	CHECK(!holds_has(holds, KEY, 4));
	CHECK(!holds_has(holds, KEY, 6));
	CHECK(!holds_has(holds, "cells/d/own.json", 5));
	holds_free(holds);
}

static void a_later_claim_takes_its_place(void)
{
	struct holds *holds = claimed();

	wrote(holds, KEY, "n1", 7);
	CHECK(holds_has(holds, KEY, 7));
	CHECK(!holds_has(holds, KEY, 5));
	/* an answer that comes late changes nothing */
	wrote(holds, KEY, "n1", 6);
	CHECK(holds_has(holds, KEY, 7));
	CHECK_EQ(holds_count(holds), 1);
	holds_free(holds);
}

static void a_release_ends_it(void)
{
	struct holds *holds = claimed();

	wrote(holds, KEY, "", 5);
	CHECK_EQ(holds_count(holds), 0);
	CHECK(!holds_has(holds, KEY, 5));
	/* twice is once */
	wrote(holds, KEY, "", 5);
	CHECK_EQ(holds_count(holds), 0);
	wrote(holds, KEY, "n1", 6);
	CHECK(holds_has(holds, KEY, 6));
	CHECK_EQ(holds_count(holds), 1);
	holds_free(holds);
}

static void a_late_answer_to_a_release_does_not_end_the_next_claim(void)
{
	struct holds *holds = claimed();

	wrote(holds, KEY, "n1", 6);
	wrote(holds, KEY, "", 5);
	CHECK(holds_has(holds, KEY, 6));
	holds_free(holds);
}

/* What a read may show, and whether the claim at epoch 5 is held after it. */
static void what_is_read_ends_it_only_if_it_proves_it(void)
{
	static const struct {
		const char *node;
		uint64_t epoch;
		bool held;
	} cases[] = {
		{"n1", 5, true},  /* itself */
		{"n1", 4, true},  /* what was there before */
		{"n2", 4, true},  /* likewise */
		{"", 4, true},	  /* likewise */
		{"", 5, false},	  /* released elsewhere */
		{"n2", 5, false}, /* it never landed: somebody else's did */
		{"n2", 6, false}, /* taken */
		{"n1", 6, false}, /* by another mount of this node */
		{"", 9, false},	  {"n2", UINT64_MAX, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct holds *holds = claimed();

		was_read(holds, KEY, cases[i].node, cases[i].epoch);
		if (holds_has(holds, KEY, 5) != cases[i].held ||
		    holds_count(holds) != cases[i].held)
			CHECK_FAIL("'%s' at %" PRIu64, cases[i].node,
				   cases[i].epoch);
		holds_free(holds);
	}
}

static void many_cells_do_not_get_into_each_others_way(void)
{
	struct holds *holds = holds_new("n1");
	char key[NAME_KEY_SIZE], cell[16];

	for (unsigned i = 0; i < 1000; i++) {
		snprintf(cell, sizeof(cell), "c%u", i);
		name_own_key(key, cell);
		wrote(holds, key, "n1", i + 1);
	}
	CHECK_EQ(holds_count(holds), 1000);
	for (unsigned i = 0; i < 1000; i += 2) {
		snprintf(cell, sizeof(cell), "c%u", i);
		name_own_key(key, cell);
		was_read(holds, key, "n2", i + 2);
	}
	CHECK_EQ(holds_count(holds), 500);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(cell, sizeof(cell), "c%u", i);
		name_own_key(key, cell);
		CHECK_EQ(holds_has(holds, key, i + 1), i % 2 == 1);
	}
	holds_free(holds);
}

static void a_mount_that_keeps_no_lease_holds_nothing(void)
{
	wrote(NULL, KEY, "n1", 5);
	was_read(NULL, KEY, "n1", 5);
	holds_free(NULL);
}

static void *claim_and_release(void *arg)
{
	for (uint64_t epoch = 1; epoch <= 2000; epoch += 2) {
		wrote(arg, KEY, "n1", epoch);
		wrote(arg, "cells/d/own.json", "n1", epoch);
		was_read(arg, KEY, "n2", epoch + 1);
		CHECK(holds_count(arg) <= 2);
	}
	return NULL;
}

static void threads_may_use_it_at_once(void)
{
	struct holds *holds = holds_new("n1");
	pthread_t threads[4];

	for (size_t i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, claim_and_release,
					holds),
			 0);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	was_read(holds, KEY, "n2", 5000);
	CHECK(holds_has(holds, "cells/d/own.json", 1999));
	CHECK_EQ(holds_count(holds), 1);
	holds_free(holds);
}

int main(void)
{
	RUN(nothing_is_held_at_first);
	RUN(a_claim_is_held_at_its_epoch_alone);
	RUN(a_later_claim_takes_its_place);
	RUN(a_release_ends_it);
	RUN(a_late_answer_to_a_release_does_not_end_the_next_claim);
	RUN(what_is_read_ends_it_only_if_it_proves_it);
	RUN(many_cells_do_not_get_into_each_others_way);
	RUN(a_mount_that_keeps_no_lease_holds_nothing);
	RUN(threads_may_use_it_at_once);
	return 0;
}
