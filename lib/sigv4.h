/* sigv4: AWS Signature Version 4 for one request, in its headers.
 *
 * Pure: no I/O, no clock; the time is an argument. Reentrant.
 * Source: Amazon S3 API Reference, "Authenticating Requests: Using the
 * Authorization Header (AWS Signature Version 4)".
 *
 * Invariants:
 * 1. What is signed is what goes on the wire: path and query are taken encoded,
 *    as the caller will send them, and are not touched. S3 encodes once; other
 *    services want a path that is encoded twice, which the caller would do.
 * 2. The hash in the signature is the body's own, never UNSIGNED-PAYLOAD.
 * 3. No secret is in any result but the signature's own digest and what the caller
 *    keeps as sigv4_keys.derived; no copy of one is left in memory that was freed.
 *
 * It does not sign query strings (presigned URLs) or chunked uploads.
 */
#ifndef CELLDFS_SIGV4_H
#define CELLDFS_SIGV4_H

#include "buf.h"
#include "outcome.h"

#include <stddef.h>
#include <stdint.h>

#define SIGV4_DATE_SIZE		 17 /* 20130524T000000Z */
#define SIGV4_HASH_SIZE		 65 /* SHA-256 in lower-case hex */
#define SIGV4_HASH_BYTES	 32
#define SIGV4_SCOPE_SIZE	 256
#define SIGV4_AUTHORIZATION_SIZE 1024
#define SIGV4_PAIRS_MAX		 16 /* query pairs, or headers to sign */
#define SIGV4_NAME_SIZE		 64 /* a header's name */

struct sigv4_pair {
	const char *name;
	const char *value;
};

/* A secret key, hashed down to one day, region and service: four of the five steps
 * of a signature, the same for all that day. As secret as the key, for that day;
 * who keeps it wipes it. */
struct sigv4_derived {
	char scope[SIGV4_SCOPE_SIZE]; /* "": there is none yet */
	unsigned char key[SIGV4_HASH_BYTES];
};

struct sigv4_keys {
	const char *access_key;
	const char *secret_key;
	const char *session_token; /* NULL or "": there is none */

	/* Of this secret key: used if it is for the same scope, else made anew
	 * and left there. NULL: nothing is kept. */
	struct sigv4_derived *derived;
};

struct sigv4_scope {
	const char *region;
	const char *service; /* "s3" */
	int64_t time_ms;     /* since 1970: what the server takes for now */
};

struct sigv4_request {
	const char *method; /* in upper case */
	const char *host;   /* as in the Host header: with the port, unless it
			     * is the scheme's own */
	const char *path;   /* encoded; begins with "/" */
	const char *query;  /* encoded and sorted, without "?"; "" or NULL */

	/* Further headers to sign, in any order and case. Host and those in
	 * the signature are signed anyhow and must not be among them. Content-
	 * Type, if it is sent, and every x-amz-* must be. */
	const struct sigv4_pair *headers;
	size_t header_count;

	const void *body; /* NULL: there is none */
	size_t body_len;
};

/* The values of the headers to send. With a session token one more must be
 * sent: x-amz-security-token, the token as it is. */
struct sigv4_signature {
	char authorization[SIGV4_AUTHORIZATION_SIZE]; /* Authorization */
	char date[SIGV4_DATE_SIZE];		      /* x-amz-date */

	/* x-amz-content-sha256. Signed, and to be sent, for the service "s3"
	 * alone: it is S3's own rule. */
	char content_sha256[SIGV4_HASH_SIZE];
};

/* Signs REQUEST with KEYS for SCOPE. No pointer of the arguments is kept. OK;
 * INVALID: no key, a time that has no four-digit year, too many headers or one
 * twice, a control byte where none can be; TOO_LARGE: SIGNATURE cannot hold
 * it; FAILED: OpenSSL has no SHA-256. */
enum outcome sigv4_sign(struct sigv4_signature *signature,
			const struct sigv4_request *request,
			const struct sigv4_keys *keys,
			const struct sigv4_scope *scope) MUST_CHECK;

/* Appends TEXT to OUT, every byte but A-Z a-z 0-9 - . _ ~ as %XX in upper case
 * (RFC 3986, section 2.3; what AWS calls UriEncode). As buf_append. */
enum outcome sigv4_encode(struct buf *out, const char *text) MUST_CHECK;

/* As sigv4_encode, but "/" stays: for a path. Encodes once, as S3 wants it. */
enum outcome sigv4_encode_path(struct buf *out, const char *path) MUST_CHECK;

/* Appends the canonical query of COUNT raw pairs to OUT: encoded, sorted by
 * name and then value, "name=" for an empty value. The same string is sent and
 * signed. OK; INVALID: more than SIGV4_PAIRS_MAX; else as buf_append. */
enum outcome sigv4_encode_query(struct buf *out, const struct sigv4_pair *pairs,
				size_t count) MUST_CHECK;

#endif
