/* store_sqlite_conn: which files are accepted, and the clock that is kept in
 * them.
 */
#define _GNU_SOURCE /* nftw */

#include "store_fixture.h"

#include <fcntl.h>

/* --- Which files are accepted --------------------------------------------- */

struct bytes {
	char *at;
	size_t len;
};

static struct bytes read_file(const char *name)
{
	struct bytes bytes = {malloc(1 << 20), 0};
	FILE *file = fopen(name, "r");

	CHECK(file != NULL && bytes.at != NULL);
	bytes.len = fread(bytes.at, 1, 1 << 20, file);
	fclose(file);
	return bytes;
}

static void write_file(const char *name, const char *at, size_t len)
{
	FILE *file = fopen(name, "w");

	CHECK(file != NULL);
	CHECK_EQ(fwrite(at, 1, len, file), len);
	CHECK_EQ(fclose(file), 0);
}

/* The file must be refused for a reason that says WHY, and stay as it is. */
static void check_refused(bool read_only, const char *why)
{
	struct bytes before = read_file(path), after;
	struct store *store = NULL;
	struct reason reason;

	CHECK_EQ(try_open(&store, read_only, &reason), OUTCOME_FAILED);
	if (strstr(reason.text, why) == NULL ||
	    strstr(reason.text, path) == NULL)
		CHECK_FAIL("'%s' does not say '%s'", reason.text, why);
	after = read_file(path);
	CHECK_EQ(after.len, before.len);
	CHECK(memcmp(before.at, after.at, before.len) == 0);
	free(before.at);
	free(after.at);
}

static void test_foreign_files(void)
{
	char queue[128];

	set_up();
	snprintf(queue, sizeof(queue), "%s-queue", path);
	fill("CREATE TABLE t (x); INSERT INTO t VALUES (1)");
	check_refused(false, "another program's");
	check_refused(true, "another program's");
	CHECK_EQ(access(queue, F_OK), -1);
	fill("PRAGMA application_id = 5");
	check_refused(false, "another program's");
	fill("PRAGMA journal_mode = WAL; DROP TABLE t");
	check_refused(false, "another program's");
	CHECK_EQ(access(queue, F_OK), -1);
	write_file(path, "a text, and not a short one", 27);
	check_refused(false, "not an SQLite file");
	write_file(path, "x", 1);
	check_refused(true, "not an SQLite file");
	clean_up();
}

/* A foreign database whose last words are still in its log. */
static void test_foreign_log_is_left(void)
{
	char wal[128], other[128];
	struct bytes before, after, log;
	sqlite3 *db;

	set_up();
	snprintf(wal, sizeof(wal), "%s-wal", path);
	snprintf(other, sizeof(other), "%s/other", dir);
	CHECK_EQ(sqlite3_open(path, &db), SQLITE_OK);
	CHECK_EQ(sqlite3_exec(db,
			      "PRAGMA journal_mode = WAL; CREATE TABLE t "
			      "(x); INSERT INTO t VALUES (1)",
			      NULL, NULL, NULL),
		 SQLITE_OK);
	before = read_file(path);
	log = read_file(wal);
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
	write_file(path, before.at, before.len);
	write_file(wal, log.at, log.len);
	check_refused(false, "another program's");
	after = read_file(wal);
	CHECK_EQ(after.len, log.len);
	CHECK(memcmp(after.at, log.at, log.len) == 0);
	free(before.at);
	free(after.at);
	free(log.at);
	clean_up();
}

static void test_newer_file(void)
{
	struct store *store;
	struct bytes old, log;
	char wal[128];
	sqlite3 *db;

	set_up();
	snprintf(wal, sizeof(wal), "%s-wal", path);
	store = open_store();
	create(store, "k", "x");
	store_close(store);
	fill("PRAGMA user_version = 2");
	check_refused(false, "newer celldfs (format 2; this one reads 1)");
	check_refused(true, "newer celldfs (format 2; this one reads 1)");
	fill("PRAGMA user_version = 1");
	store_close(open_store());

	/* the same while it is only in the log, which is nobody's to fold in */
	CHECK_EQ(sqlite3_open(path, &db), SQLITE_OK);
	CHECK_EQ(sqlite3_exec(db, "PRAGMA user_version = 3", NULL, NULL, NULL),
		 SQLITE_OK);
	old = read_file(path);
	log = read_file(wal);
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
	write_file(path, old.at, old.len);
	write_file(wal, log.at, log.len);
	check_refused(false, "newer celldfs (format 3; this one reads 1)");
	free(old.at);
	free(log.at);
	clean_up();
}

static void test_damaged_file(void)
{
	struct store *store;
	struct bytes good;
	char *bad;

	set_up();
	store = open_store();
	store_close(store);
	fill("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n "
	     "WHERE i < 2000) INSERT INTO record SELECT printf('k%d', i), "
	     "zeroblob(50), 'e', '', 1 FROM n");
	good = read_file(path);
	CHECK(good.len > 100000);
	bad = malloc(good.len);
	CHECK(bad != NULL);
	/* pages in the middle */
	memcpy(bad, good.at, good.len);
	memset(bad + 8192, 0xa5, 65536);
	write_file(path, bad, good.len);
	check_refused(false, "damaged");
	check_refused(true, "damaged");
	/* cut */
	write_file(path, good.at, good.len / 2);
	check_refused(false, "damaged");
	/* the schema */
	memcpy(bad, good.at, good.len);
	memset(bad + 100, 0xff, 3000);
	write_file(path, bad, good.len);
	check_refused(false, "damaged");
	/* a count in the header */
	memcpy(bad, good.at, good.len);
	bad[39] = 5;
	write_file(path, bad, good.len);
	check_refused(false, "damaged");
	/* zeros where the header was */
	memcpy(bad, good.at, good.len);
	memset(bad, 0, 4096);
	write_file(path, bad, good.len);
	check_refused(false, "damaged");
	/* ours, but without its tables */
	write_file(path, good.at, good.len);
	fill("DROP TABLE clock");
	fill("ALTER TABLE record RENAME TO other");
	check_refused(false, "no such table");
	write_file(path, good.at, good.len);
	store_close(open_store());
	free(bad);
	free(good.at);
	clean_up();
}

static void test_missing_and_empty(void)
{
	struct store *store = NULL;
	struct reason reason;
	char saved[96];

	set_up();
	CHECK_EQ(try_open(&store, true, &reason), OUTCOME_FAILED);
	CHECK(strstr(reason.text, "does not exist") != NULL);
	CHECK_EQ(access(path, F_OK), -1);
	write_file(path, "", 0);
	check_refused(true, "empty");
	store = open_store(); /* an empty file is ours to initialise */
	create(store, "k", "x");
	store_close(store);

	memcpy(saved, path, sizeof(path));
	snprintf(path, sizeof(path), "%s/no/store", dir);
	CHECK_EQ(try_open(&store, false, &reason), OUTCOME_FAILED);
	CHECK(strstr(reason.text, "No such file") != NULL);
	snprintf(path, sizeof(path), "%s", dir);
	CHECK_EQ(try_open(&store, false, &reason), OUTCOME_FAILED);
	CHECK(strstr(reason.text, "not a file") != NULL);
	snprintf(path, sizeof(path), "%s/store/no", dir);
	CHECK_EQ(try_open(&store, false, &reason), OUTCOME_FAILED);
	CHECK(strstr(reason.text, "Not a directory") != NULL);
	memcpy(path, saved, sizeof(path));

	/* names that SQLite would take for something else */
	CHECK_EQ(chdir(dir), 0);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path),
			 i == 0 ? ":memory:" : "file:x?mode=memory");
		store_close(open_store());
		CHECK_EQ(access(path, F_OK), 0);
	}
	CHECK_EQ(chdir("/"), 0);
	clean_up();
}

static void test_replaced_under_us(void)
{
	struct limits limits = in_ms(60000);
	struct buf after = {.cap = LIST_AFTER_MAX};
	struct object object;
	struct answer answer;
	struct store *store;
	struct put put;

	object_init(&object);
	set_up();
	store = open_store();
	create(store, "k", "x");
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(put_text(store, "k2", "x", absent, &put), OUTCOME_FAILED);
	CHECK(strstr(put.answer.reason.text, "removed or replaced") != NULL);
	write_file(path, "", 0);
	CHECK_EQ(put_text(store, "k2", "x", absent, &put), OUTCOME_FAILED);
	CHECK_EQ(get(store, "k", NULL, &object, &answer), OUTCOME_FAILED);
	CHECK_EQ(store_list(store, &limits, "cells/", &after, NULL, NULL,
			    &answer),
		 OUTCOME_FAILED);
	store_close(store);
	clean_up();
}

static void test_read_only(void)
{
	struct store *writer, *reader;
	struct reason reason;
	struct put put;

	set_up();
	writer = open_store();
	create(writer, "k", "x");
	CHECK_EQ(try_open(&reader, true, &reason), OUTCOME_OK);
	CHECK_STR(text_of(reader, "k"), "x");
	create(writer, "k2", "later");
	CHECK_STR(text_of(reader, "k2"), "later");
	CHECK_EQ(put_text(reader, "k3", "x", absent, &put), OUTCOME_DENIED);
	store_close(writer);
	CHECK_STR(text_of(reader, "k2"), "later");
	store_close(reader);
	clean_up();
}

static void open_without_rights(bool read_only)
{
	bool root = geteuid() == 0;
	struct store *store;
	struct reason reason;

	if (root)
		CHECK_EQ(seteuid(65534), 0);
	CHECK_EQ(try_open(&store, read_only, &reason), OUTCOME_DENIED);
	if (root)
		CHECK_EQ(seteuid(0), 0);
	CHECK(strstr(reason.text, path) != NULL);
	if (read_only)
		CHECK(strstr(reason.text, "-shm") != NULL);
}

static void test_permissions(void)
{
	set_up();
	store_close(open_store());
	CHECK_EQ(chmod(path, 0444), 0);
	CHECK_EQ(chmod(dir, 0555), 0);
	open_without_rights(false);
	open_without_rights(true);
	CHECK_EQ(chmod(path, 0), 0);
	open_without_rights(false);
	CHECK_EQ(chmod(dir, 0755), 0);
	clean_up();
}

/* Who can only read a file can lock it. */
static void test_mode(void)
{
	static const char *const suffixes[] = {"", "-queue", "-wal", "-shm"};
	struct store *store;
	mode_t before = umask(022);
	char name[128];
	struct stat st;

	set_up();
	store = open_store();
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
		CHECK_EQ(stat(name, &st), 0);
		CHECK_EQ(st.st_mode & 0777, 0600);
	}
	store_close(store);
	umask(before);
	clean_up();
}

static void test_side_file_mode(void)
{
	char queue[128];
	struct stat st;

	set_up();
	snprintf(queue, sizeof(queue), "%s-queue", path);
	write_file(path, "", 0);
	CHECK_EQ(chmod(path, 0660), 0);
	store_close(open_store());
	CHECK_EQ(stat(queue, &st), 0);
	CHECK_EQ(st.st_mode & 0777, 0660);
	clean_up();
}

/* Opens while another one holds the queue: TIMEOUT, and nothing was made. */
static void check_kept_waiting(void)
{
	struct store_options options = {.read_only = false};
	struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
	struct limits limits = in_ms(150);
	struct store *store;
	struct reason reason;
	char queue[128];
	int fd;

	snprintf(queue, sizeof(queue), "%s-queue", path);
	fd = open(queue, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(fcntl(fd, F_OFD_SETLK, &lock), 0);
	CHECK_EQ(store_sqlite_open(&store, path, &options, &limits, &reason),
		 OUTCOME_TIMEOUT);
	CHECK(strstr(reason.text, "queue of writers") != NULL);
	/* and not even that long without any time */
	CHECK_EQ(store_sqlite_open(&store, path, &options, &limits, &reason),
		 OUTCOME_TIMEOUT);
	CHECK(strstr(reason.text, "before anything was tried") != NULL);
	CHECK_EQ(close(fd), 0);
	store_close(open_store());
}

static void test_opening_waits(void)
{
	char boot_id[128];

	set_up();
	check_kept_waiting(); /* to make it */
	snprintf(boot_id, sizeof(boot_id), "%s/boot", dir);
	write_file(boot_id, "another\n", 8);
	store_sqlite_boot_id_from(boot_id);
	check_kept_waiting(); /* to set its clock */
	store_sqlite_boot_id_from("/proc/sys/kernel/random/boot_id");
	clean_up();
}

/* --- The store's clock ---------------------------------------------------- */

static int64_t fake_boot, fake_wall;

static int64_t boot_of_test(void)
{
	return fake_boot;
}

static int64_t wall_of_test(void)
{
	return fake_wall;
}

static int64_t now_of(struct store *store)
{
	struct limits limits = in_ms(60000);
	struct fleet_time time;

	CHECK_EQ(store_now(store, &limits, &time), OUTCOME_OK);
	CHECK_EQ(time.earliest_ms, time.latest_ms);
	return time.earliest_ms;
}

static int64_t modified_of(struct store *store, const char *key)
{
	struct object object;
	struct answer answer;
	int64_t modified_ms;

	object_init(&object);
	CHECK_EQ(get(store, key, NULL, &object, &answer), OUTCOME_OK);
	modified_ms = object.modified_ms;
	object_release(&object);
	return modified_ms;
}

static void boot(const char *id, int64_t boot_ms, int64_t wall_ms)
{
	char name[96];

	snprintf(name, sizeof(name), "%s/boot_id", dir);
	write_file(name, id, strlen(id));
	fake_boot = boot_ms;
	fake_wall = wall_ms;
}

static void test_clock_over_boots(void)
{
	struct store *store, *other;
	struct reason reason;
	char name[96];
	int64_t last;

	set_up();
	snprintf(name, sizeof(name), "%s/boot_id", dir);
	store_sqlite_boot_id_from(name);
	clock_replace(boot_of_test, wall_of_test);

	boot("first\n", 5000, 1000000);
	store = open_store();
	CHECK_EQ(now_of(store), 1000000);
	fake_boot += 300; /* the wall clock is stepped: that is nobody's time */
	fake_wall = 1;
	CHECK_EQ(now_of(store), 1000300);
	create(store, "a", "x");
	CHECK_EQ(modified_of(store, "a"), 1000300);
	other = open_store();
	CHECK_EQ(now_of(other), 1000300);
	store_close(other);
	store_close(store);

	/* reboot, wall clock an hour back: it goes on, and does not go back */
	boot("second\n", 70, 1000000 - 3600000);
	CHECK_EQ(try_open(&other, true, &reason), OUTCOME_OK);
	CHECK_EQ(now_of(other), 1000301);
	store_close(other);
	fake_boot = 90;
	store = open_store();
	last = now_of(store);
	CHECK_EQ(last, 1000301);
	fake_boot = 95;
	create(store, "b", "x");
	CHECK_EQ(modified_of(store, "b"), 1000306);
	CHECK_EQ(try_open(&other, true, &reason), OUTCOME_OK);
	CHECK_EQ(now_of(other), now_of(store));
	store_close(other);
	store_close(store);

	/* reboot, wall clock right again */
	boot("third\n", 10, 2000000);
	store = open_store();
	CHECK_EQ(now_of(store), 2000000);
	store_close(store);
	/* a store that was open all the time in the second boot still agrees */
	boot("second\n", 195, 0);
	store = open_store();
	CHECK_EQ(now_of(store), 1000406);
	store_close(store);
	clock_replace(NULL, NULL);

	snprintf(name, sizeof(name), "%s/none", dir);
	CHECK_EQ(try_open(&store, false, &reason), OUTCOME_FAILED);
	CHECK(strstr(reason.text, name) != NULL);
	store_sqlite_boot_id_from("/proc/sys/kernel/random/boot_id");
	clean_up();
}

static void test_one_clock(void)
{
	struct store *a, *b;

	set_up();
	a = open_store();
	pause_ms(20);
	b = open_store();
	for (int i = 0; i < 1000; i++) {
		int64_t before = now_of(a), between = now_of(b);

		CHECK(before <= between);
		CHECK(between <= now_of(a));
	}
	CHECK(now_of(a) - clock_wall_ms() < 1000);
	CHECK(clock_wall_ms() - now_of(a) < 1000);
	store_close(a);
	store_close(b);
	clean_up();
}

int main(void)
{
	RUN(test_foreign_files);
	RUN(test_foreign_log_is_left);
	RUN(test_newer_file);
	RUN(test_damaged_file);
	RUN(test_missing_and_empty);
	RUN(test_replaced_under_us);
	RUN(test_read_only);
	RUN(test_permissions);
	RUN(test_mode);
	RUN(test_side_file_mode);
	RUN(test_opening_waits);
	RUN(test_clock_over_boots);
	RUN(test_one_clock);
	return 0;
}
