/* descriptors: what a process has open, and should not keep. */
#ifndef CELLDFS_RUN_DESCRIPTORS_H
#define CELLDFS_RUN_DESCRIPTORS_H

#include <stddef.h>

/* Makes those of the three standard files that are not open /dev/null, so that
 * nothing else gets their numbers. */
void descriptors_fill(void);

/* Closes all but the standard error and the COUNT ones in FDS, of which some may
 * be -1. The standard input and output become /dev/null. */
void descriptors_keep(const int *fds, size_t count);

#endif
