/* rw_client [OPTION]... FILE NEWRECORD: a compiled client. It reads FILE and
 * writes NEWRECORD with one pwrite(2) at 0, both on one O_RDWR descriptor.
 *
 *	--wait FIFO	after reading, wait until FIFO was opened for writing
 *			and closed again, so that a test can come in between
 *	--excl		create FILE (O_CREAT|O_EXCL|O_WRONLY), then write
 *	--wronly	O_WRONLY|O_TRUNC, then write
 *
 * Silent and 0 on success; else the errno's name on stderr, and 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(void)
{
	fprintf(stderr, "%s\n", strerrorname_np(errno));
	return 1;
}

/* Reads FD to its end and drops what was read. */
static int drain(int fd)
{
	char bytes[65536];
	ssize_t len;

	while ((len = read(fd, bytes, sizeof(bytes))) > 0)
		;
	return len < 0 ? -1 : 0;
}

static int wait_for(const char *fifo)
{
	int fd = open(fifo, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || drain(fd) != 0)
		return -1;
	return close(fd);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"wait", required_argument, NULL, 'w'},
		{"excl", no_argument, NULL, 'x'},
		{"wronly", no_argument, NULL, 'o'},
		{NULL, 0, NULL, 0},
	};
	const char *fifo = NULL, *record;
	int option, fd, flags = O_RDWR;
	ssize_t written;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'w')
			fifo = optarg;
		else if (option == 'x')
			flags = O_WRONLY | O_CREAT | O_EXCL;
		else if (option == 'o')
			flags = O_WRONLY | O_TRUNC;
		else
			return 100;
	}
	if (argc - optind != 2) {
		fputs("usage: rw_client [--wait FIFO] [--excl] [--wronly] FILE "
		      "NEWRECORD\n",
		      stderr);
		return 100;
	}
	record = argv[optind + 1];
	fd = open(argv[optind], flags | O_CLOEXEC, 0644);
	if (fd < 0)
		return fail();
	if (flags == O_RDWR && drain(fd) != 0)
		return fail();
	if (fifo != NULL && wait_for(fifo) != 0)
		return fail();
	written = pwrite(fd, record, strlen(record), 0);
	if (written < 0)
		return fail();
	if ((size_t)written != strlen(record)) {
		fprintf(stderr, "short write: %zd\n", written);
		return 1;
	}
	return close(fd) != 0 ? fail() : 0;
}
