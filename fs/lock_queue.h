/* lock_queue: the cells that lock.c has business with, and the requests that wait
 * for an answer about them. For lock.c alone.
 *
 * Everything here is called with queue->lock, but for answer().
 */
#ifndef CELLDFS_LOCK_QUEUE_H
#define CELLDFS_LOCK_QUEUE_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include "claim.h"

#include <pthread.h>

struct handle;
struct queue;

/* A request that is not answered yet. */
struct waiter {
	struct waiter *next;
	struct queue *queue;
	struct cell *cell;
	fuse_req_t req;
	struct handle *handle;
	bool unlocks;	     /* LOCK_UN: waits for the release */
	int64_t deadline_ms; /* INT64_MAX: waits for ever */
	bool interrupted;
	int err; /* the answer, once it is taken out of the list */
};

/* A cell with which this mount has business. */
struct cell {
	struct claim claim;    /* of the thread that has it busy */
	bool busy;	       /* a thread works on it, */
	bool claims;	       /* and its claim may have landed */
	bool held, unsure;     /* claim's, as of the end of the last turn */
	bool released;	       /* by its holder's own write since then, of
				* which claim does not know yet */
	struct handle *holder; /* NULL: none */
	unsigned waiting;      /* for the lock, not for a release */
	int64_t due_ms;	       /* nothing is done before */
	bool guess;	       /* the next try may go by memory */
	unsigned streak;
	struct cell *next; /* in queue->todo */
	bool listed;
	char key[];
};

struct queue {
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t work;  /* for the workers: a cell may be due */
	pthread_cond_t trouble; /* for the janitor: a waiter may be over */
	void *cells;	      /* by key (tsearch) */
	struct cell *todo;    /* those that may need work */
	struct waiter *first, *last; /* all of them, oldest first */
	unsigned held, waiting;	     /* cells; requests for a lock */
};

void queue_init(struct queue *queue);
void queue_release(struct queue *queue); /* nobody waits any more */

/* The cell with KEY. NULL: there is none; get: no memory. */
struct cell *find_cell(struct queue *queue, const char *key);
struct cell *get_cell(struct queue *queue, const char *key);

/* Is there something to do in the store, that no thread does already? */
bool needs_work(const struct cell *cell);

/* From AT_MS on there is something to do, or there may be. */
void schedule(struct queue *queue, struct cell *cell, int64_t at_ms);

/* The cell that is due first; NULL: nothing is to be done for any. Cells that
 * are of no interest any more are freed. */
struct cell *next_due(struct queue *queue);

/* Frees CELL if nobody has an interest in it. */
void drop_if_idle(struct queue *queue, struct cell *cell);

/* WAITER begins to wait for CELL. */
void append(struct queue *queue, struct waiter *waiter, struct cell *cell);

/* Takes those out of the list that WHICH(waiter, ARG) wants answered, with the
 * errno that it returns (-1: not this one), and puts them before *ANSWERS. */
void take_out(struct queue *queue, struct waiter **answers,
	      int (*which)(const struct waiter *, const void *),
	      const void *arg);

/* Answers and frees a waiter that is in no list. Without the lock. False: the
 * request is gone. */
bool answer(struct waiter *waiter);

/* Answers all of a list; gives the lock up meanwhile. */
void answer_all(struct queue *queue, struct waiter *answers);

/* Waits for COND, or until AT_MS (CLOCK_BOOTTIME). */
void queue_wait(struct queue *queue, pthread_cond_t *cond, int64_t at_ms);

#endif
