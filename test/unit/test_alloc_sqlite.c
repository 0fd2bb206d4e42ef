/* The embedded store when memory runs out, in SQLite as well, and what stands
 * upon a store: a write that is not known to be applied is not called so,
 * nothing that is there is called absent, and no cell is taken from a node that
 * lives.
 *
 * not under valgrind: it looks past the malloc() of alloc.h.
 */
#define _GNU_SOURCE

#include "alloc.h"

#include "cas.h"
#include "judge.h"
#include "mount.h"
#include "probe.h"
#include "record.h"
#include "seen.h"
#include "store_fixture.h"
#include "turnstile.h"

#define KEY  "cells/a/own.json"
#define OLD  "{\"node\":\"n1\",\"epoch\":1}"
#define NEXT "{\"node\":\"n1\",\"epoch\":2}"

static struct store *store;
static struct answer answer;
static struct reason reason;

/* Done, or what is said where memory is short. */
static bool done(enum outcome outcome)
{
	if (outcome != OUTCOME_OK && outcome != OUTCOME_NO_MEMORY &&
	    outcome != OUTCOME_FAILED)
		CHECK_FAIL("%s", outcome_word(outcome));
	return outcome == OUTCOME_OK;
}

/* --- Opening -------------------------------------------------------------- */

static bool open_as(bool read_only)
{
	struct store_options options = {.read_only = read_only};
	struct limits limits = in_ms(60000);
	struct store *opened;
	enum outcome outcome;

	alloc_begin();
	outcome = store_sqlite_open(&opened, path, &options, &limits, &reason);
	alloc_end();
	if (outcome == OUTCOME_OK)
		store_close(opened);
	CHECK(strstr(reason.text, "damaged") == NULL);
	return done(outcome);
}

static bool store_is_opened(void)
{
	return open_as(false);
}

static bool store_is_opened_to_read(void)
{
	return open_as(true);
}

/* What a failure leaves behind is no store that others cannot open. */
static bool store_is_made(void)
{
	char name[120];
	bool made;

	unlink(path);
	for (size_t i = 0; i < 3; i++) {
		static const char *const tails[] = {"-wal", "-shm", "-queue"};

		snprintf(name, sizeof(name), "%s%s", path, tails[i]);
		unlink(name);
	}
	made = open_as(false);
	if (!made) {
		struct store *again = open_store();

		store_close(again);
	}
	return made;
}

static bool turnstile_is_opened(void)
{
	enum outcome outcome;
	int fd = -1;

	alloc_begin();
	outcome = turnstile_open(&fd, path, &reason);
	alloc_end();
	if (fd >= 0)
		CHECK_EQ(close(fd), 0);
	return done(outcome);
}

/* --- Reading -------------------------------------------------------------- */

static bool get_as(const char *key, const char *known, enum outcome wanted)
{
	struct limits limits = in_ms(60000);
	struct object object;
	enum outcome outcome;

	object_init(&object);
	alloc_begin();
	outcome = store_get(store, &limits, key, known, &object, &answer);
	alloc_end();
	if (outcome == OUTCOME_OK) {
		CHECK_EQ(object.body.len, strlen(OLD));
		CHECK(memcmp(object.body.bytes, OLD, strlen(OLD)) == 0);
		CHECK(object.etag[0] == '"' && object.attempt.hex[0] != '\0');
	}
	object_release(&object);
	return outcome == wanted || done(outcome);
}

static bool record_is_read(void)
{
	return get_as(KEY, NULL, OUTCOME_OK);
}

static bool record_is_absent(void)
{
	return get_as("cells/none/own.json", NULL, OUTCOME_ABSENT);
}

static bool record_is_unchanged(void)
{
	static char known[ETAG_SIZE];
	struct limits limits = in_ms(60000);
	struct object object;

	object_init(&object);
	if (known[0] == '\0') {
		CHECK_EQ(store_get(store, &limits, KEY, NULL, &object, &answer),
			 OUTCOME_OK);
		memcpy(known, object.etag, sizeof(known));
	}
	object_release(&object);
	return get_as(KEY, known, OUTCOME_UNCHANGED);
}

static unsigned names;

static enum outcome take_name(void *arg, const struct list_entry *entry)
{
	char wanted[20];

	(void)arg;
	snprintf(wanted, sizeof(wanted), "%c", 'a' + (int)names++);
	CHECK_STR(entry->name, wanted);
	CHECK(entry->directory);
	return OUTCOME_OK;
}

static bool cells_are_listed(void)
{
	struct limits limits = in_ms(60000);
	struct buf after;
	enum outcome outcome;

	names = 0;
	buf_init(&after, LIST_AFTER_MAX);
	alloc_begin();
	outcome = store_list(store, &limits, "cells/", &after, take_name, NULL,
			     &answer);
	alloc_end();
	CHECK_EQ(after.len, 0);
	buf_release(&after);
	if (outcome == OUTCOME_OK)
		CHECK_EQ(names, 3);
	return done(outcome);
}

/* The listing keeps the only idle connection, so that this opens another. */
static enum outcome read_within(void *arg, const struct list_entry *entry)
{
	bool *read = arg;

	(void)entry;
	*read = record_is_read();
	return OUTCOME_REJECTED;
}

static bool record_is_read_on_a_new_connection(void)
{
	struct store *shared = store;
	struct limits limits = in_ms(60000);
	struct buf after;
	bool read;

	store = open_store();
	buf_init(&after, LIST_AFTER_MAX);
	CHECK_EQ(store_list(store, &limits, "cells/", &after, read_within,
			    &read, &answer),
		 OUTCOME_REJECTED);
	store_close(store);
	store = shared;
	return read;
}

/* --- Writing -------------------------------------------------------------- */

/* KEY holds BODY, by the word of another connection. */
static bool is_there(const char *body)
{
	struct store *other = open_store();
	bool there = strcmp(text_of(other, KEY), body) == 0;

	store_close(other);
	return there;
}

static void write_old(struct put *put)
{
	struct limits limits = in_ms(60000);
	struct object object;

	object_init(&object);
	CHECK_EQ(get(store, KEY, NULL, &object, &answer), OUTCOME_OK);
	CHECK_EQ(put_within(store, &limits, KEY, OLD, strlen(OLD),
			    match(object.etag), put),
		 OUTCOME_OK);
	object_release(&object);
}

/* Whatever OUTCOME says of a write of NEXT over OLD is true. */
static bool written(enum outcome outcome)
{
	if (outcome == OUTCOME_UNKNOWN)
		return false;
	CHECK(is_there(outcome == OUTCOME_OK ? NEXT : OLD));
	return outcome != OUTCOME_TIMEOUT && done(outcome);
}

static bool record_is_swapped(void)
{
	struct limits limits = in_ms(60000);
	struct put old, next;
	struct guard guard;
	enum outcome outcome;

	write_old(&old);
	guard = match(old.etag);
	CHECK_EQ(attempt_new(&next.attempt), OUTCOME_OK);
	alloc_begin();
	outcome = store_put_if(store, &limits, KEY, NEXT, strlen(NEXT), &guard,
			       &next.attempt, next.etag, &next.answer);
	alloc_end();
	CHECK_EQ(next.etag[0] != '\0', outcome == OUTCOME_OK);
	return written(outcome);
}

/* The guard is of a version that was replaced. */
static bool stale_swap_is_refused(void)
{
	struct limits limits = in_ms(60000);
	struct put stale, old, next;
	struct guard guard;
	enum outcome outcome;

	write_old(&stale);
	write_old(&old);
	guard = match(stale.etag);
	CHECK_EQ(attempt_new(&next.attempt), OUTCOME_OK);
	alloc_begin();
	outcome = store_put_if(store, &limits, KEY, NEXT, strlen(NEXT), &guard,
			       &next.attempt, next.etag, &next.answer);
	alloc_end();
	CHECK(outcome != OUTCOME_OK);
	CHECK(is_there(OLD));
	return outcome == OUTCOME_REJECTED || done(outcome);
}

static bool second_create_is_refused(void)
{
	struct limits limits = in_ms(60000);
	struct put old, next;
	enum outcome outcome;

	write_old(&old);
	CHECK_EQ(attempt_new(&next.attempt), OUTCOME_OK);
	alloc_begin();
	outcome = store_put_if(store, &limits, KEY, NEXT, strlen(NEXT), &absent,
			       &next.attempt, next.etag, &next.answer);
	alloc_end();
	CHECK(outcome != OUTCOME_OK);
	CHECK(is_there(OLD));
	return outcome == OUTCOME_REJECTED || done(outcome);
}

static bool key_is_removed(void)
{
	struct limits limits = in_ms(60000);
	enum outcome outcome;
	struct put put;

	CHECK(put_text(store, "probe/x", "x", absent, &put) == OUTCOME_OK ||
	      put.answer.status == 412);
	alloc_begin();
	outcome = store_remove(store, &limits, "probe/x", &answer);
	alloc_end();
	return done(outcome);
}

/* Where nothing can be read back that is tried until the deadline. */
static bool settle_within(int64_t ms)
{
	struct limits limits = in_ms(ms);
	struct cas_result result;
	struct cas_write write = {
		.key = KEY, .body = NEXT, .len = strlen(NEXT)};
	enum outcome outcome;
	struct put old;

	write_old(&old);
	write.guard = match(old.etag);
	alloc_begin();
	outcome = cas_put(store, &limits, &write, &result);
	alloc_end();
	return written(outcome);
}

static bool write_is_settled(void)
{
	bool done_soon =
		settle_within(alloc.first != 0 && alloc.all ? 100 : 60000);

	/* only the machine was slow */
	return done_soon || (!alloc.failed && settle_within(60000));
}

/* A store that was only short of memory is not called a liar. */
static bool store_is_probed(void)
{
	struct limits limits = in_ms(60000);
	enum outcome outcome;

	alloc_begin();
	outcome = probe_run(store, &limits, &reason);
	alloc_end();
	if (outcome == OUTCOME_FAILED)
		CHECK(strstr(reason.text, "memory") != NULL);
	return outcome != OUTCOME_TIMEOUT && done(outcome);
}

static bool store_is_reported_on(void)
{
	struct limits limits = in_ms(60000);
	char text[4000] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");
	enum outcome outcome;

	CHECK(out != NULL);
	alloc_begin();
	outcome = probe_report(store, &limits, out, &reason);
	alloc_end();
	CHECK_EQ(fclose(out), 0);
	CHECK_EQ(strstr(text, "can be trusted") != NULL, outcome == OUTCOME_OK);
	if (outcome == OUTCOME_FAILED)
		CHECK(strstr(reason.text, "memory") != NULL ||
		      strstr(reason.text, "no threads") != NULL);
	return done(outcome);
}

/* Each time with 64 threads, so only with what comes after the probe. */
static void store_is_raced_on(void)
{
	bool racing = false; /* the threads are being started */
	unsigned long n = 0;

	alloc.all = false;
	do {
		alloc.first = 0;
		CHECK(store_is_probed()); /* on a connection that stays */
		n += n == 0 ? alloc.count + 1 : racing ? 7 : 1;
		alloc.first = n;
		alloc.failed = false;
		CHECK(store_is_reported_on() || alloc.failed);
		racing = racing || strstr(reason.text, "no threads") != NULL;
	} while (alloc.failed);
	alloc.first = 0;
}

/* --- Taking over ---------------------------------------------------------- */

/* May the cell of NODE be taken? */
static enum outcome judge(const char *node)
{
	struct limits limits = in_ms(60000);
	struct mount mount = {.store = store, .rules = {.skew_ms = 1000}};
	struct own owned = {.epoch = 1};
	struct verdict verdict;
	enum outcome outcome;

	mount.seen = seen_new();
	CHECK(mount.seen != NULL);
	snprintf(owned.node, sizeof(owned.node), "%s", node);
	alloc_begin();
	outcome = judge_takeover(&mount, &limits, &owned, &verdict, &reason);
	alloc_end();
	seen_free(mount.seen);
	return outcome;
}

static bool dead_owner_is_told(void)
{
	return done(judge("dead"));
}

static bool living_owner_keeps_it(void)
{
	enum outcome outcome = judge("alive");

	CHECK(outcome != OUTCOME_OK);
	return outcome == OUTCOME_REJECTED || done(outcome);
}

int main(void)
{
	alloc_step = 11;
	/* where there is one, a filesystem on which fsync() costs nothing */
	set_up_in(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	TRY(store_is_made);
	TRY(store_is_opened);
	TRY(turnstile_is_opened);
	store = open_store();
	create(store, KEY, OLD);
	create(store, "cells/b/own.json", OLD);
	create(store, "cells/c/own.json", OLD);
	create(store, "nodes/dead.json",
	       "{\"node\":\"dead\",\"expires_ms\":1}");
	create(store, "nodes/alive.json",
	       "{\"node\":\"alive\",\"expires_ms\":9000000000000}");
	TRY(store_is_opened_to_read);
	TRY(record_is_read);
	TRY(record_is_absent);
	TRY(record_is_unchanged);
	TRY(cells_are_listed);
	TRY(record_is_read_on_a_new_connection);
	TRY(record_is_swapped);
	TRY(stale_swap_is_refused);
	TRY(second_create_is_refused);
	TRY(key_is_removed);
	TRY(write_is_settled);
	TRY(store_is_probed);
	RUN(store_is_raced_on);
	TRY(dead_owner_is_told);
	TRY(living_owner_keeps_it);
	store_close(store);
	clean_up();
	return 0;
}
