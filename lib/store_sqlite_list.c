#include "store_sqlite_list.h"

#include <string.h>

/* Where a listing is: the least key that was not looked at yet. This is also
 * the token between pages. One byte more than a key: after the object K comes
 * K + NUL, after the directory D comes D + '0', which is '/' + 1. */
struct place {
	char from[CONN_KEY_MAX + 1];
	int len;
};

/* Reads the next name at PLACE and moves PLACE past it. SQLITE_ROW,
 * SQLITE_DONE or an error. ENTRY's name lives in NAME. */
static int next_name(sqlite3_stmt *next, struct place *place, size_t skip,
		     char name[CONN_KEY_MAX + 1], struct list_entry *entry)
{
	int code;

	/* unbound it would be NULL, and the listing would seem to end */
	code = sqlite3_bind_text(next, 1, place->from, place->len,
				 SQLITE_TRANSIENT);
	if (code == SQLITE_OK)
		code = sqlite3_step(next);
	if (code == SQLITE_ROW && sqlite3_column_text(next, 0) == NULL)
		code = SQLITE_NOMEM;
	if (code == SQLITE_ROW) {
		const unsigned char *key = sqlite3_column_text(next, 0);
		size_t len = (size_t)sqlite3_column_bytes(next, 0);
		char *slash;

		memcpy(place->from, key, len);
		slash = memchr(place->from + skip, '/', len - skip);
		entry->directory = slash != NULL;
		if (slash != NULL)
			len = (size_t)(slash - place->from);
		memcpy(name, place->from + skip, len - skip);
		name[len - skip] = '\0';
		place->from[len] = slash != NULL ? '0' : '\0';
		place->len = (int)len + 1;
		entry->name = name;
		entry->size_bytes =
			slash != NULL ? 0
				      : (uint64_t)sqlite3_column_int64(next, 1);
		entry->modified_ms =
			slash != NULL ? 0 : sqlite3_column_int64(next, 2);
	}
	/* Ends the read: a callback that takes its time holds up nobody. */
	sqlite3_reset(next);
	return code;
}

static enum outcome list_page(struct conn *conn, const struct limits *limits,
			      struct place *place, size_t skip,
			      struct buf *after, list_fn *fn, void *arg,
			      struct reason *reason)
{
	sqlite3_stmt *next = conn->statements[CONN_NEXT];
	char name[CONN_KEY_MAX + 1];
	struct list_entry entry;

	for (int n = 0;; n++) {
		struct place here = *place;
		enum outcome outcome = limits_check(limits);

		if (outcome != OUTCOME_OK)
			return reason_set(reason, outcome,
					  "the listing was cut short");
		switch (next_name(next, place, skip, name, &entry)) {
		case SQLITE_ROW:
			break;
		case SQLITE_DONE:
			buf_clear(after);
			return OUTCOME_OK;
		default:
			return conn_failure(conn, limits, reason);
		}
		if (n == LIST_PAGE_MAX)
			return buf_set(after, here.from, (size_t)here.len);
		outcome = fn(arg, &entry);
		if (outcome != OUTCOME_OK)
			return outcome;
	}
}

enum outcome conn_list(struct conn *conn, const struct limits *limits,
		       const char *prefix, struct buf *after, list_fn *fn,
		       void *arg, struct reason *reason)
{
	sqlite3_stmt *next = conn->statements[CONN_NEXT];
	size_t skip = strlen(prefix);
	char end_key[CONN_KEY_MAX + 1];
	struct place place;
	enum outcome outcome = OUTCOME_NO_MEMORY;

	if (skip == 0 || skip > CONN_KEY_MAX || prefix[skip - 1] != '/')
		return reason_set(reason, OUTCOME_FAILED,
				  "'%s' is no prefix to list", prefix);
	if (after->len > sizeof(place.from) ||
	    (after->len > 0 &&
	     (after->len < skip || memcmp(after->bytes, prefix, skip) != 0)))
		return reason_set(reason, OUTCOME_FAILED,
				  "no place in the listing of %s", prefix);
	place.len = (int)(after->len > 0 ? after->len : skip);
	memcpy(place.from, after->len > 0 ? after->bytes : prefix,
	       (size_t)place.len);
	memcpy(end_key, prefix, skip);
	end_key[skip - 1] = '0';
	if (sqlite3_bind_text(next, 2, end_key, (int)skip, SQLITE_TRANSIENT) ==
		    SQLITE_OK &&
	    sqlite3_bind_int(next, 3, CONN_KEY_MAX) == SQLITE_OK)
		outcome = list_page(conn, limits, &place, skip, after, fn, arg,
				    reason);
	sqlite3_clear_bindings(next);
	return outcome;
}
