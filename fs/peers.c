#include "peers.h"

#include "clock.h"
#include "control.h"
#include "mount.h"
#include "survey.h"

#include <pthread.h>
#include <stdlib.h>

/* Lock order: peers->lock, the stop of an operation, waiter->wake. */
struct waiter {
	struct stop wake; /* it is over, or the waiting operation is to end */
	struct waiter *next;
};

struct peers {
	pthread_mutex_t lock; /* guards the rest */
	bool busy;	      /* somebody surveys the fleet */
	struct waiter *waiters;
	uint64_t surveys; /* that have ended; of the last one: */
	enum outcome outcome;
	struct answer answer;
	bool known;	  /* there was a good one; of the last of them: */
	int64_t begun_ms; /* CLOCK_BOOTTIME */
	struct buf text;
};

struct peers *peers_new(void)
{
	struct peers *peers = calloc(1, sizeof(*peers));

	if (!peers)
		return NULL;
	pthread_mutex_init(&peers->lock, NULL);
	buf_init(&peers->text, CONTROL_TEXT_MAX);
	return peers;
}

void peers_free(struct peers *peers)
{
	if (!peers)
		return;
	buf_release(&peers->text);
	pthread_mutex_destroy(&peers->lock);
	free(peers);
}

static void wake(void *stop)
{
	stop_request(stop);
}

/* Under the lock, which is given back meanwhile: until the survey under way is
 * over, or LIMITS are. */
static void wait_for_survey(struct peers *peers, const struct limits *limits)
{
	struct waiter self = {.next = peers->waiters};
	struct limits until = {.deadline_ms = limits->deadline_ms,
			       .stop = &self.wake};
	struct waiter **at = &peers->waiters;
	enum outcome ended;

	stop_init(&self.wake);
	/* cppcheck-suppress autoVariables ; it is taken out again below */
	peers->waiters = &self;
	pthread_mutex_unlock(&peers->lock);
	stop_on(limits->stop, wake, &self.wake);
	ended = limits_sleep(&until, until.deadline_ms);
	(void)ended; /* whatever has ended it, the caller looks for itself */
	stop_off(limits->stop);
	pthread_mutex_lock(&peers->lock);
	while (*at != &self)
		at = &(*at)->next;
	*at = self.next;
	stop_release(&self.wake);
}

/* Under the lock, which is given back meanwhile. */
static void do_survey(struct peers *peers, struct mount *mount,
		      const struct limits *limits)
{
	int64_t begun_ms = clock_boot_ms();
	struct answer answer = {0};
	enum outcome outcome;
	struct buf text;

	buf_init(&text, CONTROL_TEXT_MAX);
	peers->busy = true;
	pthread_mutex_unlock(&peers->lock);
	outcome = survey_run(mount, limits, &text, &answer);
	pthread_mutex_lock(&peers->lock);
	peers->busy = false;
	peers->surveys++;
	peers->outcome = outcome;
	peers->answer = answer;
	if (outcome == OUTCOME_OK) {
		buf_release(&peers->text);
		peers->text = text;
		peers->begun_ms = begun_ms;
		peers->known = true;
	} else {
		buf_release(&text);
	}
	for (struct waiter *one = peers->waiters; one; one = one->next)
		stop_request(&one->wake);
}

/* Did the last survey end for the sake of whoever did it? Then it says nothing
 * to the others. */
static bool was_given_up(const struct peers *peers)
{
	return peers->outcome == OUTCOME_INTERRUPTED ||
	       peers->outcome == OUTCOME_TIMEOUT;
}

/* Under the lock: makes sure that there is a survey to be shown. */
static enum outcome get_survey(struct peers *peers, struct mount *mount,
			       const struct limits *limits,
			       struct answer *answer)
{
	uint64_t before = peers->surveys;
	enum outcome outcome;

	if (peers->known &&
	    clock_boot_ms() - peers->begun_ms < mount->ttl_ms / 3)
		return OUTCOME_OK;
	while (peers->surveys == before || was_given_up(peers)) {
		outcome = limits_check(limits);
		if (outcome != OUTCOME_OK)
			return reason_set(&answer->reason, outcome,
					  "no survey of the fleet was over in "
					  "time");
		before = peers->surveys;
		if (peers->busy) {
			wait_for_survey(peers, limits);
			continue;
		}
		do_survey(peers, mount, limits);
		break;
	}
	*answer = peers->answer;
	return peers->outcome;
}

enum outcome peers_print(struct mount *mount, const struct limits *limits,
			 struct buf *text, struct answer *answer)
{
	struct peers *peers = mount->peers;
	enum outcome outcome;

	pthread_mutex_lock(&peers->lock);
	outcome = get_survey(peers, mount, limits, answer);
	if (outcome == OUTCOME_OK)
		outcome = buf_set(text, peers->text.bytes, peers->text.len);
	pthread_mutex_unlock(&peers->lock);
	return outcome;
}
