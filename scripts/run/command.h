/* command: the process that is run, and its terminal.
 *
 * It leads a process group of its own. If we are in the foreground of a
 * terminal, the group gets the foreground: at once if all three standard files
 * are terminals; else when it wants it (SIGTTIN, SIGTTOU), because what else
 * belongs to the pipeline may read the terminal, too.
 */
#ifndef CELLDFS_RUN_COMMAND_H
#define CELLDFS_RUN_COMMAND_H

#include "run.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* What the command is to inherit as we did, and we want otherwise. */
struct inherited {
	sigset_t mask;
	struct sigaction child, pipe;
};

struct command {
	pid_t pid;	 /* its group, too; 0: not started */
	int gate_fd;	 /* it begins when a byte comes */
	int terminal_fd; /* -1: there is none */
	bool handed_over; /* it has had the foreground */
};

/* Where our terminal is, if we have one. Before anything else. */
void command_init(struct command *command);

/* Makes the process, which waits for command_begin(). It dies with us. False:
 * with TROUBLE. */
bool command_prepare(struct command *command, char **argv,
		     const struct inherited *inherited,
		     struct trouble *trouble);

/* Lets it begin. */
void command_begin(struct command *command);

/* Gives the group the foreground if we have it: true. */
bool command_foreground(struct command *command);

/* Takes the foreground back if the group has it. */
void command_background(struct command *command);

/* Stops this process because the command has stopped, as the shell expects that
 * started it; if the group has had the foreground, all of our group: Ctrl-Z was
 * meant for it. Returns when it goes on. Without a terminal nothing is done. */
void command_stop_too(struct command *command);

#endif
