/* lab_client: one of the hundreds of programs of scripts/lab.
 *
 *	lab_client MOUNT NODE LOG NAME SEED CELLS HOME STEP BEGAN_NS PACE_MS
 *
 * Goes on until SIGTERM: reads a cell, claims it, renews, releases, locks it,
 * as its random numbers say. The cells are c0 to CELLS - 1, and one that nobody
 * has had before, each 2 s after BEGAN_NS another. Two times in three it is one
 * of those that its node is at home in, from HOME on each STEP-th: then most of
 * what is read is worth a write. Guards are armed by path for the first two of
 * them. PACE_MS: so long it waits between two cells, on the average.
 *
 * LOG gets a line when something begins and one when it has ended; times are of
 * CLOCK_BOOTTIME, in ns. A record is "NODE/EPOCH/TAG", "-" if there is none:
 *
 *	r CALL RETURN CELL RECORD	a read
 *	w ID CALL CELL WAY FOUND NEW	a write of NEW, decided on FOUND,
 *					by WAY: fd, armed or create
 *	W ID RETURN ERRNO		0: applied
 *	l ID CALL CELL			flock
 *	L ID RETURN ERRNO RECORD	"?": it was not read
 *	u ID CALL			LOCK_UN, or close
 *	U ID RETURN
 *	h CALL RETURN CELL RECORD UNTIL	so long the mount says that its node
 *					has authority
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define YOUNG_NS  2000000000
#define NODE_SIZE 64
#define TEXT_SIZE 256

struct record {
	bool absent, known;
	char node[NODE_SIZE], tag[NODE_SIZE];
	uint64_t epoch;
};

static const char *mount, *node, *name;
static int log_fd, cells, home, step, pace_ms;
static int64_t began_ns;
static unsigned long ids;
static uint64_t state;
static volatile sig_atomic_t is_over;

static unsigned below(unsigned n)
{
	/* xorshift64* */
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (unsigned)((state * 2685821657736338717U) >> 33) % n;
}

static bool chance(unsigned percent)
{
	return below(100) < percent;
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_ms(unsigned ms)
{
	usleep(ms * 1000);
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	char line[4 * TEXT_SIZE];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (write(log_fd, line, (size_t)len) != len)
		_exit(1);
}

static const char *shown(const struct record *record, char text[TEXT_SIZE])
{
	if (record->absent)
		return "-";
	if (!record->known)
		return "?";
	snprintf(text, TEXT_SIZE, "%s/%" PRIu64 "/%s", record->node,
		 record->epoch, record->tag);
	return text;
}

static void field(const char *body, const char *key, char value[NODE_SIZE])
{
	const char *at = strstr(body, key);
	size_t len;

	value[0] = '\0';
	if (at == NULL)
		return;
	at += strlen(key);
	len = strcspn(at, "\"");
	if (len < NODE_SIZE) {
		memcpy(value, at, len);
		value[len] = '\0';
	}
}

/* What FD shows; false: nothing, see errno. */
static bool look(int fd, struct record *record)
{
	char body[1024];
	const char *epoch;
	ssize_t len = pread(fd, body, sizeof(body) - 1, 0);

	*record = (struct record){0};
	if (len <= 0)
		return false;
	body[len] = '\0';
	epoch = strstr(body, "\"epoch\":");
	if (epoch == NULL)
		return false;
	record->known = true;
	record->epoch = strtoull(epoch + strlen("\"epoch\":"), NULL, 10);
	field(body, "\"node\":\"", record->node);
	field(body, "\"w\":\"", record->tag);
	return true;
}

/* A fenced mount is not worth the processor's time. */
static void rest_if(bool fenced)
{
	if (fenced)
		sleep_ms(200 + below(300));
}

/* Writes WANTED, which was decided on FOUND. */
static bool swap(int fd, const char *cell, const char *way,
		 const struct record *found, const struct record *wanted)
{
	char before[TEXT_SIZE], after[TEXT_SIZE], body[TEXT_SIZE];
	unsigned long id = ids++;
	int len, error = 0;

	len = snprintf(body, sizeof(body),
		       "{\"node\":\"%s\",\"epoch\":%" PRIu64, wanted->node,
		       wanted->epoch);
	if (wanted->tag[0])
		len += snprintf(body + len, sizeof(body) - (size_t)len,
				",\"w\":\"%s\"", wanted->tag);
	len += snprintf(body + len, sizeof(body) - (size_t)len, "}");
	say("w %lu %" PRId64 " %s %s %s %s\n", id, now_ns(), cell, way,
	    shown(found, before), shown(wanted, after));
	if (pwrite(fd, body, (size_t)len, 0) != len)
		error = errno;
	say("W %lu %" PRId64 " %d\n", id, now_ns(), error);
	rest_if(error == EROFS);
	return error == 0;
}

/* One time in three the bytes are what any other program of the node writes. */
static struct record next(const struct record *found, bool release)
{
	struct record wanted = {.known = true, .epoch = found->epoch};

	if (!release) {
		snprintf(wanted.node, NODE_SIZE, "%s", node);
		wanted.epoch += chance(70) ? 1 : 1 + below(20);
	}
	if (!chance(33))
		snprintf(wanted.tag, NODE_SIZE, "%s.%lu", name, ids);
	return wanted;
}

/* Logs for how long the mount says it has authority. */
static void hold(const char *cell, const struct record *record)
{
	char path[TEXT_SIZE], status[4096], text[TEXT_SIZE];
	int64_t call_ns = now_ns();
	const char *at;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "%s/.celldfs/status", mount);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	len = read(fd, status, sizeof(status) - 1);
	close(fd);
	if (len <= 0)
		return;
	status[len] = '\0';
	at = strstr(status, "\nauthority_ms ");
	if (at)
		say("h %" PRId64 " %" PRId64 " %s %s %" PRId64 "\n", call_ns,
		    now_ns(), cell, shown(record, text),
		    call_ns + (int64_t)1000000 * strtol(at + 14, NULL, 10));
}

/* What FD, which was opened at CALL_NS, shows; logged. */
static bool look_and_say(int fd, int64_t call_ns, const char *cell,
			 struct record *record)
{
	char text[TEXT_SIZE];

	if (!look(fd, record))
		return false;
	say("r %" PRId64 " %" PRId64 " %s %s\n", call_ns, now_ns(), cell,
	    shown(record, text));
	return true;
}

static void create(const char *path, const char *cell)
{
	const struct record none = {.absent = true};
	struct record wanted = next(&none, false);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return;
	if (swap(fd, cell, "create", &none, &wanted))
		hold(cell, &wanted);
	close(fd);
}

/* Is FOUND worth a write, and which? */
static bool decide(const struct record *found, bool *release)
{
	*release = false;
	if (!found->node[0])
		return true;
	if (strcmp(found->node, node) != 0)
		return chance(10);
	*release = chance(35);
	return chance(90);
}

static void by_descriptor(const char *path, const char *cell)
{
	int64_t call_ns = now_ns();
	struct record found, wanted;
	bool release;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT) {
		create(path, cell);
		return;
	}
	if (fd < 0)
		return;
	if (look_and_say(fd, call_ns, cell, &found) &&
	    decide(&found, &release)) {
		wanted = next(&found, release);
		while (swap(fd, cell, "fd", &found, &wanted) && !release) {
			if (chance(20))
				hold(cell, &wanted);
			if (chance(10))
				break;
			sleep_ms(below(10));
			found = wanted;
			release = chance(30);
			wanted = next(&found, release);
		}
	}
	close(fd);
}

/* By the guard of another, what was decided on this version would go over that
 * other's: the longer between arming and writing the more likely, and the
 * higher the epoch the less anything else is in the way. */
static void by_path(const char *path, const char *cell)
{
	int64_t call_ns = now_ns();
	struct record found, wanted;
	char etag[TEXT_SIZE];
	bool release;
	ssize_t len = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (look_and_say(fd, call_ns, cell, &found) && decide(&found, &release))
		len = fgetxattr(fd, "user.celld.etag", etag, sizeof(etag));
	close(fd);
	if (len <= 0)
		return;
	if (setxattr(path, "user.celld.if-match", etag, (size_t)len, 0) != 0)
		return;
	sleep_ms(below(500));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	wanted = next(&found, false);
	wanted.epoch += below(50);
	if (swap(fd, cell, "armed", &found, &wanted))
		hold(cell, &wanted);
	close(fd);
}

static void by_lock(const char *path, const char *cell)
{
	static const struct itimerval limit = {.it_value = {.tv_sec = 1}};
	static const struct itimerval none;
	struct record found = {0};
	bool wait = chance(30);
	unsigned long id = ids++;
	char text[TEXT_SIZE];
	int error = 0;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		return;
	say("l %lu %" PRId64 " %s\n", id, now_ns(), cell);
	if (wait)
		setitimer(ITIMER_REAL, &limit, NULL);
	if (flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) != 0)
		error = errno;
	if (wait)
		setitimer(ITIMER_REAL, &none, NULL);
	if (error == 0)
		(void)look(fd, &found);
	say("L %lu %" PRId64 " %d %s\n", id, now_ns(), error,
	    shown(&found, text));
	rest_if(error == EROFS);
	if (error == 0) {
		hold(cell, &found);
		sleep_ms(below(20));
		say("u %lu %" PRId64 "\n", id, now_ns());
		if (chance(50) && flock(fd, LOCK_UN) == 0)
			say("U %lu %" PRId64 "\n", id, now_ns());
	}
	close(fd);
}

static void once(void)
{
	char path[TEXT_SIZE], cell[32];
	struct record found;
	unsigned what = below(100);
	bool by_guard = what >= 65 && what < 80;
	int64_t call_ns = now_ns();
	int fd, number;

	if (by_guard)
		number = home + step * (int)below(2);
	else if (chance(66))
		number = home + step * (int)below((unsigned)(cells / step));
	else
		number = (int)below((unsigned)cells);
	if (!by_guard && chance(8))
		snprintf(cell, sizeof(cell), "y%" PRId64,
			 (call_ns - began_ns) / YOUNG_NS);
	else
		snprintf(cell, sizeof(cell), "c%d", number % cells);
	snprintf(path, sizeof(path), "%s/cells/%s/own", mount, cell);
	if (what < 65) {
		by_descriptor(path, cell);
	} else if (by_guard) {
		by_path(path, cell);
	} else if (what < 92) {
		by_lock(path, cell);
	} else {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0) {
			(void)look_and_say(fd, call_ns, cell, &found);
			close(fd);
		}
	}
}

static void on_alarm(int signal)
{
	(void)signal;
}

static void on_term(int signal)
{
	(void)signal;
	is_over = 1;
}

int main(int argc, char **argv)
{
	struct sigaction alarm = {.sa_handler = on_alarm}; /* no SA_RESTART */
	struct sigaction term = {.sa_handler = on_term, .sa_flags = SA_RESTART};
	pid_t parent = getppid();

	if (argc != 11) {
		fputs("usage: lab_client MOUNT NODE LOG NAME SEED CELLS HOME "
		      "STEP BEGAN_NS PACE_MS\n",
		      stderr);
		return 100;
	}
	mount = argv[1];
	node = argv[2];
	name = argv[4];
	state = strtoull(argv[5], NULL, 10) * 2 + 1;
	cells = (int)strtol(argv[6], NULL, 10);
	home = (int)strtol(argv[7], NULL, 10);
	step = (int)strtol(argv[8], NULL, 10);
	began_ns = strtoll(argv[9], NULL, 10);
	pace_ms = (int)strtol(argv[10], NULL, 10);
	log_fd = open(argv[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (log_fd < 0) {
		perror(argv[3]);
		return 1;
	}
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		return 1;
	while (now_ns() < began_ns)
		sleep_ms(20);
	sigaction(SIGALRM, &alarm, NULL);
	sigaction(SIGTERM, &term, NULL);
	while (!is_over) {
		once();
		sleep_ms(below(2 * (unsigned)pace_ms + 1));
	}
	return 0;
}
