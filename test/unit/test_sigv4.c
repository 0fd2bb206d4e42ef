/* sigv4: the signatures that AWS publishes, and what must be refused.
 *
 * The S3 examples: Amazon S3 API Reference, "Signature Calculations for the
 * Authorization Header: Transferring Payload in a Single Chunk". The others:
 * the aws-sig-v4-test-suite, by its names.
 */
#include "check.h"

#include "sigv4.h"

#include <stdint.h>

#define EMPTY_HASH                                                             \
	"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

#define MAY_2013    INT64_C(1369353600000) /* 20130524T000000Z */
#define AUGUST_2015 INT64_C(1440938160000) /* 20150830T123600Z */

static const struct sigv4_keys s3_keys = {
	.access_key = "AKIAIOSFODNN7EXAMPLE",
	.secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
};
static const struct sigv4_scope s3_scope = {"us-east-1", "s3", MAY_2013};

static const struct sigv4_keys suite_keys = {
	.access_key = "AKIDEXAMPLE",
	.secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
};
static const struct sigv4_scope suite_scope = {"us-east-1", "service",
					       AUGUST_2015};

static struct sigv4_signature signature;

static enum outcome sign_s3(const struct sigv4_request *request)
{
	return sigv4_sign(&signature, request, &s3_keys, &s3_scope);
}

static enum outcome sign_suite(const struct sigv4_request *request)
{
	return sigv4_sign(&signature, request, &suite_keys, &suite_scope);
}

#define S3_AUTHORIZATION(names, hex)                                           \
	"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/"           \
	"us-east-1/s3/aws4_request, SignedHeaders=" names ", Signature=" hex

#define SUITE_AUTHORIZATION(names, hex)                                        \
	"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/"  \
	"aws4_request, SignedHeaders=" names ", Signature=" hex

static void test_s3_get_object(void)
{
	struct sigv4_pair range = {"Range", "bytes=0-9"};
	struct sigv4_request request = {
		.method = "GET",
		.host = "examplebucket.s3.amazonaws.com",
		.path = "/test.txt",
		.headers = &range,
		.header_count = 1,
	};

	CHECK_EQ(sign_s3(&request), OUTCOME_OK);
	CHECK_STR(signature.date, "20130524T000000Z");
	CHECK_STR(signature.content_sha256, EMPTY_HASH);
	CHECK_STR(signature.authorization,
		  S3_AUTHORIZATION(
			  "host;range;x-amz-content-sha256;x-amz-date",
			  "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd910"
			  "39c6036bdb41"));
}

static void test_s3_put_object(void)
{
	struct sigv4_pair headers[] = {
		{"x-amz-storage-class", "REDUCED_REDUNDANCY"},
		{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
	};
	struct sigv4_request request = {
		.method = "PUT",
		.host = "examplebucket.s3.amazonaws.com",
		.headers = headers,
		.header_count = 2,
		.body = "Welcome to Amazon S3.",
		.body_len = 21,
	};
	struct buf path;

	buf_init(&path, 100);
	CHECK_EQ(sigv4_encode_path(&path, "/test$file.text"), OUTCOME_OK);
	CHECK_EQ(buf_append(&path, "", 1), OUTCOME_OK);
	CHECK_STR(path.bytes, "/test%24file.text");
	request.path = path.bytes;
	CHECK_EQ(sign_s3(&request), OUTCOME_OK);
	CHECK_STR(signature.content_sha256,
		  "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8"
		  "b072");
	CHECK_STR(signature.authorization,
		  S3_AUTHORIZATION(
			  "date;host;x-amz-content-sha256;x-amz-date;"
			  "x-amz-storage-class",
			  "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b597"
			  "1af0ece108bd"));
	buf_release(&path);
}

/* Signs a GET of the bucket with the query that PAIRS make. */
static void sign_query(const struct sigv4_pair *pairs, size_t count,
		       const char *query_wanted)
{
	struct sigv4_request request = {
		.method = "GET",
		.host = "examplebucket.s3.amazonaws.com",
		.path = "/",
	};
	struct buf query;

	buf_init(&query, 1000);
	CHECK_EQ(sigv4_encode_query(&query, pairs, count), OUTCOME_OK);
	CHECK_EQ(buf_append(&query, "", 1), OUTCOME_OK);
	CHECK_STR(query.bytes, query_wanted);
	request.query = query.bytes;
	CHECK_EQ(sign_s3(&request), OUTCOME_OK);
	buf_release(&query);
}

static void test_s3_get_lifecycle(void)
{
	struct sigv4_pair pair = {"lifecycle", ""};

	sign_query(&pair, 1, "lifecycle=");
	CHECK_STR(signature.authorization,
		  S3_AUTHORIZATION(
			  "host;x-amz-content-sha256;x-amz-date",
			  "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a20"
			  "0a0136783543"));
}

static void test_s3_list_objects(void)
{
	struct sigv4_pair pairs[] = {{"prefix", "J"}, {"max-keys", "2"}};

	sign_query(pairs, 2, "max-keys=2&prefix=J");
	CHECK_STR(signature.authorization,
		  S3_AUTHORIZATION(
			  "host;x-amz-content-sha256;x-amz-date",
			  "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5"
			  "711ef69dc6f7"));
}

/* x-amz-content-sha256 is S3's own and not part of the suite's requests. */
static void test_suite(void)
{
	static const struct {
		const char *name, *method, *path, *query;
		struct sigv4_pair header[2];
		size_t header_count;
		const char *authorization;
	} rows[] = {
		{"get-vanilla",
		 "GET",
		 "/",
		 NULL,
		 {{NULL, NULL}},
		 0,
		 SUITE_AUTHORIZATION("host;x-amz-date",
				     "5fa00fa31553b73ebf1942676e86291e8372ff2a2"
				     "260956d9b8aae1d763fbf31")},
		{"post-vanilla",
		 "POST",
		 "/",
		 "",
		 {{NULL, NULL}},
		 0,
		 SUITE_AUTHORIZATION("host;x-amz-date",
				     "5da7c1a2acd57cee7505fc6676e4e544621c30862"
				     "966e37dddb68e92efbe5d6b")},
		{"get-vanilla-query-order-key-case",
		 "GET",
		 "/",
		 "Param1=value1&Param2=value2",
		 {{NULL, NULL}},
		 0,
		 SUITE_AUTHORIZATION("host;x-amz-date",
				     "b97d918cfa904a5beff61c982a1b6f458b7992216"
				     "46efd99d3219ec94cdf2500")},
		{"get-unreserved",
		 "GET",
		 "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst"
		 "uvwxyz",
		 NULL,
		 {{NULL, NULL}},
		 0,
		 SUITE_AUTHORIZATION("host;x-amz-date",
				     "07ef7494c76fa4850883e2b006601f940f8a34d40"
				     "4d0cfa977f52a65bbf5f24f")},
		{"get-utf8",
		 "GET",
		 "/%E1%88%B4",
		 NULL,
		 {{NULL, NULL}},
		 0,
		 SUITE_AUTHORIZATION("host;x-amz-date",
				     "8318018e0b0f223aa2bbf98705b62bb787dc9c0e6"
				     "78f255a891fd03141be5d85")},
		{"get-header-value-trim",
		 "GET",
		 "/",
		 NULL,
		 {{"My-Header1", " value1 "}, {"My-Header2", " \"a   b   c\""}},
		 2,
		 SUITE_AUTHORIZATION("host;my-header1;my-header2;x-amz-date",
				     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa0541"
				     "2b367055dee359757a9c736")},
		{"post-header-key-sort",
		 "POST",
		 "/",
		 NULL,
		 {{"My-Header1", "value1"}},
		 1,
		 SUITE_AUTHORIZATION("host;my-header1;x-amz-date",
				     "c5410059b04c1ee005303aed430f6e6645f61f4dc"
				     "9e1461ec8f8916fdf18852c")},
		{"post-header-value-case",
		 "POST",
		 "/",
		 NULL,
		 {{"My-Header1", "VALUE1"}},
		 1,
		 SUITE_AUTHORIZATION("host;my-header1;x-amz-date",
				     "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e"
				     "8ae67b53629efa58b974b7d")},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sigv4_request request = {
			.method = rows[i].method,
			.host = "example.amazonaws.com",
			.path = rows[i].path,
			.query = rows[i].query,
			.headers = rows[i].header,
			.header_count = rows[i].header_count,
		};

		CHECK_EQ(sign_suite(&request), OUTCOME_OK);
		if (strcmp(signature.authorization, rows[i].authorization) != 0)
			CHECK_FAIL("%s: %s", rows[i].name,
				   signature.authorization);
		CHECK_STR(signature.date, "20150830T123600Z");
	}
}

/* post-sts-header-before: the token is among what is signed. */
static void test_session_token(void)
{
	struct sigv4_keys keys = suite_keys;
	struct sigv4_request request = {
		.method = "POST",
		.host = "example.amazonaws.com",
		.path = "/",
	};

	keys.session_token =
		"AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4F"
		"ZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/q"
		"kPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYw"
		"T7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xV"
		"qr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKT"
		"r4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
	CHECK_EQ(sigv4_sign(&signature, &request, &keys, &suite_scope),
		 OUTCOME_OK);
	CHECK_STR(signature.authorization,
		  SUITE_AUTHORIZATION(
			  "host;x-amz-date;x-amz-security-token",
			  "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c645"
			  "33a82be05ead"));
	/* An empty token is none: post-vanilla. */
	keys.session_token = "";
	CHECK_EQ(sigv4_sign(&signature, &request, &keys, &suite_scope),
		 OUTCOME_OK);
	CHECK(strstr(signature.authorization, "=5da7c1a2acd57cee") != NULL);
}

static void check_encoded(const char *text, const char *wanted,
			  const char *path_wanted)
{
	struct buf out;

	buf_init(&out, 1000);
	CHECK_EQ(sigv4_encode(&out, text), OUTCOME_OK);
	CHECK_EQ(buf_append(&out, "", 1), OUTCOME_OK);
	CHECK_STR(out.bytes, wanted);
	buf_clear(&out);
	CHECK_EQ(sigv4_encode_path(&out, text), OUTCOME_OK);
	CHECK_EQ(buf_append(&out, "", 1), OUTCOME_OK);
	CHECK_STR(out.bytes, path_wanted);
	buf_release(&out);
}

static void test_encode(void)
{
	struct buf out;

	check_encoded("", "", "");
	check_encoded("aZ09-._~", "aZ09-._~", "aZ09-._~");
	check_encoded("/cells/a:b/own.json", "%2Fcells%2Fa%3Ab%2Fown.json",
		      "/cells/a%3Ab/own.json");
	check_encoded("a$b c+d", "a%24b%20c%2Bd", "a%24b%20c%2Bd");
	check_encoded("\x01%\xff\xe1", "%01%25%FF%E1", "%01%25%FF%E1");
	check_encoded("/../.", "%2F..%2F.", "/../.");
	check_encoded("'()*!", "%27%28%29%2A%21", "%27%28%29%2A%21");

	/* What does not fit leaves nothing behind. */
	buf_init(&out, 5);
	CHECK_EQ(buf_append(&out, "x", 1), OUTCOME_OK);
	CHECK_EQ(sigv4_encode(&out, "ab$"), OUTCOME_TOO_LARGE);
	CHECK_EQ(out.len, 1);
	buf_release(&out);
}

static void test_encode_query(void)
{
	/* By encoded name, then by encoded value: "-" is before "=" and "%"
	 * before any letter, which must not count across the "=". */
	struct sigv4_pair pairs[] = {
		{"a-b", "1"},  {"a", "x"},   {"a", ""},	 {"B", "="},
		{"\xc3", "~"}, {"~", "/ +"}, {"a", "%"},
	};
	struct sigv4_pair many[SIGV4_PAIRS_MAX + 1];
	struct buf out;

	buf_init(&out, 1000);
	CHECK_EQ(buf_append(&out, "?", 1), OUTCOME_OK);
	CHECK_EQ(sigv4_encode_query(&out, pairs, 7), OUTCOME_OK);
	CHECK_EQ(buf_append(&out, "", 1), OUTCOME_OK);
	CHECK_STR(out.bytes, "?%C3=~&B=%3D&a=&a=%25&a=x&a-b=1&~=%2F%20%2B");

	buf_clear(&out);
	CHECK_EQ(sigv4_encode_query(&out, NULL, 0), OUTCOME_OK);
	CHECK_EQ(out.len, 0);
	for (size_t i = 0; i <= SIGV4_PAIRS_MAX; i++)
		many[i] = (struct sigv4_pair){"n", "v"};
	CHECK_EQ(sigv4_encode_query(&out, many, SIGV4_PAIRS_MAX), OUTCOME_OK);
	CHECK_EQ(out.len, SIGV4_PAIRS_MAX * 4 - 1);
	buf_clear(&out);
	CHECK_EQ(sigv4_encode_query(&out, many, SIGV4_PAIRS_MAX + 1),
		 OUTCOME_INVALID);
	CHECK_EQ(out.len, 0);
	buf_release(&out);

	buf_init(&out, 8);
	CHECK_EQ(sigv4_encode_query(&out, pairs, 7), OUTCOME_TOO_LARGE);
	CHECK_EQ(out.len, 0);
	buf_release(&out);
}

static void test_refused(void)
{
	static const struct sigv4_request good = {
		.method = "GET", .host = "h", .path = "/"};
	struct sigv4_pair headers[SIGV4_PAIRS_MAX + 1] = {{"a", "b"},
							  {"A", "c"}};
	struct sigv4_request request = good;
	struct sigv4_keys keys = s3_keys;
	struct sigv4_scope scope = s3_scope;
	char long_text[2000];

	CHECK_EQ(sign_s3(&good), OUTCOME_OK);

	request.headers = headers;
	request.header_count = 2; /* one header twice */
	CHECK_EQ(sign_s3(&request), OUTCOME_INVALID);
	headers[1] = (struct sigv4_pair){"X-Amz-Date", "20130524T000000Z"};
	CHECK_EQ(sign_s3(&request), OUTCOME_INVALID);
	headers[1] = (struct sigv4_pair){"b", "line\nbreak"};
	CHECK_EQ(sign_s3(&request), OUTCOME_INVALID);
	headers[1] = (struct sigv4_pair){"b:c", "d"};
	CHECK_EQ(sign_s3(&request), OUTCOME_INVALID);
	headers[1] = (struct sigv4_pair){"", "d"};
	CHECK_EQ(sign_s3(&request), OUTCOME_INVALID);
	request.header_count = SIGV4_PAIRS_MAX + 1;
	CHECK_EQ(sign_s3(&request), OUTCOME_INVALID);

	request = good;
	request.path = "no-slash";
	CHECK_EQ(sign_s3(&request), OUTCOME_INVALID);
	request.path = "/a\nb";
	CHECK_EQ(sign_s3(&request), OUTCOME_INVALID);

	keys.secret_key = "";
	CHECK_EQ(sigv4_sign(&signature, &good, &keys, &s3_scope),
		 OUTCOME_INVALID);
	keys = s3_keys;
	keys.access_key = NULL;
	CHECK_EQ(sigv4_sign(&signature, &good, &keys, &s3_scope),
		 OUTCOME_INVALID);
	keys.access_key = "A\r\nX-Injected: 1";
	CHECK_EQ(sigv4_sign(&signature, &good, &keys, &s3_scope),
		 OUTCOME_INVALID);

	memset(long_text, 'k', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	keys = s3_keys;
	keys.secret_key = long_text;
	CHECK_EQ(sigv4_sign(&signature, &good, &keys, &s3_scope),
		 OUTCOME_TOO_LARGE);
	keys = s3_keys;
	keys.access_key = long_text;
	CHECK_EQ(sigv4_sign(&signature, &good, &keys, &s3_scope),
		 OUTCOME_TOO_LARGE);
	scope.region = long_text;
	CHECK_EQ(sigv4_sign(&signature, &good, &s3_keys, &scope),
		 OUTCOME_TOO_LARGE);

	scope = s3_scope;
	scope.time_ms = -1;
	CHECK_EQ(sigv4_sign(&signature, &good, &s3_keys, &scope),
		 OUTCOME_INVALID);
	scope.time_ms = INT64_C(253402300800000); /* the year 10000 */
	CHECK_EQ(sigv4_sign(&signature, &good, &s3_keys, &scope),
		 OUTCOME_INVALID);
	scope.time_ms = INT64_MAX;
	CHECK_EQ(sigv4_sign(&signature, &good, &s3_keys, &scope),
		 OUTCOME_INVALID);
	scope.time_ms = INT64_C(253402300799999);
	CHECK_EQ(sigv4_sign(&signature, &good, &s3_keys, &scope), OUTCOME_OK);
	CHECK_STR(signature.date, "99991231T235959Z");
}

/* The secret is in nothing that the caller gets. */
static void test_no_secret(void)
{
	struct sigv4_request request = {
		.method = "GET", .host = "h", .path = "/"};
	struct sigv4_keys keys = s3_keys;

	keys.session_token = "a-token-of-this-session";
	CHECK_EQ(sigv4_sign(&signature, &request, &keys, &s3_scope),
		 OUTCOME_OK);
	CHECK(memmem(&signature, sizeof(signature), keys.secret_key,
		     strlen(keys.secret_key)) == NULL);
	CHECK(memmem(&signature, sizeof(signature), keys.session_token,
		     strlen(keys.session_token)) == NULL);
}

/* What was kept signs as the secret does, and for its own scope alone. */
static void test_derived(void)
{
	struct sigv4_request request = {
		.method = "GET", .host = "h", .path = "/"};
	struct sigv4_derived derived = {.scope = ""};
	struct sigv4_keys keys = s3_keys;
	struct sigv4_scope scopes[] = {s3_scope, s3_scope, s3_scope, s3_scope};
	struct sigv4_signature plain;

	scopes[1].region = "eu-central-1";
	scopes[2].service = "sts";
	scopes[3].time_ms += 24 * 60 * 60 * 1000;
	for (unsigned i = 0; i < 16; i++) {
		const struct sigv4_scope *scope = &scopes[i / 2 * 3 % 4];

		keys.derived = NULL;
		CHECK_EQ(sigv4_sign(&plain, &request, &keys, scope),
			 OUTCOME_OK);
		keys.derived = &derived;
		CHECK_EQ(sigv4_sign(&signature, &request, &keys, scope),
			 OUTCOME_OK);
		CHECK_STR(signature.authorization, plain.authorization);
	}
	/* it was used: another secret's are wiped by who keeps them */
	keys.secret_key = "another";
	CHECK_EQ(sigv4_sign(&signature, &request, &keys,
			    &scopes[15 / 2 * 3 % 4]),
		 OUTCOME_OK);
	CHECK_STR(signature.authorization, plain.authorization);
	derived.scope[0] = '\0';
	CHECK_EQ(sigv4_sign(&signature, &request, &keys,
			    &scopes[15 / 2 * 3 % 4]),
		 OUTCOME_OK);
	CHECK(strcmp(signature.authorization, plain.authorization) != 0);
}

int main(void)
{
	RUN(test_s3_get_object);
	RUN(test_s3_put_object);
	RUN(test_s3_get_lifecycle);
	RUN(test_s3_list_objects);
	RUN(test_suite);
	RUN(test_session_token);
	RUN(test_encode);
	RUN(test_encode_query);
	RUN(test_refused);
	RUN(test_no_secret);
	RUN(test_derived);
	return 0;
}
