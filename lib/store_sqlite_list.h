/* store_sqlite_list: one page of a listing of the embedded store. For
 * store_sqlite.c alone.
 */
#ifndef CELLDFS_STORE_SQLITE_LIST_H
#define CELLDFS_STORE_SQLITE_LIST_H

#include "store.h"
#include "store_sqlite_conn.h"

/* A page as store.h's list() hands it out. Keys of a directory's contents are
 * leapt over, not walked through. Returns as list(). */
enum outcome conn_list(struct conn *conn, const struct limits *limits,
		       const char *prefix, struct buf *after, list_fn *fn,
		       void *arg, struct reason *reason) MUST_CHECK;

#endif
