/* supervisor: what the process that was started does, from the first wait for the
 * cell to its exit status. One thread, one poll(2); it waits for nothing else.
 *
 * Source: celldfs.8 and options_usage.
 *
 *   WAITING    for the cell: no command yet
 *     v        the cell is held
 *   RUNNING    the command, or what it left behind, lives: signals are passed
 *     |        on, the leash is watched
 *     v        nothing lives any more, and the cell has not been lost
 *   RELEASING  the holder gives the cell up
 *     v
 *   DONE       also from everywhere, with an exit status of our own
 */
#ifndef CELLDFS_RUN_SUPERVISOR_H
#define CELLDFS_RUN_SUPERVISOR_H

#include "command.h"
#include "options.h"

struct supervisor_config {
	const struct options *options;
	const struct inherited *inherited; /* before signals were blocked */
	const sigset_t *signals;	   /* blocked: what a signalfd reads */
	bool ignores_stop;		   /* SIGTSTP was ignored */
	bool has_descendants;		   /* family_has_descendants() */
};

/* Does it all and returns the exit status; or does not return, if a signal that
 * ended the wait or the command is to end this process as well. */
int supervise(const struct supervisor_config *config);

#endif
