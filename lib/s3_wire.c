#include "s3_wire.h"

#include "clock.h"
#include "log.h"
#include "timestamp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL_MAX		 (8 * 1024)
#define HEADERS_MAX	 (SIGV4_PAIRS_MAX + 4)
#define CLOCK_DIFFERS_MS 60000 /* more than a request takes */

/* Where a request goes. */
struct target {
	char scheme[8];
	char host[320];
	struct buf path;  /* encoded */
	struct buf query; /* canonical */
	struct buf url;
	char region[64];
	int64_t time_ms; /* for the signature */
};

static void target_release(struct target *target)
{
	buf_release(&target->path);
	buf_release(&target->query);
	buf_release(&target->url);
}

/* A bucket's name with a dot has no certificate as a host name. */
static bool virtual_hosted(const struct s3_wire *wire)
{
	return !wire->endpoint && !strchr(wire->bucket, '.');
}

/* The scheme's own port is not sent in Host, so it must not be signed. */
static void drop_own_port(struct target *target)
{
	const char *port = strcmp(target->scheme, "http") == 0 ? ":80" : ":443";
	size_t len = strlen(target->host);
	size_t port_len = strlen(port);

	if (len > port_len && strcmp(target->host + len - port_len, port) == 0)
		target->host[len - port_len] = '\0';
}

static void set_host(const struct s3_wire *wire, struct target *target)
{
	const char *china = strncmp(target->region, "cn-", 3) == 0 ? ".cn" : "";
	const char *after;

	if (wire->endpoint) {
		after = strstr(wire->endpoint, "://");
		snprintf(target->scheme, sizeof(target->scheme), "%.*s",
			 (int)(after - wire->endpoint), wire->endpoint);
		snprintf(target->host, sizeof(target->host), "%s", after + 3);
		drop_own_port(target);
		return;
	}
	snprintf(target->scheme, sizeof(target->scheme), "https");
	snprintf(target->host, sizeof(target->host),
		 "%s%ss3.%s.amazonaws.com%s",
		 virtual_hosted(wire) ? wire->bucket : "",
		 virtual_hosted(wire) ? "." : "", target->region, china);
}

static enum outcome set_path(const struct s3_wire *wire,
			     const struct s3_call *call, struct target *target)
{
	enum outcome outcome = buf_printf(&target->path, "/");

	if (outcome == OUTCOME_OK && !virtual_hosted(wire)) {
		outcome = sigv4_encode_path(&target->path, wire->bucket);
		if (outcome == OUTCOME_OK)
			outcome = buf_printf(&target->path, "/");
	}
	if (outcome == OUTCOME_OK && call->key)
		outcome = sigv4_encode_path(&target->path, call->key);
	/* the paths below are taken as strings */
	if (outcome == OUTCOME_OK)
		outcome = buf_append(&target->path, "", 1);
	return outcome;
}

/* The store's own time as soon as it is known, unless it does not sign by that.
 * Under the lock. */
static int64_t signing_ms(const struct s3_wire *wire)
{
	struct fleet_time now;

	return !wire->by_wall && fleet_now(&wire->fleet, clock_boot_ms(), &now)
		       ? now.earliest_ms
		       : clock_wall_ms();
}

static enum outcome set_target(struct s3_wire *wire, const struct s3_call *call,
			       struct target *target, struct s3_signed *by)
{
	enum outcome outcome;

	memset(target, 0, sizeof(*target));
	buf_init(&target->path, URL_MAX);
	buf_init(&target->query, URL_MAX);
	buf_init(&target->url, 2 * URL_MAX);
	pthread_mutex_lock(&wire->lock);
	memcpy(target->region, wire->region, sizeof(target->region));
	target->time_ms = signing_ms(wire);
	by->clock_turn = wire->clock_turn;
	pthread_mutex_unlock(&wire->lock);
	set_host(wire, target);
	outcome = set_path(wire, call, target);
	if (outcome == OUTCOME_OK)
		outcome = sigv4_encode_query(&target->query, call->query,
					     call->query_count);
	if (outcome == OUTCOME_OK)
		outcome = buf_append(&target->query, "", 1);
	if (outcome == OUTCOME_OK)
		outcome = buf_printf(
			&target->url, "%s://%s%s%s%s", target->scheme,
			target->host, target->path.bytes,
			call->query_count ? "?" : "", target->query.bytes);
	if (outcome == OUTCOME_OK)
		outcome = buf_append(&target->url, "", 1);
	return outcome;
}

/* Beyond these, 1971 and 9998, a time may come to be none that can be signed:
 * then no request would be sent any more, and nothing mend it. */
#define DATE_LEAST_MS INT64_C(31536000000)
#define DATE_MOST_MS  INT64_C(253339228800000)

/* The store's clock is read from every final answer. */
static void take_date(struct s3_wire *wire,
		      const struct http_response *response)
{
	const char *date = http_header(response, "date");
	bool steady = true;
	int64_t date_ms;

	if (!timestamp_http(date, &date_ms) || date_ms < DATE_LEAST_MS ||
	    date_ms > DATE_MOST_MS)
		return;
	pthread_mutex_lock(&wire->lock);
	steady = fleet_sample(&wire->fleet, date_ms, response->sent_ms,
			      response->answered_ms);
	pthread_mutex_unlock(&wire->lock);
	if (!steady)
		log_line(LOG_WARNING,
			 "the store's clock has stepped (it says %s): fleet "
			 "time starts anew",
			 date);
}

static void copy_header(char *to, size_t size,
			const struct http_response *response, const char *name)
{
	const char *value = http_header(response, name);

	snprintf(to, size, "%s", value ? value : "");
}

static void tell(struct answer *answer, const struct http_response *response,
		 enum http_result result, const struct s3_error *error)
{
	answer->status = response->status;
	answer->reason = response->reason;
	if (result != HTTP_ANSWERED)
		return;
	copy_header(answer->request_id, sizeof(answer->request_id), response,
		    "x-amz-request-id");
	if (response->status == 404 && !error->code[0])
		(void)reason_set(&answer->reason, OUTCOME_FAILED,
				 "a 404 that is not in the store's words");
	if (error->code[0])
		reason_set(&answer->reason, OUTCOME_OK, "%s%s%s", error->code,
			   error->message[0] ? ": " : "", error->message);
}

static enum http_result
perform(struct s3_wire *wire, const struct limits *limits,
	const struct s3_call *call, const struct target *target,
	const struct keys *keys, const struct sigv4_signature *signature,
	struct http_response *response)
{
	struct http_header headers[HEADERS_MAX];
	size_t count = 0;
	struct http_request request = {
		.method = call->method,
		.url = target->url.bytes,
		.headers = headers,
		.body = call->body,
		.body_len = call->len,
	};

	for (size_t i = 0; i < call->header_count; i++)
		headers[count++] = (struct http_header){call->headers[i].name,
							call->headers[i].value};
	headers[count++] =
		(struct http_header){"Authorization", signature->authorization};
	headers[count++] = (struct http_header){"x-amz-date", signature->date};
	headers[count++] = (struct http_header){"x-amz-content-sha256",
						signature->content_sha256};
	if (keys->session_token[0])
		headers[count++] = (struct http_header){"x-amz-security-token",
							keys->session_token};
	request.header_count = count;
	return http_perform(wire->pool, limits, &request, response);
}

static enum outcome sign(struct s3_wire *wire, const struct s3_call *call,
			 const struct target *target, const struct keys *keys,
			 struct sigv4_signature *signature)
{
	struct sigv4_request request = {
		.method = call->method,
		.host = target->host,
		.path = target->path.bytes,
		.query = target->query.bytes,
		.headers = call->headers,
		.header_count = call->header_count,
		.body = call->body,
		.body_len = call->len,
	};
	struct sigv4_derived derived = {.scope = ""};
	struct sigv4_keys sigv4_keys = {keys->access_key, keys->secret_key,
					keys->session_token, &derived};
	struct sigv4_scope scope = {target->region, "s3", target->time_ms};
	enum outcome outcome;

	pthread_mutex_lock(&wire->lock);
	if (wire->derived_from == keys->generation)
		derived = wire->derived;
	pthread_mutex_unlock(&wire->lock);
	outcome = sigv4_sign(signature, &request, &sigv4_keys, &scope);
	pthread_mutex_lock(&wire->lock);
	wire->derived = derived;
	wire->derived_from = keys->generation;
	pthread_mutex_unlock(&wire->lock);
	explicit_bzero(&derived, sizeof(derived));
	return outcome;
}

static bool is_code(const struct s3_error *error, const char *code)
{
	return strcmp(error->code, code) == 0;
}

/* Is it refused because the bucket is not in the region that was signed for? */
static bool is_elsewhere(int status, const struct s3_error *error)
{
	return status == 301 || status == 307 ||
	       is_code(error, "AuthorizationHeaderMalformed");
}

static bool is_skewed(int status, const struct s3_error *error)
{
	return status == 403 && is_code(error, "RequestTimeTooSkewed");
}

/* The region and the time that were signed for are taken, if STATUS does not
 * say otherwise. */
static void confirm(struct s3_wire *wire, int status,
		    const struct s3_error *error, const struct s3_signed *by)
{
	pthread_mutex_lock(&wire->lock);
	if (!is_elsewhere(status, error) &&
	    strcmp(wire->region, by->region) == 0)
		wire->redirected = false;
	if (!is_skewed(status, error) && wire->clock_turn == by->clock_turn)
		wire->doubted = false;
	pthread_mutex_unlock(&wire->lock);
}

enum http_result s3_send(struct s3_wire *wire, const struct limits *limits,
			 const struct s3_call *call,
			 struct http_response *response, struct answer *answer,
			 struct s3_error *error, struct s3_signed *by,
			 enum outcome *outcome)
{
	enum http_result result = HTTP_NOT_SENT;
	struct sigv4_signature signature;
	struct target target;
	struct keys keys;

	memset(error, 0, sizeof(*error));
	memset(answer, 0, sizeof(*answer));
	*outcome = credentials_get(wire->credentials, limits, &keys,
				   &answer->reason);
	if (*outcome != OUTCOME_OK) {
		/* a setting that is wrong refuses as a wrong key would */
		if (*outcome == OUTCOME_INVALID)
			*outcome = OUTCOME_DENIED;
		return HTTP_NOT_SENT;
	}
	by->generation = keys.generation;
	*outcome = set_target(wire, call, &target, by);
	by->time_ms = target.time_ms;
	memcpy(by->region, target.region, sizeof(by->region));
	if (*outcome == OUTCOME_OK)
		*outcome = sign(wire, call, &target, &keys, &signature);
	if (*outcome == OUTCOME_OK) {
		result = perform(wire, limits, call, &target, &keys, &signature,
				 response);
		if (response->status)
			take_date(wire, response);
		if (result == HTTP_ANSWERED && response->status >= 300)
			s3_error_parse(error, response->body.bytes,
				       response->body.len);
		if (result == HTTP_ANSWERED)
			confirm(wire, response->status, error, by);
		tell(answer, response, result, error);
	} else {
		(void)reason_set(&answer->reason, *outcome,
				 "the request cannot be signed: %s",
				 outcome_word(*outcome));
		if (*outcome != OUTCOME_NO_MEMORY)
			*outcome = OUTCOME_FAILED;
	}
	keys_wipe(&keys);
	target_release(&target);
	return result;
}

bool s3_keys_refused(int status, const struct s3_error *error)
{
	static const char *const codes[] = {
		"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired",
		"InvalidToken", "InvalidAccessKeyId",
	};

	if (status != 400 && status != 401 && status != 403)
		return false;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (is_code(error, codes[i]))
			return true;
	return false;
}

/* The store names the region that it wants to be signed for. */
static bool correct_region(struct s3_wire *wire,
			   const struct http_response *response,
			   const struct s3_error *error,
			   const struct s3_signed *by,
			   struct s3_corrections *done, struct reason *reason)
{
	const char *region = http_header(response, "x-amz-bucket-region");
	bool changed, in_turn;

	if (!region)
		region = error->region;
	if (!region[0] || strlen(region) >= sizeof(wire->region) ||
	    strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") !=
		    strlen(region) ||
	    strcmp(by->region, region) == 0)
		return false;
	pthread_mutex_lock(&wire->lock);
	/* another call may have learned it first */
	changed = strcmp(wire->region, region) != 0;
	in_turn = done->region || (changed && wire->redirected);
	if (changed)
		wire->redirected = !in_turn;
	memcpy(wire->region, region, strlen(region) + 1);
	pthread_mutex_unlock(&wire->lock);
	if (in_turn) {
		(void)reason_set(reason, OUTCOME_FAILED,
				 "the bucket's region is said to be %s, and "
				 "there to be %s",
				 by->region, region);
		return false;
	}
	if (changed)
		log_line(LOG_NOTICE, "the bucket is in the region %s", region);
	return done->region = true;
}

static bool clock_differs(const struct s3_wire *wire,
			  const struct s3_signed *by)
{
	return llabs(signing_ms(wire) - by->time_ms) > CLOCK_DIFFERS_MS;
}

/* The answer's Date was taken already. */
static bool correct_clock(struct s3_wire *wire, const struct s3_signed *by,
			  struct s3_corrections *done)
{
	bool helps = true;

	pthread_mutex_lock(&wire->lock);
	/* another call may have corrected it meanwhile */
	if (wire->clock_turn == by->clock_turn) {
		wire->clock_turn++;
		if (!clock_differs(wire, by))
			wire->by_wall = !wire->by_wall;
		helps = clock_differs(wire, by) && !wire->doubted;
		wire->doubted = helps;
	}
	pthread_mutex_unlock(&wire->lock);
	if (!helps || done->clock)
		return false;
	return done->clock = true;
}

bool s3_correct(struct s3_wire *wire, const struct limits *limits,
		const struct http_response *response,
		const struct s3_error *error, const struct s3_signed *by,
		struct s3_corrections *done, struct reason *reason)
{
	struct reason unsaid = {""}; /* the store's own word is better */
	int status = response->status;

	if (is_skewed(status, error))
		return correct_clock(wire, by, done);
	if (s3_keys_refused(status, error)) {
		if (done->keys)
			return false;
		done->keys = true;
		return credentials_reload(wire->credentials, limits,
					  by->generation,
					  &unsaid) == OUTCOME_OK;
	}
	return is_elsewhere(status, error) &&
	       correct_region(wire, response, error, by, done, reason);
}
