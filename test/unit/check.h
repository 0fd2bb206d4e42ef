/* check: the little that the unit tests need. A failed CHECK prints the place
 * and what was expected, and the program ends with status 1.
 */
#ifndef CELLDFS_CHECK_H
#define CELLDFS_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_FAIL(...)                                                        \
	do {                                                                   \
		fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                \
		fprintf(stderr, __VA_ARGS__);                                  \
		fputc('\n', stderr);                                           \
		exit(1);                                                       \
	} while (0)

#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition))                                              \
			CHECK_FAIL("not true: %s", #condition);                \
	} while (0)

/* Integers, enums and booleans. */
#define CHECK_EQ(got, want)                                                    \
	do {                                                                   \
		long long check_got = (long long)(got);                        \
		long long check_want = (long long)(want);                      \
		if (check_got != check_want)                                   \
			CHECK_FAIL("%s is %lld, expected %s = %lld", #got,     \
				   check_got, #want, check_want);              \
	} while (0)

#define CHECK_STR(got, want)                                                   \
	do {                                                                   \
		const char *check_got = (got);                                 \
		const char *check_want = (want);                               \
		if (strcmp(check_got, check_want) != 0)                        \
			CHECK_FAIL("%s is '%s', expected '%s'", #got,          \
				   check_got, check_want);                     \
	} while (0)

/* Runs one test function and names it, so that a failure is easy to place. */
#define RUN(test)                                                              \
	do {                                                                   \
		test();                                                        \
		printf("ok %s\n", #test);                                      \
	} while (0)

#endif
