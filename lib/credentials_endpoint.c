/* The two sources that answer with JSON: the container's endpoint and the
 * instance's metadata.
 */
#include "credentials_source.h"

#include "clock.h"
#include "url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define URL_SIZE  2048
#define NAME_SIZE 256

/* Where there is no such endpoint, nothing answers at all: this long per
 * request (the AWS tools wait 1 s). */
#define INSTANCE_REQUEST_MS 1000

/* --- JSON ----------------------------------------------------------------- */

/* The text of a string's escape at *AT, which is in ASCII: -1 if not. */
static int unescape(const char **at)
{
	static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
	char digits[5] = "";
	const char *found;

	if ((*at)[1] == 'u') {
		memcpy(digits, *at + 2, 4);
		*at += 6;
		return strtol(digits, NULL, 16) < 0x80
			       ? (int)strtol(digits, NULL, 16)
			       : -1;
	}
	found = strchr(escapes, (*at)[1]);
	*at += 2;
	return found != NULL ? found[1] : -1;
}

/* Decodes the string VALUE. False: it is none, too long, or not ASCII. */
static bool decode(char *out, size_t size, struct json_text value)
{
	const char *at = value.bytes + 1, *end = value.bytes + value.len - 1;
	size_t len = 0;

	if (json_kind(value) != JSON_STRING)
		return false;
	while (at < end) {
		int c = *at == '\\' ? unescape(&at) : (unsigned char)*at++;

		if (c < 0 || c >= 0x80 || len + 1 >= size)
			return false;
		out[len++] = (char)c;
	}
	out[len] = '\0';
	return true;
}

/* Takes the known members of an object; of two with one name the last counts.
 */
static bool take_members(struct source_answer *answer, struct json_text object)
{
	struct json_cursor cursor = json_members(object);
	struct json_member member;
	const struct {
		const char *name;
		char *out;
		size_t size;
	} known[] = {
		{"AccessKeyId", answer->access_key, sizeof(answer->access_key)},
		{"SecretAccessKey", answer->secret_key,
		 sizeof(answer->secret_key)},
		{"Token", answer->session_token, sizeof(answer->session_token)},
		{"Expiration", answer->expiration, sizeof(answer->expiration)},
	};

	while (json_next(&cursor, &member))
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			if (json_match_key(member.key, known[i].name) ==
				    JSON_MATCH_YES &&
			    json_kind(member.value) != JSON_NULL &&
			    !decode(known[i].out, known[i].size, member.value))
				return false;
	return true;
}

static enum outcome take_json(struct keys *keys,
			      const struct http_response *response,
			      const char *who, struct reason *reason)
{
	struct json_text text = {response->body.bytes, response->body.len};
	struct source_answer answer = {.access_key = ""};
	struct json_text object;
	struct json_error error;
	enum outcome outcome;

	if (!json_check(text, 8, &object, &error) ||
	    json_kind(object) != JSON_OBJECT || !take_members(&answer, object))
		outcome = reason_set(reason, OUTCOME_FAILED,
				     "the answer of %s is not the JSON that "
				     "was expected",
				     who);
	else
		outcome = source_accept(keys, &answer, response, who, reason);
	explicit_bzero(&answer, sizeof(answer));
	return outcome;
}

/* --- The container -------------------------------------------------------- */

static const char container[] = "the container's endpoint";

/* Plain http is for this machine and for the addresses of ECS and EKS. */
static bool container_url_is_safe(const char *url)
{
	static const char *const hosts[] = {"169.254.170.2", "169.254.170.23",
					    "[fd00:ec2::23]", NULL};

	if (strncasecmp(url, "https://", 8) == 0)
		return true;
	return strncasecmp(url, "http://", 7) == 0 &&
	       (url_is_loopback(url) || url_host_is(url, hosts));
}

static enum outcome container_url(char url[URL_SIZE], struct reason *reason)
{
	const char *relative =
		source_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *full = source_env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	int len;

	if (relative == NULL && full == NULL)
		return OUTCOME_ABSENT;
	if (relative != NULL && relative[0] != '/')
		return reason_set(reason, OUTCOME_INVALID,
				  "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does "
				  "not begin with '/'");
	len = relative != NULL ? snprintf(url, URL_SIZE,
					  "http://169.254.170.2%s", relative)
			       : snprintf(url, URL_SIZE, "%s", full);
	if (len < 0 || len >= URL_SIZE)
		return reason_set(reason, OUTCOME_INVALID,
				  "the URL of %s is too long", container);
	if (!container_url_is_safe(url))
		return reason_set(reason, OUTCOME_INVALID,
				  "AWS_CONTAINER_CREDENTIALS_FULL_URI is "
				  "neither https nor a host that may be asked "
				  "in plain text");
	return OUTCOME_OK;
}

/* TOKEN stays empty if there is none. The file is read each time: it is
 * rotated. */
static enum outcome container_token(struct source_text *token,
				    struct reason *reason)
{
	const char *path = source_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	const char *value = source_env("AWS_CONTAINER_AUTHORIZATION_TOKEN");
	enum outcome outcome = OUTCOME_OK;

	if (path != NULL)
		outcome = source_read_file(token, path, reason);
	else if (value != NULL)
		outcome = source_copy_text(token, value);
	/* Configured, and not there. */
	if (outcome == OUTCOME_ABSENT)
		return OUTCOME_DENIED;
	if (outcome == OUTCOME_OK && token->bytes != NULL)
		token->bytes[strcspn(token->bytes, "\r\n")] = '\0';
	return outcome;
}

enum outcome source_container(struct keys *keys, struct http_pool *pool,
			      const struct limits *limits,
			      struct reason *reason)
{
	char url[URL_SIZE];
	struct source_text token = {NULL, 0};
	struct http_response response;
	struct http_header header = {"Authorization", NULL};
	struct http_request request = {
		.method = "GET", .url = url, .headers = &header};
	enum outcome outcome = container_url(url, reason);
	enum http_result result;

	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = container_token(&token, reason);
	if (outcome != OUTCOME_OK)
		return outcome;
	header.value = token.bytes;
	request.header_count = token.bytes != NULL ? 1 : 0;
	/* By https it may well be another machine, behind a proxy. */
	request.direct = strncasecmp(url, "https://", 8) != 0;
	http_response_init(&response, SOURCE_BODY_MAX);
	outcome = source_reserve(&response.body, SOURCE_BODY_MAX);
	if (outcome == OUTCOME_OK) {
		result = http_perform(pool, limits, &request, &response);
		outcome =
			result == HTTP_ANSWERED && response.status == 200
				? take_json(keys, &response, container, reason)
				: source_failure(result, &response, container,
						 reason);
	}
	http_response_release(&response);
	source_text_release(&token);
	return outcome;
}

/* --- The instance --------------------------------------------------------- */

static const char instance[] = "the instance's metadata";

static enum outcome instance_endpoint(const char **endpoint,
				      struct reason *reason)
{
	const char *disabled = source_env("AWS_EC2_METADATA_DISABLED");
	const char *mode = source_env("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
	static const char *const hosts[] = {"169.254.169.254",
					    "[fd00:ec2::254]", NULL};

	if (disabled != NULL && strcasecmp(disabled, "true") == 0)
		return OUTCOME_ABSENT;
	*endpoint = source_env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	if (*endpoint == NULL)
		*endpoint = mode != NULL && strcasecmp(mode, "ipv6") == 0
				    ? "http://[fd00:ec2::254]"
				    : "http://169.254.169.254";
	if (strncasecmp(*endpoint, "https://", 8) != 0 &&
	    !url_is_loopback(*endpoint) && !url_host_is(*endpoint, hosts))
		return reason_set(reason, OUTCOME_INVALID,
				  "AWS_EC2_METADATA_SERVICE_ENDPOINT is not a "
				  "host that may be asked in plain text");
	return OUTCOME_OK;
}

/* A request for PATH, with a limit of its own. */
static enum http_result
ask_instance(struct http_pool *pool, const struct limits *limits,
	     const char *method, const char *endpoint, const char *path,
	     const struct http_header *header, struct http_response *response)
{
	char url[URL_SIZE];
	size_t len = strlen(endpoint);
	struct http_request request = {.method = method,
				       .url = url,
				       .headers = header,
				       .header_count = 1,
				       .direct = true};
	struct limits own = *limits;

	while (len > 0 && endpoint[len - 1] == '/')
		len--;
	snprintf(url, sizeof(url), "%.*s%s", (int)len, endpoint, path);
	if (own.deadline_ms > clock_boot_ms() + INSTANCE_REQUEST_MS)
		own.deadline_ms = clock_boot_ms() + INSTANCE_REQUEST_MS;
	return http_perform(pool, &own, &request, response);
}

/* The first line of the answer, if it can go into a header or a path. */
static bool first_line(char *out, size_t size,
		       const struct http_response *response)
{
	const char *bytes = response->body.bytes;
	size_t len = 0;

	while (len < response->body.len && bytes[len] != '\n' &&
	       bytes[len] != '\r')
		len++;
	if (len == 0 || len >= size)
		return false;
	memcpy(out, bytes, len);
	out[len] = '\0';
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)out[i] <= 0x20 ||
		    (unsigned char)out[i] >= 0x7f)
			return false;
	return true;
}

/* A token first, which a request that was only forwarded here cannot get. */
static enum outcome instance_token(struct http_pool *pool,
				   const struct limits *limits,
				   const char *endpoint, char token[NAME_SIZE],
				   struct http_response *response,
				   struct reason *reason)
{
	struct http_header ttl = {"x-aws-ec2-metadata-token-ttl-seconds",
				  "300"};
	enum http_result result =
		ask_instance(pool, limits, "PUT", endpoint, "/latest/api/token",
			     &ttl, response);

	if (result == HTTP_ANSWERED && response->status == 200) {
		if (first_line(token, NAME_SIZE, response))
			return OUTCOME_OK;
		return reason_set(reason, OUTCOME_FAILED,
				  "%s gives a malformed token", instance);
	}
	/* Nothing there: this is no instance. */
	if (result == HTTP_NOT_SENT && response->cause != HTTP_CAUSE_STOP &&
	    response->cause != HTTP_CAUSE_NO_MEMORY &&
	    limits_check(limits) == OUTCOME_OK)
		return OUTCOME_ABSENT;
	return source_failure(result, response, instance, reason);
}

static enum outcome instance_keys(struct keys *keys, struct http_pool *pool,
				  const struct limits *limits,
				  const char *endpoint, const char *token,
				  struct http_response *response,
				  struct reason *reason)
{
	static const char base[] =
		"/latest/meta-data/iam/security-credentials/";
	struct http_header header = {"x-aws-ec2-metadata-token", token};
	char path[sizeof(base) + NAME_SIZE], role[NAME_SIZE];
	enum http_result result = ask_instance(pool, limits, "GET", endpoint,
					       base, &header, response);

	if (result == HTTP_ANSWERED && response->status == 404)
		return reason_set(reason, OUTCOME_DENIED,
				  "%s: the instance has no role", instance);
	if (result != HTTP_ANSWERED || response->status != 200)
		return source_failure(result, response, instance, reason);
	if (!first_line(role, sizeof(role), response) ||
	    strpbrk(role, "/?#%") != NULL)
		return reason_set(reason, OUTCOME_FAILED, "%s names no role",
				  instance);
	snprintf(path, sizeof(path), "%s%s", base, role);
	result = ask_instance(pool, limits, "GET", endpoint, path, &header,
			      response);
	if (result != HTTP_ANSWERED || response->status != 200)
		return source_failure(result, response, instance, reason);
	return take_json(keys, response, instance, reason);
}

enum outcome source_instance(struct keys *keys, struct http_pool *pool,
			     const struct limits *limits, struct reason *reason)
{
	struct http_response response;
	char token[NAME_SIZE] = "";
	const char *endpoint;
	enum outcome outcome = instance_endpoint(&endpoint, reason);

	if (outcome != OUTCOME_OK)
		return outcome;
	http_response_init(&response, SOURCE_BODY_MAX);
	outcome = source_reserve(&response.body, SOURCE_BODY_MAX);
	if (outcome == OUTCOME_OK)
		outcome = instance_token(pool, limits, endpoint, token,
					 &response, reason);
	if (outcome == OUTCOME_OK)
		outcome = instance_keys(keys, pool, limits, endpoint, token,
					&response, reason);
	http_response_release(&response);
	explicit_bzero(token, sizeof(token));
	/* A request's own limit, not the caller's. */
	if (outcome == OUTCOME_TIMEOUT && limits_check(limits) == OUTCOME_OK)
		outcome = OUTCOME_FAILED;
	return outcome;
}
