/* heartbeat [-i] FILE: appends the time to FILE every 5 ms, in milliseconds of
 * CLOCK_BOOTTIME, one a line, until it is killed: its last line is when it was
 * last seen alive. With -i it ignores SIGTERM, SIGINT and SIGHUP.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec now, pause = {.tv_nsec = 5000000};
	int fd;

	if (argc == 3 && strcmp(argv[1], "-i") == 0) {
		signal(SIGTERM, SIG_IGN);
		signal(SIGINT, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		argv++;
		argc--;
	}
	if (argc != 2)
		return 2;
	fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return 1;
	for (;;) {
		clock_gettime(CLOCK_BOOTTIME, &now);
		if (dprintf(fd, "%lld\n",
			    (long long)now.tv_sec * 1000 +
				    now.tv_nsec / 1000000) < 0)
			return 1;
		nanosleep(&pause, NULL);
	}
}
