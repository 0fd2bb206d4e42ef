#include "notify.h"

#include "clock.h"
#include "log.h"
#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

void notify_say(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (len == 0 || len >= sizeof(address.sun_path))
		return;
	memcpy(address.sun_path, path, len);
	if (path[0] == '@')
		address.sun_path[0] = '\0'; /* an abstract one */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
		   (struct sockaddr *)&address,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) <
	    0)
		log_line(LOG_WARNING, "the service manager was not told: %s",
			 strerror(errno));
	close(fd);
}

struct watchdog {
	const char *mountpoint;
	int64_t period_ms;
	pthread_t thread;
	pthread_mutex_t lock; /* guards: */
	bool stops;
	pthread_cond_t stop;
};

/* Three pings in the time that the manager allows; 0: none are wanted. */
static int64_t wanted_period_ms(void)
{
	const char *usec = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");
	long long limit_ms = usec ? strtoll(usec, NULL, 10) / 1000 : 0;

	if (limit_ms <= 0 || (pid && strtoll(pid, NULL, 10) != getpid()))
		return 0;
	return limit_ms < 3 ? 1 : limit_ms / 3;
}

static void *ping(void *arg)
{
	struct watchdog *watchdog = arg;
	struct statvfs unused;
	int64_t at_ms;

	pthread_mutex_lock(&watchdog->lock);
	while (!watchdog->stops) {
		pthread_mutex_unlock(&watchdog->lock);
		at_ms = clock_boot_ms() + watchdog->period_ms;
		if (statvfs(watchdog->mountpoint, &unused) == 0)
			notify_say("WATCHDOG=1");
		pthread_mutex_lock(&watchdog->lock);
		while (!watchdog->stops && clock_boot_ms() < at_ms)
			thread_wait(&watchdog->stop, &watchdog->lock, at_ms);
	}
	pthread_mutex_unlock(&watchdog->lock);
	return NULL;
}

struct watchdog *watchdog_start(const char *mountpoint)
{
	int64_t period_ms = wanted_period_ms();
	struct watchdog *watchdog =
		period_ms > 0 ? calloc(1, sizeof(*watchdog)) : NULL;

	if (!watchdog)
		return NULL;
	watchdog->mountpoint = mountpoint;
	watchdog->period_ms = period_ms;
	pthread_mutex_init(&watchdog->lock, NULL);
	thread_cond_init(&watchdog->stop);
	if (thread_start(&watchdog->thread, ping, watchdog))
		return watchdog;
	pthread_cond_destroy(&watchdog->stop);
	pthread_mutex_destroy(&watchdog->lock);
	free(watchdog);
	return NULL;
}

void watchdog_stop(struct watchdog *watchdog)
{
	if (!watchdog)
		return;
	pthread_mutex_lock(&watchdog->lock);
	watchdog->stops = true;
	pthread_cond_signal(&watchdog->stop);
	pthread_mutex_unlock(&watchdog->lock);
	pthread_join(watchdog->thread, NULL);
	pthread_cond_destroy(&watchdog->stop);
	pthread_mutex_destroy(&watchdog->lock);
	free(watchdog);
}
