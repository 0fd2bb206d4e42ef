/* What a store answers, from the socket up: through libcurl, lib/http and
 * lib/store_s3. The input is all that the server sends, whatever it was asked,
 * before it closes the connection; its first byte says what it is asked: a
 * write, or a read. What the store says to that must be borne out by the bytes.
 */
#define _GNU_SOURCE

#include "fuzz.h"

#include "clock.h"
#include "log.h"
#include "store_s3.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORD "{\"node\":\"n\",\"epoch\":1}"

static struct store *store;
static struct reason reason;
static const char *answer_bytes; /* while a request is under way */
static size_t answer_len;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards both */

/* Reads one request: its headers, and a body if there is one. */
static void read_request(int fd)
{
	char bytes[16 * 1024];
	size_t len = 0;
	char *end = NULL;

	while (len < sizeof(bytes) - 1) {
		ssize_t got = recv(fd, bytes + len, sizeof(bytes) - 1 - len, 0);

		if (got <= 0)
			return;
		len += (size_t)got;
		bytes[len] = '\0';
		end = end ? end : strstr(bytes, "\r\n\r\n");
		if (end && (strncmp(bytes, "PUT", 3) != 0 ||
			    strstr(end, RECORD) != NULL))
			return;
	}
}

static void *serve(void *arg)
{
	int listener = *(int *)arg;

	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			continue;
		read_request(fd);
		pthread_mutex_lock(&lock);
		(void)!send(fd, answer_bytes, answer_len, MSG_NOSIGNAL);
		pthread_mutex_unlock(&lock);
		shutdown(fd, SHUT_WR);
		close(fd);
	}
	return NULL;
}

static void prepare(void)
{
	static int listener;
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof(address);
	struct store_options options = {.allow_http = true};
	struct limits limits = {.deadline_ms = clock_boot_ms() + 10000};
	char url[64];
	pthread_t thread;

	signal(SIGPIPE, SIG_IGN);
	MUST(log_to("/dev/null", &reason) == OUTCOME_OK);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	MUST(bind(listener, (struct sockaddr *)&address, len) == 0);
	MUST(listen(listener, 16) == 0);
	MUST(getsockname(listener, (struct sockaddr *)&address, &len) == 0);
	MUST(pthread_create(&thread, NULL, serve, &listener) == 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d",
		 ntohs(address.sin_port));
	setenv("AWS_ENDPOINT_URL", url, 1);
	setenv("AWS_ACCESS_KEY_ID", "key", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
	setenv("AWS_REGION", "here", 1);
	setenv("AWS_CONFIG_FILE", "/dev/null", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
	setenv("NO_PROXY", "*", 1);
	MUST(store_s3_open(&store, "bucket", &options, &limits, &reason) ==
	     OUTCOME_OK);
}

/* Is there a status line with STATUS? */
static bool says(const char *bytes, size_t len, int status)
{
	char number[16];

	snprintf(number, sizeof(number), " %03d", status);
	for (size_t i = 0; i + strlen("HTTP/1.1 200") <= len; i++)
		if (strncasecmp(bytes + i, "HTTP/", 5) == 0 &&
		    (memcmp(bytes + i + strlen("HTTP/1.1"), number, 4) == 0 ||
		     memcmp(bytes + i + strlen("HTTP/2"), number, 4) == 0))
			return true;
	return false;
}

static bool has(const char *bytes, size_t len, const char *text)
{
	return memmem(bytes, len, text, strlen(text)) != NULL;
}

static void check_write(const char *bytes, size_t len)
{
	struct limits limits = {.deadline_ms = clock_boot_ms() + 5000};
	struct guard guard = {.kind = GUARD_MATCH, .etag = "e"};
	struct attempt attempt = {"00112233445566778899aabbccddeeff"};
	struct answer answer = {0};
	char etag[ETAG_SIZE] = "";
	enum outcome outcome =
		store_put_if(store, &limits, "cells/a/own.json", RECORD,
			     strlen(RECORD), &guard, &attempt, etag, &answer);

	switch ((int)outcome) {
	case OUTCOME_OK:
		MUST(says(bytes, len, 200));
		MUST(etag[0] != '\0' && has(bytes, len, etag));
		break;
	case OUTCOME_REJECTED:
		MUST(says(bytes, len, 412) || says(bytes, len, 304) ||
		     says(bytes, len, 404));
		break;
	case OUTCOME_NOT_DONE:
		MUST(answer.status == 409 || answer.status == 429 ||
		     answer.status == 503 || answer.status >= 300);
		break;
	case OUTCOME_UNKNOWN:
	case OUTCOME_TIMEOUT: /* it could not be sent */
		break;
	case OUTCOME_DENIED:
	case OUTCOME_FAILED:
		/* 0: nothing was sent */
		MUST(answer.status == 0 || answer.status >= 300);
		break;
	default:
		MUST(!"an outcome of a write");
	}
	if (answer.status)
		MUST(says(bytes, len, answer.status));
}

static void check_read(const char *bytes, size_t len)
{
	/* what asks for a retry would ask for it again */
	struct limits limits = {.deadline_ms = clock_boot_ms() + 20};
	struct answer answer = {0};
	struct object object;
	enum outcome outcome;

	object_init(&object);
	outcome = store_get(store, &limits, "cells/a/own.json", NULL, &object,
			    &answer);
	if (outcome == OUTCOME_OK) {
		MUST(says(bytes, len, 200));
		MUST(object.etag[0] == '\0' || has(bytes, len, object.etag));
		MUST(has(bytes, len, object.attempt.hex));
		MUST(object.body.len <= len);
	}
	MUST(outcome != OUTCOME_ABSENT || says(bytes, len, 404));
	MUST(outcome != OUTCOME_UNCHANGED && outcome != OUTCOME_REJECTED);
	object_release(&object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!store)
		prepare();
	if (size == 0)
		return 0;
	pthread_mutex_lock(&lock);
	answer_bytes = (const char *)data + 1;
	answer_len = size - 1;
	pthread_mutex_unlock(&lock);
	if (data[0] == 'r')
		check_read((const char *)data + 1, size - 1);
	else
		check_write((const char *)data + 1, size - 1);
	pthread_mutex_lock(&lock);
	answer_len = 0;
	pthread_mutex_unlock(&lock);
	return 0;
}
