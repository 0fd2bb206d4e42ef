/* What an S3 store puts on the wire and takes from an answer: headers, keys,
 * hosts, objects; which buckets and endpoints it takes at all.
 */
#define _GNU_SOURCE

#include "s3_fixture.h"

#include "record.h"

/* --- A write -------------------------------------------------------------- */

/* 64 bytes: one more than a bucket's name has */
#define LONG_NAME                                                              \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void check_put_headers(unsigned number)
{
	char host[64];

	snprintf(host, sizeof(host), "127.0.0.1:%d", server->port);
	check_line(number, "PUT /fleet/cells/a/own.json HTTP/1.1");
	check_header(number, "Host", host);
	check_header(number, "Content-Length", "12");
	check_header(number, "Content-Type", "application/json");
	check_header(number, "x-amz-meta-celldfs-attempt",
		     "0123456789abcdef0123456789abcdef");
	check_header(number, "Expect", NULL);
	check_header(number, "Accept-Encoding", NULL);
	check_header(number, "Transfer-Encoding", NULL);
	check_header(number, "TE", NULL);
	check_header(number, "x-amz-security-token", NULL);
	CHECK_STR(requests[number].body, BODY);
}

static void test_put(void)
{
	start();
	PLAY(GOOD);
	CHECK_EQ(create(), OUTCOME_OK);
	CHECK_STR(etag, "\"e\"");
	check_put_headers(0);
	check_header(0, "If-None-Match", "*");
	check_header(0, "If-Match", NULL);
	CHECK_EQ(swap(), OUTCOME_OK);
	check_put_headers(1);
	check_header(1, "If-Match", "\"old\"");
	check_header(1, "If-None-Match", NULL);
	CHECK_EQ(requests_seen(), 2);
	finish();
}

static void test_dialect(void)
{
	start();
	PLAY(GOOD);
	CHECK(store_next_dialect(store));
	CHECK_EQ(swap(), OUTCOME_OK);
	check_put_headers(0);
	check_header(0, "If-Match", "old");
	CHECK(!store_next_dialect(store));
	CHECK_EQ(swap(), OUTCOME_OK);
	check_header(1, "If-Match", "old");
	CHECK_EQ(create(), OUTCOME_OK);
	check_header(2, "If-None-Match", "*");
	finish();
}

static void test_bodies(void)
{
	static char body[60 * 1024];
	struct guard guard = {.kind = GUARD_ABSENT};
	struct attempt attempt = {"a"};
	const size_t lens[] = {0, 1, sizeof(body)};

	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (char)(i * 7);
	start();
	PLAY(GOOD);
	for (unsigned i = 0; i < 3; i++) {
		struct limits limits = within_ms(patience_ms);

		CHECK_EQ(store_put_if(store, &limits, KEY, body, lens[i],
				      &guard, &attempt, etag, &answer),
			 OUTCOME_OK);
		CHECK_EQ(requests[i].body_len, lens[i]);
		CHECK(memcmp(requests[i].body, body, lens[i]) == 0);
		CHECK_EQ(strtoul(header_of(request_text(i), "Content-Length"),
				 NULL, 10),
			 lens[i]);
	}
	finish();
}

static void test_etag_of_a_put(void)
{
	char headers[400], long_tag[300];

	start();
	PLAY({200, "ETag: W/\"weak\"\r\n"});
	CHECK_EQ(swap(), OUTCOME_OK);
	CHECK_STR(etag, "W/\"weak\"");
	memset(long_tag, 'e', sizeof(long_tag));
	snprintf(headers, sizeof(headers), "ETag: %.*s\r\n", ETAG_SIZE - 1,
		 long_tag);
	PLAY({200, headers});
	CHECK_EQ(swap(), OUTCOME_OK);
	CHECK_EQ(strlen(etag), ETAG_SIZE - 1);
	snprintf(headers, sizeof(headers), "ETag: %.*s\r\n", ETAG_SIZE,
		 long_tag);
	PLAY({200, headers});
	CHECK_EQ(swap(), OUTCOME_UNKNOWN);
	CHECK_STR(etag, "");
	finish();
}

static void test_no_guard(void)
{
	struct guard guard = {.kind = GUARD_NONE};

	start();
	PLAY(GOOD);
	CHECK_EQ(put(&guard), OUTCOME_FORBIDDEN);
	CHECK_EQ(requests_seen(), 0);
	finish();
}

static void test_session_token(void)
{
	start();
	setenv("AWS_SESSION_TOKEN", "hush/token==", 1);
	open_bucket("fleet");
	PLAY(GOOD);
	CHECK_EQ(swap(), OUTCOME_OK);
	CHECK_EQ(get(), OUTCOME_OK);
	check_header(0, "x-amz-security-token", "hush/token==");
	check_header(1, "x-amz-security-token", "hush/token==");
	finish();
}

/* --- Keys ----------------------------------------------------------------- */

static void check_path(const char *bucket, const char *key, const char *line)
{
	struct limits limits = within_ms(patience_ms);
	unsigned number = requests_seen();

	open_bucket(bucket);
	CHECK_EQ(store_get(store, &limits, key, NULL, &object, &answer),
		 OUTCOME_OK);
	check_line(number, line);
}

static void test_keys(void)
{
	char bucket[1100] = "fleet/";
	struct limits limits = within_ms(patience_ms);

	start();
	PLAY(GOOD);
	check_path("fleet", "cells/a:b/own.json",
		   "GET /fleet/cells/a%3Ab/own.json HTTP/1.1");
	check_path("fleet", "cells/a$b/own.json",
		   "GET /fleet/cells/a%24b/own.json HTTP/1.1");
	check_path("fleet", "cells/...._-/own.json",
		   "GET /fleet/cells/...._-/own.json HTTP/1.1");
	check_path("fleet", "cells/ %+?#\xc3\xa4",
		   "GET /fleet/cells/%20%25%2B%3F%23%C3%A4 HTTP/1.1");
	check_path("fleet", "cells/../x", "GET /fleet/cells/../x HTTP/1.1");
	check_path("fleet/", "k", "GET /fleet/k HTTP/1.1");
	check_path("fleet//", "k", "GET /fleet/k HTTP/1.1");
	check_path("fleet/some", "k", "GET /fleet/some/k HTTP/1.1");
	check_path("fleet/some/where//", "k",
		   "GET /fleet/some/where/k HTTP/1.1");
	check_path("my.fleet-1", "k", "GET /my.fleet-1/k HTTP/1.1");
	open_bucket("fleet/some");
	CHECK_EQ(delete (), OUTCOME_OK);
	check_line(requests_seen() - 1, "DELETE /fleet/some/probe/x HTTP/1.1");
	PLAY(GOOD);
	memset(bucket + 6, 'p', 1024 - 1 - strlen(KEY));
	open_bucket(bucket);
	CHECK_EQ(swap(), OUTCOME_OK);
	CHECK_EQ(store_get(store, &limits, KEY "x", NULL, &object, &answer),
		 OUTCOME_FAILED);
	CHECK(answer.reason.text[0] != '\0');
	CHECK_EQ(requests_seen(), 1);
	finish();
}

/* --- A read --------------------------------------------------------------- */

static void test_get(void)
{
	start();
	PLAY({200,
	      "ETag: \"abc\"\r\nLast-Modified: Mon, 12 Oct 2009 17:50:30 GMT"
	      "\r\nx-amz-meta-celldfs-attempt: "
	      "fedcba9876543210fedcba9876543210\r\n"
	      "x-amz-request-id: tx1\r\n",
	      "a\0b", .body_len = 3});
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_STR(object.etag, "\"abc\"");
	CHECK_STR(object.attempt.hex, "fedcba9876543210fedcba9876543210");
	CHECK_EQ(object.modified_ms, THEN_MS);
	CHECK_EQ(object.body.len, 3);
	CHECK(memcmp(object.body.bytes, "a\0b", 3) == 0);
	CHECK_EQ(answer.status, 200);
	CHECK_STR(answer.request_id, "tx1");
	check_line(0, "GET /fleet/cells/a/own.json HTTP/1.1");
	check_header(0, "If-None-Match", NULL);
	check_header(0, "Accept-Encoding", NULL);
	check_header(0, "x-amz-meta-celldfs-attempt", NULL);
	finish();
}

static void test_get_known(void)
{
	static const char *const tags[] = {"\"e\"", "bare", "W/\"weak\"",
					   "\"with space\""};

	start();
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		PLAY({304});
		CHECK_EQ(get_known(tags[i]), OUTCOME_UNCHANGED);
		check_header(0, "If-None-Match", tags[i]);
		CHECK_EQ(requests_seen(), 1);
	}
	PLAY(GOOD);
	CHECK_EQ(get_known("\"other\""), OUTCOME_OK);
	CHECK_STR(object.etag, "\"e\"");
	finish();
}

static void test_unsolicited_304(void)
{
	start();
	PLAY({304});
	CHECK_EQ(get(), OUTCOME_FAILED);
	CHECK_STR(answer.reason.text, "status 304 to a read");
	finish();
}

static void check_etag(const char *value, const char *wanted)
{
	char headers[1024];

	snprintf(headers, sizeof(headers),
		 "Last-Modified: soon\r\nx-amz-meta-celldfs-attempt: "
		 "fedcba9876543210fedcba9876543210f\r\nETag:%s\r\n",
		 value);
	PLAY({200, headers, "x"});
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_STR(object.etag, wanted);
	CHECK_EQ(object.modified_ms, 0);
	CHECK_STR(object.attempt.hex, "");
}

static void test_etag_as_it_is(void)
{
	char tag[ETAG_SIZE + 1];

	start();
	check_etag(" \"9b-2\"", "\"9b-2\"");
	check_etag("bare", "bare");
	check_etag(" W/\"weak\"", "W/\"weak\"");
	check_etag(" \"0x8D a\" ", "\"0x8D a\"");
	check_etag("", "");
	memset(tag, 'e', sizeof(tag));
	tag[ETAG_SIZE - 1] = '\0';
	check_etag(tag, tag);
	tag[ETAG_SIZE - 1] = 'e';
	tag[ETAG_SIZE] = '\0';
	check_etag(tag, "");
	finish();
}

static void test_encoded_body(void)
{
	start();
	PLAY({200, "ETag: \"e\"\r\nContent-Encoding: gzip\r\n", "\x1f\x8b"});
	CHECK_EQ(get(), OUTCOME_FAILED);
	CHECK(strstr(answer.reason.text, "gzip") != NULL);
	CHECK_EQ(requests_seen(), 1);
	CHECK_EQ(object.body.len, 0);
	PLAY({200, "Content-Encoding: gzip, identity\r\n", "x"});
	CHECK_EQ(get(), OUTCOME_FAILED);
	PLAY({200, "Content-Encoding: Identity\r\n", "x"});
	CHECK_EQ(get(), OUTCOME_OK);
	finish();
}

static void test_large_body(void)
{
	char *body = calloc(1, RECORD_READ_MAX + 1);

	CHECK(body != NULL);
	memset(body, ' ', RECORD_READ_MAX + 1);
	start();
	PLAY({200, NULL, body, .body_len = RECORD_READ_MAX});
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_EQ(object.body.len, RECORD_READ_MAX);
	PLAY({200, NULL, body, .body_len = RECORD_READ_MAX + 1});
	CHECK_EQ(get(), OUTCOME_TOO_LARGE);
	CHECK_EQ(requests_seen(), 1);
	CHECK_EQ(object.body.len, 0);
	finish();
	free(body);
}

/* Only a record is too large. A status says what it says, however long the page
 * is that comes with it. */
static void test_large_answers(void)
{
	static const struct {
		int status;
		enum outcome wanted;
	} rows[] = {
		{404, OUTCOME_FAILED},	 {403, OUTCOME_DENIED},
		{401, OUTCOME_DENIED},	 {400, OUTCOME_FAILED},
		{302, OUTCOME_FAILED},	 {206, OUTCOME_FAILED},
		{500, OUTCOME_FAILED},	 {503, OUTCOME_FAILED},
		{429, OUTCOME_NOT_DONE},
	};
	const size_t len = 8 * 1024 * 1024 + 1; /* beyond a page, too */
	char *body = malloc(len);

	CHECK(body != NULL);
	memset(body, ' ', len);
	start();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* no time for a third try */
		patience_ms = rows[i].status >= 429 ? 500 * slow() : 20000;
		PLAY({rows[i].status, NULL, body,
		      .body_len = RECORD_READ_MAX + 1});
		if (get() != rows[i].wanted)
			CHECK_FAIL("get, %d: expected %s", rows[i].status,
				   outcome_word(rows[i].wanted));
		CHECK_EQ(answer.status, rows[i].status);
		CHECK_EQ(object.body.len, 0);
	}
	patience_ms = 20000;
	PLAY({403, NULL, body, .body_len = len});
	CHECK_EQ(list(), OUTCOME_DENIED);
	CHECK_EQ(delete (), OUTCOME_DENIED);
	PLAY({200, NULL, body, .body_len = len});
	CHECK_EQ(list(), OUTCOME_FAILED);
	CHECK(strstr(answer.reason.text, "too large") != NULL);
	CHECK_EQ(delete (), OUTCOME_OK);
	finish();
	free(body);
}

static void test_large_headers(void)
{
	static char headers[80 * 1024];
	size_t len = 0;

	while (len < sizeof(headers) - 100)
		len += (size_t)snprintf(headers + len, sizeof(headers) - len,
					"X-More: %050zu\r\n", len);
	start();
	PLAY({200, headers, "x"});
	CHECK_EQ(get(), OUTCOME_FAILED);
	CHECK(strstr(answer.reason.text, "headers are too large") != NULL);
	CHECK_EQ(swap(), OUTCOME_UNKNOWN);
	finish();
}

/* Refuses as soon as the headers are there, at length. */
static void *refuse_at_length(void *arg)
{
	static char page[128 * 1024];
	int fd = server_accept_head(*(int *)arg);

	memset(page, ' ', sizeof(page) - 1);
	server_say(fd, "HTTP/1.1 403 No\r\nContent-Length: %zu\r\n\r\n",
		   sizeof(page) - 1);
	server_send(fd, page, sizeof(page) - 1);
	shutdown(fd, SHUT_WR);
	server_sleep_ms(200);
	close(fd);
	return NULL;
}

/* A write is never "too large": it was not sent, or nobody knows. */
static void test_large_answer_to_a_put(void)
{
	static char body[16 * 1024 * 1024];
	struct guard guard = {.kind = GUARD_ABSENT};
	struct limits limits = within_ms(patience_ms);
	struct attempt attempt = {"a"};
	int port, fd = server_listen(1, &port);
	char endpoint[64];
	pthread_t thread;

	start();
	PLAY({403, NULL, body, .body_len = 128 * 1024});
	CHECK_EQ(swap(), OUTCOME_UNKNOWN);
	CHECK_EQ(requests_seen(), 1);
	snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d", port);
	setenv("AWS_ENDPOINT_URL_S3", endpoint, 1);
	open_bucket("fleet");
	pthread_create(&thread, NULL, refuse_at_length, &fd);
	CHECK_EQ(store_put_if(store, &limits, KEY, body, sizeof(body), &guard,
			      &attempt, etag, &answer),
		 OUTCOME_FAILED);
	CHECK(strstr(answer.reason.text, "not wholly sent: the answer is too "
					 "large") != NULL);
	pthread_join(thread, NULL);
	close(fd);
	finish();
}

/* --- What can be opened --------------------------------------------------- */

static void test_names(void)
{
	static const char *const bad[] = {
		"",	     "ab",	 "/fleet",     "a b c",
		"fleet?x",   "fleet#",	 "fleet@host", "fle\xc3\xa4",
		"fleet/a b", "fleet/a?", "fleet/%2F",  "fleet/\n",
		"fleet:80",  LONG_NAME,
	};

	struct store *other = NULL;

	start();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ(try_open(bad[i], true, &other), OUTCOME_INVALID);
	CHECK_EQ(try_open("abc", false, &other), OUTCOME_OK);
	store_close(other);
	finish();
}

static void check_endpoint(const char *endpoint, enum outcome plain,
			   enum outcome allowed)
{
	struct store *other = NULL;
	enum outcome got;

	setenv("AWS_ENDPOINT_URL_S3", endpoint, 1);
	for (int allow = 0; allow < 2; allow++) {
		got = try_open("fleet", allow, &other);
		if (got != (allow ? allowed : plain))
			CHECK_FAIL("%s, allow-http=%d: %s", endpoint, allow,
				   outcome_word(got));
		if (got == OUTCOME_OK)
			store_close(other);
	}
}

static void test_endpoints(void)
{
	static const char *const fine[] = {
		"https://s3.example",
		"https://s3.example:8443/",
		"https://127.evil.example",
		"http://127.0.0.1",
		"http://127.0.0.1:7480",
		"http://127.9.9.9:1/",
		"http://[::1]",
		"http://[::1]:7480",
		"http://localhost:7480",
		"http://localhost",
	};
	static const char *const plain[] = {
		"http://127.evil.example",
		"http://127.0.0.1.evil.example",
		"http://localhost.evil.example",
		"http://localhostile",
		"http://[::1].evil.example",
		"http://[::2]",
		"http://128.0.0.1",
		"http://10.0.0.1:7480",
		"http://s3.example",
		"http://0.0.0.0",
	};
	static const char *const bad[] = {
		"ftp://127.0.0.1",
		"127.0.0.1:7480",
		"http://",
		"https://",
		"https:///",
		"https://s3.example/path",
		"https://s3.example/?a",
		"https://s3.example?a",
		"https://s3.example#a",
		"https://user:hush@s3.example",
		"http://localhost@evil.example",
		"http://127.0.0.1:80@evil",
		"https://:443",
		"http://:80",
	};

	start();
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
		check_endpoint(fine[i], OUTCOME_OK, OUTCOME_OK);
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		check_endpoint(plain[i], OUTCOME_INVALID, OUTCOME_OK);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_endpoint(bad[i], OUTCOME_INVALID, OUTCOME_INVALID);
	finish();
}

/* The server is the proxy from here on. */
static void use_proxy(const char *variable)
{
	char proxy[64];

	snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", server->port);
	setenv(variable, proxy, 1);
}

static void check_aws_host(const char *bucket, const char *region,
			   const char *line)
{
	start();
	use_proxy("https_proxy");
	unsetenv("AWS_ENDPOINT_URL_S3");
	setenv("AWS_REGION", region, 1);
	open_bucket(bucket);
	PLAY({403});
	CHECK_EQ(swap(), OUTCOME_TIMEOUT); /* no tunnel: nothing was sent */
	CHECK_EQ(requests_seen(), 1);
	check_line(0, line);
	check_header(0, "Authorization", NULL);
	finish();
}

static void test_aws_hosts(void)
{
	check_aws_host("fleet", "",
		       "CONNECT fleet.s3.us-east-1.amazonaws.com:443 HTTP/1.1");
	check_aws_host("fleet/some", "eu-west-1",
		       "CONNECT fleet.s3.eu-west-1.amazonaws.com:443 HTTP/1.1");
	check_aws_host("my.fleet", "eu-west-1",
		       "CONNECT s3.eu-west-1.amazonaws.com:443 HTTP/1.1");
	check_aws_host(
		"fleet", "cn-north-1",
		"CONNECT fleet.s3.cn-north-1.amazonaws.com.cn:443 HTTP/1.1");
}

/* The scheme's own port is not in the Host header, so it must not be in what is
 * signed, though somebody wrote it. */
static void test_own_port(void)
{
	start();
	use_proxy("http_proxy");
	setenv("AWS_ENDPOINT_URL_S3", "http://s3.example:80", 1);
	CHECK_EQ(try_open("fleet", false, &store), OUTCOME_INVALID);
	store_close(store);
	CHECK_EQ(try_open("fleet", true, &store), OUTCOME_OK);
	PLAY(GOOD);
	CHECK_EQ(swap(), OUTCOME_OK); /* the server checks the signature */
	check_header(0, "Host", "s3.example");
	finish();
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	object_init(&object);
	RUN(test_put);
	RUN(test_dialect);
	RUN(test_bodies);
	RUN(test_etag_of_a_put);
	RUN(test_no_guard);
	RUN(test_session_token);
	RUN(test_keys);
	RUN(test_get);
	RUN(test_get_known);
	RUN(test_etag_as_it_is);
	RUN(test_encoded_body);
	RUN(test_large_body);
	RUN(test_large_answer_to_a_put);
	RUN(test_large_answers);
	RUN(test_large_headers);
	RUN(test_unsolicited_304);
	RUN(test_names);
	RUN(test_aws_hosts);
	RUN(test_endpoints);
	RUN(test_own_port);
	object_release(&object);
	return 0;
}
