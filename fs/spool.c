#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void spool_init(struct spool *spool)
{
	memset(spool, 0, sizeof(*spool));
	buf_init(&spool->memory, SPOOL_MEMORY_MAX);
	spool->fd = -1;
}

void spool_release(struct spool *spool)
{
	buf_release(&spool->memory);
	if (spool->fd >= 0)
		close(spool->fd);
	spool->fd = -1;
}

static enum outcome write_all(int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return OUTCOME_FAILED;
		bytes += n;
		len -= (size_t)n;
	}
	return OUTCOME_OK;
}

static int open_unlinked(void)
{
	const char *directory = getenv("TMPDIR");
	char *path;
	int fd;

	if (asprintf(&path, "%s/celldfs-XXXXXX",
		     directory && *directory ? directory : "/var/tmp") < 0)
		return -1;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	free(path);
	return fd;
}

static enum outcome move_to_file(struct spool *spool)
{
	int fd = open_unlinked();

	if (fd < 0)
		return OUTCOME_FAILED;
	if (write_all(fd, spool->memory.bytes, spool->memory.len) !=
	    OUTCOME_OK) {
		close(fd);
		return OUTCOME_FAILED;
	}
	buf_release(&spool->memory);
	spool->fd = fd;
	return OUTCOME_OK;
}

enum outcome spool_append(struct spool *spool, const void *bytes, size_t len)
{
	enum outcome outcome = OUTCOME_TOO_LARGE;

	if (len > SPOOL_MAX - spool->len)
		return outcome;
	if (spool->fd < 0) {
		outcome = buf_append(&spool->memory, bytes, len);
		if (outcome == OUTCOME_TOO_LARGE &&
		    move_to_file(spool) != OUTCOME_OK)
			return OUTCOME_FAILED;
	}
	if (outcome == OUTCOME_TOO_LARGE &&
	    lseek(spool->fd, (off_t)spool->len, SEEK_SET) < 0)
		return OUTCOME_FAILED;
	if (outcome == OUTCOME_TOO_LARGE)
		outcome = write_all(spool->fd, bytes, len);
	if (outcome == OUTCOME_OK)
		spool->len += len;
	return outcome;
}

void spool_truncate(struct spool *spool, uint64_t len)
{
	if (len > spool->len)
		return;
	/* in a file, what lies beyond is written over */
	spool->len = len;
	if (spool->fd < 0)
		spool->memory.len = (size_t)len;
}

enum outcome spool_read(const struct spool *spool, uint64_t offset, void *bytes,
			size_t len)
{
	char *to = bytes;

	if (offset > spool->len || len > spool->len - offset)
		return OUTCOME_FAILED;
	if (len == 0)
		return OUTCOME_OK;
	if (spool->fd < 0) {
		memcpy(to, spool->memory.bytes + offset, len);
		return OUTCOME_OK;
	}
	while (len > 0) {
		ssize_t n = pread(spool->fd, to, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return OUTCOME_FAILED;
		to += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return OUTCOME_OK;
}
