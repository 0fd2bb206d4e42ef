/* getdents DIR [BUFSIZE]: prints the names in DIR, one per line, as the kernel
 * gives them ("." and ".." too, unsorted), read through a small buffer (512
 * bytes by default) so that a directory needs many calls.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fail(void)
{
	fprintf(stderr, "%s\n", strerrorname_np(errno));
	return 1;
}

int main(int argc, char **argv)
{
	static _Alignas(struct dirent64) char buffer[1024 * 1024];
	size_t size = 512;
	long len;
	int fd;

	if (argc < 2 || argc > 3) {
		fputs("usage: getdents DIR [BUFSIZE]\n", stderr);
		return 100;
	}
	if (argc == 3)
		size = strtoul(argv[2], NULL, 10);
	if (size > sizeof(buffer))
		size = sizeof(buffer);
	fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fail();
	/* The system call itself: readdir(3) has a buffer of its own. Its
	 * struct is glibc's dirent64. */
	while ((len = syscall(SYS_getdents64, fd, buffer, size)) > 0) {
		for (long at = 0; at < len;) {
			struct dirent64 *entry = (void *)(buffer + at);

			puts(entry->d_name);
			at += entry->d_reclen;
		}
	}
	if (len < 0)
		return fail();
	close(fd);
	return 0;
}
