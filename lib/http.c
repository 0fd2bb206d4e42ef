#include "http.h"

#include "clock.h"
#include "http_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* How long libcurl may wait at once. It counts on CLOCK_MONOTONIC, which stands
 * still while the machine is suspended; the deadline does not. */
#define SLICE_MS 500

/* One http_perform(). */
struct attempt {
	const struct http_request *request;
	struct http_response *response;
	struct connection *connection;
	struct curl_slist *headers;
	char error[CURL_ERROR_SIZE];
	size_t body_given;   /* bytes of the body that libcurl has taken */
	size_t header_bytes; /* received, of all blocks */
	bool begun;	     /* the request began to be sent */
	bool again;	     /* libcurl wanted to send it once more */
	bool headers_done;   /* the final block is complete */
	bool headers_too_large;
	bool too_large; /* the body */
	bool no_memory;
};

/* --- What libcurl calls --------------------------------------------------- */

/* Just before a request is sent: the first time it is ours, the second time it
 * is libcurl's own idea. */
static int before_request(void *arg, char *remote_ip, char *local_ip,
			  int remote_port, int local_port)
{
	struct attempt *attempt = arg;

	(void)remote_ip;
	(void)local_ip;
	(void)remote_port;
	(void)local_port;
	if (attempt->begun) {
		attempt->again = true;
		return CURL_PREREQFUNC_ABORT;
	}
	attempt->begun = true;
	attempt->response->sent_ms = clock_boot_ms();
	return CURL_PREREQFUNC_OK;
}

/* Before a name is looked up and before a connection is opened, so that a
 * second request costs neither. */
static int before_lookup(void *resolver, void *reserved, void *arg)
{
	struct attempt *attempt = arg;

	(void)resolver;
	(void)reserved;
	attempt->again = attempt->again || attempt->begun;
	return attempt->again ? 1 : 0;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose,
				 struct curl_sockaddr *address)
{
	struct attempt *attempt = arg;

	(void)purpose;
	attempt->again = attempt->again || attempt->begun;
	if (attempt->again)
		return CURL_SOCKET_BAD;
	return socket(address->family, address->socktype | SOCK_CLOEXEC,
		      address->protocol);
}

/* The body is not given twice. libcurl may still ask for the start before it
 * has taken anything: an easy handle remembers that its last transfer failed.
 */
static int seek_body(void *arg, curl_off_t offset, int origin)
{
	struct attempt *attempt = arg;

	if (attempt->body_given == 0 && offset == 0 && origin == SEEK_SET)
		return CURL_SEEKFUNC_OK;
	attempt->again = true;
	return CURL_SEEKFUNC_FAIL;
}

static size_t read_body(char *out, size_t size, size_t count, void *arg)
{
	struct attempt *attempt = arg;
	size_t left = attempt->request->body_len - attempt->body_given;
	size_t len = size * count < left ? size * count : left;

	if (len > 0)
		memcpy(out,
		       (const char *)attempt->request->body +
			       attempt->body_given,
		       len);
	attempt->body_given += len;
	return len;
}

/* Takes LEN bytes into a buffer of the response. */
static bool keep(struct attempt *attempt, struct buf *buf, const char *bytes,
		 size_t len)
{
	enum outcome outcome = buf_append(buf, bytes, len);

	attempt->too_large = attempt->too_large || outcome == OUTCOME_TOO_LARGE;
	attempt->no_memory = attempt->no_memory || outcome == OUTCOME_NO_MEMORY;
	return outcome == OUTCOME_OK;
}

/* Less than what there is ends the transfer. */
static size_t write_body(char *bytes, size_t size, size_t count, void *arg)
{
	struct attempt *attempt = arg;
	size_t len = size * count;

	return keep(attempt, &attempt->response->body, bytes, len) ? len : 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Keeps "name NUL value NUL", or nothing of it. */
static bool keep_header(struct attempt *attempt, const char *name,
			size_t name_len, const char *value, size_t value_len)
{
	struct buf *headers = &attempt->response->headers;
	size_t old_len = headers->len;

	if (keep(attempt, headers, name, name_len) &&
	    keep(attempt, headers, "", 1) &&
	    keep(attempt, headers, value, value_len) &&
	    keep(attempt, headers, "", 1))
		return true;
	headers->len = old_len;
	return false;
}

/* A line that is no header is passed over, and so is one with a control byte
 * (RFC 9110, section 5.5): values are shown on terminals and sent back. */
static bool take_field(struct attempt *attempt, const char *line, size_t len)
{
	const char *end = line + len, *colon = memchr(line, ':', len);
	const char *value;

	while (end > line && is_blank(end[-1]))
		end--;
	if (colon == NULL || is_blank(line[0]))
		return true;
	for (const char *at = line; at < end; at++)
		if (((unsigned char)*at < 0x20 && *at != '\t') || *at == 0x7f)
			return true;
	value = colon + 1;
	while (value < end && is_blank(*value))
		value++;
	return keep_header(attempt, line, (size_t)(colon - line), value,
			   (size_t)(end - value));
}

/* RFC 9112, section 4; 0: it is no such line, whatever libcurl makes of it. */
static int status_of(const char *line, size_t len)
{
	size_t at = strlen(line[6] == '.' ? "HTTP/1.1" : "HTTP/2");

	/* the blank ends what strtol() looks at */
	if (len <= at + 4 || line[at] != ' ' || !is_blank(line[at + 4]))
		return 0;
	return (int)strtol(line + at + 1, NULL, 10);
}

/* One line, its end included. A status line begins a new block. */
static size_t take_header(char *line, size_t size, size_t count, void *arg)
{
	struct attempt *attempt = arg;
	struct http_response *response = attempt->response;
	size_t len = size * count;
	int status;

	attempt->header_bytes += len;
	if (attempt->header_bytes > HTTP_HEADERS_MAX) {
		attempt->headers_too_large = true;
		return 0;
	}
	if (attempt->headers_done)
		return len; /* a trailer */
	if (len >= 12 && strncasecmp(line, "HTTP/", 5) == 0) {
		status = status_of(line, len);
		buf_clear(&response->headers);
		response->status = status >= 200 ? status : 0;
		response->answered_ms = clock_boot_ms();
		return len;
	}
	if (is_blank(line[0]) && response->status != 0 &&
	    (line[0] == '\r' || line[0] == '\n')) {
		attempt->headers_done = true;
		return len;
	}
	return take_field(attempt, line, len) ? len : 0;
}

/* --- One attempt ---------------------------------------------------------- */

static void clear_response(struct http_response *response)
{
	buf_clear(&response->body);
	buf_clear(&response->headers);
	response->status = 0;
	response->cause = HTTP_CAUSE_NONE;
	response->reason.text[0] = '\0';
	response->sent_ms = 0;
	response->answered_ms = 0;
}

static bool add_line(struct attempt *attempt, const char *line)
{
	struct curl_slist *list = curl_slist_append(attempt->headers, line);

	if (list != NULL)
		attempt->headers = list;
	return list != NULL;
}

static bool add_header(struct attempt *attempt,
		       const struct http_header *header)
{
	size_t size = strlen(header->name) + strlen(header->value) + 3;
	bool empty = header->value[0] == '\0';
	char *line = malloc(size);
	bool good;

	if (line == NULL)
		return false;
	/* "name:" would remove a header, "name;" sends it empty. */
	snprintf(line, size, empty ? "%s;" : "%s: %s", header->name,
		 header->value);
	good = add_line(attempt, line);
	explicit_bzero(line, size);
	free(line);
	return good;
}

static bool add_headers(struct attempt *attempt)
{
	const struct http_request *request = attempt->request;
	bool good = add_line(attempt, "Expect:");

	for (size_t i = 0; i < request->header_count && good; i++)
		good = add_header(attempt, &request->headers[i]);
	return good;
}

/* Tokens are among the headers. */
static void free_headers(struct attempt *attempt)
{
	for (struct curl_slist *at = attempt->headers; at != NULL;
	     at = at->next)
		explicit_bzero(at->data, strlen(at->data));
	curl_slist_free_all(attempt->headers);
}

static bool has_body(const struct http_request *request)
{
	return strcmp(request->method, "PUT") == 0 ||
	       strcmp(request->method, "POST") == 0;
}

/* A failed curl_easy_setopt() is out of memory, or an option that this libcurl
 * was built without; neither may be passed over. */
#define SET(option, value)                                                     \
	(good = good && curl_easy_setopt(easy, (option), (value)) == CURLE_OK)

static bool set_rules(CURL *easy)
{
	bool good = true;

	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_QUICK_EXIT, 1L);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_PATH_AS_IS, 1L);
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	SET(CURLOPT_USERAGENT, "celldfs");
	SET(CURLOPT_MAXAGE_CONN, (long)HTTP_IDLE_AGE_S);
	return good;
}

static bool set_callbacks(CURL *easy, struct attempt *attempt)
{
	bool good = true;

	SET(CURLOPT_ERRORBUFFER, attempt->error);
	SET(CURLOPT_PREREQFUNCTION, before_request);
	SET(CURLOPT_PREREQDATA, attempt);
	SET(CURLOPT_RESOLVER_START_FUNCTION, before_lookup);
	SET(CURLOPT_RESOLVER_START_DATA, attempt);
	SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(CURLOPT_OPENSOCKETDATA, attempt);
	SET(CURLOPT_SEEKFUNCTION, seek_body);
	SET(CURLOPT_SEEKDATA, attempt);
	SET(CURLOPT_READFUNCTION, read_body);
	SET(CURLOPT_READDATA, attempt);
	SET(CURLOPT_WRITEFUNCTION, write_body);
	SET(CURLOPT_WRITEDATA, attempt);
	SET(CURLOPT_HEADERFUNCTION, take_header);
	SET(CURLOPT_HEADERDATA, attempt);
	return good;
}

static bool set_request(CURL *easy, const struct http_pool *pool,
			const struct attempt *attempt, int64_t left_ms)
{
	const struct http_request *request = attempt->request;
	long connect_ms =
		left_ms < HTTP_CONNECT_MS ? (long)left_ms : HTTP_CONNECT_MS;
	bool good = true;

	SET(CURLOPT_URL, request->url);
	if (strcmp(request->method, "HEAD") == 0) {
		SET(CURLOPT_NOBODY, 1L);
	} else if (has_body(request)) {
		SET(CURLOPT_UPLOAD, 1L);
		SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->body_len);
	}
	SET(CURLOPT_CUSTOMREQUEST, request->method);
	SET(CURLOPT_HTTPHEADER, attempt->headers);
	SET(CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
	if (connection_ca_bundle(pool) != NULL)
		SET(CURLOPT_CAINFO, connection_ca_bundle(pool));
	if (request->direct)
		SET(CURLOPT_PROXY, "");
	return good;
}

#undef SET

static void wake(void *multi)
{
	curl_multi_wakeup(multi);
}

/* Runs until libcurl is done (OK, with RESULT) or the limits say stop. */
static enum outcome run(struct connection *connection,
			const struct limits *limits, CURLcode *result)
{
	for (;;) {
		int running, queued;
		CURLMsg *message;
		int64_t wait_ms;
		enum outcome outcome;

		if (curl_multi_perform(connection->multi, &running) != CURLM_OK)
			break;
		message = curl_multi_info_read(connection->multi, &queued);
		if (message != NULL && message->msg == CURLMSG_DONE) {
			*result = message->data.result;
			return OUTCOME_OK;
		}
		outcome = limits_check(limits);
		if (outcome != OUTCOME_OK)
			return outcome;
		wait_ms = limits_left_ms(limits);
		if (curl_multi_poll(connection->multi, NULL, 0,
				    wait_ms < SLICE_MS ? (int)wait_ms
						       : SLICE_MS,
				    NULL) != CURLM_OK)
			break;
	}
	*result = CURLE_FAILED_INIT;
	return OUTCOME_OK;
}

/* May the server have got the whole request? */
static bool may_have_arrived(const struct attempt *attempt)
{
	return attempt->begun &&
	       (!has_body(attempt->request) ||
		attempt->body_given == attempt->request->body_len);
}

/* Without a length and without chunks the end of the connection is the end of
 * the body, and nobody can tell a whole one from a cut one (RFC 9112, section
 * 6.3). */
static bool has_an_end(const struct attempt *attempt)
{
	const struct http_response *response = attempt->response;

	return strcmp(attempt->request->method, "HEAD") == 0 ||
	       response->status == 204 || response->status == 304 ||
	       http_header(response, "content-length") != NULL ||
	       http_header(response, "transfer-encoding") != NULL;
}

static enum http_result fail(struct attempt *attempt, enum http_cause cause,
			     const char *why)
{
	struct http_response *response = attempt->response;
	bool arrived = may_have_arrived(attempt);

	response->cause = cause;
	reason_set(&response->reason, OUTCOME_FAILED, "%s%s",
		   arrived	    ? "no whole answer: "
		   : attempt->begun ? "not wholly sent: "
				    : "not sent: ",
		   why);
	return arrived ? HTTP_UNKNOWN : HTTP_NOT_SENT;
}

static const char *ca_failure(const struct http_pool *pool, CURLcode code,
			      char text[], size_t size)
{
	const char *bundle = connection_ca_bundle(pool) != NULL
				     ? connection_ca_bundle(pool)
				     : "the system's CA bundle";

	if (code != CURLE_SSL_CACERT_BADFILE)
		return NULL;
	snprintf(text, size, "cannot use the CA certificates of %s", bundle);
	return text;
}

/* What became of a transfer that libcurl ended with CODE. */
static enum http_result judge(const struct http_pool *pool,
			      struct attempt *attempt, CURLcode code)
{
	char text[sizeof(struct reason)];
	const char *why;

	if (attempt->headers_too_large)
		return fail(attempt, HTTP_CAUSE_FAILED,
			    "the headers are too large");
	if (attempt->too_large)
		return fail(attempt, HTTP_CAUSE_TOO_LARGE,
			    "the answer is too large");
	if (attempt->no_memory || code == CURLE_OUT_OF_MEMORY)
		return fail(attempt, HTTP_CAUSE_NO_MEMORY, "out of memory");
	if (attempt->again)
		return fail(attempt, HTTP_CAUSE_FAILED,
			    "the connection was closed before an answer");
	if (code == CURLE_OK && !attempt->headers_done)
		return fail(attempt, HTTP_CAUSE_FAILED,
			    "the answer has no final status");
	if (code == CURLE_OK && !has_an_end(attempt))
		return fail(attempt, HTTP_CAUSE_FAILED,
			    "the answer does not say where it ends");
	if (code == CURLE_OK)
		return HTTP_ANSWERED;
	why = ca_failure(pool, code, text, sizeof(text));
	if (why == NULL)
		why = attempt->error[0] != '\0' ? attempt->error
						: curl_easy_strerror(code);
	return fail(attempt,
		    code == CURLE_OPERATION_TIMEDOUT ? HTTP_CAUSE_TIMEOUT
						     : HTTP_CAUSE_FAILED,
		    why);
}

static enum http_result transfer(const struct http_pool *pool,
				 const struct limits *limits,
				 struct attempt *attempt)
{
	struct connection *connection = attempt->connection;
	CURLcode code = CURLE_FAILED_INIT;
	enum outcome outcome;

	if (limits->stop != NULL)
		stop_on(limits->stop, wake, connection->multi);
	outcome = run(connection, limits, &code);
	/* From here on nobody wakes it any more. */
	if (limits->stop != NULL)
		stop_off(limits->stop);
	/* Closes the connection unless the transfer is complete. */
	curl_multi_remove_handle(connection->multi, connection->easy);
	if (outcome == OUTCOME_INTERRUPTED)
		return fail(attempt, HTTP_CAUSE_STOP, "interrupted");
	if (outcome != OUTCOME_OK)
		return fail(attempt, HTTP_CAUSE_TIMEOUT, "the deadline passed");
	return judge(pool, attempt, code);
}

/* Hands the attempt to libcurl. False: it is out of memory. */
static bool prepare(const struct http_pool *pool, const struct limits *limits,
		    struct attempt *attempt)
{
	CURL *easy;

	if (!connection_reset(attempt->connection))
		return false;
	easy = attempt->connection->easy;
	return add_headers(attempt) && set_rules(easy) &&
	       set_callbacks(easy, attempt) &&
	       set_request(easy, pool, attempt, limits_left_ms(limits)) &&
	       curl_multi_add_handle(attempt->connection->multi, easy) ==
		       CURLM_OK;
}

/* Was it a connection of its own, not one that was used before? */
static bool attempt_opened(const struct attempt *attempt)
{
	long count = 0;

	curl_easy_getinfo(attempt->connection->easy, CURLINFO_NUM_CONNECTS,
			  &count);
	return count > 0;
}

enum http_result http_perform(struct http_pool *pool,
			      const struct limits *limits,
			      const struct http_request *request,
			      struct http_response *response)
{
	struct attempt attempt = {.request = request, .response = response};
	enum outcome outcome = limits_check(limits);
	enum http_result result;

	clear_response(response);
	if (outcome == OUTCOME_INTERRUPTED)
		return fail(&attempt, HTTP_CAUSE_STOP, "interrupted");
	if (outcome != OUTCOME_OK)
		return fail(&attempt, HTTP_CAUSE_TIMEOUT,
			    "the deadline passed");
	attempt.connection = connection_take(pool);
	if (attempt.connection == NULL)
		return fail(&attempt, HTTP_CAUSE_NO_MEMORY, "out of memory");
	if (prepare(pool, limits, &attempt))
		result = transfer(pool, limits, &attempt);
	else
		result = fail(&attempt, HTTP_CAUSE_NO_MEMORY,
			      "libcurl does not take the request");
	if (result == HTTP_UNKNOWN && response->cause == HTTP_CAUSE_FAILED &&
	    response->status == 0 && !attempt_opened(&attempt))
		connection_distrust(pool);
	/* It points to what is about to go. */
	curl_easy_reset(attempt.connection->easy);
	free_headers(&attempt);
	connection_give_back(pool, attempt.connection);
	return result;
}
