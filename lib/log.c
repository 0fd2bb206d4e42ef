#include "log.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES                                                         \
	2048		/* with the final newline; less than a pipe's page */
#define PATIENCE_MS 100 /* with a pipe that is full */

enum destination { TO_STDERR, TO_FILE, TO_SYSLOG };

/* Written by log_to() alone, before other threads log. */
static enum destination destination = TO_STDERR;
static int log_fd = STDERR_FILENO;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards: */
static bool stuck; /* the last line found no room */

static void set_destination(enum destination to, int fd)
{
	if (destination == TO_FILE)
		close(log_fd);
	if (destination == TO_SYSLOG)
		closelog();
	destination = to;
	log_fd = fd;
}

enum outcome log_to(const char *where, struct reason *reason)
{
	int fd;

	if (strcmp(where, "stderr") == 0) {
		set_destination(TO_STDERR, STDERR_FILENO);
		return OUTCOME_OK;
	}
	if (strcmp(where, "syslog") == 0) {
		set_destination(TO_SYSLOG, -1);
		openlog("celldfs", LOG_PID, LOG_DAEMON);
		return OUTCOME_OK;
	}
	if (where[0] != '/')
		return reason_set(reason, OUTCOME_INVALID,
				  "'%s' is no place for the log: stderr, "
				  "syslog or an absolute path",
				  where);
	/* O_NONBLOCK: a FIFO that nobody reads must not hang the daemon. */
	fd = open(where,
		  O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY |
			  O_NONBLOCK,
		  0644);
	if (fd < 0)
		return reason_set(reason, OUTCOME_FAILED,
				  "cannot open the log %s: %s", where,
				  strerror(errno));
	set_destination(TO_FILE, fd);
	return OUTCOME_OK;
}

static const char *level_word(int level)
{
	switch (level) {
	case LOG_ERR:
		return "error";
	case LOG_WARNING:
		return "warning";
	case LOG_NOTICE:
		return "notice";
	default:
		return "info";
	}
}

/* What stands before the text; returns its length. */
static size_t print_head(char *line, size_t size, int level)
{
	int64_t now_ms = clock_wall_ms();
	time_t seconds = (time_t)(now_ms / 1000);
	char when[32] = "";
	struct tm tm;
	int len;

	if (destination == TO_SYSLOG)
		return 0;
	if (destination == TO_STDERR) {
		len = snprintf(line, size, "celldfs: %s: ", level_word(level));
		return (size_t)len;
	}
	if (gmtime_r(&seconds, &tm) != NULL)
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	len = snprintf(line, size, "%s.%03dZ %s ", when, (int)(now_ms % 1000),
		       level_word(level));
	return (size_t)len;
}

/* A line for which there is no room is lost: a reader that has stopped must
 * hang no operation, and no renewal of the lease. */
static void write_line(const char *line, size_t len)
{
	struct pollfd room = {.fd = log_fd, .events = POLLOUT};
	ssize_t written;

	pthread_mutex_lock(&lock);
	stuck = poll(&room, 1, stuck ? 0 : PATIENCE_MS) == 0;
	/* A log that cannot be written has nowhere to say so. */
	do {
		written = stuck ? 0 : write(log_fd, line, len);
	} while (written < 0 && errno == EINTR);
	pthread_mutex_unlock(&lock);
}

void log_line(int level, const char *format, ...)
{
	int saved = errno;
	char line[LINE_MAX_BYTES];
	size_t head = print_head(line, sizeof(line), level);
	size_t len = head;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line + head, sizeof(line) - head, format, args);
	va_end(args);
	if (n > 0)
		len += (size_t)n;
	if (len > sizeof(line) - 1)
		len = sizeof(line) - 1;
	text_make_plain(line + head, len - head);
	if (destination == TO_SYSLOG) {
		line[len] = '\0';
		syslog(level, "%s", line);
	} else {
		line[len++] = '\n';
		write_line(line, len);
	}
	errno = saved;
}
