/* credentials_source: the sources behind credentials.h, one function each.
 * For credentials*.c alone.
 *
 * Each fills KEYS, which is zeroed before, and returns OK; ABSENT if it is not
 * configured here; else as credentials_get(), with REASON. KEYS need not be
 * wiped by a source that fails: its caller does.
 */
#ifndef CELLDFS_CREDENTIALS_SOURCE_H
#define CELLDFS_CREDENTIALS_SOURCE_H

#include "credentials.h"
#include "credentials_profile.h"
#include "json.h"

#define SECRET_FILE_MAX (1024 * 1024) /* bytes of any file that is read */
#define SOURCE_BODY_MAX (64 * 1024)   /* bytes of an endpoint's answer */

/* The value of the environment's NAME; NULL if it is unset or empty. */
const char *source_env(const char *name);

/* Copies TEXT to OUT of SIZE bytes. False: it is too long, or has a control
 * byte or a space (which a header cannot carry). */
bool source_copy(char *out, size_t size, const char *text);

/* A secret, with a NUL at the end, of which all SIZE bytes will be wiped. */
struct source_text {
	char *bytes; /* owned; NULL = there is none */
	size_t size;
};

/* Reads the file PATH whole; /dev/null is an empty one. On success TEXT is to be
 * released. OK; ABSENT: there is no such file; DENIED: not readable; INVALID:
 * not a plain file, too large, a NUL in it; NO_MEMORY. */
enum outcome source_read_file(struct source_text *text, const char *path,
			      struct reason *reason) MUST_CHECK;

/* A copy of VALUE. OK, NO_MEMORY. */
enum outcome source_copy_text(struct source_text *text,
			      const char *value) MUST_CHECK;
void source_text_release(struct source_text *text);

/* Makes room for SIZE bytes in the empty BUF, so that what is appended does not
 * move, and wiping the buffer wipes all of it. As buf_append. */
enum outcome source_reserve(struct buf *buf, size_t size) MUST_CHECK;

/* The outcome of an attempt that was not answered by a 2xx; WHO for people. */
enum outcome source_failure(enum http_result result,
			    const struct http_response *response,
			    const char *who, struct reason *reason) MUST_CHECK;

/* What any endpoint gives, as text. */
struct source_answer {
	char access_key[KEYS_KEY_SIZE];
	char secret_key[KEYS_KEY_SIZE];
	char session_token[KEYS_TOKEN_SIZE];
	char expiration[64]; /* ISO 8601; "" = never */
};

/* Makes KEYS of ANSWER, which came with RESPONSE. OK; FAILED: incomplete, or no
 * time; DENIED: they have expired already. */
enum outcome source_accept(struct keys *keys,
			   const struct source_answer *answer,
			   const struct http_response *response,
			   const char *who, struct reason *reason) MUST_CHECK;

/* AWS_ROLE_ARN and the like, or a profile's. */
struct web_identity {
	const char *token_file;
	const char *role_arn;
	const char *session_name; /* NULL: one is made up */
	const char *region;	  /* "": STS's global endpoint */
};

enum outcome source_web_identity(struct keys *keys, struct http_pool *pool,
				 const struct limits *limits,
				 const struct web_identity *identity,
				 bool allow_http,
				 struct reason *reason) MUST_CHECK;

enum outcome source_container(struct keys *keys, struct http_pool *pool,
			      const struct limits *limits,
			      struct reason *reason) MUST_CHECK;

enum outcome source_instance(struct keys *keys, struct http_pool *pool,
			     const struct limits *limits,
			     struct reason *reason) MUST_CHECK;

#endif
