/* http_pool: the connections behind http.h. For http*.c alone.
 */
#ifndef CELLDFS_HTTP_POOL_H
#define CELLDFS_HTTP_POOL_H

#include "http.h"

#include <curl/curl.h>

/* One connection: an easy handle inside a multi handle of its own, which can be
 * waited for and woken, and which keeps one connection open. */
struct connection {
	struct connection *next; /* in the pool's stack of idle ones */
	CURL *easy;
	CURLM *multi;
};

/* The connection that was used last, or a new one, which is not open yet. NULL:
 * out of memory. It is the caller's until it is given back. */
struct connection *connection_take(struct http_pool *pool);

/* Makes the easy handle one without options; the connection and the DNS cache
 * stay. False: out of memory. */
bool connection_reset(struct connection *connection);

/* Keeps CONNECTION for reuse, or closes it if there are enough. */
void connection_give_back(struct http_pool *pool,
			  struct connection *connection);

/* A connection that was reused has broken: for two seconds none is, so that a
 * write that is sent again does not meet the same. */
void connection_distrust(struct http_pool *pool);

/* The file of the CA certificates that the environment names; NULL: the
 * system's. The pool's. */
const char *connection_ca_bundle(const struct http_pool *pool);

#endif
