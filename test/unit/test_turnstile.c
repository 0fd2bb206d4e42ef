/* turnstile: who waits for which byte, when there is no end to it. The order of
 * the writers is test_store_sqlite_race.c's.
 */
#define _GNU_SOURCE

#include "store_fixture.h"

#include "turnstile.h"

#include <fcntl.h>
#include <sys/resource.h>

/* The bytes of the side file. */
enum { QUEUE, WORK, URGENT };

static struct reason reason;

static int open_turnstile(void)
{
	int fd = -1;

	reason.text[0] = '\0';
	CHECK_EQ(turnstile_open(&fd, path, &reason), OUTCOME_OK);
	return fd;
}

static void set_lock(int fd, short type, off_t byte)
{
	struct flock lock = {.l_type = type, .l_start = byte, .l_len = 1};

	CHECK_EQ(fcntl(fd, F_OFD_SETLK, &lock), 0);
}

static bool is_free(int fd, off_t byte)
{
	struct flock lock = {.l_type = F_WRLCK, .l_start = byte, .l_len = 1};

	CHECK_EQ(fcntl(fd, F_OFD_GETLK, &lock), 0);
	return lock.l_type == F_UNLCK;
}

/* Somebody keeps BYTE: the waiter gives up in time, and keeps nothing. */
static void check_given_up(off_t byte, bool urgent)
{
	int holder = open_turnstile(), waiter = open_turnstile();
	struct limits limits = in_ms(150);

	limits.urgent = urgent;
	set_lock(holder, F_WRLCK, byte);
	CHECK_EQ(turnstile_enter(waiter, &limits, &reason), OUTCOME_TIMEOUT);
	CHECK(strstr(reason.text, "no turn") != NULL);
	CHECK_EQ(limits_left_ms(&limits), 0);
	for (off_t other = QUEUE; other <= URGENT; other++)
		CHECK(is_free(holder, other));

	set_lock(holder, F_UNLCK, byte);
	limits.deadline_ms = clock_boot_ms() + 60000;
	CHECK_EQ(turnstile_enter(waiter, &limits, &reason), OUTCOME_OK);
	CHECK(!is_free(holder, WORK));
	turnstile_leave(waiter);
	CHECK(is_free(holder, WORK) && is_free(holder, URGENT));
	CHECK_EQ(close(holder), 0);
	CHECK_EQ(close(waiter), 0);
}

static void test_patience(void)
{
	check_given_up(QUEUE, false);
	check_given_up(WORK, false);
	check_given_up(URGENT, false);
	check_given_up(WORK, true);
	check_given_up(URGENT, true);
}

/* The urgent does not stand in the queue. */
static void test_urgent_passes(void)
{
	int holder = open_turnstile(), waiter = open_turnstile();
	struct limits limits = in_ms(60000);

	limits.urgent = true;
	set_lock(holder, F_WRLCK, QUEUE);
	CHECK_EQ(turnstile_enter(waiter, &limits, &reason), OUTCOME_OK);
	CHECK_EQ(close(holder), 0);
	CHECK_EQ(close(waiter), 0);
}

static void test_stop(void)
{
	int holder = open_turnstile(), waiter = open_turnstile();
	struct limits limits = in_ms(60000);
	struct stop stop;

	stop_init(&stop);
	stop_request(&stop);
	limits.stop = &stop;
	set_lock(holder, F_WRLCK, QUEUE);
	CHECK_EQ(turnstile_enter(waiter, &limits, &reason),
		 OUTCOME_INTERRUPTED);
	CHECK(strstr(reason.text, "interrupted") != NULL);
	stop_release(&stop);
	CHECK_EQ(close(holder), 0);
	CHECK_EQ(close(waiter), 0);
}

/* Who cannot be woken in time does not wait. */
static void test_no_timer(void)
{
	int holder = open_turnstile(), waiter = open_turnstile();
	struct limits limits = in_ms(60000);
	struct rlimit limit, none;

	CHECK_EQ(getrlimit(RLIMIT_SIGPENDING, &limit), 0);
	none = (struct rlimit){.rlim_max = limit.rlim_max};
	CHECK_EQ(setrlimit(RLIMIT_SIGPENDING, &none), 0);
	set_lock(holder, F_WRLCK, QUEUE);
	CHECK_EQ(turnstile_enter(waiter, &limits, &reason), OUTCOME_FAILED);
	CHECK(strstr(reason.text, "cannot wait in the queue") != NULL);
	CHECK_EQ(setrlimit(RLIMIT_SIGPENDING, &limit), 0);
	CHECK_EQ(close(holder), 0);
	CHECK_EQ(close(waiter), 0);
}

/* It is made like the file beside it, or not at all. */
static void test_side_file(void)
{
	bool root = geteuid() == 0;
	char name[128];
	int fd = -1;

	snprintf(name, sizeof(name), "%s-queue", path);
	CHECK_EQ(unlink(name), 0);
	CHECK_EQ(rename(path, "gone"), 0);
	CHECK_EQ(turnstile_open(&fd, path, &reason), OUTCOME_FAILED);
	CHECK(strstr(reason.text, "-queue: No such file") != NULL);
	CHECK_EQ(access(name, F_OK), -1);
	CHECK_EQ(rename("gone", path), 0);
	CHECK_EQ(chmod(dir, 0555), 0);
	if (root)
		CHECK_EQ(seteuid(65534), 0);
	CHECK_EQ(turnstile_open(&fd, path, &reason), OUTCOME_DENIED);
	if (root)
		CHECK_EQ(seteuid(0), 0);
	CHECK_EQ(chmod(dir, 0755), 0);
	CHECK_EQ(symlink("gone", name), 0); /* nor through another's link */
	CHECK_EQ(turnstile_open(&fd, path, &reason), OUTCOME_FAILED);
}

int main(void)
{
	int fd;

	set_up();
	CHECK_EQ(chdir(dir), 0);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(close(fd), 0);
	RUN(test_patience);
	RUN(test_urgent_passes);
	RUN(test_stop);
	RUN(test_no_timer);
	RUN(test_side_file);
	CHECK_EQ(chdir("/"), 0);
	clean_up();
	return 0;
}
