/* store_sqlite: swaps, bodies, listings, URLs. Many writers at once are in
 * test_store_sqlite_race.c.
 */
#define _GNU_SOURCE /* nftw */

#include "store_fixture.h"

#include "record.h"

#include <sys/resource.h>

/* --- One writer ----------------------------------------------------------- */

static const struct store_options writable = {0};

static void test_swaps(void)
{
	struct store *store;
	struct put first, second, third;
	struct object object;
	struct answer answer;

	set_up();
	store = open_store();
	object_init(&object);
	CHECK_EQ(get(store, "k", NULL, &object, &answer), OUTCOME_ABSENT);
	CHECK_EQ(answer.status, 404);
	CHECK_EQ(put_text(store, "k", "x", match("\"none\""), &first),
		 OUTCOME_REJECTED);
	CHECK_EQ(first.answer.status, 412);
	CHECK_STR(first.answer.reason.text, "there is no such record");
	CHECK_EQ(get(store, "k", NULL, &object, &answer), OUTCOME_ABSENT);

	CHECK_EQ(put_text(store, "k", "one", absent, &first), OUTCOME_OK);
	CHECK_EQ(first.answer.status, 200);
	CHECK_EQ(strlen(first.etag), 34);
	CHECK_EQ(first.etag[0], '"');
	CHECK_EQ(strspn(first.etag + 1, "0123456789abcdef"), 32);
	CHECK_EQ(put_text(store, "k", "two", absent, &second),
		 OUTCOME_REJECTED);
	CHECK_STR(second.answer.reason.text, "the record exists");
	CHECK_STR(second.etag, "");
	CHECK_STR(text_of(store, "k"), "one");

	CHECK_EQ(put_text(store, "k", "two", match(first.etag), &second),
		 OUTCOME_OK);
	CHECK(strcmp(second.etag, first.etag) != 0);
	CHECK_EQ(put_text(store, "k", "three", match(first.etag), &third),
		 OUTCOME_REJECTED);
	CHECK_EQ(third.answer.status, 412);
	CHECK(strstr(third.answer.reason.text, second.etag) != NULL);

	CHECK_EQ(get(store, "k", NULL, &object, &answer), OUTCOME_OK);
	CHECK_EQ(answer.status, 200);
	CHECK_EQ(object.body.len, 3);
	CHECK(memcmp(object.body.bytes, "two", 3) == 0);
	CHECK_STR(object.etag, second.etag);
	CHECK_STR(object.attempt.hex, second.attempt.hex);
	CHECK_EQ(get(store, "k", second.etag, &object, &answer),
		 OUTCOME_UNCHANGED);
	CHECK_EQ(answer.status, 304);
	CHECK_EQ(get(store, "k", first.etag, &object, &answer), OUTCOME_OK);
	object_release(&object);
	store_close(store);
	clean_up();
}

static void test_rules(void)
{
	struct limits limits = in_ms(60000);
	static char key[1026];
	struct buf after = {.cap = LIST_AFTER_MAX};
	struct store *store;
	struct answer answer;
	struct put put;

	memset(key, 'k', sizeof(key) - 1);
	set_up();
	store = open_store();
	CHECK_EQ(
		put_text(store, "k", "x", (struct guard){GUARD_NONE, ""}, &put),
		OUTCOME_FORBIDDEN);
	CHECK_EQ(put_text(store, key, "x", absent, &put), OUTCOME_FAILED);
	create(store, key + 1, "x");
	create(store, "cells/a/own.json", "x");
	create(store, "probe/a", "x");
	CHECK_EQ(store_remove(store, &limits, "cells/a/own.json", &answer),
		 OUTCOME_FORBIDDEN);
	CHECK_STR(text_of(store, "cells/a/own.json"), "x");
	CHECK_EQ(store_list(store, &limits, "cells", &after, NULL, NULL,
			    &answer),
		 OUTCOME_FAILED);
	CHECK(strstr(answer.reason.text, "no prefix to list") != NULL);
	CHECK_EQ(store_remove(store, &limits, "probe/a", &answer), OUTCOME_OK);
	CHECK_EQ(store_remove(store, &limits, "probe/a", &answer), OUTCOME_OK);
	create(store, "probe/a", "again");
	store_close(store);
	clean_up();
}

/* The disk gives out in the middle of a commit. */
static void write_beyond_limit(int arg)
{
	struct rlimit limit = {0};
	struct store *store = open_store();
	struct put first, second;
	char log[128];
	struct stat st;

	(void)arg;
	signal(SIGXFSZ, SIG_IGN);
	CHECK_EQ(put_text(store, "k", "one", absent, &first), OUTCOME_OK);
	snprintf(log, sizeof(log), "%s-wal", path);
	CHECK_EQ(stat(log, &st), 0);
	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = (rlim_t)st.st_size;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_EQ(put_text(store, "k", "two", match(first.etag), &second),
		 OUTCOME_UNKNOWN);
	CHECK_STR(text_of(store, "k"), "one");
	limit.rlim_cur = limit.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_EQ(put_text(store, "k", "two", match(first.etag), &second),
		 OUTCOME_OK);
	CHECK_STR(text_of(store, "k"), "two");
	store_close(store);
}

static void test_failed_commit(void)
{
	set_up();
	wait_for(start(write_beyond_limit, 0));
	clean_up();
}

static int64_t ticks;

static int64_t tick(void)
{
	return ticks++;
}

/* The deadline comes at every place where a call looks at the clock, one after
 * the other: nothing is written then, and the next call is as good as ever. */
static void test_deadline_anywhere(void)
{
	struct limits limits = {0};
	struct store *store;
	struct object object;
	struct answer answer;
	struct put put;
	enum outcome outcome = OUTCOME_TIMEOUT;
	int refused = 0;

	set_up();
	store = open_store();
	object_init(&object);
	for (int n = 1; outcome != OUTCOME_OK; n++) {
		ticks = 0;
		limits.deadline_ms = n;
		clock_replace(tick, NULL);
		outcome = put_within(store, &limits, "k", "x", 1, absent, &put);
		clock_replace(NULL, NULL);
		if (outcome == OUTCOME_OK)
			break;
		refused++;
		CHECK_EQ(outcome, OUTCOME_TIMEOUT);
		CHECK_STR(put.etag, "");
		CHECK_EQ(get(store, "k", NULL, &object, &answer),
			 OUTCOME_ABSENT);
	}
	CHECK(refused >= 2);
	CHECK_STR(text_of(store, "k"), "x");
	object_release(&object);
	store_close(store);
	clean_up();
}

static int compare_etags(const void *a, const void *b)
{
	return memcmp(a, b, 35);
}

static void test_etags_never_repeat(void)
{
	enum { ALL = 10000, UNDER_VALGRIND = 1000 };
	static char etags[ALL][35];
	int writes = getenv("CELLDFS_VALGRIND") ? UNDER_VALGRIND : ALL;
	struct store *store;
	struct put put;

	set_up();
	store = open_store();
	CHECK_EQ(put_text(store, "k", "same", absent, &put), OUTCOME_OK);
	for (int i = 0; i < writes; i++) {
		CHECK_EQ(put_text(store, "k", "same", match(put.etag), &put),
			 OUTCOME_OK);
		memcpy(etags[i], put.etag, 35);
	}
	qsort(etags, (size_t)writes, 35, compare_etags);
	for (int i = 1; i < writes; i++)
		CHECK(compare_etags(etags[i - 1], etags[i]) != 0);
	store_close(store);
	clean_up();
}

static void test_bodies(void)
{
	static char big[RECORD_READ_MAX + 1];
	struct limits limits = in_ms(60000);
	struct store *store;
	struct object object;
	struct answer answer;
	char bytes[256];
	struct put put;

	for (int i = 0; i < 256; i++)
		bytes[i] = (char)i;
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 7 + i / 256);
	set_up();
	store = open_store();
	object_init(&object);
	CHECK_EQ(put_within(store, &limits, "b", bytes, 256, absent, &put),
		 OUTCOME_OK);
	CHECK_EQ(put_within(store, &limits, "0", "", 0, absent, &put),
		 OUTCOME_OK);
	CHECK_EQ(put_within(store, &limits, "m", big, RECORD_READ_MAX, absent,
			    &put),
		 OUTCOME_OK);
	CHECK_EQ(put_within(store, &limits, "m+", big, sizeof(big), absent,
			    &put),
		 OUTCOME_OK);
	store_close(store);
	store = open_store();
	CHECK_EQ(get(store, "m+", NULL, &object, &answer), OUTCOME_TOO_LARGE);
	CHECK_EQ(get(store, "m", NULL, &object, &answer), OUTCOME_OK);
	CHECK_EQ(object.body.len, RECORD_READ_MAX);
	CHECK(memcmp(object.body.bytes, big, RECORD_READ_MAX) == 0);
	CHECK_EQ(get(store, "b", NULL, &object, &answer), OUTCOME_OK);
	CHECK_EQ(object.body.len, 256);
	CHECK(memcmp(object.body.bytes, bytes, 256) == 0);
	CHECK_EQ(get(store, "0", NULL, &object, &answer), OUTCOME_OK);
	CHECK_EQ(object.body.len, 0);
	object_release(&object);
	store_close(store);
	clean_up();
}

/* --- Listing -------------------------------------------------------------- */

struct names {
	char text[1 << 17]; /* "a b/ c " */
	size_t len;
	int count, stop_after;
	uint64_t last_size;
	int64_t last_modified_ms;
};

static enum outcome note(void *arg, const struct list_entry *entry)
{
	struct names *names = arg;

	names->len += (size_t)snprintf(
		names->text + names->len, sizeof(names->text) - names->len,
		"%s%s ", entry->name, entry->directory ? "/" : "");
	names->last_size = entry->size_bytes;
	names->last_modified_ms = entry->modified_ms;
	return ++names->count == names->stop_after ? OUTCOME_NO_MEMORY
						   : OUTCOME_OK;
}

/* One page of PREFIX; *AFTER as in store_list(). */
static const char *list(struct store *store, const char *prefix,
			struct buf *after, struct names *names)
{
	struct limits limits = in_ms(60000);
	struct answer answer;

	memset(names, 0, sizeof(*names));
	CHECK_EQ(
		store_list(store, &limits, prefix, after, note, names, &answer),
		OUTCOME_OK);
	CHECK(after->len <= LIST_AFTER_MAX);
	return names->text;
}

static void test_list_names(void)
{
	static struct names names;
	struct limits limits = in_ms(60000);
	struct answer answer;
	struct store *store;
	struct buf after;
	char key[300], want[256];

	set_up();
	buf_init(&after, LIST_AFTER_MAX);
	store = open_store();
	CHECK_STR(list(store, "cells/", &after, &names), "");
	CHECK_EQ(after.len, 0);
	create(store, "cells/a/own.json", "1");
	create(store, "cells/a/ltx/e1/0001", "2");
	create(store, "cells/a:b/own.json", "3");
	create(store, "cells/a$b/own.json", "4");
	create(store, "cells/a-b/own.json", "5");
	create(store, "cells/a", "a plain object");
	create(store, "cells/a0", "12345");
	create(store, "cells.x/b/own.json", "7");
	create(store, "cells0", "8");
	create(store, "nodes/n1.json", "9");
	memset(want, 'z', 255);
	want[255] = '\0';
	snprintf(key, sizeof(key), "cells/%s/own.json", want);
	create(store, key, "x");
	list(store, "cells/", &after, &names);
	CHECK(strncmp(names.text, "a a$b/ a-b/ a/ a0 a:b/ z", 24) == 0);
	CHECK_EQ(names.count, 7);
	CHECK_EQ(names.len, 23 + 255 + 2);
	CHECK_EQ(after.len, 0);
	CHECK_STR(list(store, "nodes/", &after, &names), "n1.json ");
	CHECK_EQ(names.last_size, 1);
	CHECK(names.last_modified_ms > INT64_C(1600000000000));
	CHECK_STR(list(store, "cells/a/", &after, &names), "ltx/ own.json ");
	CHECK_STR(list(store, "none/", &after, &names), "");

	/* what the callback says ends the page */
	memset(&names, 0, sizeof(names));
	names.stop_after = 2;
	CHECK_EQ(store_list(store, &limits, "cells/", &after, note, &names,
			    &answer),
		 OUTCOME_NO_MEMORY);
	CHECK_STR(names.text, "a a$b/ ");
	/* and what is no place in this listing is refused */
	CHECK_EQ(buf_set(&after, "nodes/x", 7), OUTCOME_OK);
	CHECK_EQ(store_list(store, &limits, "cells/", &after, note, &names,
			    &answer),
		 OUTCOME_FAILED);
	buf_release(&after);
	store_close(store);
	clean_up();
}

static void test_list_pages(void)
{
	static struct names names;
	struct store *store;
	struct buf after;
	char name[32];
	int seen = 0;

	set_up();
	buf_init(&after, LIST_AFTER_MAX);
	store = open_store();
	fill("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n "
	     "WHERE i < 2499), k(j) AS (VALUES ('/own.json'), "
	     "('/ltx/e1/1'), ('/ltx/e1/2'), ('/ltx/e2/1'), ('/x'))"
	     "INSERT INTO record SELECT printf('cells/c%04d%s', i, j), 'b', "
	     "'e', '', 1 FROM n, k;"
	     /* somebody else's, with too long a name: passed over */
	     "INSERT INTO record SELECT printf('cells/c0007%.*c', 2000, 'x'), "
	     "'b', 'e', '', 1");
	for (int page = 0; page < 3; page++) {
		const char *text = list(store, "cells/", &after, &names);

		CHECK_EQ(names.count, page < 2 ? 1000 : 500);
		CHECK_EQ(after.len > 0, page < 2);
		for (int i = 0; i < names.count; i++, seen++) {
			snprintf(name, sizeof(name), "c%04d/ ", seen);
			CHECK(strncmp(text + 7 * i, name, 7) == 0);
		}
	}
	CHECK_EQ(seen, 2500);

	/* what goes and comes between two pages shifts nothing */
	list(store, "cells/", &after, &names);
	fill("DELETE FROM record WHERE key LIKE 'cells/c0999/%' "
	     "OR key LIKE 'cells/c1000/%';"
	     "INSERT INTO record VALUES ('cells/c0998a', 'b', 'e', '', 1),"
	     "('cells/c1000a', 'b', 'e', '', 1)");
	list(store, "cells/", &after, &names);
	CHECK(strncmp(names.text, "c1000a c1001/ ", 14) == 0);
	CHECK_EQ(names.count, 1000);

	/* exactly a page: no empty one follows */
	fill("DELETE FROM record WHERE key >= 'cells/c1000'");
	fill("DELETE FROM record WHERE key = 'cells/c0998a' OR "
	     "key LIKE 'cells/c0007x%';"
	     "INSERT INTO record VALUES ('cells/c1', 'b', 'e', '', 1)");
	buf_clear(&after);
	list(store, "cells/", &after, &names);
	CHECK_EQ(names.count, 1000);
	CHECK_EQ(after.len, 0);
	buf_release(&after);
	store_close(store);
	clean_up();
}

/* --- URLs ----------------------------------------------------------------- */

static void test_urls(void)
{
	struct limits limits = in_ms(60000);
	struct reason reason = {""};
	struct store *store;
	char url[160], *absolute;

	set_up();
	CHECK_EQ(store_open(&store, "gopher:x", &writable, &limits, &reason),
		 OUTCOME_INVALID);
	CHECK(strstr(reason.text, "gopher:x") != NULL);
	CHECK(strstr(reason.text, "sqlite:PATH") != NULL);
	CHECK_EQ(store_open(&store, "sqlite:", &writable, &limits, &reason),
		 OUTCOME_INVALID);
	CHECK_EQ(store_absolute_url(&absolute, "x", &reason), OUTCOME_INVALID);
	CHECK(absolute == NULL);

	snprintf(url, sizeof(url), "sqlite:%s", path);
	CHECK_EQ(store_absolute_url(&absolute, url, &reason), OUTCOME_OK);
	CHECK_STR(absolute, url);
	free(absolute);
	CHECK_EQ(chdir(dir), 0);
	CHECK_EQ(store_absolute_url(&absolute, "sqlite:store", &reason),
		 OUTCOME_OK);
	CHECK_EQ(chdir("/"), 0);
	CHECK_STR(absolute, url);
	CHECK_EQ(store_open(&store, absolute, &writable, &limits, &reason),
		 OUTCOME_OK);
	store_close(store);
	free(absolute);
	CHECK_EQ(store_absolute_url(&absolute, "sqlite:x", &reason),
		 OUTCOME_OK);
	CHECK_STR(absolute, "sqlite:/x");
	free(absolute);

	snprintf(url, sizeof(url), "sqlite:%s/none/store", dir);
	CHECK_EQ(store_absolute_url(&absolute, url, &reason), OUTCOME_FAILED);
	CHECK(strstr(reason.text, "/none: No such file") != NULL);
	snprintf(url, sizeof(url), "sqlite:%s/store", path);
	CHECK_EQ(store_absolute_url(&absolute, url, &reason), OUTCOME_FAILED);
	snprintf(url, sizeof(url), "sqlite:%s/", dir);
	CHECK_EQ(store_absolute_url(&absolute, url, &reason), OUTCOME_INVALID);
	clean_up();
}

int main(void)
{
	RUN(test_swaps);
	RUN(test_rules);
	RUN(test_failed_commit);
	RUN(test_deadline_anywhere);
	RUN(test_etags_never_repeat);
	RUN(test_bodies);
	RUN(test_list_names);
	RUN(test_list_pages);
	RUN(test_urls);
	return 0;
}
