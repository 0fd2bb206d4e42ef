#include "descriptors.h"

#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

static bool is_among(int fd, const int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fds[i] == fd)
			return true;
	return false;
}

void descriptors_fill(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

void descriptors_keep(const int *fds, size_t count)
{
	int last = STDERR_FILENO, null_fd;

	for (size_t i = 0; i < count; i++)
		if (fds[i] > last)
			last = fds[i];
	for (int fd = STDERR_FILENO + 1; fd < last; fd++)
		if (!is_among(fd, fds, count))
			close(fd);
	closefrom(last + 1);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd < 0)
		return;
	dup2(null_fd, STDIN_FILENO);
	dup2(null_fd, STDOUT_FILENO);
	close(null_fd);
}
