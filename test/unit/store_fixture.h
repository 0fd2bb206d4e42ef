/* store_fixture: what the tests of stores share: a directory of their own, short
 * forms of the calls, other processes. Define _GNU_SOURCE before.
 */
#ifndef CELLDFS_STORE_FIXTURE_H
#define CELLDFS_STORE_FIXTURE_H

#include "check.h"

#include "clock.h"
#include "store.h"
#include "store_sqlite.h"

#include <ftw.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Not every test uses every one of them. */
#pragma GCC diagnostic ignored "-Wunused-function"

static char dir[64], path[96];

static void set_up_in(const char *parent)
{
	snprintf(dir, sizeof(dir), "%s/celldfs-store-XXXXXX", parent);
	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/store", dir);
}

static void set_up(void)
{
	set_up_in("/tmp");
}

static int remove_one(const char *name, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(name);
}

static void clean_up(void)
{
	CHECK_EQ(nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static struct limits in_ms(int64_t ms)
{
	return (struct limits){.deadline_ms = clock_boot_ms() + ms};
}

static enum outcome try_open(struct store **store, bool read_only,
			     struct reason *reason)
{
	struct store_options options = {.read_only = read_only};
	struct limits limits = in_ms(60000);

	reason->text[0] = '\0';
	return store_sqlite_open(store, path, &options, &limits, reason);
}

static struct store *open_store(void)
{
	struct store *store = NULL;
	struct reason reason;

	if (try_open(&store, false, &reason) != OUTCOME_OK)
		CHECK_FAIL("open: %s", reason.text);
	return store;
}

static const struct guard absent __attribute__((unused)) = {.kind = GUARD_ABSENT};

static struct guard match(const char *etag)
{
	struct guard guard;

	CHECK_EQ(guard_of_etag(&guard, etag, NULL), OUTCOME_OK);
	return guard;
}

struct put {
	char etag[ETAG_SIZE];
	struct attempt attempt;
	struct answer answer;
};

static enum outcome put_within(struct store *store, const struct limits *limits,
			       const char *key, const char *body, size_t len,
			       struct guard guard, struct put *put)
{
	CHECK_EQ(attempt_new(&put->attempt), OUTCOME_OK);
	return store_put_if(store, limits, key, body, len, &guard,
			    &put->attempt, put->etag, &put->answer);
}

static enum outcome put_text(struct store *store, const char *key,
			     const char *body, struct guard guard,
			     struct put *put)
{
	struct limits limits = in_ms(60000);

	return put_within(store, &limits, key, body, strlen(body), guard, put);
}

static void create(struct store *store, const char *key, const char *body)
{
	struct put put;

	if (put_text(store, key, body, absent, &put) != OUTCOME_OK)
		CHECK_FAIL("create %s: %s", key, put.answer.reason.text);
}

static enum outcome get(struct store *store, const char *key, const char *known,
			struct object *object, struct answer *answer)
{
	struct limits limits = in_ms(60000);

	return store_get(store, &limits, key, known, object, answer);
}

/* The body of KEY, which must be there, in memory that is used again. */
static const char *text_of(struct store *store, const char *key)
{
	static char text[1000];
	struct object object;
	struct answer answer;

	object_init(&object);
	CHECK_EQ(get(store, key, NULL, &object, &answer), OUTCOME_OK);
	CHECK(object.body.len < sizeof(text));
	memcpy(text, object.body.bytes, object.body.len);
	text[object.body.len] = '\0';
	object_release(&object);
	return text;
}

/* With gcc's --coverage: writes down what was run, as exit() does. */
void __gcov_dump(void) __attribute__((weak));

/* Runs WORK in a process of its own, which succeeds if WORK returns and does
 * not outlive the test. */
static pid_t start(void (*work)(int arg), int arg)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		work(arg);
		if (__gcov_dump != NULL)
			__gcov_dump();
		_exit(0);
	}
	return pid;
}

static void wait_for(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static void pause_ms(long ms)
{
	struct timespec pause = {.tv_sec = ms / 1000,
				 .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&pause, NULL);
}

/* Many rows at once, by another program. */
static void fill(const char *sql)
{
	char *message = NULL;
	sqlite3 *db;

	CHECK_EQ(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
		CHECK_FAIL("%s: %s", sql, message);
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

#endif
