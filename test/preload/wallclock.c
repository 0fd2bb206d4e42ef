/* wallclock: a wall clock that is wrong. Preloaded into a daemon (LD_PRELOAD),
 * it adds the number of milliseconds that stands in the file $CELLDFS_WALLCLOCK
 * to the time of day, however that is asked for. The file may change meanwhile:
 * the clock steps. No file: the clock is right. The clocks that nobody can set,
 * as CLOCK_BOOTTIME, are left alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long offset_ms(void)
{
	const char *path = getenv("CELLDFS_WALLCLOCK");
	int saved = errno;
	char text[32] = "";
	int fd;

	if (!path)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		if (read(fd, text, sizeof(text) - 1) < 0)
			abort();
		close(fd);
	}
	errno = saved;
	return strtoll(text, NULL, 10);
}

static struct timespec wrong_time(void)
{
	struct timespec now;
	long long ms = offset_ms();

	syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
	now.tv_sec += ms / 1000;
	now.tv_nsec += ms % 1000 * 1000000;
	if (now.tv_nsec < 0) {
		now.tv_nsec += 1000000000;
		now.tv_sec--;
	} else if (now.tv_nsec >= 1000000000) {
		now.tv_nsec -= 1000000000;
		now.tv_sec++;
	}
	return now;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
	if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)
		return (int)syscall(SYS_clock_gettime, id, now);
	*now = wrong_time();
	return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec wrong = wrong_time();

	(void)zone;
	now->tv_sec = wrong.tv_sec;
	now->tv_usec = wrong.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *now)
{
	time_t seconds = wrong_time().tv_sec;

	if (now)
		*now = seconds;
	return seconds;
}
