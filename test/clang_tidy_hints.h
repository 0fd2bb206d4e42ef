/* clang_tidy_hints: what the analyzer cannot see, because it looks at one file
 * at a time. test/lint includes this before each file; the build does not.
 */
#ifndef CELLDFS_CLANG_TIDY_HINTS_H
#define CELLDFS_CLANG_TIDY_HINTS_H

#include "../lib/outcome.h"

/* "return reason_set(reason, OUTCOME_INVALID, ...)" does not return OK. */
#define reason_set(reason, outcome, ...)                                       \
	((void)(reason_set)(reason, outcome, __VA_ARGS__), (outcome))

#endif
