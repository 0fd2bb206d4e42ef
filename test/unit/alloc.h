/* alloc: makes one allocation after the other fail, for unit tests, in celldfs and
 * in all libraries below it. Include it in one file of a program: it defines
 * malloc() and its kin for the whole of it.
 *
 * Only the thread that asked for it is hit: a server in another one goes on.
 */
#ifndef CELLDFS_TEST_ALLOC_H
#define CELLDFS_TEST_ALLOC_H

#include "check.h"

#include <errno.h>
#include <stdbool.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REAL(name) __interceptor_##name
#else
#define REAL(name) __libc_##name
#endif

void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t count, size_t size);
void *REAL(realloc)(void *bytes, size_t size);

static __thread struct {
	unsigned long count; /* allocations since alloc_begin() */
	unsigned long first; /* this one fails; 0 = none */
	bool all;	     /* and all after it */
	bool on;
	bool failed; /* one did */
} alloc;

/* It runs before the sanitizers are ready. */
#define RAW __attribute__((no_sanitize("address", "thread", "undefined")))

RAW static bool alloc_fails(void)
{
	if (!alloc.on)
		return false;
	alloc.count++;
	if (alloc.first == 0 || alloc.count < alloc.first ||
	    (alloc.count > alloc.first && !alloc.all))
		return false;
	alloc.failed = true;
	errno = ENOMEM;
	return true;
}

RAW void *malloc(size_t size)
{
	return alloc_fails() ? NULL : REAL(malloc)(size);
}

RAW void *calloc(size_t count, size_t size)
{
	return alloc_fails() ? NULL : REAL(calloc)(count, size);
}

RAW void *realloc(void *bytes, size_t size)
{
	return alloc_fails() ? NULL : REAL(realloc)(bytes, size);
}

/* The sanitizers' own do not come here. */
RAW char *strndup(const char *text, size_t max)
{
	size_t len = strnlen(text, max);
	char *copy = malloc(len + 1);

	if (copy != NULL) {
		memcpy(copy, text, len);
		copy[len] = '\0';
	}
	return copy;
}

RAW char *strdup(const char *text)
{
	return strndup(text, strlen(text));
}

/* Around the calls that are to meet the failures. */
static void alloc_begin(void)
{
	alloc.count = 0;
	alloc.on = true;
}

static void alloc_end(void)
{
	alloc.on = false;
}

/* Beyond so many allocations it is mostly the libraries' own that fail: of those
 * a test may leave out all but every so manieth, unless there is time. */
#define ALLOC_MANY 40

static unsigned alloc_step = 1;

static inline unsigned long alloc_next(unsigned long n)
{
	return n < ALLOC_MANY || getenv("CELLDFS_LONG") != NULL
		       ? n + 1
		       : n + alloc_step;
}

/* TRY does something between alloc_begin() and alloc_end() and says whether it was
 * done; it fails the test if that was done wrong, or was not done and something
 * changed. It is called with its first allocation failing, its second, and so on
 * until it has no more; after each of them with none failing, when it has to
 * succeed. Then the same with all allocations after that one failing, too. */
static inline void alloc_try(const char *name, bool (*try)(void))
{
	unsigned long n = 0;

	for (int all = 0; all < 2; all++) {
		for (n = 1;; n = alloc_next(n)) {
			bool done;

			alloc.all = all != 0;
			alloc.first = n;
			alloc.failed = false;
			done = try();
			alloc.first = 0;
			if (!alloc.failed && !done)
				CHECK_FAIL("%s fails without a failure", name);
			if (!alloc.failed)
				break;
			if (!try())
				CHECK_FAIL("%s fails after allocation %lu "
					   "failed",
					   name, n);
		}
		if (n == 1)
			CHECK_FAIL("%s allocates nothing", name);
	}
	printf("ok %s: %lu allocations\n", name, alloc.count);
}

#define TRY(try) alloc_try(#try, try)

#endif
