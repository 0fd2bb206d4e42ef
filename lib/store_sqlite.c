#include "store_sqlite.h"

#include "clock.h"
#include "record.h"
#include "store_sqlite_conn.h"
#include "store_sqlite_list.h"
#include "turnstile.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IDLE_MAX 8 /* connections that are kept */

struct store_sqlite {
	struct store store; /* first */
	char *path;
	bool read_only;
	dev_t device; /* which file PATH was at open */
	ino_t inode;
	int64_t clock_base_ms; /* fleet time - CLOCK_BOOTTIME */
	pthread_mutex_t lock;  /* guards the two below */
	struct conn *idle;
	unsigned idle_count;
};

/* --- The connections ------------------------------------------------------ */

static enum outcome check_limits(const struct limits *limits,
				 struct reason *reason)
{
	enum outcome outcome = limits_check(limits);

	if (outcome == OUTCOME_OK)
		return outcome;
	return reason_set(reason, outcome, "%s before anything was tried",
			  outcome == OUTCOME_TIMEOUT ? "the deadline passed"
						     : "interrupted");
}

/* A connection for one call. */
static enum outcome take(struct conn **taken, struct store_sqlite *s,
			 const struct limits *limits, struct reason *reason)
{
	enum outcome outcome = check_limits(limits, reason);
	struct conn *conn;
	struct stat st;

	if (outcome != OUTCOME_OK)
		return outcome;
	/* Half of the mounts in a file that has no name any more and half in
	 * its successor would be two arbiters. */
	if (stat(s->path, &st) != 0 || st.st_dev != s->device ||
	    st.st_ino != s->inode)
		return reason_set(reason, OUTCOME_FAILED,
				  "%s was removed or replaced while it was "
				  "open",
				  s->path);
	pthread_mutex_lock(&s->lock);
	conn = s->idle;
	if (conn != NULL) {
		s->idle = conn->next;
		s->idle_count--;
	}
	pthread_mutex_unlock(&s->lock);
	if (conn == NULL) {
		outcome = conn_open(&conn, s->path, s->read_only, false, limits,
				    reason);
		if (outcome != OUTCOME_OK)
			return outcome;
		outcome = conn_prepare(conn, limits, reason);
		if (outcome != OUTCOME_OK) {
			conn_close(conn);
			return outcome;
		}
	}
	conn->limits = limits;
	*taken = conn;
	return OUTCOME_OK;
}

static void give_back(struct store_sqlite *s, struct conn *conn)
{
	bool keep = !conn->broken && sqlite3_get_autocommit(conn->db) != 0;

	conn->limits = NULL;
	pthread_mutex_lock(&s->lock);
	keep = keep && s->idle_count < IDLE_MAX;
	if (keep) {
		conn->next = s->idle;
		s->idle = conn;
		s->idle_count++;
	}
	pthread_mutex_unlock(&s->lock);
	if (!keep)
		conn_close(conn);
}

/* --- The calls ------------------------------------------------------------ */

static struct store_sqlite *self(struct store *store)
{
	return (struct store_sqlite *)store;
}

static int64_t now_ms(const struct store_sqlite *s)
{
	return s->clock_base_ms + clock_boot_ms();
}

static int bind_key(sqlite3_stmt *statement, const char *key)
{
	return sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
}

/* Ends a statement's use of what was bound. */
static void finish(sqlite3_stmt *statement)
{
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
}

/* False: no memory; no column is NULL. */
static bool copy_column(char *out, size_t size, sqlite3_stmt *statement,
			int column)
{
	const char *text = (const char *)sqlite3_column_text(statement, column);

	out[0] = '\0';
	if (text != NULL && strlen(text) < size)
		memcpy(out, text, strlen(text) + 1);
	return text != NULL;
}

/* The row that GET stands on. */
static enum outcome read_row(sqlite3_stmt *get, const char *known,
			     struct object *object, struct answer *answer)
{
	long long size = sqlite3_column_int64(get, 3);
	const void *bytes;

	if (!copy_column(object->etag, sizeof(object->etag), get, 0) ||
	    !copy_column(object->attempt.hex, sizeof(object->attempt.hex), get,
			 1))
		return OUTCOME_NO_MEMORY;
	if (known != NULL && strcmp(known, object->etag) == 0) {
		answer->status = 304;
		return OUTCOME_UNCHANGED;
	}
	object->modified_ms = sqlite3_column_int64(get, 2);
	answer->status = 200;
	if (size > RECORD_READ_MAX)
		return reason_set(&answer->reason, OUTCOME_TOO_LARGE,
				  "the object has %lld bytes", size);
	bytes = sqlite3_column_blob(get, 4);
	if (bytes == NULL && size > 0)
		return OUTCOME_NO_MEMORY;
	return buf_set(&object->body, bytes,
		       (size_t)sqlite3_column_bytes(get, 4));
}

static enum outcome op_get(struct store *store, const struct limits *limits,
			   const char *key, const char *known,
			   struct object *object, struct answer *answer)
{
	struct conn *conn;
	sqlite3_stmt *get;
	enum outcome outcome =
		take(&conn, self(store), limits, &answer->reason);

	if (outcome != OUTCOME_OK)
		return outcome;
	get = conn->statements[CONN_GET];
	bind_key(get, key);
	switch (sqlite3_step(get)) {
	case SQLITE_ROW:
		outcome = read_row(get, known, object, answer);
		break;
	case SQLITE_DONE:
		answer->status = 404;
		outcome = OUTCOME_ABSENT;
		break;
	default:
		outcome = conn_failure(conn, limits, &answer->reason);
		break;
	}
	finish(get);
	give_back(self(store), conn);
	return outcome;
}

/* Inside the transaction: does GUARD hold for KEY? OK, REJECTED, or failure. */
static enum outcome check_guard(struct conn *conn, const struct limits *limits,
				const char *key, const struct guard *guard,
				struct reason *reason)
{
	sqlite3_stmt *get = conn->statements[CONN_ETAG];
	char etag[ETAG_SIZE] = "";
	enum outcome outcome = OUTCOME_OK;
	int code;

	bind_key(get, key);
	code = sqlite3_step(get);
	if (code == SQLITE_ROW && !copy_column(etag, sizeof(etag), get, 0))
		outcome = OUTCOME_NO_MEMORY;
	else if (code != SQLITE_ROW && code != SQLITE_DONE)
		outcome = conn_failure(conn, limits, reason);
	else if (guard->kind == GUARD_ABSENT && code == SQLITE_ROW)
		outcome = reason_set(reason, OUTCOME_REJECTED,
				     "the record exists");
	else if (guard->kind == GUARD_MATCH && code == SQLITE_DONE)
		outcome = reason_set(reason, OUTCOME_REJECTED,
				     "there is no such record");
	else if (guard->kind == GUARD_MATCH && !guard_matches(guard, etag))
		outcome = reason_set(reason, OUTCOME_REJECTED,
				     "the record's ETag is %.*s", 200, etag);
	finish(get);
	return outcome;
}

static enum outcome upsert(struct conn *conn, const struct limits *limits,
			   sqlite3_int64 modified_ms, const char *key,
			   const char *body, size_t len,
			   const struct attempt *attempt, const char *etag,
			   struct reason *reason)
{
	sqlite3_stmt *put = conn->statements[CONN_PUT];
	int code;

	bind_key(put, key);
	sqlite3_bind_blob64(put, 2, len > 0 ? body : "", len, SQLITE_STATIC);
	sqlite3_bind_text(put, 3, etag, -1, SQLITE_STATIC);
	sqlite3_bind_text(put, 4, attempt->hex, -1, SQLITE_STATIC);
	sqlite3_bind_int64(put, 5, modified_ms);
	code = conn_run(conn, CONN_PUT);
	sqlite3_clear_bindings(put);
	return code == SQLITE_OK ? OUTCOME_OK
				 : conn_failure(conn, limits, reason);
}

/* Ends the transaction: commits if OUTCOME is OK so far, and returns what has
 * become of it. Nothing bounds this: a statement that was stopped here would
 * leave the fate of the write in doubt. */
static enum outcome end(struct conn *conn, const struct limits *limits,
			enum outcome outcome, struct reason *reason)
{
	conn->limits = NULL;
	if (outcome == OUTCOME_OK) {
		int code = conn_run(conn, CONN_COMMIT);

		if (code == SQLITE_OK)
			return OUTCOME_OK;
		outcome = conn_failure(conn, limits, reason);
		if ((code & 0xff) != SQLITE_BUSY)
			outcome = OUTCOME_UNKNOWN;
	}
	if (sqlite3_get_autocommit(conn->db) == 0)
		(void)conn_run(conn, CONN_ROLLBACK);
	return outcome;
}

/* A connection that has the turn to write. */
static enum outcome take_turn(struct conn **taken, struct store_sqlite *s,
			      const struct limits *limits, const char *key,
			      struct reason *reason)
{
	enum outcome outcome;

	if (s->read_only)
		return reason_set(reason, OUTCOME_DENIED,
				  "%s was opened to read only", s->path);
	if (strlen(key) > CONN_KEY_MAX)
		return reason_set(reason, OUTCOME_FAILED,
				  "a key of more than %d bytes", CONN_KEY_MAX);
	outcome = take(taken, s, limits, reason);
	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = turnstile_enter((*taken)->turnstile, limits, reason);
	if (outcome != OUTCOME_OK)
		give_back(s, *taken);
	return outcome;
}

static void end_turn(struct store_sqlite *s, struct conn *conn)
{
	turnstile_leave(conn->turnstile);
	give_back(s, conn);
}

static enum outcome op_put_if(struct store *store, const struct limits *limits,
			      const char *key, const char *body, size_t len,
			      const struct guard *guard,
			      const struct attempt *attempt,
			      char etag[ETAG_SIZE], struct answer *answer)
{
	struct store_sqlite *s = self(store);
	struct reason *reason = &answer->reason;
	struct attempt random;
	char fresh[ATTEMPT_SIZE + 2];
	struct conn *conn;
	enum outcome outcome;

	if (attempt_new(&random) != OUTCOME_OK)
		return reason_set(reason, OUTCOME_FAILED, "no random bytes");
	outcome = take_turn(&conn, s, limits, key, reason);
	if (outcome != OUTCOME_OK)
		return outcome;
	snprintf(fresh, sizeof(fresh), "\"%s\"", random.hex);
	if (conn_run(conn, CONN_BEGIN) != SQLITE_OK) {
		outcome = conn_failure(conn, limits, reason);
	} else {
		outcome = check_guard(conn, limits, key, guard, reason);
		if (outcome == OUTCOME_OK)
			outcome = upsert(conn, limits, now_ms(s), key, body,
					 len, attempt, fresh, reason);
		if (outcome == OUTCOME_OK)
			outcome = check_limits(limits, reason);
		outcome = end(conn, limits, outcome, reason);
	}
	end_turn(s, conn);
	if (outcome == OUTCOME_OK) {
		memcpy(etag, fresh, sizeof(fresh));
		answer->status = 200;
	}
	if (outcome == OUTCOME_REJECTED)
		answer->status = 412;
	return outcome;
}

static enum outcome op_remove(struct store *store, const struct limits *limits,
			      const char *key, struct answer *answer)
{
	struct store_sqlite *s = self(store);
	struct conn *conn;
	enum outcome outcome;

	outcome = take_turn(&conn, s, limits, key, &answer->reason);
	if (outcome != OUTCOME_OK)
		return outcome;
	bind_key(conn->statements[CONN_REMOVE], key);
	if (conn_run(conn, CONN_REMOVE) != SQLITE_OK)
		outcome = conn_failure(conn, limits, &answer->reason);
	answer->status = outcome == OUTCOME_OK ? 200 : 0;
	sqlite3_clear_bindings(conn->statements[CONN_REMOVE]);
	end_turn(s, conn);
	return outcome;
}

static enum outcome op_list(struct store *store, const struct limits *limits,
			    const char *prefix, struct buf *after, list_fn *fn,
			    void *arg, struct answer *answer)
{
	struct conn *conn;
	enum outcome outcome =
		take(&conn, self(store), limits, &answer->reason);

	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = conn_list(conn, limits, prefix, after, fn, arg,
			    &answer->reason);
	if (outcome == OUTCOME_OK)
		answer->status = 200;
	give_back(self(store), conn);
	return outcome;
}

static enum outcome op_now(struct store *store, const struct limits *limits,
			   struct fleet_time *time)
{
	(void)limits; /* nothing is asked */
	time->earliest_ms = time->latest_ms = now_ms(self(store));
	time->since_step_ms = INT64_MAX;
	time->steps = 0;
	return OUTCOME_OK;
}

static void op_close(struct store *store)
{
	struct store_sqlite *s = self(store);

	while (s->idle != NULL) {
		struct conn *conn = s->idle;

		s->idle = conn->next;
		conn_close(conn);
	}
	pthread_mutex_destroy(&s->lock);
	free(s->path);
	free(s);
}

static const struct store_ops ops = {
	.get = op_get,
	.put_if = op_put_if,
	.list = op_list,
	.remove = op_remove,
	.now = op_now,
	.close = op_close,
};

/* --- Opening -------------------------------------------------------------- */

static const char *boot_id_path = "/proc/sys/kernel/random/boot_id";

void store_sqlite_boot_id_from(const char *path)
{
	boot_id_path = path;
}

static enum outcome check_path(const struct store_sqlite *s,
			       struct reason *reason)
{
	struct stat st;

	if (stat(s->path, &st) != 0) {
		if (!s->read_only && errno == ENOENT)
			return OUTCOME_OK;
		return reason_set(reason, OUTCOME_FAILED, "%s: %s", s->path,
				  errno == ENOENT ? "does not exist"
						  : strerror(errno));
	}
	if (!S_ISREG(st.st_mode))
		return reason_set(reason, OUTCOME_FAILED, "%s is not a file",
				  s->path);
	if (s->read_only && st.st_size == 0)
		return reason_set(reason, OUTCOME_FAILED,
				  "%s is empty: no store yet", s->path);
	return OUTCOME_OK;
}

static enum outcome open_first(struct store_sqlite *s, struct conn **opened,
			       const struct limits *limits,
			       struct reason *reason)
{
	enum outcome outcome = check_path(s, reason);
	struct reason mode;
	int64_t number;
	struct conn *conn;
	struct stat st;

	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = conn_open(&conn, s->path, s->read_only, true, limits, reason);
	if (outcome != OUTCOME_OK)
		return outcome;
	if (conn_query(conn, "PRAGMA journal_mode", &number, &mode) !=
	    SQLITE_ROW)
		outcome = conn_failure(conn, limits, reason);
	else if (!s->read_only && strcmp(mode.text, "wal") != 0)
		outcome = conn_make(conn, limits, reason);
	if (outcome == OUTCOME_OK)
		outcome = conn_check(conn, limits, reason);
	if (outcome == OUTCOME_OK)
		outcome = conn_prepare(conn, limits, reason);
	if (outcome == OUTCOME_OK)
		outcome = conn_clock(conn, boot_id_path, limits,
				     &s->clock_base_ms, reason);
	if (outcome == OUTCOME_OK && !s->read_only)
		outcome = conn_sync_directory(conn, reason);
	if (outcome == OUTCOME_OK && stat(s->path, &st) != 0)
		outcome = reason_set(reason, OUTCOME_FAILED, "%s: %s", s->path,
				     strerror(errno));
	if (outcome != OUTCOME_OK) {
		conn_close(conn);
		return outcome;
	}
	s->device = st.st_dev;
	s->inode = st.st_ino;
	*opened = conn;
	return OUTCOME_OK;
}

enum outcome store_sqlite_open(struct store **store, const char *path,
			       const struct store_options *options,
			       const struct limits *limits,
			       struct reason *reason)
{
	struct store_sqlite *s;
	struct conn *conn;
	enum outcome outcome = check_limits(limits, reason);

	if (outcome != OUTCOME_OK)
		return outcome;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return OUTCOME_NO_MEMORY;
	s->store.ops = &ops;
	s->read_only = options->read_only;
	pthread_mutex_init(&s->lock, NULL);
	/* Not to be taken for ":memory:" or a "file:" URI. */
	s->path = malloc(strlen(path) + 3);
	if (s->path == NULL) {
		op_close(&s->store);
		return OUTCOME_NO_MEMORY;
	}
	snprintf(s->path, strlen(path) + 3, "%s%s", path[0] == '/' ? "" : "./",
		 path);
	outcome = open_first(s, &conn, limits, reason);
	if (outcome != OUTCOME_OK) {
		op_close(&s->store);
		return outcome;
	}
	give_back(s, conn);
	*store = &s->store;
	return OUTCOME_OK;
}
