/* store_spy: a store that logs its calls and can be told to fail. Linked into
 * celldfs-spy only, the daemon that the tests mount: its --wrap=store_open
 *makes this file stand between the daemon and the real store. Faults: fault.h.
 *
 * CELLDFS_SPY_LOG (an absolute path): after each call has returned, one line is
 * appended to it by one write(2):
 *
 *	get KEY OUTCOME
 *	put_if KEY GUARD OUTCOME ATTEMPT	GUARD is guard_print()'s
 *	list PREFIX OUTCOME
 *	remove KEY OUTCOME
 *	now OUTCOME
 *
 * OUTCOME is what the daemon was told: outcome_word() with '-' for spaces.
 */
#include "fault.h"
#include "store.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct spy {
	struct store store;  /* first: what the daemon holds */
	struct store *inner; /* owned: the real one */
};

/* The names are the linker's. */
enum outcome __real_store_open(struct store **store, const char *url,
			       const struct store_options *options,
			       const struct limits *limits,
			       struct reason *reason);
enum outcome __wrap_store_open(struct store **store, const char *url,
			       const struct store_options *options,
			       const struct limits *limits,
			       struct reason *reason);

static struct store *inner(struct store *store)
{
	return ((struct spy *)store)->inner;
}

__attribute__((format(printf, 1, 2))) static void log_call(const char *format,
							   ...)
{
	const char *path = getenv("CELLDFS_SPY_LOG");
	char line[1024];
	va_list args;
	int fd;

	if (path == NULL)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	/* Opened each time, so that a test may move the log away. */
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, line, strlen(line)) < 0)
		abort();
	close(fd);
}

static void answer_spy(struct answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	(void)reason_set(&answer->reason, OUTCOME_OK, "spy");
}

/* Spoils an answer as a captive portal or a careless gateway would. */
static enum outcome spoil(const struct fault *fault, struct object *object)
{
	static const char page[] = "<!DOCTYPE html>\n<html><body><h1>Welcome"
				   "</h1></body></html>\n";

	if (fault->action == FAULT_NOETAG)
		object->etag[0] = '\0';
	if (fault->action == FAULT_HTML)
		return buf_set(&object->body, page, sizeof(page) - 1);
	return OUTCOME_OK;
}

static enum outcome spy_get(struct store *store, const struct limits *limits,
			    const char *key, const char *known,
			    struct object *object, struct answer *answer)
{
	struct fault fault = fault_for("get", key);
	char word[FAULT_WORD_SIZE];
	enum outcome outcome;

	/* "Unchanged" has nothing to spoil. */
	if (fault.action == FAULT_HTML || fault.action == FAULT_NOETAG)
		known = NULL;
	if (fault_before(&fault, limits, &outcome)) {
		answer_spy(answer);
	} else {
		outcome = store_get(inner(store), limits, key, known, object,
				    answer);
		if (outcome == OUTCOME_OK)
			outcome = spoil(&fault, object);
		outcome = fault_after(&fault, limits, outcome, false);
	}
	log_call("get %s %s\n", key, fault_word(outcome, word));
	return outcome;
}

static enum outcome spy_put_if(struct store *store, const struct limits *limits,
			       const char *key, const char *body, size_t len,
			       const struct guard *guard,
			       const struct attempt *attempt,
			       char etag[ETAG_SIZE], struct answer *answer)
{
	struct fault fault = fault_for("put_if", key);
	char word[FAULT_WORD_SIZE], guard_text[ETAG_SIZE + 16];
	enum outcome outcome;

	if (fault_before(&fault, limits, &outcome)) {
		answer_spy(answer);
	} else {
		outcome = store_put_if(inner(store), limits, key, body, len,
				       guard, attempt, etag, answer);
		outcome = fault_after(&fault, limits, outcome, true);
	}
	if (outcome != OUTCOME_OK)
		etag[0] = '\0'; /* a lost answer told no ETag */
	log_call("put_if %s %s %s %s\n", key, guard_print(guard, guard_text),
		 fault_word(outcome, word), attempt->hex);
	return outcome;
}

static enum outcome spy_list(struct store *store, const struct limits *limits,
			     const char *prefix, struct buf *after, list_fn *fn,
			     void *arg, struct answer *answer)
{
	struct fault fault = fault_for("list", prefix);
	char word[FAULT_WORD_SIZE];
	enum outcome outcome;

	if (fault_before(&fault, limits, &outcome)) {
		answer_spy(answer);
	} else {
		outcome = store_list(inner(store), limits, prefix, after, fn,
				     arg, answer);
		outcome = fault_after(&fault, limits, outcome, false);
	}
	log_call("list %s %s\n", prefix, fault_word(outcome, word));
	return outcome;
}

static enum outcome spy_remove(struct store *store, const struct limits *limits,
			       const char *key, struct answer *answer)
{
	struct fault fault = fault_for("remove", key);
	char word[FAULT_WORD_SIZE];
	enum outcome outcome;

	if (fault_before(&fault, limits, &outcome)) {
		answer_spy(answer);
	} else {
		outcome = store_remove(inner(store), limits, key, answer);
		outcome = fault_after(&fault, limits, outcome, false);
	}
	log_call("remove %s %s\n", key, fault_word(outcome, word));
	return outcome;
}

static enum outcome spy_now(struct store *store, const struct limits *limits,
			    struct fleet_time *time)
{
	struct fault fault = fault_for("now", "-");
	char word[FAULT_WORD_SIZE];
	enum outcome outcome;

	if (!fault_before(&fault, limits, &outcome)) {
		outcome = store_now(inner(store), limits, time);
		outcome = fault_after(&fault, limits, outcome, false);
	}
	log_call("now %s\n", fault_word(outcome, word));
	return outcome;
}

static bool spy_next_dialect(struct store *store)
{
	return store_next_dialect(inner(store));
}

static void spy_close(struct store *store)
{
	store_close(inner(store));
	free(store);
}

static const struct store_ops spy_ops = {
	.get = spy_get,
	.put_if = spy_put_if,
	.list = spy_list,
	.remove = spy_remove,
	.now = spy_now,
	.next_dialect = spy_next_dialect,
	.close = spy_close,
};

enum outcome __wrap_store_open(struct store **store, const char *url,
			       const struct store_options *options,
			       const struct limits *limits,
			       struct reason *reason)
{
	struct spy *spy = calloc(1, sizeof(*spy));
	enum outcome outcome;

	if (spy == NULL)
		return OUTCOME_NO_MEMORY;
	outcome = __real_store_open(&spy->inner, url, options, limits, reason);
	if (outcome != OUTCOME_OK) {
		free(spy);
		return outcome;
	}
	spy->store.ops = &spy_ops;
	*store = &spy->store;
	return OUTCOME_OK;
}
