/* family: the command's process group, and what has left it.
 *
 * Whoever leaves the group (setsid(2), a shell with job control) is still a
 * descendant; PR_SET_CHILD_SUBREAPER makes orphans ours, so that a look at
 * /proc finds all of them.
 *
 * Invariants:
 * 1. The group is signalled in one kill(2), which no fork escapes; /proc is
 *    looked at afterwards, for the others.
 * 2. The group's leader is never reaped here: a zombie keeps its number from
 *    being given to strangers.
 *
 * Beyond it: a process that we may not signal (set-user-ID), one that no signal
 * ends because the kernel waits for a device (but that one does not act either).
 */
#ifndef CELLDFS_RUN_FAMILY_H
#define CELLDFS_RUN_FAMILY_H

#include <stdbool.h>
#include <sys/types.h>

struct family {
	pid_t group; /* and its leader */
	pid_t self;  /* the descendants' ancestor; 0: the group alone counts */
	pid_t other; /* a child that does not belong to it, or 0 */
};

/* Sends SIGNAL to all of them. */
void family_signal(const struct family *family, int signal);

/* How many of them live; dead orphans are reaped. */
unsigned family_alive(const struct family *family);

/* Can /proc be looked at? Without it nobody is found outside the group, and
 * family_alive() is 0. */
bool family_visible(void);

#endif
