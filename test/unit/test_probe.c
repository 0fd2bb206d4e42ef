/* probe: an honest store passes, and every lie is found and named. */
#define _GNU_SOURCE /* nftw */

#include "store_fixture.h"

#include "probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/random.h>
#include <sys/syscall.h>

/* How a store can break its promise. */
enum lie {
	HONEST,
	IGNORES_IF_NONE_MATCH,
	IGNORES_IF_MATCH,
	IGNORES_IF_MATCH_ON_MISSING,
	APPLIES_AND_REJECTS_CREATES,
	APPLIES_AND_REJECTS_OVERWRITES,
	REFUSES_CREATES,
	REFUSES_OVERWRITES,
	CHANGES_BYTES,
	CUTS_BODIES,
	DROPS_ATTEMPTS,
	SENDS_NO_ETAG,
	SENDS_WEAK_ETAGS,
	REPEATS_ETAGS,
	TWO_ETAGS,
	DENIES,
	CREATES_RACE, /* checks, then writes, with a gap between */
	FORGETS,
	CREATES_MISSING_AND_REJECTS, /* a stale overwrite of what is not there
				      */
	DENIES_ON_MISSING,
	DENIES_READS_OF_MISSING,
	/* in the race only: the first creator, and those that come later */
	REJECTS_ALL,
	APPLIES_AND_REJECTS_FIRST,
	OVERWRITES_FIRST,
	DENIES_FIRST,
	HAS_NO_CLOCK,
	LIES
};

static pthread_t main_thread; /* the others race */

/* A store over an honest one. */
struct liar {
	struct store store;
	struct store *inner;
	enum lie lie;
	int unsure;	   /* so many writes are of unknown fate first */
	bool unsure_lands; /* ... and are applied all the same */
	struct stop *stop_at_third_put;
	bool outlast_third_put;
	int puts;	  /* while one of the two is set */
	bool has_dialect; /* guards have to be written in another way */
	int busy_reads;	  /* so many are answered "not done" first */
	int busy_removals;
	int removals; /* so many are made, and the next one is denied */
	int creators; /* that have raced; guarded by lock */
	pthread_mutex_t lock;
};

static enum outcome liar_get(struct store *store, const struct limits *limits,
			     const char *key, const char *known,
			     struct object *object, struct answer *answer)
{
	struct liar *liar = (struct liar *)store;
	enum outcome outcome;

	if (liar->busy_reads > 0) {
		liar->busy_reads--;
		answer->wait_ms = 1;
		return OUTCOME_NOT_DONE;
	}
	outcome = store_get(liar->inner, limits, key, known, object, answer);
	if (outcome == OUTCOME_ABSENT && liar->lie == DENIES_READS_OF_MISSING)
		return OUTCOME_DENIED;
	if (outcome != OUTCOME_OK)
		return outcome;
	if (liar->lie == FORGETS)
		return OUTCOME_ABSENT;
	if (liar->lie == DROPS_ATTEMPTS)
		object->attempt.hex[0] = '\0';
	if (liar->lie == SENDS_NO_ETAG)
		object->etag[0] = '\0';
	if (liar->lie == SENDS_WEAK_ETAGS) {
		memmove(object->etag + 2, object->etag,
			strlen(object->etag) + 1);
		memcpy(object->etag, "W/", 2);
	}
	if (liar->lie == REPEATS_ETAGS)
		strncpy(object->etag, "\"same\"", ETAG_SIZE);
	if (liar->lie == CHANGES_BYTES) /* a text mode somewhere */
		for (size_t i = 0; i < object->body.len; i++)
			if (object->body.bytes[i] == '\r')
				object->body.bytes[i] = '\n';
	if (liar->lie == CUTS_BODIES)
		object->body.len--;
	return OUTCOME_OK;
}

/* Writes whatever is there, under no condition. */
static enum outcome force(struct liar *liar, const struct limits *limits,
			  const char *key, const char *body, size_t len,
			  const struct attempt *attempt, char etag[ETAG_SIZE],
			  struct answer *answer)
{
	struct guard guard = absent;
	struct object object;

	object_init(&object);
	if (store_get(liar->inner, limits, key, NULL, &object, answer) ==
	    OUTCOME_OK)
		guard = match(object.etag);
	object_release(&object);
	return store_put_if(liar->inner, limits, key, body, len, &guard,
			    attempt, etag, answer);
}

static enum outcome refuse(struct answer *answer)
{
	answer->status = 412;
	return OUTCOME_REJECTED;
}

/* Both see that there is none, and both write. */
static enum outcome race_create(struct liar *liar, const struct limits *limits,
				const char *key, const char *body, size_t len,
				const struct attempt *attempt,
				char etag[ETAG_SIZE], struct answer *answer)
{
	struct object object;
	enum outcome outcome;

	object_init(&object);
	outcome = store_get(liar->inner, limits, key, NULL, &object, answer);
	object_release(&object);
	if (outcome == OUTCOME_OK)
		return refuse(answer);
	pause_ms(100);
	pthread_mutex_lock(&liar->lock);
	outcome = force(liar, limits, key, body, len, attempt, etag, answer);
	pthread_mutex_unlock(&liar->lock);
	return outcome;
}

/* One of many who create a key at once. */
static enum outcome race_lying(struct liar *liar, const struct limits *limits,
			       const char *key, const char *body, size_t len,
			       const struct attempt *attempt,
			       char etag[ETAG_SIZE], struct answer *answer)
{
	enum outcome outcome = OUTCOME_REJECTED;
	int number;

	pthread_mutex_lock(&liar->lock);
	number = liar->creators++;
	if (liar->lie == DENIES_FIRST && number == 0)
		outcome = OUTCOME_DENIED;
	else if (liar->lie != REJECTS_ALL && number == 0)
		outcome = force(liar, limits, key, body, len, attempt, etag,
				answer);
	if (liar->lie == APPLIES_AND_REJECTS_FIRST)
		outcome = OUTCOME_REJECTED;
	if (liar->lie == OVERWRITES_FIRST && number == 1)
		(void)!force(liar, limits, key, body, len, attempt, etag,
			     answer);
	pthread_mutex_unlock(&liar->lock);
	return outcome;
}

/* Something happens in the middle of the probe. */
static void disturb(struct liar *liar, const struct limits *limits)
{
	if (liar->stop_at_third_put == NULL && !liar->outlast_third_put)
		return;
	if (++liar->puts != 3)
		return;
	if (liar->outlast_third_put)
		pause_ms((long)limits_left_ms(limits) + 10);
	else
		stop_request(liar->stop_at_third_put);
}

static enum outcome liar_put_if(struct store *store,
				const struct limits *limits, const char *key,
				const char *body, size_t len,
				const struct guard *guard,
				const struct attempt *attempt,
				char etag[ETAG_SIZE], struct answer *answer)
{
	struct liar *liar = (struct liar *)store;
	bool create = guard->kind == GUARD_ABSENT;
	struct guard inner = *guard;
	struct object object;
	enum outcome outcome;

	disturb(liar, limits);
	if (liar->lie >= REJECTS_ALL && liar->lie <= DENIES_FIRST &&
	    !pthread_equal(pthread_self(), main_thread))
		return race_lying(liar, limits, key, body, len, attempt, etag,
				  answer);
	if (liar->unsure > 0) {
		liar->unsure--;
		if (liar->unsure_lands) {
			outcome =
				store_put_if(liar->inner, limits, key, body,
					     len, guard, attempt, etag, answer);
			(void)outcome; /* a resend is refused */
		}
		answer->status = 500;
		return OUTCOME_UNKNOWN;
	}
	object_init(&object);
	outcome = store_get(liar->inner, limits, key, NULL, &object, answer);
	if (liar->lie == REPEATS_ETAGS && !create &&
	    strcmp(guard->etag, "same") == 0)
		inner = match(object.etag);
	object_release(&object);
	if (liar->has_dialect && !create)
		return refuse(answer);
	if (!create && outcome == OUTCOME_ABSENT) {
		if (liar->lie == DENIES_ON_MISSING)
			return OUTCOME_DENIED;
		if (liar->lie == CREATES_MISSING_AND_REJECTS) {
			CHECK_EQ(force(liar, limits, key, body, len, attempt,
				       etag, answer),
				 OUTCOME_OK);
			return refuse(answer);
		}
	}
	if ((liar->lie == IGNORES_IF_NONE_MATCH && create) ||
	    (liar->lie == IGNORES_IF_MATCH && !create) ||
	    (liar->lie == IGNORES_IF_MATCH_ON_MISSING && !create &&
	     outcome == OUTCOME_ABSENT))
		return force(liar, limits, key, body, len, attempt, etag,
			     answer);
	if (liar->lie == DENIES) {
		answer->status = 403;
		return OUTCOME_DENIED;
	}
	if ((liar->lie == REFUSES_CREATES && create) ||
	    (liar->lie == REFUSES_OVERWRITES && !create))
		return refuse(answer);
	if (liar->lie == CREATES_RACE && create)
		return race_create(liar, limits, key, body, len, attempt, etag,
				   answer);
	/* valgrind holds up all threads while one waits in the turnstile */
	if (getenv("CELLDFS_VALGRIND") != NULL)
		pthread_mutex_lock(&liar->lock);
	outcome = store_put_if(liar->inner, limits, key, body, len, &inner,
			       attempt, etag, answer);
	if (getenv("CELLDFS_VALGRIND") != NULL)
		pthread_mutex_unlock(&liar->lock);
	if (outcome == OUTCOME_REJECTED &&
	    liar->lie == (create ? APPLIES_AND_REJECTS_CREATES
				 : APPLIES_AND_REJECTS_OVERWRITES)) {
		CHECK_EQ(force(liar, limits, key, body, len, attempt, etag,
			       answer),
			 OUTCOME_OK);
		return refuse(answer);
	}
	if (outcome == OUTCOME_OK && liar->lie == REPEATS_ETAGS)
		strncpy(etag, "\"same\"", ETAG_SIZE);
	if (outcome == OUTCOME_OK && liar->lie == TWO_ETAGS)
		strncpy(etag, "\"another\"", ETAG_SIZE);
	return outcome;
}

static enum outcome liar_remove(struct store *store,
				const struct limits *limits, const char *key,
				struct answer *answer)
{
	struct liar *liar = (struct liar *)store;
	enum outcome outcome;

	if (liar->busy_removals > 0) {
		liar->busy_removals--;
		return OUTCOME_NOT_DONE;
	}
	outcome = store_remove(liar->inner, limits, key, answer);
	return liar->removals-- == 0 ? OUTCOME_DENIED : outcome;
}

static enum outcome liar_now(struct store *store, const struct limits *limits,
			     struct fleet_time *time)
{
	struct liar *liar = (struct liar *)store;

	return liar->lie == HAS_NO_CLOCK ? OUTCOME_FAILED
					 : store_now(liar->inner, limits, time);
}

static bool liar_next_dialect(struct store *store)
{
	struct liar *liar = (struct liar *)store;
	bool had = liar->has_dialect;

	liar->has_dialect = false;
	return had;
}

static const struct store_ops liar_ops = {
	.get = liar_get,
	.put_if = liar_put_if,
	.remove = liar_remove,
	.now = liar_now,
	.next_dialect = liar_next_dialect,
};

static struct liar liar;

static void open_liar(enum lie lie)
{
	set_up();
	liar = (struct liar){.store.ops = &liar_ops,
			     .inner = open_store(),
			     .lie = lie,
			     .removals = -1,
			     .lock = PTHREAD_MUTEX_INITIALIZER};
}

static enum outcome note_name(void *arg, const struct list_entry *entry)
{
	fprintf(stderr, "left behind: probe/%s\n", entry->name);
	++*(int *)arg;
	return OUTCOME_OK;
}

/* Whatever happened, nothing is left under probe/. */
static void close_liar(void)
{
	struct limits limits = in_ms(60000);
	struct answer answer;
	struct buf after;
	int left = 0;

	buf_init(&after, LIST_AFTER_MAX);
	CHECK_EQ(store_list(liar.inner, &limits, "probe/", &after, note_name,
			    &left, &answer),
		 OUTCOME_OK);
	CHECK_EQ(left, 0);
	buf_release(&after);
	store_close(liar.inner);
	clean_up();
}

static enum outcome run(struct reason *reason)
{
	struct limits limits = in_ms(60000);

	reason->text[0] = '\0';
	return probe_run(&liar.store, &limits, reason);
}

/* The report of the store, in memory that is used again. */
static const char *report(enum outcome *outcome, struct reason *reason)
{
	static char text[8192];
	struct limits limits = in_ms(60000);
	FILE *out = fmemopen(text, sizeof(text), "w");

	CHECK(out != NULL);
	*outcome = probe_report(&liar.store, &limits, out, reason);
	fclose(out);
	return text;
}

static void test_honest(void)
{
	static const char steps[] = "ok   create on an absent key\n"
				    "ok   second create refused\n"
				    "ok   guarded overwrite\n"
				    "ok   stale overwrite refused\n";
	enum outcome outcome;
	struct reason reason;
	const char *text;

	open_liar(HONEST);
	CHECK_EQ(run(&reason), OUTCOME_OK);
	text = report(&outcome, &reason);
	CHECK_EQ(outcome, OUTCOME_OK);
	CHECK(strncmp(text, steps, strlen(steps)) == 0);
	CHECK(strstr(text, "ETags come in quotes") != NULL);
	CHECK(strstr(text, "If-Match on a missing key gets: 412\n") != NULL);
	CHECK(strstr(text, "one winner in a race of 64 creates\n") != NULL);
	CHECK(strstr(text, "a race get: 63 x rejected (412)\n") != NULL);
	CHECK(strstr(text, "the store's clock is") != NULL);
	CHECK(strstr(text, "FAIL") == NULL);
	text = strstr(text, "this store can be trusted with a fleet\n");
	CHECK(text != NULL);
	CHECK_STR(strchr(text, '\n'), "\n"); /* the last line */
	close_liar();
}

/* The store that tells LIE is refused, and the step is named. SHORT_TOO: at
 * mount as well as in the report. */
static void check_liar(enum lie lie, bool short_too, const char *named)
{
	enum outcome outcome;
	struct reason reason;
	const char *text;

	open_liar(lie);
	outcome = run(&reason);
	CHECK_EQ(outcome, short_too ? OUTCOME_FAILED : OUTCOME_OK);
	if (short_too && strstr(reason.text, named) == NULL)
		CHECK_FAIL("'%s' does not say '%s'", reason.text, named);
	text = report(&outcome, &reason);
	CHECK_EQ(outcome, OUTCOME_FAILED);
	if (strstr(reason.text, named) == NULL)
		CHECK_FAIL("'%s' does not say '%s'", reason.text, named);
	CHECK(strstr(text, "can be trusted") == NULL);
	text = strstr(text, "FAIL ");
	CHECK(text != NULL);
	CHECK(strstr(text, named) != NULL);
	text = strstr(text, "do not use this store: ");
	CHECK(text != NULL);
	CHECK(strstr(text, named) != NULL);
	CHECK_STR(strchr(text, '\n'), "\n");
	close_liar();
}

static void test_liars(void)
{
	check_liar(IGNORES_IF_NONE_MATCH, true,
		   "a second create was applied: this store ignores "
		   "If-None-Match");
	check_liar(IGNORES_IF_MATCH, true,
		   "a stale overwrite was applied: this store ignores "
		   "If-Match");
	check_liar(APPLIES_AND_REJECTS_CREATES, true,
		   "a second create was called refused and changed");
	check_liar(APPLIES_AND_REJECTS_OVERWRITES, true,
		   "a stale overwrite was called refused and changed");
	check_liar(REFUSES_CREATES, true, "a create on an absent key");
	check_liar(REFUSES_OVERWRITES, true, "a guarded overwrite was refused");
	check_liar(CHANGES_BYTES, true, "does not come back as it was");
	check_liar(CUTS_BODIES, true, "does not come back as it was");
	check_liar(DROPS_ATTEMPTS, true, "drops user metadata");
	check_liar(SENDS_NO_ETAG, true, "no ETag that can guard");
	check_liar(SENDS_WEAK_ETAGS, true, "no ETag that can guard");
	check_liar(REPEATS_ETAGS, true, "two versions have the same ETag");
	check_liar(TWO_ETAGS, true, "different ETags for one version");
	check_liar(IGNORES_IF_MATCH_ON_MISSING, false,
		   "an overwrite of a missing key created it");
	check_liar(CREATES_RACE, false, "but not atomically");
	check_liar(FORGETS, true, "does not come back as it was");
	check_liar(CREATES_MISSING_AND_REJECTS, false,
		   "an overwrite of a missing key was called refused and "
		   "created");
	check_liar(REJECTS_ALL, false, "none is there afterwards");
	check_liar(APPLIES_AND_REJECTS_FIRST, false,
		   "a create that was called refused was applied");
	check_liar(OVERWRITES_FIRST, false,
		   "a create that was called applied was overwritten");
	check_liar(HAS_NO_CLOCK, false, "the store's clock");
}

static void test_denied(void)
{
	struct reason reason;

	open_liar(DENIES);
	CHECK_EQ(run(&reason), OUTCOME_DENIED);
	CHECK(strstr(reason.text, "create on an absent key") != NULL);
	close_liar();
}

/* What only the report tries, it tries to the end. */
static void check_denied_late(enum lie lie, int removals, const char *named)
{
	enum outcome outcome;
	struct reason reason;
	const char *text;

	open_liar(lie);
	liar.removals = removals;
	text = report(&outcome, &reason);
	CHECK_EQ(outcome, OUTCOME_DENIED);
	CHECK(strncmp(reason.text, named, strlen(named)) == 0);
	CHECK(strstr(text, "can be trusted") == NULL);
	close_liar();
}

static void test_denied_late(void)
{
	check_denied_late(DENIES_ON_MISSING, -1, "overwrite of a missing key");
	check_denied_late(DENIES_READS_OF_MISSING, -1, "reading a removed key");
	check_denied_late(DENIES_FIRST, -1, "a race of creates");
	check_denied_late(HONEST, 0, "removal");
	check_denied_late(HONEST, 1, "removal");
}

/* Guards in another form are tried before a store is called a liar. */
static void test_dialect(void)
{
	struct reason reason;

	open_liar(HONEST);
	liar.has_dialect = true;
	CHECK_EQ(run(&reason), OUTCOME_OK);
	CHECK(!liar.has_dialect);
	close_liar();
}

/* A store that is busy is waited for. */
static void test_busy(void)
{
	struct limits limits = in_ms(60000);
	struct reason reason;

	open_liar(HONEST);
	liar.busy_reads = 3;
	liar.busy_removals = 2;
	CHECK_EQ(run(&reason), OUTCOME_OK);
	CHECK_EQ(liar.busy_reads, 0);
	CHECK_EQ(liar.busy_removals, 0);
	liar.busy_reads = 1000000;
	limits = in_ms(300);
	CHECK_EQ(probe_run(&liar.store, &limits, &reason), OUTCOME_TIMEOUT);
	liar.busy_reads = 0;
	/* nobody listens to the report, nor to why */
	limits = in_ms(60000);
	CHECK_EQ(probe_report(&liar.store, &limits, NULL, NULL), OUTCOME_OK);
	close_liar();
}

static atomic_int random_left; /* so many calls are answered, 0: all */

/* Stands in for libc's. */
ssize_t getrandom(void *bytes, size_t size, unsigned flags)
{
	if (random_left > 0 && --random_left == 0) {
		errno = ENOSYS;
		return -1;
	}
	return syscall(SYS_getrandom, bytes, size, flags);
}

/* Without random bytes nothing is written, and nothing is concluded. */
static void test_no_random_bytes(void)
{
	enum outcome outcome;
	struct reason reason;
	int n = 0;

	open_liar(HONEST);
	do {
		random_left = ++n;
		outcome = run(&reason);
		if (outcome == OUTCOME_OK)
			break;
		CHECK_EQ(outcome, OUTCOME_FAILED);
		CHECK(strstr(reason.text, "no random bytes") != NULL);
	} while (random_left == 0);
	CHECK(n > 4);
	for (int late = n + 5; n < late; n++) {
		random_left = n;
		(void)report(&outcome, &reason);
		CHECK_EQ(outcome, OUTCOME_FAILED);
		CHECK(strstr(reason.text, "no random bytes") != NULL);
	}
	random_left = 0;
	CHECK_EQ(run(&reason), OUTCOME_OK);
	close_liar();
}

/* A write of unknown fate is settled, not taken for a lie. */
static void test_unsure(void)
{
	struct reason reason;

	for (int i = 1; i <= 3; i++) {
		open_liar(HONEST);
		liar.unsure = i;
		liar.unsure_lands = i != 2;
		CHECK_EQ(run(&reason), OUTCOME_OK);
		close_liar();
	}
}

static void test_limits(void)
{
	struct limits limits = in_ms(60000);
	struct reason reason = {""};
	struct stop stop;

	/* never an answer: TIMEOUT, by the deadline */
	open_liar(HONEST);
	liar.unsure = 1000000;
	liar.unsure_lands = false;
	limits = in_ms(300);
	CHECK_EQ(probe_run(&liar.store, &limits, &reason), OUTCOME_TIMEOUT);
	CHECK(clock_boot_ms() < limits.deadline_ms + 1000);
	close_liar();

	/* stopped in the middle: the key is removed all the same */
	open_liar(HONEST);
	stop_init(&stop);
	liar.stop_at_third_put = &stop;
	limits = in_ms(60000);
	limits.stop = &stop;
	CHECK_EQ(probe_run(&liar.store, &limits, &reason), OUTCOME_INTERRUPTED);
	close_liar();
	stop_release(&stop);

	/* the deadline passes in the middle: likewise */
	open_liar(HONEST);
	liar.outlast_third_put = true;
	limits = in_ms(2000);
	CHECK_EQ(probe_run(&liar.store, &limits, &reason), OUTCOME_TIMEOUT);
	CHECK(strstr(reason.text, "guarded overwrite") != NULL);
	close_liar();

	/* no time at all */
	open_liar(HONEST);
	limits = in_ms(0);
	CHECK_EQ(probe_run(&liar.store, &limits, NULL), OUTCOME_TIMEOUT);
	close_liar();
}

int main(void)
{
	main_thread = pthread_self();
	RUN(test_honest);
	RUN(test_liars);
	RUN(test_denied);
	RUN(test_unsure);
	RUN(test_denied_late);
	RUN(test_dialect);
	RUN(test_busy);
	RUN(test_no_random_bytes);
	RUN(test_limits);
	return 0;
}
