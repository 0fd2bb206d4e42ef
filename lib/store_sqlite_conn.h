/* store_sqlite_conn: one connection to a file that is a celldfs store. For
 * store_sqlite.c and store_sqlite_list.c; these are the only ones that know
 * SQLite.
 *
 * Invariants:
 * 1. A file that is not ours is left byte for byte as it was.
 * 2. While conn.limits is set, no statement outlasts it.
 *
 * A connection is used by one thread at a time.
 */
#ifndef CELLDFS_STORE_SQLITE_CONN_H
#define CELLDFS_STORE_SQLITE_CONN_H

#include "outcome.h"
#include "stop.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#define CONN_KEY_MAX 1024 /* bytes, as in S3 */

enum conn_statement {
	CONN_BEGIN,
	CONN_COMMIT,
	CONN_ROLLBACK,
	CONN_GET,    /* key -> etag, attempt, modified_ms, length, body */
	CONN_ETAG,   /* key -> etag */
	CONN_PUT,    /* key, body, etag, attempt, modified_ms */
	CONN_NEXT,   /* from, end, longest -> key, length, modified_ms */
	CONN_REMOVE, /* key */
	CONN_STATEMENTS
};

struct conn {
	sqlite3 *db;
	sqlite3_stmt *statements[CONN_STATEMENTS];
	const char *path; /* not owned */
	int turnstile;	  /* -1 if read-only */
	/* Of the call under way; NULL: what runs must run to its end. */
	const struct limits *limits;
	bool broken; /* not to be used again */
	struct conn *next;
};

/* Opens PATH without its statements; conn.limits is LIMITS until the caller
 * takes it away. CREATE: make an empty file if there is none. OK; FAILED,
 * DENIED, TIMEOUT, INTERRUPTED, NO_MEMORY with REASON. */
enum outcome conn_open(struct conn **opened, const char *path, bool read_only,
		       bool create, const struct limits *limits,
		       struct reason *reason) MUST_CHECK;
void conn_close(struct conn *conn);

/* Makes an empty file a store. Openers that race wait for each other, so one
 * makes it and the others find it made. Returns as conn_open. */
enum outcome conn_make(struct conn *conn, const struct limits *limits,
		       struct reason *reason) MUST_CHECK;

/* Is this a sound store of a format that we read? Returns as conn_open. */
enum outcome conn_check(struct conn *conn, const struct limits *limits,
			struct reason *reason) MUST_CHECK;

/* The base of this boot's clock: fleet time - CLOCK_BOOTTIME. Whoever is first
 * in a boot fixes it in the file, beyond everything that was ever written; all
 * others read it. A read-only connection that is first keeps it to itself.
 * BOOT_ID_PATH: the file that tells one boot from another. Returns as
 * conn_open. */
enum outcome conn_clock(struct conn *conn, const char *boot_id_path,
			const struct limits *limits, int64_t *base_ms,
			struct reason *reason) MUST_CHECK;

/* Makes the names of the store's files survive a power loss. OK, FAILED. */
enum outcome conn_sync_directory(struct conn *conn,
				 struct reason *reason) MUST_CHECK;

/* Prepares the statements. Returns as conn_open. */
enum outcome conn_prepare(struct conn *conn, const struct limits *limits,
			  struct reason *reason) MUST_CHECK;

/* What SQLite's last error means while nothing has been committed, with REASON.
 * CONN is broken if another one might do better. */
enum outcome conn_failure(struct conn *conn, const struct limits *limits,
			  struct reason *reason);

/* Runs a statement that gives no row. SQLITE_OK or the error. */
int conn_run(struct conn *conn, enum conn_statement which);

/* Runs any number of SQL statements. SQLITE_OK or the error. */
int conn_execute(struct conn *conn, const char *sql);

/* The first value that SQL gives, as a number and as text. SQLITE_ROW;
 * SQLITE_DONE if there is none; else the error. */
int conn_query(struct conn *conn, const char *sql, int64_t *number,
	       struct reason *text);

#endif
