/* family: the command's process group, and what has left it.
 *
 * Whoever leaves the group (setsid(2), a shell with job control) is still a
 * descendant; PR_SET_CHILD_SUBREAPER makes orphans ours, so that they are found
 * from here, child by child (/proc/PID/task/TID/children).
 *
 * Invariants:
 * 1. The group is signalled first, in one kill(2), which no fork escapes; the
 *    others are looked for after it.
 * 2. The look from child to child is quick, but can miss what dies and is
 *    inherited meanwhile. That nothing lives is only said after all of /proc was
 *    looked at.
 * 3. The group's leader is never reaped here: a zombie keeps its number from
 *    being given to strangers.
 *
 * Beyond it: a process that we may not signal (set-user-ID).
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

/* Can /proc be looked at? Else nothing can be said of a family. */
bool family_visible(void);

/* Can descendants be found from this process? Not if it has children of an
 * earlier program, which are not told apart, or if the kernel does not show
 * children. */
bool family_has_descendants(void);

#endif
