#include "lock_queue.h"

#include "clock.h"

#include <errno.h>
#include <search.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void queue_init(struct queue *queue)
{
	pthread_condattr_t attributes;

	memset(queue, 0, sizeof(*queue));
	pthread_mutex_init(&queue->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&queue->work, &attributes);
	pthread_cond_init(&queue->trouble, &attributes);
	pthread_condattr_destroy(&attributes);
}

static void free_cell(void *key)
{
	free((char *)key - offsetof(struct cell, key));
}

void queue_release(struct queue *queue)
{
	tdestroy(queue->cells, free_cell);
	pthread_cond_destroy(&queue->trouble);
	pthread_cond_destroy(&queue->work);
	pthread_mutex_destroy(&queue->lock);
}

/* ---- cells ---- */

static int compare_keys(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The table holds pointers to the key inside the cell. */
struct cell *find_cell(struct queue *queue, const char *key)
{
	void *found = tfind(key, &queue->cells, compare_keys);
	char *inside = found ? *(char **)found : NULL;

	if (!inside)
		return NULL;
	return (struct cell *)(void *)(inside - offsetof(struct cell, key));
}

struct cell *get_cell(struct queue *queue, const char *key)
{
	struct cell *cell = find_cell(queue, key);
	size_t size = strlen(key) + 1;

	if (cell)
		return cell;
	cell = calloc(1, sizeof(*cell) + size);
	if (!cell)
		return NULL;
	memcpy(cell->key, key, size);
	cell->claim.key = cell->key;
	cell->guess = true;
	if (!tsearch(cell->key, &queue->cells, compare_keys)) {
		free(cell);
		return NULL;
	}
	return cell;
}

bool needs_work(const struct cell *cell)
{
	if (cell->busy || cell->holder)
		return false;
	return cell->held || cell->unsure || cell->waiting > 0;
}

void schedule(struct queue *queue, struct cell *cell, int64_t at_ms)
{
	cell->due_ms = at_ms;
	if (!cell->listed) {
		cell->listed = true;
		cell->next = queue->todo;
		queue->todo = cell;
	}
	pthread_cond_signal(&queue->work);
}

void drop_if_idle(struct queue *queue, struct cell *cell)
{
	if (cell->busy || cell->holder || cell->held || cell->unsure ||
	    cell->waiting > 0 || cell->listed)
		return;
	for (struct waiter *waiter = queue->first; waiter;
	     waiter = waiter->next)
		if (waiter->cell == cell)
			return;
	tdelete(cell->key, &queue->cells, compare_keys);
	free(cell);
}

/* Those that need nothing leave the list, but not while a thread is about to
 * find out what they need. */
struct cell *next_due(struct queue *queue)
{
	struct cell **at = &queue->todo;
	struct cell *found = NULL;

	while (*at) {
		struct cell *cell = *at;

		if (!cell->busy && !needs_work(cell)) {
			*at = cell->next;
			cell->listed = false;
			drop_if_idle(queue, cell);
			continue;
		}
		if (!cell->busy && (!found || cell->due_ms < found->due_ms))
			found = cell;
		at = &cell->next;
	}
	return found;
}

/* ---- waiters ---- */

void append(struct queue *queue, struct waiter *waiter, struct cell *cell)
{
	waiter->cell = cell;
	waiter->next = NULL;
	if (queue->last)
		queue->last->next = waiter;
	else
		queue->first = waiter;
	queue->last = waiter;
	if (!waiter->unlocks) {
		cell->waiting++;
		queue->waiting++;
	}
	pthread_cond_signal(&queue->trouble);
}

void take_out(struct queue *queue, struct waiter **answers,
	      int (*which)(const struct waiter *, const void *),
	      const void *arg)
{
	struct waiter **at = &queue->first;
	struct waiter *before = NULL;

	while (*at) {
		struct waiter *waiter = *at;
		int err = which(waiter, arg);

		if (err < 0) {
			before = waiter;
			at = &waiter->next;
			continue;
		}
		*at = waiter->next;
		if (queue->last == waiter)
			queue->last = before;
		if (!waiter->unlocks) {
			waiter->cell->waiting--;
			queue->waiting--;
		}
		waiter->err = err;
		waiter->next = *answers;
		*answers = waiter;
	}
}

bool answer(struct waiter *waiter)
{
	bool gone;

	/* takes the request's lock, so that a callback under way has ended */
	fuse_req_interrupt_func(waiter->req, NULL, NULL);
	gone = fuse_reply_err(waiter->req, waiter->err) == -ENOENT;
	free(waiter);
	return !gone;
}

void answer_all(struct queue *queue, struct waiter *answers)
{
	pthread_mutex_unlock(&queue->lock);
	while (answers) {
		struct waiter *next = answers->next;

		answer(answers);
		answers = next;
	}
	pthread_mutex_lock(&queue->lock);
}

void queue_wait(struct queue *queue, pthread_cond_t *cond, int64_t at_ms)
{
	int64_t left_ms = at_ms - clock_boot_ms();
	struct timespec until;

	if (left_ms <= 0)
		return;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += left_ms / 1000;
	until.tv_nsec += left_ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_cond_timedwait(cond, &queue->lock, &until);
}
