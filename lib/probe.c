#include "probe.h"

#include "clock.h"
#include "name.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define RACERS	    64
#define RACER_STACK (1024 * 1024)
#define RETRY_MS    100	 /* after "not done" without a time, or "unknown" */
#define CLEAN_UP_MS 2000 /* for the removal, when the limits have run out */
#define KEY_SIZE    48	 /* 11 + 32 + NUL */

/* One probe under way, on one key. */
struct probe {
	struct store *store;
	const struct limits *limits;
	FILE *out; /* NULL: say nothing */
	struct reason *reason;
	char key[KEY_SIZE];
	struct answer answer; /* the last one */
	struct object found;  /* what was read last */
	unsigned versions;    /* bodies that were made */
};

/* One version that the probe writes. */
struct version {
	char body[300];
	struct attempt attempt;
	char etag[ETAG_SIZE];
};

static void __attribute__((format(printf, 2, 3)))
say(struct probe *probe, const char *format, ...)
{
	va_list args;

	if (probe->out == NULL)
		return;
	va_start(args, format);
	vfprintf(probe->out, format, args);
	va_end(args);
	fputc('\n', probe->out);
}

/* The store does not keep its promise. */
static enum outcome broken(struct probe *probe, const char *what)
{
	say(probe, "FAIL %s", what);
	return reason_set(probe->reason, OUTCOME_FAILED, "%s", what);
}

/* The store did not answer, or not to the point: STEP was not tried. */
static enum outcome not_tried(struct probe *probe, enum outcome outcome,
			      const char *step)
{
	const char *text = probe->answer.reason.text;

	if (outcome == OUTCOME_UNKNOWN || outcome == OUTCOME_NOT_DONE)
		outcome = OUTCOME_TIMEOUT;
	say(probe, "FAIL %s: %s%s%s", step, outcome_word(outcome),
	    text[0] != '\0' ? ": " : "", text);
	return reason_set(probe->reason, outcome, "%s: %s%s%s", step,
			  outcome_word(outcome), text[0] != '\0' ? ": " : "",
			  text);
}

/* A body unlike all others, with every byte: what is stored as text somewhere
 * on the way does not come back. */
static enum outcome make_version(struct probe *probe, struct version *version)
{
	int len;

	memset(version, 0, sizeof(*version));
	len = snprintf(version->body, sizeof(version->body), "{\"n\":%u}\r\n",
		       ++probe->versions);
	for (size_t i = (size_t)len; i < sizeof(version->body); i++)
		version->body[i] = (char)i;
	if (attempt_new(&version->attempt) != OUTCOME_OK)
		return reason_set(probe->reason, OUTCOME_FAILED,
				  "no random bytes");
	return OUTCOME_OK;
}

static enum outcome make_key(struct probe *probe)
{
	struct attempt random;

	if (attempt_new(&random) != OUTCOME_OK)
		return reason_set(probe->reason, OUTCOME_FAILED,
				  "no random bytes");
	snprintf(probe->key, sizeof(probe->key), NAME_PROBE_PREFIX "cas-%s",
		 random.hex);
	return OUTCOME_OK;
}

static enum outcome wait_to_retry(struct probe *probe)
{
	int64_t wait_ms = probe->answer.wait_ms;

	return limits_sleep(probe->limits,
			    clock_boot_ms() +
				    (wait_ms > 0 ? wait_ms : RETRY_MS));
}

/* Reads the key until there is an answer: OK, ABSENT, or an error. */
static enum outcome read_key(struct probe *probe)
{
	enum outcome outcome;

	do {
		outcome = store_get(probe->store, probe->limits, probe->key,
				    NULL, &probe->found, &probe->answer);
	} while (outcome == OUTCOME_NOT_DONE &&
		 wait_to_retry(probe) == OUTCOME_OK);
	return outcome;
}

/* Sends VERSION under GUARD until the store has decided. OK: applied. REJECTED:
 * the store says so. A refusal after a try of unknown fate can be the echo of
 * that one, so it is read back. */
static enum outcome put(struct probe *probe, struct version *version,
			const struct guard *guard)
{
	for (bool again = false;; again = true) {
		enum outcome outcome = store_put_if(
			probe->store, probe->limits, probe->key, version->body,
			sizeof(version->body), guard, &version->attempt,
			version->etag, &probe->answer);
		struct answer answer = probe->answer;
		bool undecided = outcome == OUTCOME_UNKNOWN ||
				 outcome == OUTCOME_NOT_DONE;

		if (!undecided && !(again && outcome == OUTCOME_REJECTED))
			return outcome;
		if (undecided && wait_to_retry(probe) != OUTCOME_OK)
			return outcome;
		if (read_key(probe) == OUTCOME_OK &&
		    strcmp(probe->found.attempt.hex, version->attempt.hex) ==
			    0) {
			memcpy(version->etag, probe->found.etag, ETAG_SIZE);
			return OUTCOME_OK;
		}
		probe->answer = answer;
		if (!undecided)
			return outcome;
	}
}

/* The key must hold exactly VERSION; else CHANGED is what is wrong with a store
 * whose last write had that effect. */
static enum outcome expect(struct probe *probe, const struct version *version,
			   const char *changed)
{
	enum outcome outcome = read_key(probe);
	const struct object *found = &probe->found;
	struct guard wrote, read;

	if (outcome == OUTCOME_ABSENT)
		return broken(probe, changed);
	if (outcome != OUTCOME_OK)
		return not_tried(probe, outcome, "reading back");
	if (found->body.len != sizeof(version->body) ||
	    memcmp(found->body.bytes, version->body, found->body.len) != 0)
		return broken(probe, changed);
	if (strcmp(found->attempt.hex, version->attempt.hex) != 0)
		return broken(probe, "the attempt id does not come back: this "
				     "store drops user metadata");
	if (guard_of_etag(&read, found->etag, probe->reason) != OUTCOME_OK)
		return broken(probe, "a read gives no ETag that can guard a "
				     "write");
	if (guard_of_etag(&wrote, version->etag, probe->reason) != OUTCOME_OK ||
	    !guard_equal(&wrote, &read))
		return broken(probe, "a write and a read give different ETags "
				     "for one version");
	return OUTCOME_OK;
}

/* --- The four steps ------------------------------------------------------- */

static const struct guard absent = {.kind = GUARD_ABSENT};

static enum outcome check_create(struct probe *probe, struct version *version)
{
	static const char step[] = "create on an absent key";
	enum outcome outcome = make_version(probe, version);

	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = put(probe, version, &absent);
	if (outcome == OUTCOME_REJECTED)
		return broken(probe, "a create on an absent key was refused");
	if (outcome != OUTCOME_OK)
		return not_tried(probe, outcome, step);
	outcome = expect(probe, version,
			 "a created object does not come back as it was "
			 "written");
	if (outcome == OUTCOME_OK)
		say(probe, "ok   %s", step);
	return outcome;
}

/* A write that the store must refuse, over VERSION, which must stay. */
static enum outcome check_refused(struct probe *probe, const char *step,
				  const struct guard *guard,
				  const struct version *version,
				  const char *applied, const char *lied)
{
	struct version never;
	enum outcome outcome = make_version(probe, &never);

	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = put(probe, &never, guard);
	if (outcome == OUTCOME_OK)
		return broken(probe, applied);
	if (outcome != OUTCOME_REJECTED)
		return not_tried(probe, outcome, step);
	outcome = expect(probe, version, lied);
	if (outcome == OUTCOME_OK)
		say(probe, "ok   %s", step);
	return outcome;
}

static enum outcome check_overwrite(struct probe *probe,
				    const struct version *old,
				    struct version *version)
{
	static const char step[] = "guarded overwrite";
	struct guard before, after;
	enum outcome outcome = make_version(probe, version);

	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = guard_of_etag(&before, old->etag, probe->reason);
	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = put(probe, version, &before);
	/* this guard must hold: perhaps the store wants it written otherwise */
	while (outcome == OUTCOME_REJECTED && store_next_dialect(probe->store))
		outcome = put(probe, version, &before);
	if (outcome == OUTCOME_REJECTED)
		return broken(probe, "a guarded overwrite was refused: this "
				     "store does not know its own ETag in "
				     "If-Match");
	if (outcome != OUTCOME_OK)
		return not_tried(probe, outcome, step);
	outcome = expect(probe, version,
			 "a guarded overwrite does not come back as it was "
			 "written");
	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = guard_of_etag(&after, version->etag, probe->reason);
	if (outcome != OUTCOME_OK)
		return outcome;
	if (guard_equal(&before, &after))
		return broken(probe, "two versions have the same ETag");
	say(probe, "ok   %s", step);
	return OUTCOME_OK;
}

static enum outcome check_steps(struct probe *probe)
{
	struct version first, second;
	struct guard stale;
	enum outcome outcome = check_create(probe, &first);

	if (outcome == OUTCOME_OK)
		outcome = check_refused(
			probe, "second create refused", &absent, &first,
			"a second create was applied: this store ignores "
			"If-None-Match",
			"a second create was called refused and changed the "
			"object");
	if (outcome == OUTCOME_OK)
		outcome = check_overwrite(probe, &first, &second);
	if (outcome == OUTCOME_OK)
		outcome = guard_of_etag(&stale, first.etag, probe->reason);
	if (outcome == OUTCOME_OK)
		outcome = check_refused(
			probe, "stale overwrite refused", &stale, &second,
			"a stale overwrite was applied: this store ignores "
			"If-Match",
			"a stale overwrite was called refused and changed the "
			"object");
	return outcome;
}

/* Removes the key, also when the limits have run out or a stop was requested:
 * nothing stays behind under probe/. */
static enum outcome clean_up(struct probe *probe)
{
	struct limits limits = {.deadline_ms = probe->limits->deadline_ms};
	int64_t least_ms = clock_boot_ms() + CLEAN_UP_MS;
	enum outcome outcome;

	if (limits.deadline_ms < least_ms)
		limits.deadline_ms = least_ms;
	do {
		outcome = store_remove(probe->store, &limits, probe->key,
				       &probe->answer);
	} while ((outcome == OUTCOME_NOT_DONE || outcome == OUTCOME_UNKNOWN) &&
		 limits_sleep(&limits, clock_boot_ms() + RETRY_MS) ==
			 OUTCOME_OK);
	return outcome;
}

static enum outcome run_steps(struct probe *probe)
{
	enum outcome outcome = make_key(probe), removed;

	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = check_steps(probe);
	removed = clean_up(probe);
	if (outcome == OUTCOME_OK && removed != OUTCOME_OK)
		outcome = not_tried(probe, removed, "removal");
	return outcome;
}

enum outcome probe_run(struct store *store, const struct limits *limits,
		       struct reason *reason)
{
	struct probe probe = {
		.store = store, .limits = limits, .reason = reason};
	enum outcome outcome;

	object_init(&probe.found);
	outcome = run_steps(&probe);
	object_release(&probe.found);
	return outcome;
}

/* --- The race ------------------------------------------------------------- */

struct race {
	struct probe *probe;
	struct limits limits; /* without the stop, which is for one thread */
	pthread_mutex_t lock;
	pthread_cond_t opened;
	bool open; /* guarded by lock */
};

struct racer {
	struct race *race;
	struct version version;
	struct answer answer;
	enum outcome outcome;
	pthread_t thread;
};

static void *run_racer(void *arg)
{
	struct racer *racer = arg;
	struct race *race = racer->race;

	pthread_mutex_lock(&race->lock);
	while (!race->open)
		pthread_cond_wait(&race->opened, &race->lock);
	pthread_mutex_unlock(&race->lock);
	racer->outcome = store_put_if(
		race->probe->store, &race->limits, race->probe->key,
		racer->version.body, sizeof(racer->version.body), &absent,
		&racer->version.attempt, racer->version.etag, &racer->answer);
	return NULL;
}

/* How many of RACERS could be started; all have ended on return. */
static int run_racers(struct probe *probe, struct racer racers[RACERS])
{
	struct race race = {.probe = probe, .limits = *probe->limits};
	pthread_attr_t attr;
	int started = 0;

	race.limits.stop = NULL;
	pthread_mutex_init(&race.lock, NULL);
	pthread_cond_init(&race.opened, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, RACER_STACK);
	while (started < RACERS) {
		racers[started].race = &race;
		if (pthread_create(&racers[started].thread, &attr, run_racer,
				   &racers[started]) != 0)
			break;
		started++;
	}
	pthread_mutex_lock(&race.lock);
	race.open = true;
	pthread_cond_broadcast(&race.opened);
	pthread_mutex_unlock(&race.lock);
	for (int i = 0; i < started; i++)
		pthread_join(racers[i].thread, NULL);
	pthread_attr_destroy(&attr);
	pthread_cond_destroy(&race.opened);
	pthread_mutex_destroy(&race.lock);
	return started;
}

/* "63 x 412": what the losers were answered, the commonest first. */
static void say_losers(struct probe *probe, const struct racer racers[RACERS],
		       const struct racer *winner)
{
	bool counted[RACERS] = {false};
	char text[200] = "";
	size_t used = 0;

	for (int i = 0; i < RACERS; i++) {
		const struct racer *racer = &racers[i];
		int count = 0;

		for (int j = i; j < RACERS; j++) {
			if (counted[j] || &racers[j] == winner ||
			    racers[j].answer.status != racer->answer.status ||
			    racers[j].outcome != racer->outcome)
				continue;
			counted[j] = true;
			count++;
		}
		if (count > 0 && used < sizeof(text))
			used += (size_t)snprintf(
				text + used, sizeof(text) - used,
				"%s%d x %s (%d)", used > 0 ? ", " : "", count,
				outcome_word(racer->outcome),
				racer->answer.status);
	}
	say(probe, "     losers of a race get: %s", text);
}

/* Of RACERS creates of one key exactly one is applied, and it is the one that
 * is there. A loser may also be told that its fate is unknown or that it was
 * not done: a store that says so is slow to use, not wrong. */
static enum outcome judge_race(struct probe *probe,
			       const struct racer racers[RACERS])
{
	const struct racer *winner = NULL;
	int applied = 0;
	enum outcome outcome = read_key(probe);

	if (outcome != OUTCOME_OK && outcome != OUTCOME_ABSENT)
		return not_tried(probe, outcome, "reading the winner");
	for (int i = 0; i < RACERS; i++) {
		const struct racer *racer = &racers[i];

		applied += racer->outcome == OUTCOME_OK;
		if (outcome == OUTCOME_OK &&
		    strcmp(racer->version.attempt.hex,
			   probe->found.attempt.hex) == 0)
			winner = racer;
		if (racer->outcome != OUTCOME_OK &&
		    racer->outcome != OUTCOME_REJECTED &&
		    racer->outcome != OUTCOME_NOT_DONE &&
		    racer->outcome != OUTCOME_UNKNOWN) {
			probe->answer = racer->answer;
			return not_tried(probe, racer->outcome,
					 "a race of creates");
		}
	}
	if (applied > 1)
		return broken(probe, "several creates of one key were applied: "
				     "this store checks If-None-Match, but not "
				     "atomically");
	if (winner == NULL)
		return broken(probe, "of many creates of one key none is there "
				     "afterwards");
	if (applied == 1 && winner->outcome != OUTCOME_OK)
		return broken(probe, "a create that was called applied was "
				     "overwritten by another create");
	if (winner->outcome == OUTCOME_REJECTED)
		return broken(probe, "a create that was called refused was "
				     "applied");
	say(probe, "ok   one winner in a race of %d creates", RACERS);
	say_losers(probe, racers, winner);
	return OUTCOME_OK;
}

static enum outcome check_race(struct probe *probe)
{
	struct racer *racers = calloc(RACERS, sizeof(*racers));
	enum outcome outcome = make_key(probe), removed;

	if (racers == NULL)
		return OUTCOME_NO_MEMORY;
	for (int i = 0; i < RACERS && outcome == OUTCOME_OK; i++)
		outcome = make_version(probe, &racers[i].version);
	if (outcome == OUTCOME_OK) {
		if (run_racers(probe, racers) == RACERS)
			outcome = judge_race(probe, racers);
		else
			outcome = reason_set(probe->reason, OUTCOME_FAILED,
					     "no threads for a race");
		removed = clean_up(probe);
		if (outcome == OUTCOME_OK && removed != OUTCOME_OK)
			outcome = not_tried(probe, removed, "removal");
	}
	free(racers);
	return outcome;
}

/* --- Habits --------------------------------------------------------------- */

static void say_quotes(struct probe *probe)
{
	const char *etag = probe->found.etag;
	size_t len = strlen(etag);

	say(probe, "     ETags come %s quotes, as in %s",
	    len >= 2 && etag[0] == '"' && etag[len - 1] == '"' ? "in"
							       : "without",
	    etag);
}

/* A write under the ETag of what is not there any more. */
static enum outcome try_missing(struct probe *probe)
{
	struct version version;
	struct guard guard;
	int status;
	enum outcome outcome =
		guard_of_etag(&guard, probe->found.etag, probe->reason);

	if (outcome == OUTCOME_OK)
		outcome = make_version(probe, &version);
	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = put(probe, &version, &guard);
	status = probe->answer.status;
	if (outcome == OUTCOME_OK)
		return broken(probe, "an overwrite of a missing key created "
				     "it: this store ignores If-Match there");
	if (outcome != OUTCOME_REJECTED)
		return not_tried(probe, outcome, "overwrite of a missing key");
	outcome = read_key(probe);
	if (outcome == OUTCOME_OK)
		return broken(probe, "an overwrite of a missing key was called "
				     "refused and created it");
	if (outcome != OUTCOME_ABSENT)
		return not_tried(probe, outcome, "reading a removed key");
	say(probe, "ok   overwrite of a missing key refused");
	say(probe, "     If-Match on a missing key gets: %d", status);
	return OUTCOME_OK;
}

static enum outcome check_missing(struct probe *probe)
{
	enum outcome outcome = try_missing(probe);

	if (outcome != OUTCOME_OK)
		(void)clean_up(probe);
	return outcome;
}

static enum outcome check_clock(struct probe *probe)
{
	struct fleet_time time;
	enum outcome outcome = store_now(probe->store, probe->limits, &time);
	int64_t wall_ms = clock_wall_ms();

	if (outcome != OUTCOME_OK) {
		probe->answer.reason.text[0] = '\0';
		return not_tried(probe, outcome, "the store's clock");
	}
	say(probe,
	    "     the store's clock is this machine's plus %lld to %lld ms",
	    (long long)(time.earliest_ms - wall_ms),
	    (long long)(time.latest_ms - wall_ms));
	return OUTCOME_OK;
}

enum outcome probe_report(struct store *store, const struct limits *limits,
			  FILE *out, struct reason *reason)
{
	struct probe probe = {
		.store = store, .limits = limits, .out = out, .reason = reason};
	struct reason local = {""};
	enum outcome outcome;

	if (probe.reason == NULL)
		probe.reason = &local;
	probe.reason->text[0] = '\0';
	object_init(&probe.found);
	outcome = run_steps(&probe);
	if (outcome == OUTCOME_OK) {
		say_quotes(&probe);
		outcome = check_missing(&probe);
	}
	if (outcome == OUTCOME_OK)
		outcome = check_race(&probe);
	if (outcome == OUTCOME_OK)
		outcome = check_clock(&probe);
	if (outcome == OUTCOME_OK)
		say(&probe, "this store can be trusted with a fleet");
	else
		say(&probe, "do not use this store: %s", probe.reason->text);
	object_release(&probe.found);
	return outcome;
}
