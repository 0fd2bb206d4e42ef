/* run: what the modules of celldfs-run have in common.
 *
 *   main     the process that was started: timers, signals, kills, exit status.
 *            It never touches the mount, so nothing there can hold it up.
 *   holder   a child in a session of its own, the only one that touches the
 *            mount (view): it holds the lock, and asks how long the lease lasts.
 *            Two threads: one may hang in the mount, one watches.
 *   command  the other child, the leader of a process group (family).
 *
 * main and holder each kill the group when the time has come (lib/leash), by
 * what both see in a page of shared memory: so it does not matter which of them
 * is stopped, hangs or dies. Whichever dies, the command dies with it.
 */
#ifndef CELLDFS_RUN_H
#define CELLDFS_RUN_H

/* The exit statuses that are celldfs-run's own. */
enum run_exit {
	RUN_USAGE = 2,
	RUN_NOT_HELD = 111, /* not in time, or the mount failed: try again */
	RUN_LOST = 112,
	RUN_FAILED = 125,      /* trying again will not help */
	RUN_NOT_RUNNABLE = 126, /* as env(1) has it */
	RUN_NOT_FOUND = 127,
	RUN_SIGNALLED = 128, /* + the signal */
};

/* Why something is not as it should be, for people. */
#define TROUBLE_SIZE 400

struct trouble {
	enum run_exit exit;
	char text[TROUBLE_SIZE];
};

/* Sets both; a text that is too long is cut. */
void explain(struct trouble *trouble, enum run_exit status, const char *format,
	     ...) __attribute__((format(printf, 3, 4)));

#endif
