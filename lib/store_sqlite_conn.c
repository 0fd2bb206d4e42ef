#include "store_sqlite_conn.h"

#include "clock.h"
#include "turnstile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APPLICATION_ID 0x636c6466 /* "cldf", in the header's bytes 68 to 71 */
#define FORMAT	       1 /* user_version, in the header's bytes 60 to 63 */

#define BUSY_WAIT_MS	 2    /* between two tries against a foreign lock */
#define PROGRESS_OPCODES 1000 /* between two looks at the limits */

static const char schema_sql[] =
	"CREATE TABLE record (key TEXT PRIMARY KEY, body BLOB NOT NULL, "
	"etag TEXT NOT NULL, attempt TEXT NOT NULL, "
	"modified_ms INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE clock (boot_id TEXT PRIMARY KEY, base_ms INTEGER);";

static const char *const statement_sql[CONN_STATEMENTS] = {
	[CONN_BEGIN] = "BEGIN IMMEDIATE",
	[CONN_COMMIT] = "COMMIT",
	[CONN_ROLLBACK] = "ROLLBACK",
	[CONN_GET] = "SELECT etag, attempt, modified_ms, length(body), body "
		     "FROM record WHERE key = ?1",
	[CONN_ETAG] = "SELECT etag FROM record WHERE key = ?1",
	[CONN_PUT] =
		"INSERT INTO record (key, body, etag, attempt, modified_ms) "
		"VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (key) DO UPDATE SET "
		"body = ?2, etag = ?3, attempt = ?4, modified_ms = ?5",
	/* ?3: another program may have put a key there that is too long for a
	 * page token. */
	[CONN_NEXT] =
		"SELECT key, length(body), modified_ms FROM record "
		"WHERE key >= ?1 AND key < ?2 "
		"AND length(CAST(key AS BLOB)) <= ?3 ORDER BY key LIMIT 1",
	[CONN_REMOVE] = "DELETE FROM record WHERE key = ?1",
};

/* SQLite met the lock of a program that does not queue, or of a checkpoint. */
static int wait_busy(void *arg, int tries)
{
	struct conn *conn = arg;

	(void)tries;
	return conn->limits != NULL &&
	       limits_sleep(conn->limits, clock_boot_ms() + BUSY_WAIT_MS) ==
		       OUTCOME_OK;
}

/* Ends a long statement when its limits do. */
static int check_progress(void *arg)
{
	struct conn *conn = arg;

	return conn->limits != NULL && limits_check(conn->limits) != OUTCOME_OK;
}

enum outcome conn_failure(struct conn *conn, const struct limits *limits,
			  struct reason *reason)
{
	int code = sqlite3_errcode(conn->db) & 0xff;
	int error = code == SQLITE_CANTOPEN || code == SQLITE_IOERR
			    ? sqlite3_system_errno(conn->db)
			    : 0;
	bool refused = error == EACCES || error == EPERM || error == EROFS;
	enum outcome outcome = OUTCOME_FAILED;
	const char *hint = "";

	switch (code) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_PROTOCOL:
	case SQLITE_INTERRUPT:
		outcome = limits_check(limits);
		if (outcome == OUTCOME_OK)
			outcome = OUTCOME_TIMEOUT;
		return reason_set(reason, outcome, "%s: %s", conn->path,
				  outcome == OUTCOME_INTERRUPTED
					  ? "interrupted"
					  : "locked or busy until the "
					    "deadline");
	case SQLITE_NOMEM:
		outcome = OUTCOME_NO_MEMORY;
		break;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		hint = "it is damaged: ";
		break;
	case SQLITE_PERM:
	case SQLITE_READONLY:
		refused = true;
		break;
	default:
		break;
	}
	if (refused)
		outcome = OUTCOME_DENIED;
	if (refused && conn->turnstile < 0)
		hint = "a reader needs its -wal and -shm files, or permission "
		       "to make them: ";
	/* On a full disk a new connection could not even be opened. */
	conn->broken = code != SQLITE_FULL && code != SQLITE_IOERR;
	return reason_set(reason, outcome, "%s: %s%s%s%s", conn->path, hint,
			  sqlite3_errmsg(conn->db), error != 0 ? ": " : "",
			  error != 0 ? strerror(error) : "");
}

int conn_execute(struct conn *conn, const char *sql)
{
	return sqlite3_exec(conn->db, sql, NULL, NULL, NULL);
}

int conn_query(struct conn *conn, const char *sql, int64_t *number,
	       struct reason *text)
{
	sqlite3_stmt *statement;
	int code = sqlite3_prepare_v2(conn->db, sql, -1, &statement, NULL);

	if (code != SQLITE_OK)
		return code;
	code = sqlite3_step(statement);
	if (code == SQLITE_ROW) {
		*number = sqlite3_column_int64(statement, 0);
		(void)reason_set(
			text, OUTCOME_OK, "%s",
			(const char *)sqlite3_column_text(statement, 0));
	}
	sqlite3_finalize(statement);
	return code;
}

int conn_run(struct conn *conn, enum conn_statement which)
{
	sqlite3_stmt *statement = conn->statements[which];

	(void)sqlite3_step(statement);
	return sqlite3_reset(statement);
}

/* Is the file ours, so that SQLite may touch it? Read through SQLite's own
 * descriptor: closing one of ours would drop the locks that other connections
 * of this process have on the file. Changes nothing. A header that is all zero
 * (an empty file, or a creation that was cut) is left to SQLite. */
static enum outcome check_header(struct conn *conn, struct reason *reason)
{
	static const unsigned char zero[16];
	unsigned char head[100] = {0};
	sqlite3_file *file = NULL;
	unsigned id, format;
	int code;

	sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_FILE_POINTER,
			     &file);
	code = file->pMethods->xRead(file, head, sizeof(head), 0);
	if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ)
		return reason_set(reason, OUTCOME_FAILED,
				  "%s cannot be read: %s", conn->path,
				  sqlite3_errstr(code));
	if (memcmp(head, zero, sizeof(zero)) == 0)
		return OUTCOME_OK;
	if (memcmp(head, "SQLite format 3", 16) != 0)
		return reason_set(reason, OUTCOME_FAILED,
				  "%s is damaged, or not a celldfs store: "
				  "it is not an SQLite file",
				  conn->path);
	id = (unsigned)head[68] << 24 | (unsigned)head[69] << 16 |
	     (unsigned)head[70] << 8 | head[71];
	if (id != APPLICATION_ID)
		return reason_set(reason, OUTCOME_FAILED,
				  "%s is not a celldfs store: it is another "
				  "program's SQLite file",
				  conn->path);
	format = (unsigned)head[60] << 24 | (unsigned)head[61] << 16 |
		 (unsigned)head[62] << 8 | head[63];
	if (format > FORMAT)
		return reason_set(reason, OUTCOME_FAILED,
				  "%s was made by a newer celldfs (format %u; "
				  "this one reads %d)",
				  conn->path, format, FORMAT);
	return OUTCOME_OK;
}

void conn_close(struct conn *conn)
{
	for (int i = 0; i < CONN_STATEMENTS; i++)
		sqlite3_finalize(conn->statements[i]);
	sqlite3_close(conn->db);
	if (conn->turnstile >= 0)
		close(conn->turnstile);
	free(conn);
}

static void set_options(struct conn *conn)
{
	sqlite3_extended_result_codes(conn->db, 1);
	sqlite3_busy_handler(conn->db, wait_busy, conn);
	sqlite3_progress_handler(conn->db, PROGRESS_OPCODES, check_progress,
				 conn);
	sqlite3_db_config(conn->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(conn->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(conn->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_db_config(conn->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	/* Until conn_prepare(): a store that is refused stays as it is. */
	sqlite3_db_config(conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

/* Whoever can read the file can hold locks on it and its side files, which get
 * its mode, and keep all writers waiting: a new one is its owner's alone. Only
 * O_EXCL may touch it: to close another's drops the locks of this process. */
static void create_private(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd >= 0)
		close(fd);
}

enum outcome conn_open(struct conn **opened, const char *path, bool read_only,
		       bool create, const struct limits *limits,
		       struct reason *reason)
{
	struct conn *conn = calloc(1, sizeof(*conn));
	enum outcome outcome = OUTCOME_OK;
	int flags = SQLITE_OPEN_NOMUTEX |
		    (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) |
		    (create && !read_only ? SQLITE_OPEN_CREATE : 0);

	if (conn == NULL)
		return OUTCOME_NO_MEMORY;
	conn->path = path;
	conn->turnstile = -1;
	conn->limits = limits;
	if (flags & SQLITE_OPEN_CREATE)
		create_private(path);
	if (sqlite3_open_v2(path, &conn->db, flags, NULL) != SQLITE_OK) {
		outcome = conn_failure(conn, limits, reason);
		goto out;
	}
	set_options(conn);
	outcome = check_header(conn, reason);
	if (outcome != OUTCOME_OK)
		goto out;
	if (!read_only && sqlite3_db_readonly(conn->db, "main") == 1)
		outcome = reason_set(reason, OUTCOME_DENIED,
				     "%s: no permission to write it", path);
	else if (conn_execute(conn, "PRAGMA synchronous = FULL;"
				    "PRAGMA cache_size = -256;"
				    "PRAGMA mmap_size = 0;"
				    "PRAGMA cell_size_check = ON;"
				    "PRAGMA journal_size_limit = 4194304") !=
		 SQLITE_OK)
		outcome = conn_failure(conn, limits, reason);
	else if (!read_only) /* by its real name, whatever link led here */
		outcome = turnstile_open(&conn->turnstile,
					 sqlite3_db_filename(conn->db, "main"),
					 reason);
out:
	if (outcome == OUTCOME_OK)
		*opened = conn;
	else
		conn_close(conn);
	return outcome;
}

enum outcome conn_prepare(struct conn *conn, const struct limits *limits,
			  struct reason *reason)
{
	for (int i = 0; i < CONN_STATEMENTS; i++)
		if (sqlite3_prepare_v3(conn->db, statement_sql[i], -1,
				       SQLITE_PREPARE_PERSISTENT,
				       &conn->statements[i], NULL) != SQLITE_OK)
			return conn_failure(conn, limits, reason);
	sqlite3_db_config(conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
	return OUTCOME_OK;
}

/* Makes an empty file a store, in WAL mode. The tables come first, so that the
 * application id is in the file itself, not only in its log, and check_header()
 * sees it whenever the file has a header at all. Openers wait for each other
 * at the turnstile, so one makes it and the others find it made. */
enum outcome conn_make(struct conn *conn, const struct limits *limits,
		       struct reason *reason)
{
	enum outcome outcome = turnstile_enter(conn->turnstile, limits, reason);
	struct reason text;
	int64_t pages = 0;
	char sql[600];
	int code;

	if (outcome != OUTCOME_OK)
		return outcome;
	code = conn_query(conn, "PRAGMA page_count", &pages, &text);
	if (code == SQLITE_ROW && pages == 0) {
		snprintf(sql, sizeof(sql),
			 "BEGIN IMMEDIATE; PRAGMA application_id = %d;"
			 "PRAGMA user_version = %d; %s COMMIT",
			 APPLICATION_ID, FORMAT, schema_sql);
		code = conn_execute(conn, sql);
	}
	if (code == SQLITE_ROW || code == SQLITE_OK)
		code = conn_query(conn, "PRAGMA journal_mode = WAL", &pages,
				  &text);
	if (code != SQLITE_ROW)
		outcome = conn_failure(conn, limits, reason);
	else if (strcmp(text.text, "wal") != 0)
		outcome = reason_set(reason, OUTCOME_FAILED,
				     "%s: SQLite cannot keep a write-ahead log "
				     "on this filesystem",
				     conn->path);
	turnstile_leave(conn->turnstile);
	return outcome;
}

/* What only SQLite can see of a file with our header. */
enum outcome conn_check(struct conn *conn, const struct limits *limits,
			struct reason *reason)
{
	int64_t format = 0;
	struct reason text;

	if (conn_query(conn, "PRAGMA user_version", &format, &text) !=
	    SQLITE_ROW)
		return conn_failure(conn, limits, reason);
	if (format > FORMAT)
		return reason_set(reason, OUTCOME_FAILED,
				  "%s was made by a newer celldfs (format "
				  "%lld; this one reads %d)",
				  conn->path, (long long)format, FORMAT);
	if (conn_query(conn, "PRAGMA quick_check(1)", &format, &text) !=
	    SQLITE_ROW)
		return conn_failure(conn, limits, reason);
	if (strcmp(text.text, "ok") != 0)
		return reason_set(reason, OUTCOME_FAILED, "%s is damaged: %s",
				  conn->path, text.text);
	return OUTCOME_OK;
}

static enum outcome read_boot_id(char id[64], const char *path,
				 struct reason *reason)
{
	FILE *file = fopen(path, "re");
	bool read = file != NULL && fgets(id, 64, file) != NULL;

	if (file != NULL)
		fclose(file);
	if (!read)
		return reason_set(reason, OUTCOME_FAILED,
				  "%s, which tells one boot from another, "
				  "cannot be read",
				  path);
	id[strcspn(id, "\n")] = '\0';
	return OUTCOME_OK;
}

enum outcome conn_clock(struct conn *conn, const char *boot_id_path,
			const struct limits *limits, int64_t *base_ms,
			struct reason *reason)
{
	char id[64], find[200], make_base[200], sql[500];
	struct reason text;
	enum outcome outcome = read_boot_id(id, boot_id_path, reason);
	int code;

	if (outcome != OUTCOME_OK)
		return outcome;
	sqlite3_snprintf(sizeof(find), find,
			 "SELECT base_ms FROM clock WHERE boot_id = %Q", id);
	snprintf(make_base, sizeof(make_base),
		 "max(%lld, coalesce(max(modified_ms), 0) + 1) - %lld "
		 "FROM record",
		 (long long)clock_wall_ms(), (long long)clock_boot_ms());
	code = conn_query(conn, find, base_ms, &text);
	if (code == SQLITE_DONE && conn->turnstile < 0) {
		sqlite3_snprintf(sizeof(sql), sql, "SELECT %s", make_base);
		code = conn_query(conn, sql, base_ms, &text);
	} else if (code == SQLITE_DONE) {
		outcome = turnstile_enter(conn->turnstile, limits, reason);
		if (outcome != OUTCOME_OK)
			return outcome;
		sqlite3_snprintf(sizeof(sql), sql,
				 "BEGIN IMMEDIATE; INSERT OR IGNORE INTO clock "
				 "(boot_id, base_ms) SELECT %Q, %s; COMMIT",
				 id, make_base);
		code = conn_execute(conn, sql);
		turnstile_leave(conn->turnstile);
		if (code == SQLITE_OK)
			code = conn_query(conn, find, base_ms, &text);
	}
	return code == SQLITE_ROW ? OUTCOME_OK
				  : conn_failure(conn, limits, reason);
}

enum outcome conn_sync_directory(struct conn *conn, struct reason *reason)
{
	const char *path = sqlite3_db_filename(conn->db, "main");
	const char *slash = strrchr(path, '/');
	char *dir = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	int fd = dir != NULL ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
			     : -1;
	bool synced = fd >= 0 && fsync(fd) == 0;
	int error = errno;

	if (fd >= 0)
		close(fd);
	free(dir);
	/* A directory that one may not read cannot be synced by us. */
	if (synced || error == EACCES || error == EINVAL)
		return OUTCOME_OK;
	return reason_set(reason, OUTCOME_FAILED,
			  "the directory of %s cannot be synced: %s",
			  conn->path, strerror(error));
}
