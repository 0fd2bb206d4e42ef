/* fuzz: what the targets share. Each is one function that libFuzzer feeds with
 * bytes; what must hold of any bytes whatever is said with MUST().
 */
#ifndef CELLDFS_TEST_FUZZ_H
#define CELLDFS_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(x)                                                                \
	do {                                                                   \
		if (!(x)) {                                                    \
			fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__,    \
				__LINE__, #x);                                 \
			abort();                                               \
		}                                                              \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy that ends with its last byte and a NUL, so that a read beyond is seen.
 * The caller frees it. */
static inline char *text_of(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	MUST(text != NULL);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

#endif
