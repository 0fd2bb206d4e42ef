/* thread: threads beside libfuse's pool. */
#ifndef CELLDFS_THREAD_H
#define CELLDFS_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts RUN(ARG) in a thread that takes no signals: those that ask the daemon
 * to leave are for the main thread, whose sleep they have to end. False: there
 * is none. */
bool thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

/* A condition for thread_wait(). */
void thread_cond_init(pthread_cond_t *cond);

/* Waits for COND, with LOCK, or until AT_MS (CLOCK_BOOTTIME; a suspended machine
 * makes it later). It may return before. */
void thread_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t at_ms);

#endif

