#define _GNU_SOURCE /* asprintf */

#include "store.h"

#include "record.h"
#include "store_s3.h"
#include "store_sqlite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new store is a row here. */
static const struct scheme {
	const char *prefix;
	const char *form; /* for people */
	bool is_path;	  /* what follows is a path on this machine */
	enum outcome (*open)(struct store **store, const char *rest,
			     const struct store_options *options,
			     const struct limits *limits,
			     struct reason *reason);
} schemes[] = {
	{"sqlite:", "sqlite:PATH", true, store_sqlite_open},
	{"s3://", "s3://BUCKET[/PREFIX]", false, store_s3_open},
};

#define SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

/* The scheme of URL, and in *REST what follows it. NULL with REASON. */
static const struct scheme *find_scheme(const char *url, const char **rest,
					struct reason *reason)
{
	char forms[120] = "";
	size_t used = 0;

	for (size_t i = 0; i < SCHEMES; i++) {
		size_t len = strlen(schemes[i].prefix);

		if (strncmp(url, schemes[i].prefix, len) != 0)
			continue;
		*rest = url + len;
		if (**rest != '\0')
			return &schemes[i];
		(void)reason_set(reason, OUTCOME_INVALID,
				 "the store '%s' lacks what follows '%s': %s",
				 url, schemes[i].prefix, schemes[i].form);
		return NULL;
	}
	for (size_t i = 0; i < SCHEMES && used < sizeof(forms); i++)
		used += (size_t)snprintf(forms + used, sizeof(forms) - used,
					 "%s%s", i > 0 ? ", " : "",
					 schemes[i].form);
	(void)reason_set(reason, OUTCOME_INVALID,
			 "'%s' is not the URL of a store; known are: %s", url,
			 forms);
	return NULL;
}

enum outcome store_open(struct store **store, const char *url,
			const struct store_options *options,
			const struct limits *limits, struct reason *reason)
{
	const char *rest;
	const struct scheme *scheme = find_scheme(url, &rest, reason);

	if (scheme == NULL)
		return OUTCOME_INVALID;
	return scheme->open(store, rest, options, limits, reason);
}

/* PATH names a file whose directory exists? */
static enum outcome check_directory(const char *path, struct reason *reason)
{
	const char *slash = strrchr(path, '/');
	struct stat st;
	char *dir;
	int failed;

	if (slash == NULL)
		return OUTCOME_OK;
	if (slash[1] == '\0')
		return reason_set(reason, OUTCOME_INVALID,
				  "'%s' is a directory; a store is a file",
				  path);
	dir = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	if (dir == NULL)
		return OUTCOME_NO_MEMORY;
	failed = stat(dir, &st) != 0 ? errno : 0;
	if (failed == 0 && !S_ISDIR(st.st_mode))
		failed = ENOTDIR;
	if (failed != 0)
		(void)reason_set(reason, OUTCOME_FAILED,
				 "the store's directory %s: %s", dir,
				 strerror(failed));
	free(dir);
	return failed != 0 ? OUTCOME_FAILED : OUTCOME_OK;
}

enum outcome store_absolute_url(char **absolute, const char *url,
				struct reason *reason)
{
	const char *rest;
	const struct scheme *scheme = find_scheme(url, &rest, reason);
	enum outcome outcome;
	char *cwd;
	int len;

	*absolute = NULL;
	if (scheme == NULL)
		return OUTCOME_INVALID;
	if (scheme->is_path) {
		outcome = check_directory(rest, reason);
		if (outcome != OUTCOME_OK)
			return outcome;
	}
	if (!scheme->is_path || rest[0] == '/') {
		*absolute = strdup(url);
		return *absolute != NULL ? OUTCOME_OK : OUTCOME_NO_MEMORY;
	}
	cwd = getcwd(NULL, 0);
	if (cwd == NULL)
		return reason_set(reason,
				  errno == ENOMEM ? OUTCOME_NO_MEMORY
						  : OUTCOME_INVALID,
				  "the working directory, to which the store "
				  "'%s' is relative: %s",
				  url, strerror(errno));
	len = asprintf(absolute, "%s%s/%s", scheme->prefix,
		       strcmp(cwd, "/") == 0 ? "" : cwd, rest);
	free(cwd);
	if (len < 0) {
		*absolute = NULL;
		return OUTCOME_NO_MEMORY;
	}
	return OUTCOME_OK;
}

enum outcome attempt_new(struct attempt *attempt)
{
	unsigned char bytes[(ATTEMPT_SIZE - 1) / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return OUTCOME_FAILED;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(attempt->hex + 2 * i, 3, "%02x", bytes[i]);
	return OUTCOME_OK;
}

void object_init(struct object *object)
{
	memset(object, 0, sizeof(*object));
	buf_init(&object->body, RECORD_READ_MAX);
}

void object_release(struct object *object)
{
	buf_release(&object->body);
}

/* Every store finds the answer empty and fills in what it knows. */
static void clear_answer(struct answer *answer)
{
	memset(answer, 0, sizeof(*answer));
}

enum outcome store_get(struct store *store, const struct limits *limits,
		       const char *key, const char *known,
		       struct object *object, struct answer *answer)
{
	clear_answer(answer);
	return store->ops->get(store, limits, key, known, object, answer);
}

enum outcome store_put_if(struct store *store, const struct limits *limits,
			  const char *key, const char *body, size_t len,
			  const struct guard *guard,
			  const struct attempt *attempt, char etag[ETAG_SIZE],
			  struct answer *answer)
{
	clear_answer(answer);
	etag[0] = '\0';
	if (guard->kind == GUARD_NONE)
		return reason_set(&answer->reason, OUTCOME_FORBIDDEN,
				  "a write without a guard");
	return store->ops->put_if(store, limits, key, body, len, guard, attempt,
				  etag, answer);
}

enum outcome store_list(struct store *store, const struct limits *limits,
			const char *prefix, struct buf *after, list_fn *fn,
			void *arg, struct answer *answer)
{
	clear_answer(answer);
	return store->ops->list(store, limits, prefix, after, fn, arg, answer);
}

enum outcome store_remove(struct store *store, const struct limits *limits,
			  const char *key, struct answer *answer)
{
	clear_answer(answer);
	if (strncmp(key, NAME_PROBE_PREFIX, strlen(NAME_PROBE_PREFIX)) != 0)
		return reason_set(&answer->reason, OUTCOME_FORBIDDEN,
				  "only keys under %s are ever removed",
				  NAME_PROBE_PREFIX);
	return store->ops->remove(store, limits, key, answer);
}

enum outcome store_now(struct store *store, const struct limits *limits,
		       struct fleet_time *time)
{
	return store->ops->now(store, limits, time);
}

bool store_next_dialect(struct store *store)
{
	return store->ops->next_dialect && store->ops->next_dialect(store);
}

void store_close(struct store *store)
{
	store->ops->close(store);
}
