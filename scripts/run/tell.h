/* tell: lines for people, on the standard error. */
#ifndef CELLDFS_RUN_TELL_H
#define CELLDFS_RUN_TELL_H

#include <stdbool.h>

/* One line, after "celldfs-run: ". */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, unless it would have to wait for whoever reads them: while a command
 * has to be ended in time, nothing waits. False: not told. */
bool tell_now(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
