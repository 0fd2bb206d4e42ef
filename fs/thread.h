/* thread: threads beside libfuse's pool. */
#ifndef CELLDFS_THREAD_H
#define CELLDFS_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts RUN(ARG) in a thread that takes no signals: those that ask the daemon
 * to leave are for the main thread, whose sleep they have to end. False: there
 * is none. */
bool thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif
