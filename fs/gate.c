#include "gate.h"

#include "clock.h"
#include "mount.h"
#include "thread.h"

#include <errno.h>
#include <stdlib.h>

struct gate {
	pthread_t reaper;     /* runs those who wait in vain */
	pthread_mutex_t lock; /* guards everything below and every
			       * work->next, work->waiting */
	pthread_cond_t queued;
	bool ends;
	unsigned most, inside, waiting;
	struct work *first, *last; /* those who wait, oldest first */
};

static void *reap(void *arg);

struct gate *gate_new(unsigned most)
{
	struct gate *gate = calloc(1, sizeof(*gate));

	if (!gate)
		return NULL;
	pthread_mutex_init(&gate->lock, NULL);
	thread_cond_init(&gate->queued);
	gate->most = most;
	if (thread_start(&gate->reaper, reap, gate))
		return gate;
	pthread_cond_destroy(&gate->queued);
	pthread_mutex_destroy(&gate->lock);
	free(gate);
	return NULL;
}

void gate_free(struct gate *gate)
{
	if (!gate)
		return;
	pthread_mutex_lock(&gate->lock);
	gate->ends = true;
	pthread_cond_signal(&gate->queued);
	pthread_mutex_unlock(&gate->lock);
	pthread_join(gate->reaper, NULL);
	pthread_cond_destroy(&gate->queued);
	pthread_mutex_destroy(&gate->lock);
	free(gate);
}

struct work *work_new(struct mount *mount, fuse_req_t req,
		      void (*run)(struct work *work), int64_t deadline_ms)
{
	struct work *work = calloc(1, sizeof(*work));

	if (!work) {
		fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	stop_init(&work->stop);
	work->req = req;
	work->run = run;
	work->mount = mount;
	work->uid = fuse_req_ctx(req)->uid;
	work->limits.deadline_ms = clock_boot_ms() + deadline_ms;
	work->limits.stop = &work->stop;
	return work;
}

static void work_free(struct work *work)
{
	stop_release(&work->stop);
	free(work->bytes);
	free(work);
}

void work_done(struct work *work)
{
	/* takes the request's lock, so that a callback under way has ended */
	fuse_req_interrupt_func(work->req, NULL, NULL);
}

static void queue_remove(struct gate *gate, struct work *work)
{
	struct work **at = &gate->first;
	struct work *before = NULL;

	while (*at != work) {
		before = *at;
		at = &before->next;
	}
	*at = work->next;
	if (gate->last == work)
		gate->last = before;
	work->waiting = false;
	gate->waiting--;
}

/* libfuse calls this with the request's lock held, so the request cannot be
 * answered here. Whether the work runs, waits, or is just about to, is sorted
 * out under the gate's lock. */
static void on_interrupt(fuse_req_t req, void *arg)
{
	struct work *work = arg;
	struct gate *gate = work->gate;

	(void)req;
	pthread_mutex_lock(&gate->lock);
	stop_request(&work->stop);
	if (work->waiting)
		pthread_cond_signal(&gate->queued);
	pthread_mutex_unlock(&gate->lock);
}

void gate_submit(struct gate *gate, struct work *work)
{
	work->gate = gate;
	fuse_req_interrupt_func(work->req, on_interrupt, work);

	pthread_mutex_lock(&gate->lock);
	if (gate->inside == gate->most) {
		work->waiting = true;
		work->next = NULL;
		if (gate->last)
			gate->last->next = work;
		else
			gate->first = work;
		gate->last = work;
		gate->waiting++;
		pthread_cond_signal(&gate->queued);
		pthread_mutex_unlock(&gate->lock);
		return;
	}
	gate->inside++;
	pthread_mutex_unlock(&gate->lock);

	while (work) {
		work->run(work);
		work_free(work);
		pthread_mutex_lock(&gate->lock);
		work = gate->first;
		if (work)
			queue_remove(gate, work);
		else
			gate->inside--;
		pthread_mutex_unlock(&gate->lock);
	}
}

void gate_bypass(struct work *work)
{
	work->run(work);
	work_free(work);
}

/* Under the gate's lock: who of those that wait is interrupted, or else has the
 * first deadline. */
static struct work *most_urgent(const struct gate *gate)
{
	struct work *found = gate->first;

	for (struct work *work = found; work; work = work->next) {
		if (stop_requested(&work->stop))
			return work;
		if (work->limits.deadline_ms < found->limits.deadline_ms)
			found = work;
	}
	return found;
}

static void *reap(void *arg)
{
	struct gate *gate = arg;

	pthread_mutex_lock(&gate->lock);
	while (!gate->ends) {
		struct work *work = most_urgent(gate);

		if (!work) {
			pthread_cond_wait(&gate->queued, &gate->lock);
		} else if (limits_check(&work->limits) == OUTCOME_OK) {
			thread_wait(&gate->queued, &gate->lock,
				    work->limits.deadline_ms);
		} else {
			queue_remove(gate, work);
			pthread_mutex_unlock(&gate->lock);
			gate_bypass(work);
			pthread_mutex_lock(&gate->lock);
		}
	}
	pthread_mutex_unlock(&gate->lock);
	return NULL;
}

void gate_counts(struct gate *gate, unsigned *inside, unsigned *waiting)
{
	pthread_mutex_lock(&gate->lock);
	*inside = gate->inside;
	*waiting = gate->waiting;
	pthread_mutex_unlock(&gate->lock);
}
