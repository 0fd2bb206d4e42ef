/* http: an attempt always ends, and heeds the environment.
 */
#include "http_fixture.h"

#include <dlfcn.h>
#include <netdb.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* --- It ends by itself ---------------------------------------------------- */

static enum stage always_hang(struct server *s, unsigned number)
{
	(void)s;
	(void)number;
	return STAGE_HANG;
}

static atomic_int name_lookup_ms; /* how long looking up *.slow.test takes */

/* Stands in for libc's in libcurl, too. */
int getaddrinfo(const char *node, const char *service,
		const struct addrinfo *hints, struct addrinfo **result)
{
	int (*real)(const char *, const char *, const struct addrinfo *,
		    struct addrinfo **);

	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	if (node != NULL && strstr(node, ".slow.test") != NULL) {
		server_sleep_ms(name_lookup_ms);
		return EAI_NONAME;
	}
	return real(node, service, hints, result);
}

/* A port that takes no connection and refuses none: its queue is full. */
struct black_hole {
	int fd;
	int fillers[8];
	int port;
};

static void black_hole_start(struct black_hole *hole)
{
	hole->fd = server_listen(0, &hole->port);
	for (size_t i = 0; i < 8; i++) {
		struct sockaddr_in address = {
			.sin_family = AF_INET,
			.sin_port = htons((uint16_t)hole->port),
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

		hole->fillers[i] =
			socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)connect(hole->fillers[i], (struct sockaddr *)&address,
			      sizeof(address));
	}
	server_sleep_ms(20);
}

static void black_hole_stop(struct black_hole *hole)
{
	for (size_t i = 0; i < 8; i++)
		close(hole->fillers[i]);
	close(hole->fd);
}

struct stopper {
	struct stop stop;
	int after_ms;
	_Atomic int64_t requested_ms;
};

static void *stopper_thread(void *arg)
{
	struct stopper *stopper = arg;

	server_sleep_ms(stopper->after_ms);
	stopper->requested_ms = clock_boot_ms();
	stop_request(&stopper->stop);
	return NULL;
}

static bool is_slowed(void)
{
	const char *sanitize = getenv("CELLDFS_SANITIZE");

	return getenv("CELLDFS_VALGRIND") != NULL ||
	       (sanitize != NULL && sanitize[0] != '\0');
}

/* How late an attempt may end; valgrind and sanitizers add to what the code
 * itself takes. */
static int64_t slack_ms(void)
{
	return is_slowed() ? 5000 : 200;
}

/* When the end comes: late enough for a request to be out by then, and after
 * libcurl has let its own first timers (200 ms) pass, which wake it anyway. */
static int end_after_ms(void)
{
	return is_slowed() ? 1500 : 300;
}

/* On a machine that is busy with other things, one try says little. */
#define TRIES 5

/* Ends a PUT to AT by a stop request; returns how late it was. */
static int64_t end_by_stop(const char *at, enum http_result wanted)
{
	struct stopper stopper = {.after_ms = end_after_ms()};
	struct limits limits = within_ms(10000);
	struct http_request request = {
		.method = "PUT", .url = at, .body = "body", .body_len = 4};
	pthread_t thread;
	int64_t late_ms;

	stop_init(&stopper.stop);
	limits.stop = &stopper.stop;
	pthread_create(&thread, NULL, stopper_thread, &stopper);
	CHECK_EQ(http_perform(pool, &limits, &request, &response), wanted);
	late_ms = clock_boot_ms();
	pthread_join(thread, NULL);
	late_ms -= stopper.requested_ms;
	CHECK_EQ(response.cause, HTTP_CAUSE_STOP);
	CHECK(strstr(response.reason.text, "interrupted") != NULL);
	stop_release(&stopper.stop);
	return late_ms;
}

/* The same by the deadline. */
static int64_t end_by_deadline(const char *at, enum http_result wanted)
{
	struct limits limits = within_ms(end_after_ms());
	struct http_request request = {
		.method = "PUT", .url = at, .body = "body", .body_len = 4};
	int64_t late_ms;

	CHECK_EQ(http_perform(pool, &limits, &request, &response), wanted);
	late_ms = clock_boot_ms() - limits.deadline_ms;
	CHECK(late_ms >= -1); /* both clocks are cut to whole ms */
	CHECK_EQ(response.cause, HTTP_CAUSE_TIMEOUT);
	return late_ms;
}

static void end_early(const char *at, enum http_result wanted)
{
	int64_t late_ms = INT64_MAX;

	for (int i = 0; i < TRIES && late_ms > slack_ms(); i++)
		late_ms = end_by_stop(at, wanted);
	CHECK(late_ms <= slack_ms());
	late_ms = INT64_MAX;
	for (int i = 0; i < TRIES && late_ms > slack_ms(); i++)
		late_ms = end_by_deadline(at, wanted);
	CHECK(late_ms <= slack_ms());
}

static void test_ends_while_hanging(void)
{
	start();
	server->stage_of = always_hang;
	end_early(url, HTTP_UNKNOWN);
	/* A connection with an answer still to come is not used again. */
	CHECK_EQ(server->connections, server->whole);
	server->stage_of = NULL;
	CHECK_EQ(get(), HTTP_ANSWERED);
	CHECK_EQ(server->connections, server->whole);
	finish();
}

static void test_ends_while_connecting(void)
{
	struct black_hole hole;
	char at[64];

	start();
	black_hole_start(&hole);
	snprintf(at, sizeof(at), "http://127.0.0.1:%d/k", hole.port);
	end_early(at, HTTP_NOT_SENT);
	black_hole_stop(&hole);
	finish();
}

/* A TLS server that says nothing. */
static void test_ends_in_handshake(void)
{
	char at[64];

	start();
	server->stage_of = always_hang;
	snprintf(at, sizeof(at), "https://127.0.0.1:%d/k", server->port);
	end_early(at, HTTP_NOT_SENT);
	finish();
}

static void test_ends_in_lookup(void)
{
	name_lookup_ms = 5000;
	start();
	end_early("http://bucket.slow.test/k", HTTP_NOT_SENT);
	finish();
}

static void test_connect_limit(void)
{
	struct limits limits = within_ms(20000);
	struct http_request request = {.method = "GET"};
	struct black_hole hole;
	int64_t start_ms;
	char at[64];

	start();
	black_hole_start(&hole);
	snprintf(at, sizeof(at), "http://127.0.0.1:%d/k", hole.port);
	request.url = at;
	start_ms = clock_boot_ms();
	CHECK_EQ(http_perform(pool, &limits, &request, &response),
		 HTTP_NOT_SENT);
	CHECK(clock_boot_ms() - start_ms >= HTTP_CONNECT_MS - 10);
	CHECK(clock_boot_ms() - start_ms <= HTTP_CONNECT_MS + 2000);
	CHECK_EQ(response.cause, HTTP_CAUSE_TIMEOUT);
	black_hole_stop(&hole);
	finish();
}

static bool drip(struct server *s, int fd, const struct server_request *request)
{
	(void)request;
	server_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
	for (int i = 0; i < 1000 && !s->leaving; i++) {
		server_say(fd, "x");
		server_sleep_ms(10);
	}
	return false;
}

/* An answer that comes byte by byte does not put the deadline off. */
static void test_ends_while_dripping(void)
{
	start();
	server->answer = drip;
	end_early(url, HTTP_UNKNOWN);
	CHECK_EQ(response.status, 200);
	finish();
}

static void test_over_before_it_begins(void)
{
	struct http_request request = {.method = "GET", .url = url};
	struct limits limits = within_ms(0);
	struct stop stop;

	start();
	CHECK_EQ(http_perform(pool, &limits, &request, &response),
		 HTTP_NOT_SENT);
	CHECK_EQ(response.cause, HTTP_CAUSE_TIMEOUT);
	stop_init(&stop);
	stop_request(&stop);
	limits = within_ms(1000);
	limits.stop = &stop;
	CHECK_EQ(http_perform(pool, &limits, &request, &response),
		 HTTP_NOT_SENT);
	CHECK_EQ(response.cause, HTTP_CAUSE_STOP);
	stop_release(&stop);
	CHECK_EQ(server->connections, 0);
	finish();
}

static _Atomic int64_t suspended_ms;

static int64_t boot_after_suspension(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 +
	       suspended_ms;
}

static void *suspend(void *arg)
{
	(void)arg;
	server_sleep_ms(end_after_ms());
	suspended_ms = 3600000;
	return NULL;
}

/* The deadline goes on while the machine is suspended. */
static void test_suspended_machine(void)
{
	struct http_request request = {.method = "GET"};
	struct limits limits;
	struct timespec before, after;
	pthread_t thread;

	clock_replace(boot_after_suspension, NULL);
	start();
	request.url = url;
	server->stage_of = always_hang;
	limits = within_ms(60000);
	clock_gettime(CLOCK_MONOTONIC, &before);
	pthread_create(&thread, NULL, suspend, NULL);
	CHECK_EQ(http_perform(pool, &limits, &request, &response),
		 HTTP_UNKNOWN);
	clock_gettime(CLOCK_MONOTONIC, &after);
	pthread_join(thread, NULL);
	CHECK_EQ(response.cause, HTTP_CAUSE_TIMEOUT);
	CHECK((after.tv_sec - before.tv_sec) * 1000 +
		      (after.tv_nsec - before.tv_nsec) / 1000000 <
	      2500 + slack_ms());
	finish();
	clock_replace(NULL, NULL);
	suspended_ms = 0;
}

static bool answer_late(struct server *s, int fd,
			const struct server_request *request)
{
	(void)s;
	(void)request;
	server_sleep_ms(100);
	server_reply(fd, 200, "", "");
	return true;
}

static void test_times(void)
{
	int64_t before_ms, after_ms;

	start();
	server->answer = answer_late;
	before_ms = clock_boot_ms();
	CHECK_EQ(get(), HTTP_ANSWERED);
	after_ms = clock_boot_ms();
	CHECK(response.sent_ms >= before_ms);
	CHECK(response.answered_ms - response.sent_ms >= 99);
	CHECK(response.answered_ms <= after_ms);
	finish();
}

static void test_not_sent(void)
{
	struct limits limits = within_ms(5000);
	struct http_request request = {
		.method = "PUT", .body = "x", .body_len = 1};
	char at[64];
	int port;

	start();
	close(server_listen(1, &port)); /* nobody is there any more */
	snprintf(at, sizeof(at), "http://127.0.0.1:%d/k", port);
	request.url = at;
	CHECK_EQ(http_perform(pool, &limits, &request, &response),
		 HTTP_NOT_SENT);
	CHECK_EQ(response.cause, HTTP_CAUSE_FAILED);
	name_lookup_ms = 0;
	request.url = "http://no.slow.test/k";
	CHECK_EQ(http_perform(pool, &limits, &request, &response),
		 HTTP_NOT_SENT);
	CHECK(strstr(response.reason.text, "no.slow.test") != NULL);
	request.url = "ftp://127.0.0.1/k";
	CHECK_EQ(http_perform(pool, &limits, &request, &response),
		 HTTP_NOT_SENT);
	CHECK(strcasestr(response.reason.text, "protocol") != NULL);
	request.url = "not a url";
	CHECK_EQ(http_perform(pool, &limits, &request, &response),
		 HTTP_NOT_SENT);
	finish();
}

/* --- The environment ------------------------------------------------------ */

static bool refuse_connect(struct server *s, int fd,
			   const struct server_request *request)
{
	(void)s;
	(void)request;
	server_reply(fd, 403, "ETag: \"of-the-proxy\"\r\n", "no");
	return false;
}

static void test_proxy(void)
{
	static char seen[SERVER_REQUEST_MAX + 1];
	struct limits limits = within_ms(5000);
	struct http_request request = {.method = "GET",
				       .url = "http://no.slow.test/k"};
	char proxy[64];

	name_lookup_ms = 0;
	start();
	snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", server->port);
	setenv("http_proxy", proxy, 1);
	CHECK_EQ(http_perform(pool, &limits, &request, &response),
		 HTTP_ANSWERED);
	server_last(server, seen);
	CHECK(starts_with(seen, "GET http://no.slow.test/k HTTP/1.1\r\n"));
	request.direct = true;
	CHECK_EQ(http_perform(pool, &limits, &request, &response),
		 HTTP_NOT_SENT);
	request.direct = false;
	setenv("NO_PROXY", ".slow.test", 1);
	CHECK_EQ(http_perform(pool, &limits, &request, &response),
		 HTTP_NOT_SENT);
	unsetenv("NO_PROXY");
	unsetenv("http_proxy");

	/* What a proxy says to CONNECT is not the answer. */
	setenv("HTTPS_PROXY", proxy, 1);
	request.url = "https://no.slow.test/k";
	server->answer = refuse_connect;
	CHECK_EQ(http_perform(pool, &limits, &request, &response),
		 HTTP_NOT_SENT);
	CHECK_EQ(response.status, 0);
	CHECK(http_header(&response, "etag") == NULL);
	server_last(server, seen);
	CHECK(starts_with(seen, "CONNECT no.slow.test:443 HTTP/1.1\r\n"));
	unsetenv("HTTPS_PROXY");
	finish();
}

static const char tls_server[] =
	"command -v openssl >/dev/null || exit 77; cd \"$0\" && openssl req "
	"-x509 -newkey rsa:2048 -nodes -days 2 "
	"-keyout key -out cert -subj /CN=localhost "
	"-addext subjectAltName=DNS:localhost 2>log && exec openssl s_server "
	"-accept 127.0.0.1:\"$1\" -key key -cert cert -www -quiet >>log 2>&1";

static enum http_result get_by_tls(const char *host, int port,
				   const char *ca_variable, const char *ca)
{
	struct limits limits = within_ms(5000);
	struct http_request request = {.method = "GET"};
	enum http_result result;
	struct http_pool *own;
	struct reason reason;
	char at[64];

	snprintf(at, sizeof(at), "https://%s:%d/", host, port);
	request.url = at;
	setenv(ca_variable, ca, 1);
	CHECK_EQ(http_pool_new(&own, 1, &reason), OUTCOME_OK);
	result = http_perform(own, &limits, &request, &response);
	http_pool_free(own);
	unsetenv(ca_variable);
	return result;
}

/* "openssl s_server -www" ends its answers by closing, which is no whole answer
 * here: UNKNOWN with a status is as good as it gets. */
static void test_tls(void)
{
	char directory[] = "/tmp/test_http.XXXXXX", ca[64], port_text[16];
	enum http_result result = HTTP_NOT_SENT;
	pid_t child;
	int port, status;

	CHECK(mkdtemp(directory) != NULL);
	snprintf(ca, sizeof(ca), "%s/cert", directory);
	close(server_listen(1, &port));
	snprintf(port_text, sizeof(port_text), "%d", port);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sh", "sh", "-c", tls_server, directory, port_text,
		      (char *)NULL);
		_exit(1);
	}
	http_response_init(&response, BODY_MAX * 16);
	for (int i = 0; i < 100 && result == HTTP_NOT_SENT; i++) {
		server_sleep_ms(50);
		if (waitpid(child, &status, WNOHANG) == child) {
			CHECK_EQ(WEXITSTATUS(status), 77);
			printf("skipped: no openssl command\n");
			http_response_release(&response);
			CHECK_EQ(rmdir(directory), 0);
			return;
		}
		result = get_by_tls("localhost", port, "SSL_CERT_FILE", ca);
	}
	if (result != HTTP_UNKNOWN)
		CHECK_FAIL("%s", response.reason.text);
	CHECK_EQ(response.status, 200);
	CHECK_EQ(get_by_tls("localhost", port, "AWS_CA_BUNDLE", ca),
		 HTTP_UNKNOWN);
	CHECK_EQ(get_by_tls("localhost", port, "CURL_CA_BUNDLE", ca),
		 HTTP_UNKNOWN);
	/* The wrong name, no trust, no such bundle. */
	CHECK_EQ(get_by_tls("127.0.0.1", port, "AWS_CA_BUNDLE", ca),
		 HTTP_NOT_SENT);
	CHECK_EQ(get_by_tls("localhost", port, "AWS_CA_BUNDLE", ""),
		 HTTP_NOT_SENT);
	CHECK_EQ(response.cause, HTTP_CAUSE_FAILED);
	CHECK_EQ(get_by_tls("localhost", port, "AWS_CA_BUNDLE", "/no/bundle"),
		 HTTP_NOT_SENT);
	CHECK(strstr(response.reason.text, "/no/bundle") != NULL);
	http_response_release(&response);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	for (int i = 0; i < 3; i++) {
		static const char *const names[] = {"key", "cert", "log"};
		char path[64];

		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		unlink(path);
	}
	CHECK_EQ(rmdir(directory), 0);
}

/* Nothing of a request is in a reason. */
static void test_no_secret(void)
{
	struct http_header headers[] = {{"Authorization", "hush-header"}};
	struct limits limits = within_ms(300);
	struct http_request request = {.method = "PUT",
				       .url = url,
				       .headers = headers,
				       .header_count = 1,
				       .body = "hush-body",
				       .body_len = 9};

	for (int stage = STAGE_BEFORE_READING; stage <= STAGE_HANG; stage++) {
		start();
		server->stage_of = stage_of_second;
		second_stage = stage;
		CHECK_EQ(get(), HTTP_ANSWERED);
		limits = within_ms(300);
		CHECK(http_perform(pool, &limits, &request, &response) !=
		      HTTP_ANSWERED);
		CHECK(response.reason.text[0] != '\0');
		CHECK(strstr(response.reason.text, "hush") == NULL);
		finish();
	}
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	forget_settings();
	RUN(test_ends_while_hanging);
	RUN(test_ends_while_connecting);
	RUN(test_ends_in_handshake);
	RUN(test_ends_in_lookup);
	RUN(test_connect_limit);
	RUN(test_ends_while_dripping);
	RUN(test_over_before_it_begins);
	RUN(test_suspended_machine);
	RUN(test_times);
	RUN(test_not_sent);
	RUN(test_proxy);
	RUN(test_tls);
	RUN(test_no_secret);
	return 0;
}
