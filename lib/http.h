/* http: one attempt, one request, one deadline, interruptible.
 *
 * Invariants:
 * 1. One http_perform() puts at most one request on the wire. libcurl by itself
 *    sends a request again when a reused connection closes before an answer; it
 *    is not let. Redirects are not followed, nothing is negotiated.
 * 2. HTTP_NOT_SENT is said only where the server cannot have got the whole
 *    request: it never began, or the last byte of its body was never handed
 *    out. Whatever else has no whole answer is HTTP_UNKNOWN.
 * 3. Only the final answer counts: the headers of 100, 103 and of a proxy's
 *    CONNECT are not kept, nor trailers.
 * 4. It ends by itself: at the deadline or a stop request (within 0.2 s), also
 *    in the middle of a name lookup, a connect or a TLS handshake.
 * 5. Nothing of a request's headers or body is in a reason.
 *
 * What goes on the wire is HTTP/1.1 with a Content-Length; no Expect, no
 * chunks, no Accept-Encoding, no cookies. TLS is verified. Proxies come from
 * the environment, as libcurl reads it (https_proxy, HTTPS_PROXY, http_proxy,
 * all_proxy, NO_PROXY...); the CA bundle is the first of AWS_CA_BUNDLE,
 * CURL_CA_BUNDLE and SSL_CERT_FILE, else the system's.
 *
 * It does not retry, sign, or judge a status. The process must ignore SIGPIPE:
 * libcurl is told to leave signals alone.
 */
#ifndef CELLDFS_HTTP_H
#define CELLDFS_HTTP_H

#include "buf.h"
#include "outcome.h"
#include "stop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_CONNECT_MS	  3000	      /* lookup, connect and TLS together */
#define HTTP_HEADERS_MAX  (64 * 1024) /* bytes of all headers of one attempt */
#define HTTP_IDLE_AGE_S	  20	      /* an older idle connection is not reused:
				       * servers close them, and a request that
				       * crosses with that is unknown */

/* Connections that are kept for reuse. Any number may be in use at once. */
struct http_pool;

/* Makes a pool that keeps at most IDLE_MAX unused connections. The environment
 * is read here, once. OK; NO_MEMORY; FAILED: libcurl cannot work. */
enum outcome http_pool_new(struct http_pool **pool, unsigned idle_max,
			   struct reason *reason) MUST_CHECK;

/* Closes all connections. No request may be under way. NULL is allowed. */
void http_pool_free(struct http_pool *pool);

struct http_header {
	const char *name;
	const char *value;
};

/* All pointers are the caller's and are used during the call only. */
struct http_request {
	const char *method; /* "GET", "HEAD", "PUT", "POST", "DELETE" */
	const char *url;    /* http or https; path and query are sent as they
			     * are, dots and all; no user or password */
	const struct http_header *headers; /* besides Host, Content-Length */
	size_t header_count;
	const void *body; /* PUT and POST have one, even if it is empty */
	size_t body_len;
	bool direct; /* never through a proxy: what is told to this host must
		      * not be told to another */
};

enum http_result {
	HTTP_ANSWERED, /* a final answer, wholly received */
	HTTP_NOT_SENT, /* the server cannot have got the whole request */
	HTTP_UNKNOWN,  /* sent, and no whole answer */
};

/* What ended an attempt that was not answered. */
enum http_cause {
	HTTP_CAUSE_NONE,      /* it was answered */
	HTTP_CAUSE_TIMEOUT,   /* the deadline, or the limit for connecting */
	HTTP_CAUSE_STOP,      /* the stop request */
	HTTP_CAUSE_TOO_LARGE, /* the body, beyond the cap: the status and the
			       * headers are whole */
	HTTP_CAUSE_FAILED,    /* the network, TLS, the peer, headers beyond
			       * the cap */
	HTTP_CAUSE_NO_MEMORY, /* here; the peer may be well */
};

struct http_response {
	int status;	 /* of the final answer; 0 = none came. It can be set
			  * although the result is HTTP_UNKNOWN */
	struct buf body; /* with the caller's cap */
	enum http_cause cause;
	struct reason reason; /* "" if answered */

	/* CLOCK_BOOTTIME, for judging the Date header (PROTOCOL "Fleet time"):
	 * before the request was sent, after the final status line came. */
	int64_t sent_ms;
	int64_t answered_ms;

	struct buf headers; /* see http_header() */
};

/* Makes RESPONSE empty; its body may grow to BODY_MAX bytes. */
void http_response_init(struct http_response *response, size_t body_max);

/* Wipes and frees what RESPONSE holds. */
void http_response_release(struct http_response *response);

/* The value of the first header NAME (in any case), without white space around
 * it; NULL if there is none. It lives until the response is used again. */
const char *http_header(const struct http_response *response, const char *name);

/* Makes one attempt within LIMITS, on an idle connection if there is one.
 * RESPONSE is initialised; what it held is dropped. From any thread. */
enum http_result http_perform(struct http_pool *pool,
			      const struct limits *limits,
			      const struct http_request *request,
			      struct http_response *response) MUST_CHECK;

#endif
