/* peers: one survey at a time, and whom it serves. The store is a listing that
 * the tests hold up, and an empty fleet but for a name that counts surveys. */
#include "peers.h"

#include "check.h"
#include "clock.h"
#include "mount.h"
#include "seen.h"

#include <pthread.h>
#include <unistd.h>

#define BOOT0	 5000
#define TTL_MS	 9000
#define DEADLINE 60000 /* after BOOT0 */
#define USERS	 8

static _Atomic int64_t boot_now_ms;

static int64_t boot_clock(void)
{
	return boot_now_ms;
}

/* One who opens the file, in a thread. */
struct user {
	pthread_t thread;
	struct stop stop;
	struct limits limits;
	enum outcome outcome;
	struct answer answer;
	struct buf text;
};

static struct user users[USERS];
static struct mount mount;

static struct {
	struct store store;
	_Atomic unsigned lists;
	unsigned wait_for;    /* so many others have to wait, then: */
	unsigned hangs;	      /* so many listings hang until their limits end */
	enum outcome outcome; /* of the others */
	_Atomic bool hanging;
} fake;

/* How many of the users are inside peers_print() and wait for something: then
 * there is something to wake them by. */
static unsigned waiting(void)
{
	unsigned count = 0;

	for (size_t i = 0; i < USERS; i++) {
		pthread_mutex_lock(&users[i].stop.lock);
		count += users[i].stop.wake != NULL;
		pthread_mutex_unlock(&users[i].stop.lock);
	}
	return count;
}

static enum outcome fake_list(struct store *store, const struct limits *limits,
			      const char *prefix, struct buf *after,
			      list_fn *fn, void *arg, struct answer *answer)
{
	unsigned number = ++fake.lists;
	struct list_entry entry = {.modified_ms = 1};
	enum outcome ended;
	char name[40];

	(void)store;
	(void)prefix;
	while (waiting() < fake.wait_for)
		usleep(1000);
	if (number <= fake.hangs) {
		fake.hanging = true;
		ended = limits_sleep(limits, INT64_MAX);
		fake.hanging = false;
		return ended;
	}
	if (fake.outcome != OUTCOME_OK)
		return reason_set(&answer->reason, fake.outcome, "list %u",
				  number);
	snprintf(name, sizeof(name), "s%u.json", number);
	entry.name = name;
	buf_clear(after);
	return fn(arg, &entry);
}

static enum outcome fake_get(struct store *store, const struct limits *limits,
			     const char *key, const char *known,
			     struct object *object, struct answer *answer)
{
	(void)store;
	(void)limits;
	(void)key;
	(void)known;
	(void)answer;
	return buf_set(&object->body, "{", 1);
}

static enum outcome fake_now(struct store *store, const struct limits *limits,
			     struct fleet_time *time)
{
	(void)store;
	(void)limits;
	*time = (struct fleet_time){.since_step_ms = INT64_MAX};
	return OUTCOME_OK;
}

static const struct store_ops fake_ops = {
	.get = fake_get,
	.list = fake_list,
	.now = fake_now,
};

static void start(void)
{
	boot_now_ms = BOOT0;
	clock_replace(boot_clock, NULL);
	memset(&fake, 0, sizeof(fake));
	fake.store.ops = &fake_ops;
	memset(&mount, 0, sizeof(mount));
	mount.store = &fake.store;
	mount.seen = seen_new();
	mount.peers = peers_new();
	mount.ttl_ms = TTL_MS;
	CHECK(mount.seen && mount.peers);
	for (size_t i = 0; i < USERS; i++) {
		struct user *user = &users[i];

		memset(user, 0, sizeof(*user));
		stop_init(&user->stop);
		user->limits.stop = &user->stop;
		user->limits.deadline_ms = BOOT0 + DEADLINE;
		buf_init(&user->text, 100000);
	}
}

static void end(void)
{
	for (size_t i = 0; i < USERS; i++) {
		buf_release(&users[i].text);
		stop_release(&users[i].stop);
	}
	peers_free(mount.peers);
	seen_free(mount.seen);
}

static void *open_peers(void *arg)
{
	struct user *user = arg;

	buf_clear(&user->text);
	memset(&user->answer, 0, sizeof(user->answer));
	user->outcome =
		peers_print(&mount, &user->limits, &user->text, &user->answer);
	return NULL;
}

static void begin(size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		CHECK_EQ(pthread_create(&users[i].thread, NULL, open_peers,
					&users[i]),
			 0);
}

static void join(size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		pthread_join(users[i].thread, NULL);
}

/* USER was shown the survey whose listing was the NUMBERth. */
static void check_shown(const struct user *user, unsigned number)
{
	char want[40];

	CHECK_EQ(user->outcome, OUTCOME_OK);
	snprintf(want, sizeof(want), "{\"node\":\"s%u\",", number);
	CHECK(user->text.len > strlen(want));
	if (memcmp(user->text.bytes, want, strlen(want)) != 0)
		CHECK_FAIL("%.*s, expected %s", (int)user->text.len,
			   user->text.bytes, want);
}

/* ---- tests ---- */

static void all_who_come_share_one(void)
{
	start();
	fake.wait_for = USERS - 1;
	begin(0, USERS);
	join(0, USERS);
	CHECK_EQ(fake.lists, 1);
	for (size_t i = 0; i < USERS; i++)
		check_shown(&users[i], 1);
	end();
}

static void one_that_fails_has_failed_for_all(void)
{
	start();
	fake.wait_for = USERS - 1;
	fake.outcome = OUTCOME_DENIED;
	begin(0, USERS);
	join(0, USERS);
	CHECK_EQ(fake.lists, 1);
	for (size_t i = 0; i < USERS; i++) {
		CHECK_EQ(users[i].outcome, OUTCOME_DENIED);
		CHECK_STR(users[i].answer.reason.text, "list 1");
		CHECK_EQ(users[i].text.len, 0);
	}
	/* and the next one tries again */
	fake.wait_for = 0;
	fake.outcome = OUTCOME_OK;
	open_peers(&users[0]);
	check_shown(&users[0], 2);
	end();
}

static void wait_until_it_hangs(void)
{
	while (!fake.hanging)
		usleep(1000);
}

static void one_that_is_interrupted_is_taken_over(void)
{
	start();
	fake.hangs = 1;
	begin(0, 1);
	wait_until_it_hangs();
	begin(1, USERS);
	while (waiting() < USERS)
		usleep(1000);
	stop_request(&users[0].stop);
	join(0, USERS);
	CHECK_EQ(users[0].outcome, OUTCOME_INTERRUPTED);
	CHECK_EQ(fake.lists, 2);
	for (size_t i = 1; i < USERS; i++)
		check_shown(&users[i], 2);
	end();
}

static void one_that_has_no_time_left_is_taken_over(void)
{
	start();
	fake.hangs = 1;
	users[0].limits.deadline_ms = BOOT0 + 1000;
	begin(0, 1);
	wait_until_it_hangs();
	begin(1, USERS);
	while (waiting() < USERS)
		usleep(1000);
	boot_now_ms += 1001;
	join(0, USERS);
	CHECK_EQ(users[0].outcome, OUTCOME_TIMEOUT);
	CHECK_EQ(fake.lists, 2);
	for (size_t i = 1; i < USERS; i++)
		check_shown(&users[i], 2);
	end();
}

static void whoever_waits_has_limits_of_his_own(void)
{
	start();
	fake.hangs = 1;
	begin(0, 1);
	wait_until_it_hangs();
	users[2].limits.deadline_ms = BOOT0 + 1000;
	begin(1, 4);
	while (waiting() < 4)
		usleep(1000);
	stop_request(&users[1].stop);
	join(1, 2);
	CHECK_EQ(users[1].outcome, OUTCOME_INTERRUPTED);
	boot_now_ms += 1001;
	join(2, 3);
	CHECK_EQ(users[2].outcome, OUTCOME_TIMEOUT);
	CHECK(users[2].answer.reason.text[0]);
	CHECK_EQ(fake.lists, 1);
	CHECK(fake.hanging);
	stop_request(&users[0].stop);
	join(0, 1);
	join(3, 4);
	check_shown(&users[3], 2);
	end();
}

static void a_good_one_holds_for_a_third_of_the_ttl(void)
{
	start();
	open_peers(&users[0]);
	check_shown(&users[0], 1);
	boot_now_ms += TTL_MS / 3 - 1;
	open_peers(&users[1]);
	check_shown(&users[1], 1);
	CHECK_EQ(fake.lists, 1);
	boot_now_ms += 1;
	open_peers(&users[2]);
	check_shown(&users[2], 2);
	/* while it holds a store that fails is not asked, and then it is */
	fake.outcome = OUTCOME_FAILED;
	open_peers(&users[3]);
	check_shown(&users[3], 2);
	boot_now_ms += TTL_MS / 3;
	open_peers(&users[4]);
	CHECK_EQ(users[4].outcome, OUTCOME_FAILED);
	CHECK_EQ(fake.lists, 3);
	fake.outcome = OUTCOME_OK;
	open_peers(&users[5]);
	check_shown(&users[5], 4);
	end();
}

static void without_time_only_what_is_known_is_shown(void)
{
	struct limits at_once = {0};

	start();
	users[0].limits = at_once;
	open_peers(&users[0]);
	CHECK_EQ(users[0].outcome, OUTCOME_TIMEOUT);
	CHECK_EQ(fake.lists, 0);
	open_peers(&users[1]);
	open_peers(&users[0]);
	check_shown(&users[0], 1);
	boot_now_ms += TTL_MS;
	open_peers(&users[0]);
	CHECK_EQ(users[0].outcome, OUTCOME_TIMEOUT);
	CHECK_EQ(fake.lists, 1);
	end();
}

int main(void)
{
	RUN(all_who_come_share_one);
	RUN(one_that_fails_has_failed_for_all);
	RUN(one_that_is_interrupted_is_taken_over);
	RUN(one_that_has_no_time_left_is_taken_over);
	RUN(whoever_waits_has_limits_of_his_own);
	RUN(a_good_one_holds_for_a_third_of_the_ttl);
	RUN(without_time_only_what_is_known_is_shown);
	return 0;
}
