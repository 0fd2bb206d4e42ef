#define _GNU_SOURCE /* OFD locks, gettid */

#include "turnstile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum byte { BYTE_QUEUE, BYTE_WORK, BYTE_URGENT };

/* A signal may come just before the call that it is to end has blocked, so it
 * is repeated until it has done its work. */
#define REPEAT_NS 10000000

static pthread_once_t handler_once = PTHREAD_ONCE_INIT;

static void on_signal(int number)
{
	(void)number;
}

static void install_handler(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(TURNSTILE_SIGNAL, &action, NULL);
}

/* A new side file gets the mode of what it stands beside, as SQLite's own do:
 * who may write the one must be able to lock the other. */
static int create(const char *name, const char *path)
{
	struct stat st;
	int fd, changed;

	if (stat(path, &st) != 0)
		return -1;
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		  st.st_mode & 0666);
	if (fd < 0)
		return -1;
	/* What fails here leaves it narrower, and the next opener says so. */
	changed = fchmod(fd, st.st_mode & 0666);
	if (changed == 0 && geteuid() == 0)
		changed = fchown(fd, st.st_uid, st.st_gid);
	(void)changed;
	return fd;
}

enum outcome turnstile_open(int *fd, const char *path, struct reason *reason)
{
	char *name;
	int error;

	pthread_once(&handler_once, install_handler);
	if (asprintf(&name, "%s-queue", path) < 0)
		return OUTCOME_NO_MEMORY;
	do {
		*fd = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		if (*fd < 0 && errno == ENOENT)
			*fd = create(name, path);
	} while (*fd < 0 && errno == EEXIST);
	error = errno;
	free(name);
	if (*fd >= 0)
		return OUTCOME_OK;
	return reason_set(reason,
			  error == EACCES || error == EPERM || error == EROFS
				  ? OUTCOME_DENIED
				  : OUTCOME_FAILED,
			  "%s-queue: %s", path, strerror(error));
}

static int set_lock(int fd, int command, short type, enum byte byte)
{
	struct flock lock = {.l_type = type,
			     .l_whence = SEEK_SET,
			     .l_start = (off_t)byte,
			     .l_len = 1};

	return fcntl(fd, command, &lock);
}

/* Lets the timer that ARG points to fire now, and again until it is deleted. */
static void fire(void *arg)
{
	timer_t *timer = arg;
	struct itimerspec now = {.it_interval.tv_nsec = REPEAT_NS,
				 .it_value.tv_nsec = 1};

	timer_settime(*timer, 0, &now, NULL);
}

static void fire_at_deadline(timer_t timer, const struct limits *limits)
{
	int64_t left_ms = limits_left_ms(limits);
	struct itimerspec end = {.it_interval.tv_nsec = REPEAT_NS};

	end.it_value.tv_sec = (time_t)(left_ms / 1000);
	end.it_value.tv_nsec = (long)(left_ms % 1000) * 1000000 + 1;
	timer_settime(timer, 0, &end, NULL);
}

/* Blocks until BYTE is ours, or an errno. */
static int wait_for(int fd, short type, enum byte byte,
		    const struct limits *limits, enum outcome *outcome)
{
	do {
		*outcome = limits_check(limits);
		if (*outcome != OUTCOME_OK)
			return 0;
		if (set_lock(fd, F_OFD_SETLKW, type, byte) == 0)
			return 0;
	} while (errno == EINTR);
	return errno;
}

/* wait_for() in reach of the timer. */
static int wait_with_timer(int fd, short type, enum byte byte,
			   const struct limits *limits, enum outcome *outcome)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
				 .sigev_signo = TURNSTILE_SIGNAL};
	sigset_t ours, before;
	timer_t timer;
	int error;

	event.sigev_notify_thread_id = gettid();
	if (timer_create(CLOCK_BOOTTIME, &event, &timer) != 0)
		return errno;
	sigemptyset(&ours);
	sigaddset(&ours, TURNSTILE_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &ours, &before);
	fire_at_deadline(timer, limits);
	if (limits->stop != NULL)
		stop_on(limits->stop, fire, &timer);
	error = wait_for(fd, type, byte, limits, outcome);
	if (limits->stop != NULL)
		stop_off(limits->stop);
	timer_delete(timer);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

static enum outcome take(int fd, short type, enum byte byte,
			 const struct limits *limits, struct reason *reason)
{
	enum outcome outcome = OUTCOME_OK;
	int error = 0;

	if (set_lock(fd, F_OFD_SETLK, type, byte) == 0)
		return OUTCOME_OK;
	error = errno;
	if (error == EAGAIN || error == EACCES)
		error = wait_with_timer(fd, type, byte, limits, &outcome);
	if (error != 0)
		return reason_set(reason, OUTCOME_FAILED,
				  "cannot wait in the queue of writers: %s",
				  strerror(error));
	if (outcome != OUTCOME_OK)
		return reason_set(reason, outcome,
				  outcome == OUTCOME_TIMEOUT
					  ? "no turn in the queue of writers "
					    "by the deadline"
					  : "interrupted in the queue of "
					    "writers");
	return OUTCOME_OK;
}

static void give_back(int fd, enum byte byte)
{
	set_lock(fd, F_OFD_SETLK, F_UNLCK, byte);
}

static enum outcome enter_urgently(int fd, const struct limits *limits,
				   struct reason *reason)
{
	enum outcome outcome = take(fd, F_RDLCK, BYTE_URGENT, limits, reason);

	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = take(fd, F_WRLCK, BYTE_WORK, limits, reason);
	if (outcome != OUTCOME_OK)
		give_back(fd, BYTE_URGENT);
	return outcome;
}

enum outcome turnstile_enter(int fd, const struct limits *limits,
			     struct reason *reason)
{
	enum outcome outcome;

	if (limits->urgent)
		return enter_urgently(fd, limits, reason);
	outcome = take(fd, F_WRLCK, BYTE_QUEUE, limits, reason);
	if (outcome != OUTCOME_OK)
		return outcome;
	/* A byte that was given back is free until the one who waits for it has
	 * woken up, and whoever comes meanwhile gets it. The urgent one is not
	 * passed in that way, because what keeps others out is a byte that it
	 * holds all the time, not one that it waits for. */
	outcome = take(fd, F_WRLCK, BYTE_URGENT, limits, reason);
	if (outcome == OUTCOME_OK) {
		give_back(fd, BYTE_URGENT);
		outcome = take(fd, F_WRLCK, BYTE_WORK, limits, reason);
	}
	give_back(fd, BYTE_QUEUE);
	return outcome;
}

void turnstile_leave(int fd)
{
	give_back(fd, BYTE_WORK);
	give_back(fd, BYTE_URGENT);
}
