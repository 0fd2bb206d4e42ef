/* turnstile: the queue of the writers of one file, over all processes.
 *
 * A side file is locked byte by byte (fcntl OFD locks, which die with their
 * process): byte 0 is the queue, byte 1 the work, byte 2 says that somebody
 * urgent is about. A writer takes 0, waits until nobody has 2, takes 1, gives
 * back 0, works, gives back 1. The kernel serves the waiters of a byte in turn,
 * and whoever has just worked cannot pass the one who waits for byte 1, because
 * that one holds byte 0. An urgent writer takes 2 (shared), then 1, without 0:
 * before it come only the one who works and one who waits for 1 already.
 *
 * Two descriptors of one open() do not exclude each other: each waiter needs a
 * turnstile_open() of its own.
 *
 * While it waits, TURNSTILE_SIGNAL is sent to the waiting thread to end the
 * blocked call at the deadline or at a stop request. An empty handler is
 * installed for it at the first turnstile_open(); a program must not use the
 * signal otherwise. Any other signal with a handler that does not have
 * SA_RESTART costs a waiter its place, not its turn.
 */
#ifndef CELLDFS_TURNSTILE_H
#define CELLDFS_TURNSTILE_H

#include "outcome.h"
#include "stop.h"

#include <signal.h>

#define TURNSTILE_SIGNAL (SIGRTMIN + 1)

/* Opens the side file of the file PATH, PATH-queue; created with PATH's owner
 * and mode if there is none. OK; DENIED or FAILED with REASON. *FD is closed
 * by the caller, which leaves the turnstile too. */
enum outcome turnstile_open(int *fd, const char *path,
			    struct reason *reason) MUST_CHECK;

/* Waits for a turn, within LIMITS. OK; TIMEOUT, INTERRUPTED, FAILED with
 * REASON: the turnstile is not held. */
enum outcome turnstile_enter(int fd, const struct limits *limits,
			     struct reason *reason) MUST_CHECK;
void turnstile_leave(int fd);

#endif
