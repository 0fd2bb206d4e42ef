/* celldfs-watch FILE...: prints a line for each change of records below a
 * mount, until it is interrupted.
 *
 * It does what any program can do: read, then poll(2) for POLLPRI, then read
 * again from the start.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define STATUS_FAILED 1
#define STATUS_USAGE  2
#define FILES_MOST    1024
#define AGAIN_S	      1 /* after a read that failed */

static const char help[] =
	"usage: celldfs-watch FILE...\n"
	"Prints a line for each change of the records FILE, which lie below a\n"
	"mount of celldfs (cells/CELL/own, nodes/NODE), until interrupted:\n"
	"\n"
	"  TIME FILE NODE EPOCH ETAG\n"
	"\n"
	"NODE is - for a cell that was released, EPOCH is - for a lease. A "
	"record\n"
	"that is gone has \"gone\" in their place. How soon a change is seen "
	"is the\n"
	"mount's option watch-ms; changes between two looks are one.\n"
	"\n"
	"Exit status: 1 failed, 2 usage; it does not end by itself.\n";

struct watched {
	const char *path;
	int fd;
	bool gone; /* and that was told */
};

static void complain(const char *path)
{
	fprintf(stderr, "celldfs-watch: %s: %s\n", path, strerror(errno));
}

/* Reads the record afresh; what it says is of no interest. False: errno. */
static bool read_again(int fd)
{
	char bytes[4096];
	ssize_t got;

	if (lseek(fd, 0, SEEK_SET) != 0)
		return false;
	do
		got = read(fd, bytes, sizeof(bytes));
	while (got > 0);
	return got == 0;
}

/* An attribute of the version that was read; "-" if it has none. */
static const char *attribute(int fd, const char *name, char value[512])
{
	ssize_t len = fgetxattr(fd, name, value, 511);

	if (len <= 0)
		return "-";
	value[len] = '\0';
	return value;
}

static const char *now(char text[64])
{
	struct timeval time;
	struct tm tm;
	size_t len;

	gettimeofday(&time, NULL);
	gmtime_r(&time.tv_sec, &tm);
	len = strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + len, 64 - len, ".%03ldZ", (long)time.tv_usec / 1000);
	return text;
}

static void print(const struct watched *watched)
{
	char when[64], node[512], epoch[512], etag[512];
	int fd = watched->fd;

	printf("%s %s %s %s %s\n", now(when), watched->path,
	       attribute(fd, "user.celld.node", node),
	       attribute(fd, "user.celld.epoch", epoch),
	       attribute(fd, "user.celld.etag", etag));
}

static void look(struct watched *watched)
{
	char when[64];

	if (read_again(watched->fd)) {
		watched->gone = false;
		print(watched);
	} else if (errno != ENOENT) {
		complain(watched->path);
		sleep(AGAIN_S);
	} else {
		if (!watched->gone)
			printf("%s %s gone\n", now(when), watched->path);
		watched->gone = true;
		/* what was read last still differs from what is there */
		sleep(AGAIN_S);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static struct watched all[FILES_MOST];
	static struct pollfd polled[FILES_MOST];
	nfds_t count = 0;

	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(help, stdout);
		return EXIT_SUCCESS;
	}
	if (argc < 2 || argv[1][0] == '-') {
		fputs("celldfs-watch: which files? See celldfs-watch --help\n",
		      stderr);
		return STATUS_USAGE;
	}
	if (argc - 1 > FILES_MOST) {
		fprintf(stderr, "celldfs-watch: more than %d files\n",
			FILES_MOST);
		return STATUS_USAGE;
	}
	for (; count < (nfds_t)argc - 1; count++) {
		const char *path = argv[count + 1];
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd < 0 || !read_again(fd)) {
			complain(path);
			return STATUS_FAILED;
		}
		all[count] = (struct watched){.path = path, .fd = fd};
		polled[count] = (struct pollfd){.fd = fd, .events = POLLPRI};
	}
	for (;;) {
		if (poll(polled, count, -1) < 0 && errno != EINTR) {
			complain("poll");
			return STATUS_FAILED;
		}
		for (nfds_t i = 0; i < count; i++) {
			if (polled[i].revents & (POLLERR | POLLNVAL)) {
				errno = ENOTCONN;
				complain(all[i].path);
				return STATUS_FAILED;
			}
			if (polled[i].revents & POLLPRI)
				look(&all[i]);
		}
	}
}
