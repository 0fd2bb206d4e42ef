/* cas: what becomes of one guarded write, case by case. A scripted store keeps
 * a real little register, so that "lost" has really been applied and "dropped"
 * has not. Random faults are test_cas_random.c's.
 */
#include "cas.h"

#include "check.h"
#include "clock.h"
#include "ownership.h"
#include "record.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A clock that goes on by a millisecond whenever somebody looks. The store asks
 * for pauses of a millisecond, so they take no time at all. */
static int64_t ticks;

static int64_t tick(void)
{
	return ++ticks;
}

/* A few looks at the clock, where an exact time is expected. */
#define SLACK_MS 30

/* ---- the scripted store ---- */

/* One byte is one request, or something that happens right behind it (in front,
 * at the start of the script):
 *
 * a PUT   o honest   l applied if the guard holds, the answer is lost
 *         d dropped  y under way until L   n not done   r refused, 412
 *         x denied   f failed   t not sent in time   i stopped before it was
 * sent h dropped, and the answer is waited for   u as l, a senseless answer
 *         m applied if the guard holds, and called not done
 * a GET   G honest   W honest, but without an ETag   U failed   N not done
 *       B too large   H no answer in time
 * then    L what was under way lands, if its guard holds by then
 *         C another node claims the next epoch   E the same, with our bytes
 *         X the record is removed                S we are told to stop
 *
 * What stands behind '|' is repeated from '*' on, for ever. */
struct script {
	struct store store; /* first */
	int line;
	const char *next, *loop;

	/* the register */
	bool exists;
	struct own own;
	char etag[ETAG_SIZE];
	struct attempt attempt;
	unsigned versions;
	char told[ETAG_SIZE]; /* the ETag of the last answer that could have one
			       */

	/* our write */
	const struct cas_write *write;
	const struct limits *limits;
	struct stop *stop;
	struct attempt ours;
	unsigned puts, gets, applied;
	bool under_way;
	int64_t wait_ms;      /* in every answer */
	int64_t given_ms[64]; /* how long each request may take */
	int64_t left_ms[64];  /* how much was left of the whole */
	bool stoppable[64];
};

#define KEY	 "cells/c/own.json"
#define OUR_NODE "n1"

static void set_version(struct script *script, const char *node, uint64_t epoch,
			const char *attempt)
{
	script->exists = true;
	snprintf(script->own.node, sizeof(script->own.node), "%s", node);
	script->own.epoch = epoch;
	snprintf(script->etag, sizeof(script->etag), "\"v%u\"",
		 ++script->versions);
	snprintf(script->attempt.hex, sizeof(script->attempt.hex), "%s",
		 attempt);
}

static bool guard_holds(const struct script *script)
{
	if (!script->exists)
		return script->write->guard.kind == GUARD_ABSENT;
	return guard_matches(&script->write->guard, script->etag);
}

/* False: the guard does not hold. */
static bool apply(struct script *script)
{
	struct own own;

	if (!guard_holds(script))
		return false;
	CHECK_EQ(record_parse_own(&own, script->write->body, script->write->len,
				  NULL),
		 OUTCOME_OK);
	set_version(script, own.node, own.epoch, script->ours.hex);
	script->applied++;
	return true;
}

static void land(struct script *script)
{
	if (script->under_way)
		apply(script);
	script->under_way = false;
}

static void run_events(struct script *script)
{
	for (;; script->next++) {
		uint64_t next_epoch =
			script->exists ? script->own.epoch + 1 : 1;

		switch (*script->next) {
		case 'L':
			CHECK(script->under_way);
			land(script);
			break;
		case 'C':
			set_version(script, "n9", next_epoch, "");
			break;
		case 'E':
			set_version(script, OUR_NODE, next_epoch,
				    "00000000000000000000000000000000");
			break;
		case 'X':
			script->exists = false;
			break;
		case 'S':
			stop_request(script->stop);
			break;
		case '|':
			script->loop = script->next + 1;
			break;
		case '*':
			script->next = script->loop - 1;
			break;
		default:
			return;
		}
	}
}

/* The step for a request. */
static char take_step(struct script *script, const struct limits *limits,
		      const char *steps)
{
	unsigned i = (script->puts + script->gets) % 64;
	int64_t now_ms = ticks;
	char step = *script->next;

	script->given_ms[i] = limits->deadline_ms - now_ms;
	script->left_ms[i] = script->limits->deadline_ms - now_ms;
	script->stoppable[i] = limits->stop != NULL;
	CHECK(limits->deadline_ms <= script->limits->deadline_ms);
	CHECK_EQ(limits->urgent, script->limits->urgent);
	if (!step || !strchr(steps, step))
		CHECK_FAIL("case of line %d: a request for one of %s, but the "
			   "script goes on with '%s'",
			   script->line, steps, script->next);
	script->next++;
	return step;
}

static enum outcome script_put(struct store *store, const struct limits *limits,
			       const char *key, const char *body, size_t len,
			       const struct guard *guard,
			       const struct attempt *attempt,
			       char etag[ETAG_SIZE], struct answer *answer)
{
	struct script *script = (struct script *)store;
	char step = take_step(script, limits, "oldynrxftihum");
	enum outcome outcome = OUTCOME_UNKNOWN;

	CHECK_STR(key, KEY);
	CHECK(body == script->write->body && len == script->write->len);
	CHECK(guard_equal(guard, &script->write->guard));
	if (script->puts++ == 0)
		script->ours = *attempt;
	CHECK_EQ(strlen(attempt->hex), 32);
	CHECK_STR(attempt->hex, script->ours.hex);
	answer->wait_ms = script->wait_ms;
	switch (step) {
	case 'o':
		outcome = apply(script) ? OUTCOME_OK : OUTCOME_REJECTED;
		if (outcome == OUTCOME_OK)
			memcpy(etag, script->etag, ETAG_SIZE);
		memcpy(script->told, script->etag, ETAG_SIZE);
		break;
	case 'l':
		apply(script);
		break;
	case 'u':
		apply(script);
		outcome = OUTCOME_UNCHANGED;
		break;
	case 'y':
		script->under_way = true;
		break;
	case 'm':
		apply(script);
		outcome = OUTCOME_NOT_DONE;
		break;
	case 'n':
		outcome = OUTCOME_NOT_DONE;
		break;
	case 'r':
		outcome = OUTCOME_REJECTED;
		break;
	case 'x':
		outcome = OUTCOME_DENIED;
		break;
	case 'f':
		outcome = OUTCOME_FAILED;
		break;
	case 't':
		outcome = OUTCOME_TIMEOUT;
		break;
	case 'i':
		stop_request(script->stop);
		outcome = OUTCOME_INTERRUPTED;
		break;
	case 'h':
		ticks = limits->deadline_ms;
		break;
	default: /* d */
		break;
	}
	run_events(script);
	return outcome;
}

static enum outcome script_get(struct store *store, const struct limits *limits,
			       const char *key, const char *known,
			       struct object *object, struct answer *answer)
{
	struct script *script = (struct script *)store;
	char step = take_step(script, limits, "GWUNBH");
	enum outcome outcome = OUTCOME_FAILED;

	CHECK_STR(key, KEY);
	CHECK(known == NULL);
	script->gets++;
	answer->wait_ms = script->wait_ms;
	if (step == 'N')
		outcome = OUTCOME_NOT_DONE;
	if (step == 'B')
		outcome = OUTCOME_TOO_LARGE;
	if (step == 'H') {
		ticks = limits->deadline_ms;
		outcome = OUTCOME_TIMEOUT;
	}
	if (step == 'G' || step == 'W')
		outcome = script->exists ? OUTCOME_OK : OUTCOME_ABSENT;
	if (outcome == OUTCOME_OK) {
		if (step == 'G')
			memcpy(object->etag, script->etag, ETAG_SIZE);
		memcpy(script->told, object->etag, ETAG_SIZE);
		object->attempt = script->attempt;
		CHECK_EQ(buf_printf(&object->body,
				    "{\"node\":\"%s\",\"epoch\":%" PRIu64 "}",
				    script->own.node, script->own.epoch),
			 OUTCOME_OK);
	}
	run_events(script);
	return outcome;
}

static const struct store_ops script_ops = {
	.get = script_get,
	.put_if = script_put,
};

/* ---- one write ---- */

/* As fs/swap.c asks it. */
static bool disproves(const void *arg, const struct object *found)
{
	struct own own;

	return record_parse_own(&own, found->body.bytes, found->body.len,
				NULL) == OUTCOME_OK &&
	       ownership_disproves(arg, &own);
}

struct run {
	struct script script;
	struct stop stop;
	struct limits limits;
	struct own own;
	char body[80];
	struct cas_write write;
	struct cas_result result;
	int64_t took_ms;
	bool stopped;
};

/* A write of {n1, 7} over {n0, 6}; under GUARD_ABSENT, of {n1, 1}. */
static void run_init(struct run *run, enum guard_kind kind, const char *steps)
{
	memset(run, 0, sizeof(*run));
	ticks = 1000;
	stop_init(&run->stop);
	run->limits = (struct limits){
		.deadline_ms = clock_boot_ms() + 15000,
		.stop = &run->stop,
	};
	run->own = (struct own){OUR_NODE, kind == GUARD_ABSENT ? 1 : 7};
	snprintf(run->body, sizeof(run->body),
		 "{\"node\":\"" OUR_NODE "\",\"epoch\":%" PRIu64 "}",
		 run->own.epoch);
	run->write = (struct cas_write){
		.key = KEY,
		.body = run->body,
		.len = strlen(run->body),
		.disproves = disproves,
		.disproves_arg = &run->own,
	};
	run->script.store.ops = &script_ops;
	run->script.next = steps;
	run->script.write = &run->write;
	run->script.limits = &run->limits;
	run->script.stop = &run->stop;
	run->script.wait_ms = 1;
	if (kind != GUARD_ABSENT) {
		set_version(&run->script, "n0", 6, "");
		CHECK_EQ(guard_of_etag(&run->write.guard, run->script.etag,
				       NULL),
			 OUTCOME_OK);
	}
	run->write.guard.kind = kind;
}

static enum outcome run_put(struct run *run)
{
	int64_t begun_ms = clock_boot_ms();
	enum outcome outcome;

	run_events(&run->script);
	outcome = cas_put(&run->script.store, &run->limits, &run->write,
			  &run->result);
	run->took_ms = clock_boot_ms() - begun_ms;
	CHECK_EQ(run->result.puts, run->script.puts);
	CHECK_EQ(run->result.gets, run->script.gets);
	run->stopped = stop_requested(&run->stop);
	stop_release(&run->stop);
	return outcome;
}

/* ---- the cases ---- */

struct cas_case {
	int line;
	enum guard_kind guard;
	const char *steps;
	enum outcome want;
	unsigned puts, gets;
	unsigned applied;
	const char *reason; /* a part of it */
};

#define ANY 1000 /* requests: as many as there is time for */
#define IF(...)                                                                \
	{                                                                      \
		__LINE__, GUARD_MATCH, __VA_ARGS__                             \
	}
#define CREATE(...)                                                            \
	{                                                                      \
		__LINE__, GUARD_ABSENT, __VA_ARGS__                            \
	}

static const struct cas_case cases[] = {
	/* the store's word */
	IF("o", OUTCOME_OK, 1, 0, 1, ""),
	IF("Co", OUTCOME_REJECTED, 1, 0, 0, ""),
	IF("Xo", OUTCOME_REJECTED, 1, 0, 0, ""),
	IF("r", OUTCOME_REJECTED, 1, 0, 0, ""),
	IF("x", OUTCOME_DENIED, 1, 0, 0, ""),
	IF("f", OUTCOME_FAILED, 1, 0, 0, ""),
	CREATE("o", OUTCOME_OK, 1, 0, 1, ""),
	CREATE("Co", OUTCOME_REJECTED, 1, 0, 0, ""),

	/* not done: the same again */
	IF("no", OUTCOME_OK, 2, 0, 1, ""),
	IF("nno", OUTCOME_OK, 3, 0, 1, ""),
	IF("nCoG", OUTCOME_REJECTED, 2, 1, 0, ""),
	IF("nCoU", OUTCOME_REJECTED, 2, 1, 0, ""),
	IF("nx", OUTCOME_DENIED, 2, 0, 0, ""),
	IF("|n*", OUTCOME_NOT_DONE, ANY, 0, 0, ""),
	CREATE("no", OUTCOME_OK, 2, 0, 1, ""),
	CREATE("nCoG", OUTCOME_REJECTED, 2, 1, 0, ""),

	/* done, whatever the store says */
	IF("moG", OUTCOME_OK, 2, 1, 1, ""),
	IF("mnoG", OUTCOME_OK, 3, 1, 1, ""),
	CREATE("moG", OUTCOME_OK, 2, 1, 1, ""),

	/* not sent, and there is time */
	IF("to", OUTCOME_OK, 2, 0, 1, ""),
	IF("|t*", OUTCOME_TIMEOUT, ANY, 0, 0, ""),
	IF("n|t*", OUTCOME_NOT_DONE, ANY, 0, 0, ""),

	/* unknown, and it was applied */
	IF("lG", OUTCOME_OK, 1, 1, 1, ""),
	IF("lUG", OUTCOME_OK, 1, 2, 1, ""),
	IF("lNG", OUTCOME_OK, 1, 2, 1, ""),
	IF("lHG", OUTCOME_OK, 1, 2, 1, ""),
	IF("nlG", OUTCOME_OK, 2, 1, 1, ""),
	IF("yLG", OUTCOME_OK, 1, 1, 1, ""),
	IF("uG", OUTCOME_OK, 1, 1, 1, ""),
	CREATE("lG", OUTCOME_OK, 1, 1, 1, ""),

	/* unknown, and it was not: the same again */
	IF("dGo", OUTCOME_OK, 2, 1, 1, ""),
	IF("hGo", OUTCOME_OK, 2, 1, 1, ""),
	IF("dGto", OUTCOME_OK, 3, 1, 1, ""),
	IF("dUGo", OUTCOME_OK, 2, 2, 1, ""),
	IF("dGdGo", OUTCOME_OK, 3, 2, 1, ""),
	IF("dGlG", OUTCOME_OK, 2, 2, 1, ""),
	CREATE("dGo", OUTCOME_OK, 2, 1, 1, ""),
	CREATE("dGlG", OUTCOME_OK, 2, 2, 1, ""),

	/* a refusal that is our own echo */
	IF("yGLoG", OUTCOME_OK, 2, 2, 1, ""),
	IF("yGLrG", OUTCOME_OK, 2, 2, 1, ""),
	IF("yGLnG", OUTCOME_OK, 2, 2, 1, ""),
	IF("yGnLG", OUTCOME_OK, 2, 2, 1, ""),
	CREATE("yGLoG", OUTCOME_OK, 2, 2, 1, ""),

	/* "not done" and refusals behind an unknown are no proof */
	IF("dGnGo", OUTCOME_OK, 3, 2, 1, ""),
	IF("dGrGo", OUTCOME_OK, 3, 2, 1, ""),
	IF("dG|nG*", OUTCOME_UNKNOWN, ANY, ANY, 0, "may yet happen"),
	IF("dG|rG*", OUTCOME_UNKNOWN, ANY, ANY, 0, "may yet happen"),
	IF("dG|dG*", OUTCOME_UNKNOWN, ANY, ANY, 0, "may yet happen"),
	IF("dG|t*", OUTCOME_UNKNOWN, ANY, 1, 0, "may yet happen"),
	IF("dGx", OUTCOME_UNKNOWN, 2, 1, 0, "may yet happen"),
	IF("dGf", OUTCOME_UNKNOWN, 2, 1, 0, "may yet happen"),
	IF("yGLx", OUTCOME_UNKNOWN, 2, 1, 1, "may yet happen"),

	/* another record that proves that ours never landed */
	IF("dCG", OUTCOME_REJECTED, 1, 1, 0, "never landed"),
	IF("dCUG", OUTCOME_REJECTED, 1, 2, 0, "never landed"),
	IF("yCG", OUTCOME_REJECTED, 1, 1, 0, "never landed"),
	IF("dGCoG", OUTCOME_REJECTED, 2, 2, 0, "never landed"),
	IF("yGCoG", OUTCOME_REJECTED, 2, 2, 0, "never landed"),
	IF("yGCnG", OUTCOME_REJECTED, 2, 2, 0, "never landed"),
	IF("dEG", OUTCOME_REJECTED, 1, 1, 0, "never landed"),
	CREATE("dCG", OUTCOME_REJECTED, 1, 1, 0, "never landed"),
	CREATE("dEG", OUTCOME_REJECTED, 1, 1, 0, "never landed"),

	/* another record that does not, or none */
	IF("lCG", OUTCOME_UNKNOWN, 1, 1, 1, "superseded"),
	IF("dCCG", OUTCOME_UNKNOWN, 1, 1, 0, "superseded"),
	IF("lEG", OUTCOME_UNKNOWN, 1, 1, 1, "superseded"),
	IF("yGLCoG", OUTCOME_UNKNOWN, 2, 2, 1, "superseded"),
	IF("lXG", OUTCOME_UNKNOWN, 1, 1, 1, "superseded"),
	IF("dXG", OUTCOME_UNKNOWN, 1, 1, 0, "superseded"),
	IF("dB", OUTCOME_UNKNOWN, 1, 1, 0, "superseded"),
	CREATE("lCG", OUTCOME_UNKNOWN, 1, 1, 1, "superseded"),

	/* read back without an ETag: ours is known by its attempt id, but what
	 * is not may be the guarded version, on which ours can still land */
	IF("lW", OUTCOME_OK, 1, 1, 1, ""),
	IF("yWLG", OUTCOME_OK, 1, 2, 1, ""),
	IF("dWGo", OUTCOME_OK, 2, 2, 1, ""),
	IF("dCWG", OUTCOME_REJECTED, 1, 2, 0, "never landed"),
	IF("d|W*", OUTCOME_UNKNOWN, 1, ANY, 0, "could not settle"),
	CREATE("lW", OUTCOME_OK, 1, 1, 1, ""),
	CREATE("dCW", OUTCOME_REJECTED, 1, 1, 0, "never landed"),

	/* nothing can be read back */
	IF("l|U*", OUTCOME_UNKNOWN, 1, ANY, 1, "could not settle"),
	IF("d|N*", OUTCOME_UNKNOWN, 1, ANY, 0, "could not settle"),
	IF("h|H*", OUTCOME_UNKNOWN, 1, ANY, 0, "could not settle"),

	/* told to stop */
	IF("S", OUTCOME_INTERRUPTED, 0, 0, 0, ""),
	IF("i", OUTCOME_INTERRUPTED, 1, 0, 0, ""),
	IF("tS", OUTCOME_INTERRUPTED, 1, 0, 0, ""),
	IF("oS", OUTCOME_OK, 1, 0, 1, ""),
	IF("rS", OUTCOME_REJECTED, 1, 0, 0, ""),
	IF("lSG", OUTCOME_OK, 1, 1, 1, ""),
	IF("lSUG", OUTCOME_OK, 1, 2, 1, ""),
	IF("lUSG", OUTCOME_OK, 1, 2, 1, ""),
	IF("dSGo", OUTCOME_OK, 2, 1, 1, ""),
	IF("dGSo", OUTCOME_OK, 2, 1, 1, ""),
	IF("dGio", OUTCOME_OK, 3, 1, 1, ""),
	IF("dSCG", OUTCOME_REJECTED, 1, 1, 0, "never landed"),
	IF("lSCG", OUTCOME_UNKNOWN, 1, 1, 1, "superseded"),
	IF("dS|U*", OUTCOME_UNKNOWN, 1, ANY, 0, "could not settle"),
	IF("dUUS|U*", OUTCOME_UNKNOWN, 1, ANY, 0, "could not settle"),
	IF("dGS|dG*", OUTCOME_UNKNOWN, ANY, ANY, 0, "may yet happen"),
	IF("nSo", OUTCOME_OK, 2, 0, 1, ""),
	IF("nio", OUTCOME_OK, 3, 0, 1, ""),
	IF("nS|n*", OUTCOME_NOT_DONE, ANY, 0, 0, ""),
};

static void check_case(const struct cas_case *c)
{
	enum outcome outcome;
	struct run run;

	run_init(&run, c->guard, c->steps);
	run.script.line = c->line;
	outcome = run_put(&run);
	if (outcome != c->want)
		CHECK_FAIL("case of line %d: %s, expected %s (%s)", c->line,
			   outcome_word(outcome), outcome_word(c->want),
			   run.result.answer.reason.text);
	if (!strchr(c->steps, '*') && *run.script.next)
		CHECK_FAIL("case of line %d: ended before '%s'", c->line,
			   run.script.next);
	if ((c->puts != ANY && run.script.puts != c->puts) ||
	    (c->gets != ANY && run.script.gets != c->gets))
		CHECK_FAIL("case of line %d: %u PUT, %u GET", c->line,
			   run.script.puts, run.script.gets);
	if (run.script.applied != c->applied)
		CHECK_FAIL("case of line %d: applied %u times", c->line,
			   run.script.applied);
	if (!strstr(run.result.answer.reason.text, c->reason))
		CHECK_FAIL("case of line %d: the reason is '%s'", c->line,
			   run.result.answer.reason.text);
	if (outcome == OUTCOME_OK)
		CHECK_STR(run.result.etag, run.script.told);
	CHECK_EQ(run.result.sent,
		 outcome != OUTCOME_INTERRUPTED && outcome != OUTCOME_TIMEOUT);

	/* what is refused now never lands later, either */
	land(&run.script);
	if (outcome == OUTCOME_REJECTED || outcome == OUTCOME_NOT_DONE)
		CHECK_EQ(run.script.applied, 0);

	CHECK(run.took_ms <= 15000 + SLACK_MS);
	if (run.stopped)
		CHECK(run.took_ms <= CAS_SETTLE_AFTER_STOP_MS + 2 * SLACK_MS);
	if (strchr(c->steps, '*'))
		CHECK(run.took_ms >=
		      (run.stopped ? CAS_SETTLE_AFTER_STOP_MS : 15000) -
			      SLACK_MS);
}

static void test_cases(void)
{
	clock_replace(tick, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_case(&cases[i]);
	clock_replace(NULL, NULL);
}

/* A lease: nothing proves anything. */
static void test_without_proof(void)
{
	struct run run;

	clock_replace(tick, NULL);
	run_init(&run, GUARD_MATCH, "dCG");
	run.write.disproves = NULL;
	CHECK_EQ(run_put(&run), OUTCOME_UNKNOWN);
	/* bytes are no proof of anything */
	run_init(&run, GUARD_MATCH, "dEG");
	run.write.disproves = NULL;
	CHECK_EQ(run_put(&run), OUTCOME_UNKNOWN);
	CHECK_EQ(run.script.applied, 0);
	clock_replace(NULL, NULL);
}

static void test_no_guard(void)
{
	struct run run;

	run_init(&run, GUARD_NONE, "");
	CHECK_EQ(run_put(&run), OUTCOME_FORBIDDEN);
	CHECK_EQ(run.result.puts, 0);
	CHECK(!run.result.sent);
	CHECK(run.result.answer.reason.text[0]);
}

/* ---- may it be sent? ---- */

struct permit {
	int left; /* so many are allowed */
	int asked;
};

static enum outcome ask_permit(const void *arg, int64_t *until_ms)
{
	struct permit *const *permit = arg;

	(void)until_ms;
	(*permit)->asked++;
	return (*permit)->left-- > 0 ? OUTCOME_OK : OUTCOME_FENCED;
}

static enum outcome put_with_permit(const char *steps, int allowed, int *asked,
				    struct run *run)
{
	struct permit permit = {.left = allowed};
	struct permit *arg = &permit;
	enum outcome outcome;

	run_init(run, GUARD_MATCH, steps);
	run->write.may_send = ask_permit;
	run->write.may_send_arg = &arg;
	outcome = run_put(run);
	CHECK_EQ(*run->script.next, 0);
	*asked = permit.asked;
	return outcome;
}

static void test_may_send(void)
{
	struct run run;
	int asked;

	clock_replace(tick, NULL);
	CHECK_EQ(put_with_permit("o", 1, &asked, &run), OUTCOME_OK);
	CHECK_EQ(asked, 1);
	CHECK_EQ(put_with_permit("", 0, &asked, &run), OUTCOME_FENCED);
	CHECK_EQ(asked, 1);
	CHECK(!run.result.sent);
	/* nothing has landed, for sure */
	CHECK_EQ(put_with_permit("n", 1, &asked, &run), OUTCOME_FENCED);
	CHECK_EQ(asked, 2);
	/* something may have */
	CHECK_EQ(put_with_permit("dG", 1, &asked, &run), OUTCOME_UNKNOWN);
	CHECK_EQ(put_with_permit("yGnG", 2, &asked, &run), OUTCOME_UNKNOWN);
	CHECK_EQ(asked, 3);
	/* what has landed needs no permit */
	CHECK_EQ(put_with_permit("lG", 1, &asked, &run), OUTCOME_OK);
	CHECK_EQ(asked, 1);
	clock_replace(NULL, NULL);
}

static enum outcome allow_until(const void *arg, int64_t *until_ms)
{
	*until_ms = *(const int64_t *)arg;
	return ticks < *until_ms ? OUTCOME_OK : OUTCOME_FENCED;
}

/* A permit ends, however long the caller would wait: what was sent by then is
 * settled by then, and nothing is sent after it. */
static void test_permit_ends(void)
{
	static const char *const scripts[] = {"d|U*", "|n*", "|dG*"};
	static const enum outcome wanted[] = {OUTCOME_UNKNOWN, OUTCOME_FENCED,
					      OUTCOME_UNKNOWN};
	int64_t until_ms;
	struct run run;

	clock_replace(tick, NULL);
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		run_init(&run, GUARD_MATCH, scripts[i]);
		until_ms = ticks + 500;
		CHECK(run.limits.deadline_ms > until_ms + 1000);
		run.write.may_send = allow_until;
		run.write.may_send_arg = &until_ms;
		CHECK_EQ(run_put(&run), wanted[i]);
		CHECK(run.script.given_ms[0] <= 500);
		CHECK(ticks >= until_ms);
		CHECK(ticks < until_ms + SLACK_MS);
	}
	clock_replace(NULL, NULL);
}

static enum outcome stop_and_allow(const void *arg, int64_t *until_ms)
{
	struct stop *const *stop = arg;

	(void)until_ms;
	stop_request(*stop);
	return OUTCOME_OK;
}

/* A stop just before a request is sent. */
static void test_stop_before_sending(void)
{
	struct run run;
	struct stop *arg = &run.stop;

	clock_replace(tick, NULL);
	run_init(&run, GUARD_MATCH, "");
	run.write.may_send = stop_and_allow;
	run.write.may_send_arg = &arg;
	CHECK_EQ(run_put(&run), OUTCOME_INTERRUPTED);
	CHECK(!run.result.sent);
	clock_replace(NULL, NULL);
}

static enum outcome stop_and_allow_again(const void *arg, int64_t *until_ms)
{
	struct run *const *run = arg;

	(void)until_ms;
	if ((*run)->script.puts > 0)
		stop_request(&(*run)->stop);
	return OUTCOME_OK;
}

/* And before it is sent again: then there is a second. */
static void test_stop_before_sending_again(void)
{
	struct run run, *arg = &run;

	clock_replace(tick, NULL);
	run_init(&run, GUARD_MATCH, "dGo");
	run.write.may_send = stop_and_allow_again;
	run.write.may_send_arg = &arg;
	CHECK_EQ(run_put(&run), OUTCOME_OK);
	clock_replace(NULL, NULL);
}

/* ---- attempt ids ---- */

static bool no_random;

/* Stands in for libc's. */
ssize_t getrandom(void *bytes, size_t size, unsigned flags)
{
	return no_random ? -1 : syscall(SYS_getrandom, bytes, size, flags);
}

static void test_no_attempt_id(void)
{
	struct run run;

	run_init(&run, GUARD_MATCH, "");
	no_random = true;
	CHECK_EQ(run_put(&run), OUTCOME_FAILED);
	no_random = false;
	CHECK(!run.result.sent);
	CHECK_STR(run.result.attempt.hex, "");
}

static void test_attempt_ids(void)
{
	struct attempt last = {""};

	clock_replace(tick, NULL);
	for (int i = 0; i < 50; i++) {
		struct run run;

		/* the store checks that it is one id over all resends */
		run_init(&run, GUARD_MATCH, "dGnGdGlG");
		CHECK_EQ(run_put(&run), OUTCOME_OK);
		CHECK_EQ(run.script.applied, 1);
		CHECK_STR(run.script.attempt.hex, run.script.ours.hex);
		CHECK_EQ(strspn(run.script.ours.hex, "0123456789abcdef"), 32);
		CHECK(strcmp(run.script.ours.hex, last.hex) != 0);
		last = run.script.ours;
	}
	clock_replace(NULL, NULL);
}

/* A write of unknown outcome is gone on with: it may land, or have landed, at
 * any time. */
static void test_goes_on(void)
{
	static const struct {
		const char *steps;
		enum outcome want;
		unsigned applied;
	} goes_on[] = {
		{"o", OUTCOME_OK, 1},		{"LoG", OUTCOME_OK, 1},
		{"dGLoG", OUTCOME_OK, 1},	{"CoG", OUTCOME_REJECTED, 0},
		{"nG|nG*", OUTCOME_UNKNOWN, 0}, {"|t*", OUTCOME_UNKNOWN, 0},
		{"x", OUTCOME_UNKNOWN, 0},	{"LCoG", OUTCOME_UNKNOWN, 1},
		{"i", OUTCOME_UNKNOWN, 0},
	};

	clock_replace(tick, NULL);
	for (size_t i = 0; i < sizeof(goes_on) / sizeof(goes_on[0]); i++) {
		struct attempt earlier = {"0123456789abcdef0123456789abcdef"};
		struct run run;

		run_init(&run, GUARD_MATCH, goes_on[i].steps);
		run.script.line = (int)i;
		run.script.ours = earlier;
		run.script.under_way = true;
		run.write.goes_on = &earlier;
		CHECK_EQ(run_put(&run), goes_on[i].want);
		CHECK_EQ(run.script.applied, goes_on[i].applied);
		CHECK_STR(run.script.ours.hex, earlier.hex);
		CHECK_STR(run.result.attempt.hex, earlier.hex);
	}
	clock_replace(NULL, NULL);
}

/* ---- time ---- */

static void check_share(const struct run *run, unsigned i)
{
	int64_t left_ms = run->script.left_ms[i];
	int64_t want_ms = left_ms / 2 > 1000 ? left_ms / 2 : 1000;

	if (want_ms > left_ms)
		want_ms = left_ms;
	if (llabs(run->script.given_ms[i] - want_ms) > SLACK_MS)
		CHECK_FAIL("request %u: %" PRId64 " ms left, given %" PRId64, i,
			   left_ms, run->script.given_ms[i]);
}

/* One try has at most half of what is left, but a second. */
static void test_shares(void)
{
	struct run run;

	clock_replace(tick, NULL);
	run_init(&run, GUARD_MATCH, "h|H*");
	run.limits.urgent = true;
	CHECK_EQ(run_put(&run), OUTCOME_UNKNOWN);
	CHECK(run.result.gets >= 3);
	for (unsigned i = 0; i < 1 + run.result.gets; i++)
		check_share(&run, i);
	CHECK(run.script.given_ms[0] <= 7500);
	CHECK(run.script.given_ms[1] <= 3750);

	run_init(&run, GUARD_MATCH, "h|GhGh*");
	run.limits.deadline_ms = ticks + 60000;
	CHECK_EQ(run_put(&run), OUTCOME_UNKNOWN);
	CHECK(run.result.puts >= 5);
	for (unsigned i = 0; i < run.result.puts + run.result.gets; i++)
		check_share(&run, i);

	/* less than a second is not divided */
	run_init(&run, GUARD_MATCH, "h|U*");
	run.limits.deadline_ms = ticks + 500;
	CHECK_EQ(run_put(&run), OUTCOME_UNKNOWN);
	CHECK(run.script.given_ms[0] > 500 - SLACK_MS);
	CHECK(run.took_ms <= 500 + SLACK_MS);
	clock_replace(NULL, NULL);
}

/* The stop that started the last second does not end what settles in it. */
static void test_stop_is_heard_once(void)
{
	struct run run;

	clock_replace(tick, NULL);
	run_init(&run, GUARD_MATCH, "dGdSGdGo");
	CHECK_EQ(run_put(&run), OUTCOME_OK);
	for (unsigned i = 0; i < 7; i++) {
		CHECK_EQ(run.script.stoppable[i], i < 3);
		if (i >= 3)
			CHECK(run.script.given_ms[i] <=
			      CAS_SETTLE_AFTER_STOP_MS);
	}
	/* and gives no second that the deadline does not have */
	run_init(&run, GUARD_MATCH, "dS|U*");
	run.limits.deadline_ms = ticks + 300;
	CHECK_EQ(run_put(&run), OUTCOME_UNKNOWN);
	CHECK(run.took_ms <= 300 + SLACK_MS);
	clock_replace(NULL, NULL);
}

static void test_deadline_has_passed(void)
{
	struct run run;

	clock_replace(tick, NULL);
	run_init(&run, GUARD_MATCH, "");
	run.limits.deadline_ms = ticks;
	CHECK_EQ(run_put(&run), OUTCOME_TIMEOUT);
	CHECK(!run.result.sent);
	clock_replace(NULL, NULL);
}

/* From here on by the real clock. */
static void real_init(struct run *run, const char *steps, int64_t deadline_ms,
		      int64_t wait_ms)
{
	run_init(run, GUARD_MATCH, steps);
	run->limits.deadline_ms = clock_boot_ms() + deadline_ms;
	run->script.wait_ms = wait_ms;
}

/* The pauses grow, and end with the deadline. */
static void test_own_pauses(void)
{
	struct run run;

	real_init(&run, "|n*", 600, 0);
	CHECK_EQ(run_put(&run), OUTCOME_NOT_DONE);
	CHECK(clock_boot_ms() >= run.limits.deadline_ms);
	CHECK(run.took_ms < 5000);
	CHECK(run.result.puts >= 2 && run.result.puts <= 6);

	real_init(&run, "|t*", 600, 0);
	CHECK_EQ(run_put(&run), OUTCOME_TIMEOUT);
	CHECK(run.took_ms < 5000);
	CHECK(run.result.puts >= 2 && run.result.puts <= 7);

	real_init(&run, "d|U*", 600, 0);
	CHECK_EQ(run_put(&run), OUTCOME_UNKNOWN);
	CHECK(clock_boot_ms() >= run.limits.deadline_ms);
	CHECK(run.took_ms < 5000);
	CHECK(run.result.gets >= 2 && run.result.gets <= 6);
}

/* The store's word when to come back. */
static void test_the_stores_pauses(void)
{
	struct run run;

	real_init(&run, "no", 15000, 250);
	CHECK_EQ(run_put(&run), OUTCOME_OK);
	CHECK(run.took_ms >= 250 && run.took_ms < 5000);

	real_init(&run, "n", 200, 60000);
	CHECK_EQ(run_put(&run), OUTCOME_NOT_DONE);
	CHECK(run.took_ms < 5000);
}

static void *stop_soon(void *arg)
{
	struct timespec pause = {.tv_nsec = 100000000};

	nanosleep(&pause, NULL);
	stop_request(arg);
	return NULL;
}

/* A stop in a pause: what may have landed still has a second to settle. */
static enum outcome put_stopped_in_pause(struct run *run, const char *steps,
					 int64_t wait_ms)
{
	enum outcome outcome;
	pthread_t thread;

	real_init(run, steps, 15000, wait_ms);
	CHECK_EQ(pthread_create(&thread, NULL, stop_soon, &run->stop), 0);
	outcome = cas_put(&run->script.store, &run->limits, &run->write,
			  &run->result);
	pthread_join(thread, NULL);
	stop_release(&run->stop);
	return outcome;
}

static void test_stopped_in_pause(void)
{
	int64_t begun_ms = clock_boot_ms();
	struct run run;

	CHECK_EQ(put_stopped_in_pause(&run, "dGo", 300), OUTCOME_OK);
	CHECK_EQ(put_stopped_in_pause(&run, "lUG", 300), OUTCOME_OK);
	CHECK_EQ(put_stopped_in_pause(&run, "no", 300), OUTCOME_OK);
	CHECK_EQ(put_stopped_in_pause(&run, "dG", 9000), OUTCOME_UNKNOWN);
	CHECK(clock_boot_ms() - begun_ms < 8000);
}

int main(void)
{
	RUN(test_cases);
	RUN(test_without_proof);
	RUN(test_no_guard);
	RUN(test_may_send);
	RUN(test_permit_ends);
	RUN(test_stop_before_sending);
	RUN(test_stop_before_sending_again);
	RUN(test_no_attempt_id);
	RUN(test_attempt_ids);
	RUN(test_goes_on);
	RUN(test_shares);
	RUN(test_stop_is_heard_once);
	RUN(test_deadline_has_passed);
	RUN(test_own_pauses);
	RUN(test_the_stores_pauses);
	RUN(test_stopped_in_pause);
	return 0;
}
