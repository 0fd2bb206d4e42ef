/* Claims a cell or renews a lease with plain file I/O:
 *
 *   cell claim cells/CELL/own NODE   at a line of input; releases at the next
 *   cell renew nodes/NODE NODE       for 10 s at each line; then ends it
 *
 * A write replaces what this descriptor has read or written last, or is EBUSY.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEASE "{\"node\":\"%s\",\"expires_ms\":%lld,\"addr\":\"%s\"}"

static void put(int fd, const char *format, ...)
{
	char record[1024];
	va_list fields;

	va_start(fields, format);
	vsnprintf(record, sizeof(record), format, fields);
	va_end(fields);
	if (pwrite(fd, record, strlen(record), 0) < 0) {
		if (errno == EBUSY)
			errx(1, "busy: nothing was written");
		err(1, "pwrite");
	}
	puts(record);
}

int main(int argc, char **argv)
{
	if (argc != 4 || strlen(argv[3]) > 128)
		errx(1, "usage: cell claim|renew FILE NODE");
	char record[65536] = "", line[256];
	int fd = open(argv[2], O_RDWR | O_CREAT, 0644);
	if (fd < 0 || read(fd, record, sizeof(record) - 1) < 0)
		err(1, "%s", argv[2]);
	setlinebuf(stdout);
	puts(record);
	if (strcmp(argv[1], "claim") == 0) {
		const char *at = strstr(record, "\"epoch\":");
		unsigned long long epoch = at ? strtoull(at + 8, NULL, 10) : 0;
		fgets(line, sizeof(line), stdin);
		put(fd, "{\"node\":\"%s\",\"epoch\":%llu}", argv[3], epoch + 1);
		fgets(line, sizeof(line), stdin);
		put(fd, "{\"node\":\"\",\"epoch\":%llu}", epoch + 1);
		return 0;
	}
	while (fgets(line, sizeof(line), stdin) != NULL)
		put(fd, LEASE, argv[3], (time(NULL) + 10) * 1000LL, argv[3]);
	put(fd, LEASE, argv[3], 0LL, argv[3]);
}
