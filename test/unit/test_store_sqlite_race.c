/* store_sqlite, many writers at once: none is lost, none waits long, and all
 * end in time.
 *
 * not under valgrind: it holds up all threads of a process while one of them
 * waits in fcntl(F_OFD_SETLKW).
 */
#define _GNU_SOURCE /* nftw, pipe2 */

#include "store_fixture.h"

#include "turnstile.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* How late something may be on a machine that has other things to do. */
#define LATE_MS 800

static int64_t skewed_wall_ms;

static int64_t skewed_wall(void)
{
	return skewed_wall_ms;
}

/* The base of the store's clock; the two clocks are not read at once. */
static long long clock_base(struct store *store)
{
	struct limits limits = in_ms(60000);
	struct fleet_time time;
	int64_t before_ms;

	do {
		before_ms = clock_boot_ms();
		CHECK_EQ(store_now(store, &limits, &time), OUTCOME_OK);
	} while (clock_boot_ms() != before_ms);
	return time.earliest_ms - before_ms;
}

/* Under a wall clock of its own, so that two clocks would differ. */
static void create_own(int number)
{
	struct store *store;
	char key[32], base[32];

	skewed_wall_ms = clock_wall_ms() + number * 60000;
	clock_replace(NULL, skewed_wall);
	store = open_store();
	snprintf(key, sizeof(key), "k%d", number);
	snprintf(base, sizeof(base), "%lld", clock_base(store));
	create(store, key, base);
	store_close(store);
}

static void test_creation_race(void)
{
	enum { PROCESSES = 16 };
	pid_t pids[PROCESSES];
	struct store *store;
	char key[32], base[32];

	for (int round = 0; round < 5; round++) {
		set_up();
		for (int i = 0; i < PROCESSES; i++)
			pids[i] = start(create_own, i);
		for (int i = 0; i < PROCESSES; i++)
			wait_for(pids[i]);
		store = open_store();
		snprintf(base, sizeof(base), "%lld", clock_base(store));
		for (int i = 0; i < PROCESSES; i++) {
			snprintf(key, sizeof(key), "k%d", i);
			CHECK_STR(text_of(store, key), base);
		}
		store_close(store);
		clean_up();
	}
}

/* Adds one to the number in "k" by a guarded write; returns the new number. */
static long increment(struct store *store)
{
	for (;;) {
		struct object object;
		struct answer answer;
		struct put put;
		enum outcome outcome;
		char text[32] = "";
		long number;

		object_init(&object);
		CHECK_EQ(get(store, "k", NULL, &object, &answer), OUTCOME_OK);
		CHECK(object.body.len < sizeof(text));
		memcpy(text, object.body.bytes, object.body.len);
		number = strtol(text, NULL, 10) + 1;
		snprintf(text, sizeof(text), "%ld", number);
		outcome = put_text(store, "k", text, match(object.etag), &put);
		object_release(&object);
		if (outcome == OUTCOME_OK)
			return number;
		CHECK_EQ(outcome, OUTCOME_REJECTED);
	}
}

static void increment_times(int times)
{
	struct store *store = open_store();

	for (int i = 0; i < times; i++)
		increment(store);
	store_close(store);
}

static void test_no_lost_update(void)
{
	enum { PROCESSES = 16, TIMES = 200 };
	pid_t pids[PROCESSES];
	struct store *store;

	set_up();
	store = open_store();
	create(store, "k", "0");
	store_close(store);
	for (int i = 0; i < PROCESSES; i++)
		pids[i] = start(increment_times, TIMES);
	for (int i = 0; i < PROCESSES; i++)
		wait_for(pids[i]);
	store = open_store();
	CHECK_STR(text_of(store, "k"), "3200");
	store_close(store);
	clean_up();
}

/* Writes KEY again and again until it is killed, or UNTIL_MS; returns how
 * many times, and in *WORST_MS the longest one. */
static int write_until(const char *key, int64_t until_ms, bool urgent,
		       int64_t *worst_ms)
{
	struct store *store = open_store();
	struct limits limits = in_ms(60000);
	struct put put;
	int count = 0;

	limits.urgent = urgent;
	CHECK_EQ(put_text(store, key, "{}", absent, &put), OUTCOME_OK);
	*worst_ms = 0;
	while (clock_boot_ms() < until_ms) {
		int64_t begun_ms = clock_boot_ms(), took_ms;

		CHECK_EQ(put_within(store, &limits, key, "{}", 2,
				    match(put.etag), &put),
			 OUTCOME_OK);
		took_ms = clock_boot_ms() - begun_ms;
		if (took_ms > *worst_ms)
			*worst_ms = took_ms;
		count++;
	}
	store_close(store);
	return count;
}

static void write_for_ever(int number)
{
	int64_t worst_ms;
	char key[32];

	snprintf(key, sizeof(key), "loop%d", number);
	write_until(key, INT64_MAX, false, &worst_ms);
}

/* Four writers in tight loops, and one that is measured. */
static void check_fairness(bool urgent)
{
	pid_t pids[4];
	int64_t worst_ms;
	int count;

	set_up();
	store_close(open_store());
	for (int i = 0; i < 4; i++)
		pids[i] = start(write_for_ever, i);
	pause_ms(200);
	count = write_until("measured", clock_boot_ms() + 2000, urgent,
			    &worst_ms);
	for (int i = 0; i < 4; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	printf("   %d swaps in 2 s beside four others, longest wait %" PRId64
	       " ms\n",
	       count, worst_ms);
	CHECK(worst_ms < 500);
	CHECK(count >= 10);
	clean_up();
}

static void test_fairness(void)
{
	check_fairness(false);
}

static void test_fairness_urgent(void)
{
	check_fairness(true);
}

/* Somebody who has the turn: a descriptor of PATH-queue with byte 1 locked. */
static int hold_turn(bool urgent)
{
	struct limits limits = in_ms(60000);
	int fd;

	limits.urgent = urgent;
	CHECK_EQ(turnstile_open(&fd, path, NULL), OUTCOME_OK);
	CHECK_EQ(turnstile_enter(fd, &limits, NULL), OUTCOME_OK);
	return fd;
}

/* A write in a thread of its own. */
struct writer {
	struct store *store;
	struct limits limits;
	char key[16];
	enum outcome outcome;
	int64_t ended_ms;
	struct put put;
	pthread_t thread;
};

static void *write_once(void *arg)
{
	struct writer *writer = arg;

	writer->outcome = put_within(writer->store, &writer->limits,
				     writer->key, "x", 1, absent, &writer->put);
	writer->ended_ms = clock_boot_ms();
	return NULL;
}

static void begin_write(struct writer *writer, struct store *store,
			const char *key, struct limits limits)
{
	writer->store = store;
	writer->limits = limits;
	snprintf(writer->key, sizeof(writer->key), "%s", key);
	CHECK_EQ(pthread_create(&writer->thread, NULL, write_once, writer), 0);
	pause_ms(50); /* until it waits */
}

static atomic_int ticks;

static int64_t tick(void)
{
	return atomic_fetch_add(&ticks, 1);
}

/* Begins writes of KEYS, one after the other, while somebody has the turn, and
 * checks that they happen in the order WANT. Upper case: urgent. By the store's
 * clock, which is read inside the turn; it ticks on every look here, so that no
 * two writes have the same time. */
static void check_order(bool held_urgently, const char *keys, const char *want)
{
	struct writer writers[8];
	struct object object;
	struct answer answer;
	struct limits limits;
	struct store *store;
	char key[2] = "";
	int64_t last = 0;
	int fd;

	set_up();
	object_init(&object);
	clock_replace(tick, NULL);
	limits = in_ms(60000);
	store = open_store();
	fd = hold_turn(held_urgently);
	for (int i = 0; keys[i] != '\0'; i++) {
		key[0] = keys[i];
		limits.urgent = keys[i] < 'a';
		begin_write(&writers[i], store, key, limits);
	}
	turnstile_leave(fd);
	close(fd);
	for (int i = 0; keys[i] != '\0'; i++) {
		pthread_join(writers[i].thread, NULL);
		CHECK_EQ(writers[i].outcome, OUTCOME_OK);
	}
	for (int i = 0; want[i] != '\0'; i++) {
		key[0] = want[i];
		CHECK_EQ(get(store, key, NULL, &object, &answer), OUTCOME_OK);
		if (object.modified_ms <= last)
			CHECK_FAIL("%s began, not in the order %s", keys, want);
		last = object.modified_ms;
	}
	clock_replace(NULL, NULL);
	object_release(&object);
	store_close(store);
	clean_up();
}

static void test_order(void)
{
	check_order(false, "abcd", "abcd");
	/* one waits for the work already, the urgent one is next */
	check_order(false, "abcdE", "aEbcd");
	/* while somebody urgent is about, nobody else gets near */
	check_order(true, "abE", "Eab");
}

static void hold_until_killed(int ready)
{
	(void)hold_turn(false);
	CHECK_EQ(write(ready, "", 1), 1);
	pause();
}

static void test_deadline(void)
{
	struct writer first, second;
	struct store *store;
	struct answer answer;
	struct object object;
	int ready[2];
	char byte;
	pid_t pid;

	set_up();
	store = open_store();
	object_init(&object);
	CHECK_EQ(pipe2(ready, O_CLOEXEC), 0);
	pid = start(hold_until_killed, ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	begin_write(&first, store, "a", in_ms(300));
	begin_write(&second, store, "b", in_ms(400));
	pthread_join(first.thread, NULL);
	pthread_join(second.thread, NULL);
	CHECK_EQ(first.outcome, OUTCOME_TIMEOUT);
	CHECK_EQ(second.outcome, OUTCOME_TIMEOUT);
	CHECK(first.ended_ms >= first.limits.deadline_ms);
	CHECK(first.ended_ms < first.limits.deadline_ms + LATE_MS);
	CHECK(second.ended_ms >= second.limits.deadline_ms);
	CHECK(second.ended_ms < second.limits.deadline_ms + LATE_MS);
	CHECK(strstr(first.put.answer.reason.text, "queue") != NULL);
	/* reading needs no turn */
	CHECK_EQ(get(store, "a", NULL, &object, &answer), OUTCOME_ABSENT);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK_EQ(get(store, "b", NULL, &object, &answer), OUTCOME_ABSENT);
	create(store, "a", "x");
	close(ready[0]);
	close(ready[1]);
	object_release(&object);
	store_close(store);
	clean_up();
}

static void test_stop(void)
{
	struct writer first, second;
	struct limits limits = in_ms(60000);
	struct stop stops[2];
	struct store *store;
	struct answer answer;
	struct object object;
	int64_t begun_ms, best_ms = INT64_MAX;
	int fd;

	set_up();
	store = open_store();
	object_init(&object);
	fd = hold_turn(false);
	for (int i = 0; i < 2; i++)
		stop_init(&stops[i]);
	limits.stop = &stops[0];
	begin_write(&first, store, "a", limits);
	limits.stop = &stops[1];
	begin_write(&second, store, "b", limits);
	/* the one that waits for byte 1, then the one behind it */
	for (int i = 0; i < 2; i++) {
		struct writer *writer = i == 0 ? &first : &second;

		begun_ms = clock_boot_ms();
		stop_request(&stops[i]);
		pthread_join(writer->thread, NULL);
		CHECK_EQ(writer->outcome, OUTCOME_INTERRUPTED);
		CHECK(writer->ended_ms < begun_ms + LATE_MS);
		if (writer->ended_ms - begun_ms < best_ms)
			best_ms = writer->ended_ms - begun_ms;
	}
	CHECK(best_ms < 100);
	turnstile_leave(fd);
	close(fd);
	CHECK_EQ(get(store, "a", NULL, &object, &answer), OUTCOME_ABSENT);
	CHECK_EQ(get(store, "b", NULL, &object, &answer), OUTCOME_ABSENT);
	/* requested before: nothing is tried */
	CHECK_EQ(put_within(store, &limits, "c", "x", 1, absent, &first.put),
		 OUTCOME_INTERRUPTED);
	for (int i = 0; i < 2; i++)
		stop_release(&stops[i]);
	object_release(&object);
	store_close(store);
	clean_up();
}

/* Another program holds SQLite's own lock, out of the queue. */
static void test_foreign_lock(void)
{
	struct store *store;
	struct writer writer;
	struct limits limits;
	struct stop stop;
	int64_t begun_ms;
	struct put put;
	sqlite3 *db;

	set_up();
	store = open_store();
	stop_init(&stop);
	CHECK_EQ(sqlite3_open(path, &db), SQLITE_OK);
	CHECK_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL),
		 SQLITE_OK);
	begun_ms = clock_boot_ms();
	limits = in_ms(200);
	CHECK_EQ(put_within(store, &limits, "a", "x", 1, absent, &put),
		 OUTCOME_TIMEOUT);
	CHECK(clock_boot_ms() >= begun_ms + 200);
	CHECK(clock_boot_ms() < begun_ms + 200 + LATE_MS);
	limits = in_ms(60000);
	limits.stop = &stop;
	begin_write(&writer, store, "a", limits);
	begun_ms = clock_boot_ms();
	stop_request(&stop);
	pthread_join(writer.thread, NULL);
	CHECK_EQ(writer.outcome, OUTCOME_INTERRUPTED);
	CHECK(writer.ended_ms < begun_ms + LATE_MS);
	begin_write(&writer, store, "a", in_ms(60000));
	CHECK_EQ(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
	pthread_join(writer.thread, NULL);
	CHECK_EQ(writer.outcome, OUTCOME_OK);
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
	stop_release(&stop);
	store_close(store);
	clean_up();
}

/* Reports every acknowledged number until it is killed. */
static void increment_for_ever(int report)
{
	struct store *store = open_store();

	for (;;) {
		long number = increment(store);

		CHECK_EQ(write(report, &number, sizeof(number)),
			 sizeof(number));
	}
}

static void test_killed_writer(void)
{
	struct store *store;
	int64_t begun_ms;

	set_up();
	store = open_store();
	create(store, "k", "0");
	store_close(store);
	for (int round = 0; round < 10; round++) {
		long number = 0, acknowledged = -1, found;
		int report[2];
		pid_t pid;

		CHECK_EQ(pipe2(report, O_CLOEXEC), 0);
		pid = start(increment_for_ever, report[1]);
		close(report[1]);
		pause_ms(60 + 7 * round);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		while (read(report[0], &number, sizeof(number)) ==
		       sizeof(number))
			acknowledged = number;
		close(report[0]);
		store = open_store();
		found = strtol(text_of(store, "k"), NULL, 10);
		CHECK(found >= acknowledged);
		if (acknowledged >= 0)
			CHECK(found <= acknowledged + 1);
		begun_ms = clock_boot_ms();
		CHECK_EQ(increment(store), found + 1);
		CHECK(clock_boot_ms() < begun_ms + 1000);
		store_close(store);
	}
	clean_up();
}

static void *write_many(void *arg)
{
	for (int i = 0; i < 50; i++)
		increment(arg);
	return NULL;
}

/* More threads than connections that are kept. */
static void test_threads(void)
{
	pthread_t threads[20];
	struct store *store;

	set_up();
	store = open_store();
	create(store, "k", "0");
	for (int i = 0; i < 20; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, write_many, store),
			 0);
	for (int i = 0; i < 20; i++)
		pthread_join(threads[i], NULL);
	CHECK_STR(text_of(store, "k"), "1000");
	store_close(store);
	clean_up();
}

int main(void)
{
	RUN(test_creation_race);
	RUN(test_no_lost_update);
	RUN(test_fairness);
	RUN(test_fairness_urgent);
	RUN(test_order);
	RUN(test_deadline);
	RUN(test_stop);
	RUN(test_foreign_lock);
	RUN(test_killed_writer);
	RUN(test_threads);
	return 0;
}
