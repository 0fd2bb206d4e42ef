/* s3_fixture: a bucket's server that answers as its script says, keeps every
 * request, and checks that each is signed as it came. Define _GNU_SOURCE before.
 */
#ifndef CELLDFS_TEST_S3_FIXTURE_H
#define CELLDFS_TEST_S3_FIXTURE_H

#include "check.h"
#include "http_server.h"
#include "surroundings.h"

#include "sigv4.h"
#include "store_s3.h"

#include <signal.h>
#include <sys/stat.h>

/* Not every test uses every one of them. */
#pragma GCC diagnostic ignored "-Wunused-function"
/* What a reply does not say is not there. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define SCRIPT_MAX   120
#define REQUESTS_MAX 200
#define KEY	     "cells/a/own.json"
#define BODY	     "{\"cell\":\"a\"}"
#define NO_ETAG	     "X-None: 1\r\n"

#define ERROR_XML(code)                                                        \
	"<Error><Code>" code "</Code><Message>so it says</Message></Error>"
#define PAGE_XML(content)                                                      \
	"<ListBucketResult>" content "</ListBucketResult>"
#define LAST_PAGE  "<IsTruncated>false</IsTruncated>"
#define MORE(token)                                                            \
	"<IsTruncated>true</IsTruncated>"                                      \
	"<NextContinuationToken>" token "</NextContinuationToken>"
#define EMPTY_PAGE PAGE_XML(LAST_PAGE)
#define GOOD	   {200, "ETag: \"e\"\r\n", EMPTY_PAGE} /* for every call */

/* 2009-10-12T17:50:30Z */
#define THEN_MS INT64_C(1255369830000)
#define THEN	"Date: Mon, 12 Oct 2009 17:50:30 GMT\r\n"

/* --- The server ----------------------------------------------------------- */

enum ending {
	WHOLE,
	CUT,	/* the body lacks its last byte, or there is one announced */
	CLOSED, /* no answer */
	HANGS,	/* no answer, and the connection stays */
};

struct reply {
	int status;
	const char *headers; /* NULL: none */
	const char *body;    /* NULL: none */
	enum ending ending;
	size_t body_len; /* 0: BODY is a string */
};

struct record {
	char *text; /* the whole request */
	const char *body;
	size_t body_len;
};

static struct server *server;
static struct store *store;
static char home[64];

static pthread_mutex_t script_lock = PTHREAD_MUTEX_INITIALIZER; /* guards: */
static struct reply script[SCRIPT_MAX]; /* the last one again and again */
static unsigned script_len;
static struct record requests[REQUESTS_MAX];
static unsigned request_count;
static bool signatures_checked = true;
static void (*before_answer)(unsigned number); /* NULL: nothing happens */

static void do_before_answers(void (*before)(unsigned number))
{
	pthread_mutex_lock(&script_lock);
	before_answer = before;
	pthread_mutex_unlock(&script_lock);
}

/* The value of the header NAME of a request; NULL: there is none. It lives
 * until the next call. */
static const char *header_of(const char *text, const char *name)
{
	static __thread char value[SERVER_REQUEST_MAX];
	const char *line = strstr(text, "\r\n");

	while (line != NULL && strncmp(line, "\r\n\r\n", 4) != 0) {
		size_t len = strlen(name);

		line += 2;
		if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
			line += len + 1;
			line += strspn(line, " ");
			snprintf(value, sizeof(value), "%.*s",
				 (int)strcspn(line, "\r"), line);
			return value;
		}
		line = strstr(line, "\r\n");
	}
	return NULL;
}

/* NAME is among the ";"-separated NAMES. */
static bool is_listed(const char *names, const char *name)
{
	size_t len = strlen(name);

	for (;; names += strcspn(names, ";") + 1) {
		if (strncasecmp(names, name, len) == 0 &&
		    (names[len] == ';' || names[len] == '\0'))
			return true;
		if (names[strcspn(names, ";")] == '\0')
			return false;
	}
}

/* What must be signed is: Host, Content-Type and all of Amazon's. */
static void check_listed(const char *text, const char *names)
{
	const char *line = strstr(text, "\r\n");

	CHECK(is_listed(names, "host"));
	while (strncmp(line, "\r\n\r\n", 4) != 0) {
		char name[128];

		line += 2;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(line, ":"),
			 line);
		if (strncasecmp(name, "x-amz-", 6) == 0 ||
		    strcasecmp(name, "content-type") == 0 ||
		    strncasecmp(name, "if-", 3) == 0)
			CHECK(is_listed(names, name));
		line = strstr(line, "\r\n");
	}
}

/* The headers that are signed beside those of the signature itself. */
static size_t other_headers(const char *text, const char *names,
			    struct sigv4_pair pairs[SIGV4_PAIRS_MAX])
{
	static const char own[] = "host;x-amz-date;x-amz-content-sha256;"
				  "x-amz-security-token";
	size_t count = 0;

	while (*names) {
		size_t len = strcspn(names, ";");
		char *name = strndup(names, len);

		if (!is_listed(own, name)) {
			CHECK(count < SIGV4_PAIRS_MAX);
			CHECK(header_of(text, name) != NULL);
			pairs[count].value = strdup(header_of(text, name));
			pairs[count++].name = name;
		} else {
			free(name);
		}
		names += names[len] ? len + 1 : len;
	}
	return count;
}

static char *copy_header(const char *text, const char *name)
{
	const char *value = header_of(text, name);

	return strdup(value != NULL ? value : "");
}

/* The time of x-amz-date, since 1970. */
static int64_t signed_ms(const char *text)
{
	struct tm tm = {.tm_isdst = 0};
	const char *date = header_of(text, "x-amz-date");

	CHECK(date != NULL &&
	      strptime(date, "%Y%m%dT%H%M%SZ", &tm) == date + strlen(date));
	return (int64_t)timegm(&tm) * 1000;
}

/* Signs the request anew from what came, the Host header and all, and
 * compares. The secret of the key AK is "hush-AK". */
static void check_signed(const struct record *record)
{
	struct sigv4_pair pairs[SIGV4_PAIRS_MAX];
	char method[16], target[8192], key[64], date[16], region[64], names[512];
	char *host = copy_header(record->text, "Host");
	char *token = copy_header(record->text, "x-amz-security-token");
	char *sent = copy_header(record->text, "Authorization");
	struct sigv4_signature signature;
	char secret[80];
	char *path = target, *query;
	struct sigv4_keys keys = {key, secret, token};
	struct sigv4_scope scope = {region, "s3", signed_ms(record->text)};
	struct sigv4_request request = {.method = method, .host = host};

	CHECK_EQ(sscanf(record->text, "%15s %8191s", method, target), 2);
	CHECK_EQ(sscanf(sent,
			"AWS4-HMAC-SHA256 Credential=%63[^/]/%15[^/]/%63[^/]"
			"/s3/aws4_request, SignedHeaders=%511[^,]",
			key, date, region, names),
		 4);
	check_listed(record->text, names);
	snprintf(secret, sizeof(secret), "hush-%s", key);
	if (strncmp(path, "http://", 7) == 0) /* to a proxy */
		path = strchr(path + 7, '/');
	query = strchr(path, '?');
	if (query != NULL)
		*query++ = '\0';
	request.path = path;
	request.query = query;
	request.headers = pairs;
	request.header_count = other_headers(record->text, names, pairs);
	request.body = record->body;
	request.body_len = record->body_len;
	CHECK_EQ(sigv4_sign(&signature, &request, &keys, &scope), OUTCOME_OK);
	CHECK_STR(sent, signature.authorization);
	CHECK_STR(header_of(record->text, "x-amz-content-sha256"),
		  signature.content_sha256);
	for (size_t i = 0; i < request.header_count; i++) {
		free((void *)(uintptr_t)pairs[i].name);
		free((void *)(uintptr_t)pairs[i].value);
	}
	free(host);
	free(token);
	free(sent);
}

/* Keeps REQUEST and says what its answer is. */
static struct reply keep_request(const struct server_request *request,
				 unsigned *number, void (**before)(unsigned))
{
	struct record *record;
	struct reply reply;

	pthread_mutex_lock(&script_lock);
	CHECK(request_count < REQUESTS_MAX && script_len > 0);
	*number = request_count++;
	record = &requests[*number];
	record->text = malloc(request->len + 1);
	CHECK(record->text != NULL);
	memcpy(record->text, request->text, request->len + 1);
	record->body = record->text + (request->body - request->text);
	record->body_len = request->body_len;
	if (signatures_checked && strncmp(record->text, "CONNECT ", 8) != 0)
		check_signed(record);
	*before = before_answer;
	reply = script[*number < script_len ? *number : script_len - 1];
	pthread_mutex_unlock(&script_lock);
	return reply;
}

/* In one piece: in two the second one waits for the peer's delayed ACK. */
static void send_reply(int fd, const struct reply *reply, bool head)
{
	const char *headers = reply->headers != NULL ? reply->headers : "";
	const char *body = reply->body != NULL ? reply->body : "";
	size_t len = reply->body_len != 0 ? reply->body_len : strlen(body);
	size_t announced = reply->ending == CUT ? len + 1 : len;
	size_t size = strlen(headers) + 100 + len;
	char *text = malloc(size);
	size_t used;

	CHECK(text != NULL);
	used = (size_t)snprintf(text, size,
				"HTTP/1.1 %d Status\r\n%s"
				"Content-Length: %zu\r\n\r\n",
				reply->status, headers, announced);
	if (!head && len > 0)
		memcpy(text + used, body, len);
	server_send(fd, text, head ? used : used + len);
	free(text);
}

static bool answer_by_script(struct server *s, int fd,
			     const struct server_request *request)
{
	void (*before)(unsigned number);
	unsigned number;
	struct reply reply = keep_request(request, &number, &before);

	if (before != NULL)
		before(number);
	while (reply.ending == HANGS && !s->leaving)
		server_sleep_ms(5);
	if (reply.ending == CLOSED || reply.ending == HANGS)
		return false;
	send_reply(fd, &reply, strncmp(request->text, "HEAD ", 5) == 0);
	return reply.ending == WHOLE;
}

/* What the server answers from now on, and no request came yet. */
static void play_list(const struct reply *replies, size_t count)
{
	pthread_mutex_lock(&script_lock);
	CHECK(count > 0 && count <= SCRIPT_MAX);
	memcpy(script, replies, count * sizeof(*replies));
	script_len = (unsigned)count;
	for (unsigned i = 0; i < request_count; i++)
		free(requests[i].text);
	request_count = 0;
	pthread_mutex_unlock(&script_lock);
}

#define PLAY(...)                                                              \
	play_list((const struct reply[]){__VA_ARGS__},                         \
		  sizeof((const struct reply[]){__VA_ARGS__}) /                \
			  sizeof(struct reply))

static unsigned requests_seen(void)
{
	unsigned count;

	pthread_mutex_lock(&script_lock);
	count = request_count;
	pthread_mutex_unlock(&script_lock);
	return count;
}

/* The request NUMBER, which must have come. */
static const char *request_text(unsigned number)
{
	CHECK(number < requests_seen());
	return requests[number].text;
}

static void check_header(unsigned number, const char *name, const char *value)
{
	const char *sent = header_of(request_text(number), name);

	if (value == NULL && sent != NULL)
		CHECK_FAIL("%s is sent: '%s'", name, sent);
	if (value == NULL)
		return;
	if (sent == NULL)
		CHECK_FAIL("%s is not sent", name);
	CHECK_STR(sent, value);
}

static void check_line(unsigned number, const char *line)
{
	const char *text = request_text(number);
	char sent[8192];

	snprintf(sent, sizeof(sent), "%.*s", (int)strcspn(text, "\r"), text);
	CHECK_STR(sent, line);
}

/* It is signed with KEY for REGION; NULL: either may be any. */
static void check_scope(unsigned number, const char *key, const char *region)
{
	char sent_key[64], date[16], sent_region[64];
	const char *sent = header_of(request_text(number), "Authorization");

	CHECK_EQ(sscanf(sent, "%*[^=]=%63[^/]/%15[^/]/%63[^/]/", sent_key, date,
			sent_region),
		 3);
	if (key != NULL)
		CHECK_STR(sent_key, key);
	if (region != NULL)
		CHECK_STR(sent_region, region);
}

/* --- The machine ---------------------------------------------------------- */

/* How many times slower this run is. */
static int64_t slow(void)
{
	return getenv("CELLDFS_VALGRIND") ? 8 : 1;
}

static void write_keys(const char *key)
{
	char path[128], fresh[136];
	FILE *file;

	snprintf(path, sizeof(path), "%s/keys", home);
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	file = fopen(fresh, "w");
	CHECK(file != NULL);
	fprintf(file,
		"[default]\naws_access_key_id = %s\n"
		"aws_secret_access_key = hush-%s\n",
		key, key);
	CHECK_EQ(fclose(file), 0);
	CHECK_EQ(rename(fresh, path), 0);
}

/* An environment with one key, the server's endpoint, and nothing else. */
static void set_environment(void)
{
	char text[128];

	forget_settings();
	setenv("HOME", home, 1);
	snprintf(text, sizeof(text), "%s/none", home);
	setenv("AWS_CONFIG_FILE", text, 1);
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	setenv("AWS_ACCESS_KEY_ID", "AKenv", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "hush-AKenv", 1);
	snprintf(text, sizeof(text), "http://127.0.0.1:%d", server->port);
	setenv("AWS_ENDPOINT_URL_S3", text, 1);
}

/* The keys come from a file. */
static void use_keys_file(const char *key)
{
	char path[128];

	unsetenv("AWS_ACCESS_KEY_ID");
	unsetenv("AWS_SECRET_ACCESS_KEY");
	snprintf(path, sizeof(path), "%s/keys", home);
	setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
	write_keys(key);
}

static enum outcome try_open(const char *name, bool allow_http,
			     struct store **opened)
{
	struct store_options options = {.allow_http = allow_http};
	struct limits limits = within_ms(1000);
	struct reason reason = {""};
	enum outcome outcome =
		store_s3_open(opened, name, &options, &limits, &reason);

	if (outcome != OUTCOME_OK)
		CHECK(reason.text[0] != '\0');
	CHECK(strstr(reason.text, "hush") == NULL);
	return outcome;
}

static void open_bucket(const char *name)
{
	if (store != NULL)
		store_close(store);
	store = NULL;
	CHECK_EQ(try_open(name, false, &store), OUTCOME_OK);
}

/* A server of its own, and the bucket "fleet" on it. */
static void start(void)
{
	signal(SIGPIPE, SIG_IGN);
	snprintf(home, sizeof(home), "/tmp/celldfs-s3-XXXXXX");
	CHECK(mkdtemp(home) != NULL);
	server = calloc(1, sizeof(*server));
	CHECK(server != NULL);
	server->answer = answer_by_script;
	server_start(server);
	set_environment();
	open_bucket("fleet");
	do_before_answers(NULL);
}

static void finish(void)
{
	char path[128];

	store_close(store);
	store = NULL;
	server_stop(server);
	free(server);
	PLAY({200});
	snprintf(path, sizeof(path), "%s/keys", home);
	unlink(path);
	CHECK_EQ(rmdir(home), 0);
}

static void start_with_file(void (*before)(unsigned number))
{
	start();
	use_keys_file("AKold");
	open_bucket("fleet");
	do_before_answers(before);
}

/* --- The calls ------------------------------------------------------------ */

static int64_t patience_ms = 20000; /* of each call below */
static struct object object;	    /* of the last get() */
static struct answer answer;	    /* of the last call */
static char etag[ETAG_SIZE];	    /* of the last put */

/* Secrets of all tests have "hush" in them. */
static enum outcome checked(enum outcome outcome)
{
	CHECK(strstr(answer.reason.text, "hush") == NULL);
	return outcome;
}

static enum outcome get_known(const char *known)
{
	struct limits limits = within_ms(patience_ms);

	object_release(&object);
	object_init(&object);
	return checked(
		store_get(store, &limits, KEY, known, &object, &answer));
}

static enum outcome get(void)
{
	return get_known(NULL);
}

static enum outcome put(const struct guard *guard)
{
	struct limits limits = within_ms(patience_ms);
	struct attempt attempt = {"0123456789abcdef0123456789abcdef"};

	return checked(store_put_if(store, &limits, KEY, BODY, strlen(BODY),
				    guard, &attempt, etag, &answer));
}

static enum outcome create(void)
{
	struct guard guard = {.kind = GUARD_ABSENT};

	return put(&guard);
}

static enum outcome swap(void)
{
	struct guard guard = {.kind = GUARD_MATCH, .etag = "old"};

	return put(&guard);
}

static enum outcome delete(void)
{
	struct limits limits = within_ms(patience_ms);

	return checked(store_remove(store, &limits, "probe/x", &answer));
}

static struct fleet_time now_within_ms(int64_t ms, enum outcome wanted)
{
	struct limits limits = within_ms(ms);
	struct fleet_time time = {0, 0};

	CHECK_EQ(store_now(store, &limits, &time), wanted);
	return time;
}

static char listed[4096]; /* "name dir/ ..." of the last list() */

static enum outcome take_entry(void *arg, const struct list_entry *entry)
{
	size_t len = strlen(listed);

	(void)arg;
	snprintf(listed + len, sizeof(listed) - len, "%s%s ", entry->name,
		 entry->directory ? "/" : "");
	return OUTCOME_OK;
}

static enum outcome list_after(struct buf *after)
{
	struct limits limits = within_ms(patience_ms);
	enum outcome outcome;

	listed[0] = '\0';
	outcome = checked(store_list(store, &limits, "cells/", after,
				     take_entry, NULL, &answer));
	if (outcome != OUTCOME_OK)
		CHECK_STR(listed, "");
	return outcome;
}

static enum outcome list(void)
{
	struct buf after;
	enum outcome outcome;

	buf_init(&after, LIST_AFTER_MAX);
	outcome = list_after(&after);
	buf_release(&after);
	return outcome;
}

#endif
