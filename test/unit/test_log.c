/* log: one line, one write; where it goes and what it looks like. */
#include "check.h"

#include "clock.h"
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static char dir[64], path[96];

static int64_t wall_of_test(void)
{
	return INT64_C(1767323045678); /* 2026-01-02T03:04:05.678Z */
}

static void set_up(void)
{
	snprintf(dir, sizeof(dir), "/tmp/celldfs-log-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/log", dir);
}

static void clean_up(void)
{
	unlink(path);
	CHECK_EQ(rmdir(dir), 0);
}

/* The content of the log, in memory that the next call reuses. */
static const char *content(void)
{
	static char text[1 << 20];
	FILE *file = fopen(path, "r");
	size_t len;

	CHECK(file != NULL);
	len = fread(text, 1, sizeof(text) - 1, file);
	text[len] = '\0';
	fclose(file);
	return text;
}

static void to_file(void)
{
	struct reason reason = {""};

	CHECK_EQ(log_to(path, &reason), OUTCOME_OK);
}

static void back_to_stderr(void)
{
	CHECK_EQ(log_to("stderr", NULL), OUTCOME_OK);
}

static void test_file(void)
{
	set_up();
	clock_replace(NULL, wall_of_test);
	to_file();
	log_line(LOG_ERR, "a %d", 1);
	log_line(LOG_WARNING, "b %s", "two");
	log_line(LOG_NOTICE, "c");
	log_line(LOG_INFO, "d");
	back_to_stderr();
	CHECK_STR(content(), "2026-01-02T03:04:05.678Z error a 1\n"
			     "2026-01-02T03:04:05.678Z warning b two\n"
			     "2026-01-02T03:04:05.678Z notice c\n"
			     "2026-01-02T03:04:05.678Z info d\n");
	/* an old log is appended to */
	to_file();
	log_line(LOG_INFO, "e");
	back_to_stderr();
	CHECK(strstr(content(), "info d\n2026") != NULL);
	CHECK(strstr(content(), "info e\n") != NULL);
	clock_replace(NULL, NULL);
	clean_up();
}

static void test_stderr(void)
{
	int saved = dup(STDERR_FILENO), fd;

	set_up();
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	CHECK(fd >= 0);
	fflush(stderr);
	CHECK(dup2(fd, STDERR_FILENO) >= 0);
	log_line(LOG_WARNING, "the %s", "text");
	log_line(LOG_ERR, "x");
	CHECK(dup2(saved, STDERR_FILENO) >= 0);
	close(saved);
	close(fd);
	CHECK_STR(content(), "celldfs: warning: the text\ncelldfs: error: x\n");
	clean_up();
}

/* A reader that has stopped: lines are lost, and nobody waits for it. */
static void test_stuck_stderr(void)
{
	char dots[4096], line[256];
	int saved = dup(STDERR_FILENO), ends[2];
	int64_t begun_ms;
	ssize_t len;

	CHECK_EQ(pipe(ends), 0);
	fflush(stderr);
	CHECK(dup2(ends[1], STDERR_FILENO) >= 0);
	memset(dots, '.', sizeof(dots));
	CHECK_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	while (write(ends[1], dots, sizeof(dots)) > 0)
		;
	CHECK_EQ(fcntl(ends[1], F_SETFL, 0), 0);
	begun_ms = clock_boot_ms();
	for (unsigned i = 0; i < 50; i++)
		log_line(LOG_INFO, "lost %u", i);
	CHECK(clock_boot_ms() - begun_ms < 3000);
	CHECK_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	while (read(ends[0], dots, sizeof(dots)) > 0)
		;
	log_line(LOG_INFO, "seen");
	len = read(ends[0], line, sizeof(line) - 1);
	CHECK(dup2(saved, STDERR_FILENO) >= 0);
	CHECK(len > 0);
	line[len] = '\0';
	CHECK_STR(line, "celldfs: info: seen\n");
	close(saved);
	close(ends[0]);
	close(ends[1]);
}

static void test_control_bytes(void)
{
	set_up();
	to_file();
	log_line(LOG_INFO, "a\nb\tc\033[31m\177 \303\274%s",
		 "\r\001\302\23331m\302\240");
	back_to_stderr();
	CHECK(strstr(content(), "info a?b?c?[31m? \303\274????31m\302\240\n") !=
	      NULL);
	clean_up();
}

static void test_long_line(void)
{
	static char text[5000];

	memset(text, 'x', sizeof(text) - 1);
	set_up();
	to_file();
	log_line(LOG_INFO, "%s", text);
	log_line(LOG_INFO, "next");
	back_to_stderr();
	CHECK_EQ(strcspn(content(), "\n"), 2047);
	CHECK(strstr(content(), " info next\n") != NULL);
	clean_up();
}

static void test_refusals(void)
{
	struct reason reason = {""};
	char bad[128];

	set_up();
	to_file();
	CHECK_EQ(log_to("relative/log", &reason), OUTCOME_INVALID);
	CHECK(strstr(reason.text, "relative/log") != NULL);
	CHECK_EQ(log_to("", &reason), OUTCOME_INVALID);
	snprintf(bad, sizeof(bad), "%s/no/such", dir);
	CHECK_EQ(log_to(bad, &reason), OUTCOME_FAILED);
	CHECK(strstr(reason.text, bad) != NULL);
	CHECK_EQ(log_to(dir, &reason), OUTCOME_FAILED);
	/* the old destination stays */
	log_line(LOG_INFO, "still here");
	back_to_stderr();
	CHECK(strstr(content(), "still here") != NULL);
	CHECK_EQ(log_to("syslog", &reason), OUTCOME_OK);
	log_line(LOG_INFO, "to whoever listens");
	back_to_stderr();
	clean_up();
}

static void test_errno_is_kept(void)
{
	struct reason reason;

	CHECK_EQ(log_to("/dev/full", &reason), OUTCOME_OK);
	errno = ENOTTY;
	log_line(LOG_INFO, "this cannot be written");
	CHECK_EQ(errno, ENOTTY);
	back_to_stderr();
}

static void *write_lines(void *arg)
{
	for (int i = 0; i < 200; i++)
		log_line(LOG_INFO, "%s", (const char *)arg);
	return NULL;
}

static void test_lines_never_mix(void)
{
	static char a[600], b[600];
	pthread_t threads[2];
	int lines = 0;
	const char *line;

	memset(a, 'a', sizeof(a) - 1);
	memset(b, 'b', sizeof(b) - 1);
	set_up();
	to_file();
	CHECK_EQ(pthread_create(&threads[0], NULL, write_lines, a), 0);
	CHECK_EQ(pthread_create(&threads[1], NULL, write_lines, b), 0);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	back_to_stderr();
	for (line = content(); *line != '\0'; lines++) {
		const char *text = strstr(line, " info ");

		CHECK(text != NULL);
		text += 6;
		CHECK_EQ(strspn(text, "a") + strspn(text, "b"), 599);
		CHECK_EQ(text[599], '\n');
		line = text + 600;
	}
	CHECK_EQ(lines, 400);
	clean_up();
}

int main(void)
{
	RUN(test_file);
	RUN(test_stderr);
	RUN(test_stuck_stderr);
	RUN(test_control_bytes);
	RUN(test_long_line);
	RUN(test_refusals);
	RUN(test_errno_is_kept);
	RUN(test_lines_never_mix);
	return 0;
}
