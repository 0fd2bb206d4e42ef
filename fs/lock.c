#include "lock.h"

#include "attr.h"
#include "clock.h"
#include "handle.h"
#include "keeper.h"
#include "lock_queue.h"
#include "mount.h"
#include "ops.h"
#include "put.h"
#include "thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#define WORKERS	       8
#define POLL_MS	       1000 /* of a cell that another node has, */
#define POLL_MORE_MS   200  /* and so much more by chance */
#define FENCE_MS       500  /* how often the janitor looks for one */
#define STREAK_MOST    32   /* grants in a row while others wait here; then */
#define STREAK_REST_MS 1500 /* other mounts get so much time */

struct locks {
	struct mount *mount;
	pthread_t workers[WORKERS], janitor;
	unsigned workers_count;
	bool janitor_runs;

	struct queue queue; /* its lock guards the rest, too */
	bool ends;
	int64_t until_ms; /* when it ends at the latest */
	unsigned seed;
};

/* What a turn has brought for those who wait for a cell. */
struct news {
	const struct cell *cell;
	int locks_err;	 /* for all that want the lock; -1: they wait on */
	int at_once_err; /* for those of them that do not wait for ever */
	int unlocks_err; /* for those that wait for a release */
	const struct handle *holder; /* this one's are granted */
};

static int tell_news(const struct waiter *waiter, const void *arg)
{
	const struct news *news = arg;

	if (waiter->cell != news->cell)
		return -1;
	if (waiter->unlocks)
		return news->unlocks_err;
	if (news->holder && waiter->handle == news->holder)
		return 0;
	if (news->locks_err >= 0)
		return news->locks_err;
	return waiter->deadline_ms < INT64_MAX ? news->at_once_err : -1;
}

/* libfuse calls this with the request's lock held. */
static void on_interrupt(fuse_req_t req, void *arg)
{
	struct waiter *waiter = arg;
	struct queue *queue = waiter->queue;

	(void)req;
	pthread_mutex_lock(&queue->lock);
	waiter->interrupted = true;
	pthread_cond_signal(&queue->trouble);
	pthread_mutex_unlock(&queue->lock);
}

/* ---- the workers ---- */

static int first_of(const struct waiter *waiter, const void *arg)
{
	const struct waiter *const *first = arg;

	return waiter == *first ? 0 : -1;
}

/* The cell is ours: its first waiter whose request is still there gets it. When
 * we are back it may be done already: nobody gets the same claim after it.
 */
static void grant(struct locks *locks, struct cell *cell)
{
	bool granted = false;

	while (cell->waiting > 0 && !granted) {
		struct waiter *first = locks->queue.first;
		struct waiter *taken = NULL;
		struct handle *handle;

		while (first->cell != cell || first->unlocks)
			first = first->next;
		take_out(&locks->queue, &taken, first_of, &first);
		handle = taken->handle;
		cell->holder = handle;
		pthread_mutex_unlock(&locks->queue.lock);
		claim_show(&cell->claim, handle);
		granted = answer(taken);
		pthread_mutex_lock(&locks->queue.lock);
		/* it may have been closed meanwhile */
		if (!granted && cell->holder == handle)
			cell->holder = NULL;
	}
}

static int64_t next_poll(struct locks *locks, int64_t again_ms)
{
	int64_t now_ms = clock_boot_ms();
	int64_t poll_ms =
		now_ms + POLL_MS + rand_r(&locks->seed) % POLL_MORE_MS;

	return again_ms > now_ms && again_ms < poll_ms ? again_ms : poll_ms;
}

/* What a failed try means for those who want the lock. */
static int fate_of_waiters(enum outcome outcome)
{
	if (outcome == OUTCOME_FENCED || outcome == OUTCOME_DENIED ||
	    outcome == OUTCOME_TOO_LARGE)
		return outcome_errno(outcome);
	/* nothing replaces such a record here; all else passes: wait on */
	return outcome == OUTCOME_INVALID ? EIO : -1;
}

static void log_failure(struct locks *locks, const struct cell *cell,
			const char *operation, enum outcome outcome,
			const struct reason *why)
{
	struct node node = {.kind = NODE_OWN, .key = cell->key, .name = ""};

	if (outcome != OUTCOME_REJECTED)
		ops_log_failure(locks->mount, operation, &node, outcome,
				why->text);
}

static void after_take(struct locks *locks, struct cell *cell,
		       enum outcome outcome, int64_t again_ms)
{
	struct news news = {.cell = cell, .locks_err = -1, .unlocks_err = -1};
	struct waiter *answers = NULL;

	if (cell->held) {
		grant(locks, cell);
		cell->streak++;
		schedule(&locks->queue, cell, clock_boot_ms());
		news.holder = cell->holder;
		news.at_once_err = cell->holder ? EWOULDBLOCK : -1;
	} else {
		news.locks_err = fate_of_waiters(outcome);
		news.at_once_err = outcome == OUTCOME_REJECTED
					   ? EWOULDBLOCK
					   : outcome_errno(outcome);
		cell->streak = 0;
		schedule(&locks->queue, cell, next_poll(locks, again_ms));
	}
	take_out(&locks->queue, &answers, tell_news, &news);
	answer_all(&locks->queue, answers);
}

/* Who has come meanwhile has not been tried for. */
static void after_settle(struct locks *locks, struct cell *cell)
{
	schedule(&locks->queue, cell,
		 cell->unsure && cell->waiting == 0 ? next_poll(locks, 0)
						    : clock_boot_ms());
}

static void after_release(struct locks *locks, struct cell *cell,
			  enum outcome outcome)
{
	bool over = outcome == OUTCOME_OK || outcome == OUTCOME_FENCED;
	struct news news = {.cell = cell,
			    .locks_err = -1,
			    .at_once_err = -1,
			    .unlocks_err = over ? 0 : outcome_errno(outcome)};
	struct waiter *answers = NULL;
	int64_t due_ms = clock_boot_ms();

	if (!over) {
		due_ms = next_poll(locks, 0);
	} else if (cell->streak >= STREAK_MOST) {
		cell->streak = 0;
		due_ms += STREAK_REST_MS;
	}
	cell->guess = over;
	schedule(&locks->queue, cell, due_ms);
	take_out(&locks->queue, &answers, tell_news, &news);
	answer_all(&locks->queue, answers);
}

/* One piece of store work for CELL. Called and left with the lock. */
static void turn(struct locks *locks, struct cell *cell)
{
	struct mount *mount = locks->mount;
	struct limits limits = {.deadline_ms =
					clock_boot_ms() + mount->deadline_ms};
	bool release = cell->held, settle = !release && cell->waiting == 0;
	bool guess = cell->guess;
	struct reason why = {""};
	int64_t again_ms = 0;
	enum outcome outcome;

	if (locks->ends && limits.deadline_ms > locks->until_ms)
		limits.deadline_ms = locks->until_ms;
	cell->busy = true;
	cell->claims = !release;
	cell->guess = false;
	pthread_mutex_unlock(&locks->queue.lock);
	if (release)
		outcome = claim_release(mount, &limits, &cell->claim, &why);
	else if (settle)
		outcome = claim_settle(mount, &limits, &cell->claim, &why);
	else
		outcome = claim_take(mount, &limits, &cell->claim, guess,
				     &again_ms, &why);
	if (outcome != OUTCOME_OK)
		log_failure(locks, cell, release ? "unlock" : "flock", outcome,
			    &why);
	pthread_mutex_lock(&locks->queue.lock);
	locks->queue.held += cell->claim.held - cell->held;
	cell->held = cell->claim.held;
	cell->unsure = cell->claim.unsure;
	cell->claims = false;
	if (release)
		after_release(locks, cell, outcome);
	else if (settle && !cell->held)
		after_settle(locks, cell);
	else
		after_take(locks, cell, outcome, again_ms);
	cell->busy = false;
	/* what was scheduled while it was busy may be due now */
	pthread_cond_signal(&locks->queue.work);
}

/* The holder has given the cell back by a write of its own. */
static void take_in_release(struct cell *cell)
{
	if (!cell->released)
		return;
	cell->released = false;
	cell->claim.held = false;
}

static void *work(void *arg)
{
	struct locks *locks = arg;

	pthread_mutex_lock(&locks->queue.lock);
	for (;;) {
		struct cell *cell = next_due(&locks->queue);

		if (locks->ends &&
		    (!cell || clock_boot_ms() >= locks->until_ms))
			break;
		if (!cell) {
			pthread_cond_wait(&locks->queue.work,
					  &locks->queue.lock);
		} else if (cell->due_ms > clock_boot_ms()) {
			queue_wait(&locks->queue, &locks->queue.work,
				   locks->ends && locks->until_ms < cell->due_ms
					   ? locks->until_ms
					   : cell->due_ms);
		} else {
			take_in_release(cell);
			if (needs_work(cell))
				turn(locks, cell);
		}
	}
	pthread_cond_broadcast(&locks->queue.work);
	pthread_mutex_unlock(&locks->queue.lock);
	return NULL;
}

/* ---- the janitor ---- */

struct look {
	int64_t now_ms;
	bool fenced; /* who waits will never get a lock */
};

static int is_over(const struct waiter *waiter, const void *arg)
{
	const struct look *look = arg;

	if (waiter->interrupted)
		return EINTR;
	if (look->fenced && !waiter->unlocks)
		return EROFS;
	return waiter->deadline_ms <= look->now_ms ? ETIMEDOUT : -1;
}

/* When the janitor has something to do at the latest. */
static int64_t next_look(const struct locks *locks, int64_t now_ms)
{
	int64_t until_ms = now_ms + 60000;

	if (locks->queue.waiting > 0 && locks->mount->keeper)
		until_ms = now_ms + FENCE_MS;
	for (struct waiter *waiter = locks->queue.first; waiter;
	     waiter = waiter->next)
		if (waiter->deadline_ms < until_ms)
			until_ms = waiter->deadline_ms;
	return until_ms;
}

static void *clean(void *arg)
{
	struct locks *locks = arg;

	pthread_mutex_lock(&locks->queue.lock);
	while (!locks->ends) {
		struct waiter *answers = NULL;
		struct look look = {.now_ms = clock_boot_ms()};
		int64_t until_ms;

		look.fenced = keeper_permit(locks->mount->keeper, &until_ms) !=
			      OUTCOME_OK;
		take_out(&locks->queue, &answers, is_over, &look);
		if (answers)
			answer_all(&locks->queue, answers);
		else
			queue_wait(&locks->queue, &locks->queue.trouble,
				   next_look(locks, look.now_ms));
	}
	pthread_mutex_unlock(&locks->queue.lock);
	return NULL;
}

/* ---- start and end ---- */

struct locks *locks_new(struct mount *mount)
{
	struct locks *locks = calloc(1, sizeof(*locks));

	if (!locks)
		return NULL;
	locks->mount = mount;
	locks->seed = (unsigned)clock_boot_ms();
	queue_init(&locks->queue);
	locks->janitor_runs = thread_start(&locks->janitor, clean, locks);
	while (locks->janitor_runs && locks->workers_count < WORKERS &&
	       thread_start(&locks->workers[locks->workers_count], work, locks))
		locks->workers_count++;
	if (locks->workers_count == WORKERS)
		return locks;
	locks_free(locks, 0);
	return NULL;
}

static int aborted(const struct waiter *waiter, const void *arg)
{
	(void)waiter;
	(void)arg;
	return ECONNABORTED;
}

void locks_free(struct locks *locks, int64_t within_ms)
{
	struct waiter *answers = NULL;

	if (!locks)
		return;
	pthread_mutex_lock(&locks->queue.lock);
	locks->ends = true;
	locks->until_ms = clock_boot_ms() + within_ms;
	take_out(&locks->queue, &answers, aborted, NULL);
	pthread_cond_broadcast(&locks->queue.work);
	pthread_cond_broadcast(&locks->queue.trouble);
	answer_all(&locks->queue, answers);
	pthread_mutex_unlock(&locks->queue.lock);
	while (locks->workers_count > 0)
		pthread_join(locks->workers[--locks->workers_count], NULL);
	if (locks->janitor_runs)
		pthread_join(locks->janitor, NULL);
	queue_release(&locks->queue);
	free(locks);
}

/* ---- the requests ---- */

static void lock(struct locks *locks, struct waiter *waiter)
{
	bool at_once = waiter->deadline_ms < INT64_MAX;
	struct cell *cell;
	int err = -1;

	pthread_mutex_lock(&locks->queue.lock);
	cell = get_cell(&locks->queue, waiter->handle->node->key);
	if (!cell)
		err = ENOMEM;
	else if (locks->ends)
		err = ECONNABORTED;
	else if (cell->holder == waiter->handle)
		err = 0;
	else if (cell->holder && at_once)
		err = EWOULDBLOCK;
	if (err < 0) {
		bool alone = cell->waiting == 0;

		append(&locks->queue, waiter, cell);
		if ((alone || at_once) && !cell->held)
			schedule(&locks->queue, cell, clock_boot_ms());
	} else if (cell) {
		drop_if_idle(&locks->queue, cell);
	}
	pthread_mutex_unlock(&locks->queue.lock);
	if (err >= 0) {
		waiter->err = err;
		answer(waiter);
	}
}

static void unlock(struct locks *locks, struct waiter *waiter)
{
	struct cell *cell;
	bool held;

	pthread_mutex_lock(&locks->queue.lock);
	cell = find_cell(&locks->queue, waiter->handle->node->key);
	held = cell && cell->holder == waiter->handle;
	if (held) {
		cell->holder = NULL;
		waiter->unlocks = true;
		append(&locks->queue, waiter, cell);
		schedule(&locks->queue, cell, clock_boot_ms());
	}
	pthread_mutex_unlock(&locks->queue.lock);
	if (!held)
		answer(waiter);
}

/* Also for who has a lock and asks for it again. */
static bool refuse_fenced(struct locks *locks, fuse_req_t req,
			  const struct node *node)
{
	struct reason why;

	if (put_check_authority(locks->mount, &why) == OUTCOME_OK)
		return false;
	ops_log_failure(locks->mount, "flock", node, OUTCOME_FENCED, why.text);
	fuse_reply_err(req, EROFS);
	return true;
}

void locks_flock(struct locks *locks, fuse_req_t req, struct handle *handle,
		 int operation)
{
	struct waiter *waiter;
	int what = operation & ~LOCK_NB;

	if (!locks || handle->node->kind != NODE_OWN) {
		fuse_reply_err(req, ENOLCK);
		return;
	}
	if (what != LOCK_EX && what != LOCK_UN) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	if (what == LOCK_EX && !attr_may_write(locks->mount, req)) {
		fuse_reply_err(req, EACCES);
		return;
	}
	if (what == LOCK_EX && refuse_fenced(locks, req, handle->node))
		return;
	waiter = calloc(1, sizeof(*waiter));
	if (!waiter) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	waiter->queue = &locks->queue;
	waiter->req = req;
	waiter->handle = handle;
	waiter->deadline_ms = INT64_MAX;
	if (operation & LOCK_NB || what == LOCK_UN)
		waiter->deadline_ms =
			clock_boot_ms() + locks->mount->deadline_ms;
	fuse_req_interrupt_func(req, on_interrupt, waiter);
	if (what == LOCK_EX)
		lock(locks, waiter);
	else
		unlock(locks, waiter);
}

void locks_closed(struct locks *locks, struct handle *handle)
{
	struct cell *cell;

	if (!locks)
		return;
	pthread_mutex_lock(&locks->queue.lock);
	cell = find_cell(&locks->queue, handle->node->key);
	if (cell && cell->holder == handle) {
		cell->holder = NULL;
		schedule(&locks->queue, cell, clock_boot_ms());
	}
	pthread_mutex_unlock(&locks->queue.lock);
}

enum outcome locks_check_write(struct locks *locks, struct handle *handle,
			       const struct own *own, struct reason *reason)
{
	enum outcome outcome = OUTCOME_OK;
	const struct cell *cell;

	if (!locks)
		return OUTCOME_OK;
	pthread_mutex_lock(&locks->queue.lock);
	cell = find_cell(&locks->queue, handle->node->key);
	if (cell && cell->holder == handle && own->node[0])
		outcome = reason_set(reason, OUTCOME_REJECTED,
				     "this open file holds the cell by a "
				     "lock: it can only release it");
	else if (cell && cell->holder != handle &&
		 (cell->held || cell->unsure || cell->claims))
		outcome = reason_set(reason, OUTCOME_REJECTED,
				     "a lock on this mount holds the cell");
	pthread_mutex_unlock(&locks->queue.lock);
	return outcome;
}

void locks_wrote(struct locks *locks, struct handle *handle,
		 const struct own *own)
{
	struct cell *cell;

	if (!locks || own->node[0])
		return;
	pthread_mutex_lock(&locks->queue.lock);
	cell = find_cell(&locks->queue, handle->node->key);
	if (cell && cell->holder == handle) {
		cell->holder = NULL;
		cell->released = true;
		cell->held = false;
		locks->queue.held--;
		schedule(&locks->queue, cell, clock_boot_ms());
	}
	pthread_mutex_unlock(&locks->queue.lock);
}

void locks_counts(struct locks *locks, unsigned *held, unsigned *waiting)
{
	pthread_mutex_lock(&locks->queue.lock);
	*held = locks->queue.held;
	*waiting = locks->queue.waiting;
	pthread_mutex_unlock(&locks->queue.lock);
}
