#include "store_s3.h"

#include "clock.h"
#include "record.h"
#include "s3_list.h"
#include "s3_wire.h"
#include "timestamp.h"
#include "url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ATTEMPT_HEADER	 "x-amz-meta-celldfs-attempt"
#define PAGE_MAX	 (8 * 1024 * 1024)
#define ERROR_MAX	 (64 * 1024)
#define CONNECTIONS_KEPT 64
#define THROTTLE_MS	 1000 /* CASES: back off at least a second */
#define READ_TRIES_MAX	 4    /* of a read that fails otherwise */
#define READ_BACKOFF_MS	 100

struct store_s3 {
	struct store store; /* first */
	struct s3_wire wire;
	char *prefix; /* "" or "some/where/" */
	bool bare;    /* If-Match without quotes; set while probing only */
};

static struct store_s3 *self(struct store *store)
{
	return (struct store_s3 *)store;
}

static enum outcome full_key(struct store_s3 *s, const char *key,
			     char full[S3_KEY_MAX + 1], struct reason *reason)
{
	int len = snprintf(full, S3_KEY_MAX + 1, "%s%s", s->prefix, key);

	if (len > S3_KEY_MAX)
		return reason_set(reason, OUTCOME_FAILED,
				  "the key is longer than %d bytes",
				  S3_KEY_MAX);
	return OUTCOME_OK;
}

/* ---- what an answer means ---- */

/* How long to wait before the next try: at least a second, or what the store
 * says. */
static int64_t throttle_ms(const struct http_response *response)
{
	const char *after = http_header(response, "retry-after");
	long seconds = after ? strtol(after, NULL, 10) : 0;

	if (seconds > 0 && seconds < 3600 && seconds * 1000 > THROTTLE_MS)
		return seconds * 1000;
	return THROTTLE_MS;
}

/* Statuses that mean the same for every method. */
static enum outcome refusal(int status, const struct s3_error *error)
{
	if (status == 401 || status == 403 || s3_keys_refused(status, error))
		return OUTCOME_DENIED;
	return OUTCOME_FAILED;
}

/* A 404 may be about the bucket, or come from something between that knows no
 * bucket, and then says nothing of the object. */
static bool object_is_missing(int status, const struct s3_error *error)
{
	return status == 404 && error->code[0] &&
	       strcmp(error->code, "NoSuchBucket") != 0;
}

/* "Not done, try again." A 503 is that only in the store's own words: something
 * between may say it, too, when a connection broke after the request was sent.
 */
static bool is_throttled(int status, const struct s3_error *error)
{
	return status == 429 || (status == 503 && error->code[0]);
}

/* What an attempt without an answer is for a read. */
static enum outcome no_answer(const struct http_response *response,
			      enum outcome before)
{
	if (before != OUTCOME_OK)
		return before;
	switch (response->cause) {
	case HTTP_CAUSE_TIMEOUT:
		return OUTCOME_TIMEOUT;
	case HTTP_CAUSE_STOP:
		return OUTCOME_INTERRUPTED;
	case HTTP_CAUSE_TOO_LARGE:
		return OUTCOME_TOO_LARGE;
	case HTTP_CAUSE_NO_MEMORY:
		return OUTCOME_NO_MEMORY;
	case HTTP_CAUSE_NONE:
	case HTTP_CAUSE_FAILED:
		break;
	}
	return OUTCOME_FAILED;
}

/* ---- reads, which may be sent again ---- */

/* Waits before another try. False: there is none, and *OUTCOME says if that is
 * for an interrupt. */
static bool wait_again(const struct limits *limits, int64_t wait_ms,
		       enum outcome *outcome)
{
	enum outcome waited = limits_sleep(limits, clock_boot_ms() + wait_ms);

	if (waited == OUTCOME_INTERRUPTED)
		*outcome = waited;
	return waited == OUTCOME_OK && limits_left_ms(limits) > 0;
}

/* A status is good without the whole body, unless the body is what was asked
 * for. */
static bool has_status(enum http_result result,
		       const struct http_response *response)
{
	return result == HTTP_ANSWERED ||
	       (response->cause == HTTP_CAUSE_TOO_LARGE &&
		response->status != 200);
}

/* Sends a read until it has an answer that is one. OK: RESPONSE is a status
 * below 300, 304 or 404. TOO_LARGE: it is 200. */
static enum outcome read_call(struct store_s3 *s, const struct limits *limits,
			      const struct s3_call *call, size_t body_max,
			      struct http_response *response,
			      struct answer *answer)
{
	struct s3_corrections corrected = {0};
	enum outcome outcome;

	for (unsigned tries = 1;; tries++) {
		struct limits bounds = limits_for_try(limits);
		struct s3_error error;
		int64_t wait_ms = READ_BACKOFF_MS << (tries < 5 ? tries : 5);
		struct s3_signed by = {0};
		enum http_result result;
		int status;

		outcome = limits_check(limits);
		if (outcome != OUTCOME_OK)
			return outcome;
		http_response_release(response);
		http_response_init(response, body_max);
		result = s3_send(&s->wire, &bounds, call, response, answer,
				 &error, &by, &outcome);
		status = response->status;
		if (!has_status(result, response)) {
			outcome = no_answer(response, outcome);
			if (outcome == OUTCOME_TIMEOUT) {
				if (limits_left_ms(limits) > 0)
					continue;
				return outcome;
			}
			if (outcome != OUTCOME_FAILED)
				return outcome;
		} else if (status < 300 || status == 304 ||
			   object_is_missing(status, &error)) {
			return OUTCOME_OK;
		} else if (s3_correct(&s->wire, limits, response, &error, &by,
				      &corrected, &answer->reason)) {
			continue;
		} else if (is_throttled(status, &error)) {
			outcome = OUTCOME_NOT_DONE;
			wait_ms = throttle_ms(response);
		} else {
			outcome = refusal(status, &error);
			if (status < 500)
				return outcome;
		}
		if (limits->urgent) {
			/* whoever is in a hurry has a pace of his own */
			answer->wait_ms =
				outcome == OUTCOME_NOT_DONE ? wait_ms : 0;
			return outcome;
		}
		if ((outcome == OUTCOME_FAILED && tries >= READ_TRIES_MAX) ||
		    !wait_again(limits, wait_ms, &outcome))
			return outcome;
	}
}

static void copy_text(char *to, size_t size, const char *value)
{
	/* what does not fit is none: a cut ETag would be another one */
	if (value && strlen(value) < size)
		memcpy(to, value, strlen(value) + 1);
	else
		to[0] = '\0';
}

static enum outcome take_object(struct object *object,
				struct http_response *response,
				struct answer *answer)
{
	const char *encoding = http_header(response, "content-encoding");
	const char *modified = http_header(response, "last-modified");

	if (response->status != 200)
		return reason_set(&answer->reason, OUTCOME_FAILED,
				  "status %d to a read", response->status);
	if (encoding && *encoding && strcasecmp(encoding, "identity") != 0)
		return reason_set(&answer->reason, OUTCOME_FAILED,
				  "the answer is encoded (%.40s), which was "
				  "not asked for",
				  encoding);
	copy_text(object->etag, sizeof(object->etag),
		  http_header(response, "etag"));
	copy_text(object->attempt.hex, sizeof(object->attempt.hex),
		  http_header(response, ATTEMPT_HEADER));
	if (!timestamp_http(modified, &object->modified_ms))
		object->modified_ms = 0;
	return buf_set(&object->body, response->body.bytes, response->body.len);
}

static enum outcome op_get(struct store *store, const struct limits *limits,
			   const char *key, const char *known,
			   struct object *object, struct answer *answer)
{
	struct sigv4_pair headers[] = {{"If-None-Match", known}};
	char full[S3_KEY_MAX + 1];
	struct s3_call call = {
		.method = "GET",
		.key = full,
		.headers = headers,
		.header_count = known ? 1 : 0,
	};
	struct http_response response;
	enum outcome outcome =
		full_key(self(store), key, full, &answer->reason);

	if (outcome != OUTCOME_OK)
		return outcome;
	http_response_init(&response, RECORD_READ_MAX);
	outcome = read_call(self(store), limits, &call, RECORD_READ_MAX,
			    &response, answer);
	if (outcome == OUTCOME_OK && response.status == 404)
		outcome = OUTCOME_ABSENT;
	else if (outcome == OUTCOME_OK && response.status == 304 && known)
		outcome = OUTCOME_UNCHANGED;
	else if (outcome == OUTCOME_OK)
		outcome = take_object(object, &response, answer);
	http_response_release(&response);
	return outcome;
}

/* ---- the write ---- */

/* What the only request of a put_if() has come to. */
static enum outcome judge_put(struct store_s3 *s, const struct limits *limits,
			      const struct guard *guard,
			      const struct http_response *response,
			      const struct s3_error *error,
			      const struct s3_signed *by, char etag[ETAG_SIZE],
			      struct answer *answer)
{
	struct s3_corrections corrected = {0};
	int status = response->status;

	if (status == 200) {
		copy_text(etag, ETAG_SIZE, http_header(response, "etag"));
		if (etag[0])
			return OUTCOME_OK;
		return reason_set(&answer->reason, OUTCOME_UNKNOWN,
				  "a PUT was answered 200 without an ETag");
	}
	if (status == 412 || status == 304 ||
	    (guard->kind == GUARD_MATCH && object_is_missing(status, error)))
		return OUTCOME_REJECTED;
	if (status == 409 || is_throttled(status, error)) {
		answer->wait_ms = status == 409 ? 0 : throttle_ms(response);
		return OUTCOME_NOT_DONE;
	}
	if (s3_correct(&s->wire, limits, response, error, by, &corrected,
		       &answer->reason)) {
		answer->wait_ms = 1;
		return OUTCOME_NOT_DONE;
	}
	if (status >= 500 || status < 300 || (status == 404 && !error->code[0]))
		return OUTCOME_UNKNOWN;
	return refusal(status, error);
}

static enum outcome op_put_if(struct store *store, const struct limits *limits,
			      const char *key, const char *body, size_t len,
			      const struct guard *guard,
			      const struct attempt *attempt,
			      char etag[ETAG_SIZE], struct answer *answer)
{
	struct store_s3 *s = self(store);
	char value[ETAG_SIZE + 4];
	struct sigv4_pair headers[] = {
		{guard->kind == GUARD_ABSENT ? "If-None-Match" : "If-Match",
		 value},
		{ATTEMPT_HEADER, attempt->hex},
		{"Content-Type", "application/json"},
	};
	char full[S3_KEY_MAX + 1];
	struct s3_call call = {
		.method = "PUT",
		.key = full,
		.headers = headers,
		.header_count = 3,
		.body = body,
		.len = len,
	};
	struct http_response response;
	enum http_result result;
	struct s3_error error;
	struct s3_signed by = {0};
	enum outcome outcome = full_key(s, key, full, &answer->reason);

	if (outcome != OUTCOME_OK)
		return outcome;
	if (guard->kind == GUARD_ABSENT)
		snprintf(value, sizeof(value), "*");
	else
		snprintf(value, sizeof(value), s->bare ? "%s" : "\"%s\"",
			 guard->etag);
	http_response_init(&response, ERROR_MAX);
	result = s3_send(&s->wire, limits, &call, &response, answer, &error,
			 &by, &outcome);
	if (result == HTTP_ANSWERED) {
		outcome = judge_put(s, limits, guard, &response, &error, &by,
				    etag, answer);
	} else if (result == HTTP_UNKNOWN) {
		outcome = OUTCOME_UNKNOWN;
	} else if (outcome == OUTCOME_OK) {
		outcome = no_answer(&response, OUTCOME_OK);
		/* no connection: nothing was sent, and it may come back; but a
		 * page instead of reading on is a refusal */
		if (outcome == OUTCOME_FAILED)
			outcome = OUTCOME_TIMEOUT;
		else if (outcome == OUTCOME_TOO_LARGE)
			outcome = OUTCOME_FAILED;
	}
	http_response_release(&response);
	return outcome;
}

static enum outcome op_remove(struct store *store, const struct limits *limits,
			      const char *key, struct answer *answer)
{
	char full[S3_KEY_MAX + 1];
	struct s3_call call = {.method = "DELETE", .key = full};
	struct http_response response;
	enum outcome outcome =
		full_key(self(store), key, full, &answer->reason);

	if (outcome != OUTCOME_OK)
		return outcome;
	http_response_init(&response, ERROR_MAX);
	/* a probe's own key: sending it twice does no harm */
	outcome = read_call(self(store), limits, &call, ERROR_MAX, &response,
			    answer);
	http_response_release(&response);
	/* nobody wants to read the answer to this */
	return outcome == OUTCOME_TOO_LARGE ? OUTCOME_OK : outcome;
}

static enum outcome op_list(struct store *store, const struct limits *limits,
			    const char *prefix, struct buf *after, list_fn *fn,
			    void *arg, struct answer *answer)
{
	char full[S3_KEY_MAX + 1];
	struct s3_place place;
	struct sigv4_pair query[] = {
		{"list-type", "2"},	  {"delimiter", "/"},
		{"encoding-type", "url"}, {"max-keys", "1000"},
		{"prefix", full},	  {"continuation-token", place.token},
	};
	struct s3_call call = {.method = "GET", .query = query};
	struct http_response response;
	enum outcome outcome =
		full_key(self(store), prefix, full, &answer->reason);

	if (outcome == OUTCOME_OK)
		outcome = s3_place_read(&place, after);
	if (outcome != OUTCOME_OK)
		return outcome;
	call.query_count = place.token[0] ? 6 : 5;
	http_response_init(&response, PAGE_MAX);
	outcome = read_call(self(store), limits, &call, PAGE_MAX, &response,
			    answer);
	if (outcome == OUTCOME_TOO_LARGE)
		outcome = OUTCOME_FAILED;
	if (outcome == OUTCOME_OK && response.status != 200)
		outcome = reason_set(&answer->reason, OUTCOME_FAILED,
				     "status %d to a listing", response.status);
	if (outcome == OUTCOME_OK)
		outcome = s3_list_take(response.body.bytes, response.body.len,
				       full, &place, after, fn, arg,
				       &answer->reason);
	http_response_release(&response);
	return outcome;
}

/* ---- the rest ---- */

static bool known_time(struct store_s3 *s, struct fleet_time *time)
{
	bool known;

	pthread_mutex_lock(&s->wire.lock);
	known = fleet_now(&s->wire.fleet, clock_boot_ms(), time);
	pthread_mutex_unlock(&s->wire.lock);
	return known;
}

static enum outcome op_now(struct store *store, const struct limits *limits,
			   struct fleet_time *time)
{
	struct s3_call call = {.method = "HEAD"};
	struct http_response response;
	struct answer answer = {0};
	enum outcome outcome;

	if (known_time(self(store), time))
		return OUTCOME_OK;
	http_response_init(&response, ERROR_MAX);
	outcome = read_call(self(store), limits, &call, ERROR_MAX, &response,
			    &answer);
	http_response_release(&response);
	if (known_time(self(store), time))
		return OUTCOME_OK;
	return outcome == OUTCOME_OK ? OUTCOME_FAILED : outcome;
}

static bool op_next_dialect(struct store *store)
{
	struct store_s3 *s = self(store);

	if (s->bare)
		return false;
	return s->bare = true;
}

static void op_close(struct store *store)
{
	struct store_s3 *s = self(store);

	explicit_bzero(&s->wire.derived, sizeof(s->wire.derived));
	credentials_free(s->wire.credentials);
	http_pool_free(s->wire.pool);
	pthread_mutex_destroy(&s->wire.lock);
	free(s->wire.bucket);
	free(s->wire.endpoint);
	free(s->prefix);
	free(s);
}

static const struct store_ops ops = {
	.get = op_get,
	.put_if = op_put_if,
	.list = op_list,
	.remove = op_remove,
	.now = op_now,
	.next_dialect = op_next_dialect,
	.close = op_close,
};

static enum outcome check_names(const char *bucket, size_t len,
				const char *prefix, struct reason *reason)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

	if (len < 3 || len > 63)
		return reason_set(reason, OUTCOME_INVALID,
				  "a bucket's name has 3 to 63 bytes");
	for (size_t i = 0; i < len; i++)
		if (!strchr(letters, bucket[i]) && !strchr(".-_", bucket[i]))
			return reason_set(reason, OUTCOME_INVALID,
					  "byte %zu of the bucket's name is "
					  "0x%02x: expected a-z 0-9 . -",
					  i + 1, (unsigned char)bucket[i]);
	for (size_t i = 0; prefix[i]; i++)
		if (!strchr(letters, prefix[i]) && !strchr("-_./", prefix[i]))
			return reason_set(reason, OUTCOME_INVALID,
					  "byte %zu of the prefix is 0x%02x: "
					  "expected A-Z a-z 0-9 - _ . /",
					  i + 1, (unsigned char)prefix[i]);
	return OUTCOME_OK;
}

/* An endpoint is SCHEME://HOST[:PORT], without a path. */
static enum outcome check_endpoint(char *endpoint, bool allow_http,
				   struct reason *reason)
{
	size_t len = strlen(endpoint);
	const char *host = strstr(endpoint, "://");

	while (len > 0 && endpoint[len - 1] == '/')
		endpoint[--len] = '\0';
	if (!host || !host[3] || host[3] == ':' || strchr(host + 3, '/') ||
	    strpbrk(endpoint, "@?# ") ||
	    (strncmp(endpoint, "http://", 7) != 0 &&
	     strncmp(endpoint, "https://", 8) != 0))
		return reason_set(reason, OUTCOME_INVALID,
				  "endpoint '%.100s': expected "
				  "https://HOST[:PORT]",
				  url_shown(endpoint));
	if (strncmp(endpoint, "http://", 7) == 0 && !allow_http &&
	    !url_is_loopback(endpoint))
		return reason_set(reason, OUTCOME_INVALID,
				  "endpoint %.100s: plain http to another "
				  "machine needs -o allow-http",
				  endpoint);
	return OUTCOME_OK;
}

static enum outcome set_site(struct store_s3 *s, bool allow_http,
			     struct reason *reason)
{
	struct site site;
	enum outcome outcome = credentials_site(&site, reason);

	if (outcome != OUTCOME_OK)
		return outcome;
	snprintf(s->wire.region, sizeof(s->wire.region), "%s",
		 site.region[0] ? site.region : "us-east-1");
	if (!site.endpoint[0])
		return OUTCOME_OK;
	outcome = check_endpoint(site.endpoint, allow_http, reason);
	if (outcome != OUTCOME_OK)
		return outcome;
	s->wire.endpoint = strdup(site.endpoint);
	return s->wire.endpoint ? OUTCOME_OK : OUTCOME_NO_MEMORY;
}

static enum outcome set_names(struct store_s3 *s, const char *name,
			      struct reason *reason)
{
	size_t len = strcspn(name, "/");
	const char *prefix = name[len] ? name + len + 1 : "";
	size_t end = strlen(prefix);
	enum outcome outcome = check_names(name, len, prefix, reason);

	if (outcome != OUTCOME_OK)
		return outcome;
	while (end > 0 && prefix[end - 1] == '/')
		end--;
	s->wire.bucket = strndup(name, len);
	if (!s->wire.bucket || asprintf(&s->prefix, "%.*s%s", (int)end, prefix,
					end ? "/" : "") < 0)
		return OUTCOME_NO_MEMORY;
	return OUTCOME_OK;
}

enum outcome store_s3_open(struct store **store, const char *name,
			   const struct store_options *options,
			   const struct limits *limits, struct reason *reason)
{
	struct store_s3 *s = calloc(1, sizeof(*s));
	enum outcome outcome;

	(void)limits; /* nothing is asked */
	if (!s)
		return OUTCOME_NO_MEMORY;
	s->store.ops = &ops;
	pthread_mutex_init(&s->wire.lock, NULL);
	outcome = set_names(s, name, reason);
	if (outcome == OUTCOME_OK)
		outcome = set_site(s, options->allow_http, reason);
	if (outcome == OUTCOME_OK)
		outcome =
			http_pool_new(&s->wire.pool, CONNECTIONS_KEPT, reason);
	if (outcome == OUTCOME_OK)
		outcome = credentials_new(&s->wire.credentials, s->wire.pool,
					  options->allow_http);
	if (outcome == OUTCOME_OK)
		*store = &s->store;
	else
		op_close(&s->store);
	return outcome;
}
