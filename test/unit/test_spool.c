/* spool: the same bytes in memory and in a file. */
#include "spool.h"

#include "check.h"

#include <dirent.h>
#include <stdbool.h>
#include <unistd.h>

#define BLOCK 65536

/* The byte that belongs at PLACE, in the GENERATION of what was appended. */
static char byte_at(uint64_t place, unsigned generation)
{
	return (char)(place * 31 + (place >> 8) * 7 + generation * 101);
}

static void append(struct spool *spool, size_t len, unsigned generation)
{
	char *bytes = malloc(len + 1);
	uint64_t before = spool->len;

	for (size_t i = 0; i < len; i++)
		bytes[i] = byte_at(before + i, generation);
	CHECK_EQ(spool_append(spool, bytes, len), OUTCOME_OK);
	CHECK_EQ(spool->len, before + len);
	free(bytes);
}

static void check_range(const struct spool *spool, uint64_t from, size_t len,
			unsigned generation)
{
	char *bytes = malloc(len + 1);

	CHECK_EQ(spool_read(spool, from, bytes, len), OUTCOME_OK);
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != byte_at(from + i, generation))
			CHECK_FAIL("byte %" PRIu64 " is wrong", from + i);
	free(bytes);
}

static void check_refused(const struct spool *spool, uint64_t from, size_t len)
{
	char byte;

	CHECK_EQ(spool_read(spool, from, &byte, len), OUTCOME_FAILED);
}

static void test_empty(void)
{
	struct spool spool;
	char byte;

	spool_init(&spool);
	CHECK_EQ(spool.len, 0);
	CHECK_EQ(spool_read(&spool, 0, &byte, 0), OUTCOME_OK);
	check_refused(&spool, 0, 1);
	check_refused(&spool, 1, 0);
	CHECK_EQ(spool_append(&spool, "", 0), OUTCOME_OK);
	spool_truncate(&spool, 0);
	spool_truncate(&spool, 5);
	CHECK_EQ(spool.len, 0);
	spool_release(&spool);
	spool_release(&spool);
}

/* Truncating, appending and reading; at the end LEN bytes as at the start. */
static void check_use(struct spool *spool)
{
	uint64_t len = spool->len;

	CHECK(len >= 1000);
	check_range(spool, 0, 1, 1);
	check_range(spool, len - 1, 1, 1);
	check_range(spool, len, 0, 1);
	check_range(spool, len / 2, 100, 1);
	check_refused(spool, len, 1);
	check_refused(spool, len - 1, 2);
	check_refused(spool, len + 1, 0);
	check_refused(spool, UINT64_MAX, 1);
	check_refused(spool, 1, SIZE_MAX);
	/* longer than it is: nothing happens */
	spool_truncate(spool, len + 1);
	CHECK_EQ(spool->len, len);
	spool_truncate(spool, len);
	CHECK_EQ(spool->len, len);
	/* what was dropped is gone, and others take its place */
	spool_truncate(spool, len - 700);
	CHECK_EQ(spool->len, len - 700);
	check_refused(spool, len - 700, 1);
	append(spool, 50, 2);
	check_range(spool, len - 700, 50, 2);
	check_range(spool, len - 900, 200, 1);
	check_refused(spool, len - 650, 1);
	spool_truncate(spool, len - 700);
	append(spool, 700, 1);
	check_range(spool, len - 1000, 1000, 1);
}

static unsigned files_in(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	CHECK(dir != NULL);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2; /* . and .. */
}

static void test_memory_and_file(void)
{
	char tmp[] = "/tmp/test_spool.XXXXXX";
	struct spool spool;
	uint64_t end;

	CHECK(mkdtemp(tmp) != NULL);
	setenv("TMPDIR", tmp, 1);
	spool_init(&spool);
	append(&spool, 1000, 1);
	check_use(&spool);
	while (spool.len + BLOCK <= SPOOL_MEMORY_MAX)
		append(&spool, BLOCK, 1);
	append(&spool, SPOOL_MEMORY_MAX - (size_t)spool.len, 1);
	CHECK_EQ(spool.len, SPOOL_MEMORY_MAX);
	CHECK_EQ(spool.fd, -1);
	check_use(&spool);

	/* one byte more goes to a file that nobody sees */
	append(&spool, 1, 1);
	CHECK(spool.fd >= 0);
	CHECK_EQ(spool.memory.len, 0);
	CHECK(spool.memory.bytes == NULL);
	CHECK_EQ(files_in(tmp), 0);
	CHECK_EQ(rmdir(tmp), 0);
	check_use(&spool);
	append(&spool, BLOCK, 1);
	check_use(&spool);
	for (uint64_t at = 0; at + BLOCK <= spool.len; at += BLOCK)
		check_range(&spool, at, BLOCK, 1);
	/* a hole is as long as what it stands for, and costs nothing */
	end = spool.len;
	spool.len = SPOOL_MAX - 10;
	append(&spool, 10, 1);
	CHECK_EQ(spool_append(&spool, "x", 1), OUTCOME_TOO_LARGE);
	CHECK_EQ(spool.len, SPOOL_MAX);
	spool_truncate(&spool, end);
	/* also all the way back */
	spool_truncate(&spool, 10);
	check_range(&spool, 0, 10, 1);
	check_refused(&spool, 10, 1);
	append(&spool, 2000, 1);
	check_use(&spool);
	spool_release(&spool);
	CHECK_EQ(spool.fd, -1);
}

/* No place for the file: an error, and what there is stays. */
static void test_no_place(void)
{
	struct spool spool;
	char *bytes = calloc(1, SPOOL_MEMORY_MAX);

	setenv("TMPDIR", "/nonexistent", 1);
	spool_init(&spool);
	append(&spool, 1000, 1);
	CHECK_EQ(spool_append(&spool, bytes, SPOOL_MEMORY_MAX), OUTCOME_FAILED);
	CHECK_EQ(spool.len, 1000);
	check_use(&spool);
	/* and once there is one, it goes on */
	setenv("TMPDIR", "/tmp", 1);
	CHECK_EQ(spool_append(&spool, bytes, SPOOL_MEMORY_MAX), OUTCOME_OK);
	CHECK_EQ(spool.len, SPOOL_MEMORY_MAX + 1000);
	check_range(&spool, 0, 1000, 1);
	spool_release(&spool);
	/* no TMPDIR is as good as an empty one */
	for (int i = 0; i < 2; i++) {
		if (i == 0)
			setenv("TMPDIR", "", 1);
		else
			unsetenv("TMPDIR");
		spool_init(&spool);
		append(&spool, 1000, 1);
		CHECK_EQ(spool_append(&spool, bytes, SPOOL_MEMORY_MAX),
			 OUTCOME_OK);
		check_range(&spool, 0, 1000, 1);
		spool_release(&spool);
	}
	free(bytes);
}

int main(void)
{
	RUN(test_empty);
	RUN(test_memory_and_file);
	RUN(test_no_place);
	return 0;
}
