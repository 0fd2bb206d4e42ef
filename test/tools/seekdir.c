/* seekdir DIR: reads DIR from start to end and notes where each entry begins;
 * then goes back to every place, in an order that jumps about, and checks that
 * the same name is found there again, and after rewinddir(3) the first.
 *
 * Prints the number of entries. Exit status 1: something else was found.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 65536

static struct {
	long place;
	char *name;
} entries[ENTRIES_MAX];

static int fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerrorname_np(errno));
	return 1;
}

/* Does the entry that comes next in DIR have this name? */
static int expect(DIR *dir, const char *name)
{
	struct dirent *entry = readdir(dir);

	if (entry != NULL && strcmp(entry->d_name, name) == 0)
		return 0;
	fprintf(stderr, "expected %s, found %s\n", name,
		entry != NULL ? entry->d_name : "the end");
	return 1;
}

int main(int argc, char **argv)
{
	/* Coprime to the count below, as it is prime and larger. */
	const size_t step = 65537;
	struct dirent *entry;
	size_t count = 0;
	DIR *dir;

	if (argc != 2) {
		fputs("usage: seekdir DIR\n", stderr);
		return 100;
	}
	dir = opendir(argv[1]);
	if (dir == NULL)
		return fail("opendir");
	for (;;) {
		long place = telldir(dir);

		errno = 0;
		entry = readdir(dir);
		if (entry == NULL)
			break;
		if (count == ENTRIES_MAX)
			return fail("too many entries");
		entries[count].place = place;
		entries[count].name = strdup(entry->d_name);
		if (entries[count++].name == NULL)
			return fail("strdup");
	}
	if (errno != 0)
		return fail("readdir");
	for (size_t n = 0; n < count; n++) {
		size_t k = n * step % count;

		seekdir(dir, entries[k].place);
		if (expect(dir, entries[k].name) != 0)
			return 1;
	}
	rewinddir(dir);
	if (expect(dir, entries[0].name) != 0)
		return 1;
	closedir(dir);
	printf("%zu\n", count);
	return 0;
}
