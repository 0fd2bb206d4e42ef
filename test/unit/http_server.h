/* http_server: a small HTTP server in threads on 127.0.0.1, for unit tests. It
 * counts what reaches it, answers as the test says, and closes a connection at
 * the stage that the test names.
 */
#ifndef CELLDFS_TEST_HTTP_SERVER_H
#define CELLDFS_TEST_HTTP_SERVER_H

#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SERVER_REQUEST_MAX (64 * 1024) /* bytes of a request that are kept */
#define SERVER_THREADS_MAX 512

/* Where the server ends the connection instead of going on. */
enum stage {
	STAGE_ANSWER,	      /* it does not */
	STAGE_BEFORE_READING, /* as soon as the request's first byte is there */
	STAGE_AFTER_HEADERS,
	STAGE_AFTER_REQUEST,
	STAGE_IN_STATUS, /* after half a status line */
	STAGE_IN_HEADERS,
	STAGE_IN_BODY,
	STAGE_HANG, /* it never answers, and does not close */
};

struct server_request {
	char *text; /* as it came, headers and body; with a NUL */
	size_t len;
	const char *body;
	size_t body_len;
	unsigned number; /* from 0, over all connections */
};

struct server {
	int fd;
	int port;
	bool reset; /* close by RST, not by FIN */

	/* Both may be changed while it runs. The stage for a request; NULL:
	 * STAGE_ANSWER. How to answer on FD; true: the connection stays; NULL:
	 * an empty 200. */
	enum stage (*_Atomic stage_of)(struct server *server, unsigned number);
	bool (*_Atomic answer)(struct server *server, int fd,
			       const struct server_request *request);

	atomic_uint connections;
	atomic_uint begun; /* requests of which the first byte came */
	atomic_uint heads; /* requests of which all headers came */
	atomic_uint whole; /* requests that came as a whole */
	atomic_bool leaving;

	pthread_mutex_t lock; /* guards what follows */
	char last[SERVER_REQUEST_MAX + 1]; /* the last whole request */
	pthread_t threads[SERVER_THREADS_MAX];
	unsigned thread_count;
	pthread_t acceptor;
};

static inline void server_sleep_ms(int ms)
{
	struct timespec pause = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&pause, NULL);
}

static inline void server_send(int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);

		if (sent <= 0)
			return;
		bytes += sent;
		len -= (size_t)sent;
	}
}

__attribute__((format(printf, 2, 3))) static inline void
server_say(int fd, const char *format, ...)
{
	char text[8192];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	CHECK(len >= 0 && (size_t)len < sizeof(text));
	server_send(fd, text, (size_t)len);
}

/* An answer with a body and any further header lines. */
static inline void server_reply(int fd, int status, const char *headers,
				const char *body)
{
	server_say(fd, "HTTP/1.1 %d Status\r\n%sContent-Length: %zu\r\n\r\n%s",
		   status, headers, strlen(body), body);
}

/* Waits until FD is readable; false: the server is leaving. */
static inline bool server_wait(struct server *server, int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	while (!server->leaving)
		if (poll(&poll_fd, 1, 20) > 0)
			return true;
	return false;
}

/* The length that the headers announce; HEAD ends in a NUL. */
static inline size_t server_body_len(const char *head)
{
	const char *line = strcasestr(head, "\r\ncontent-length:");

	return line != NULL ? strtoul(line + 17, NULL, 10) : 0;
}

/* Reads a request up to the end of its headers, or of its body. Bytes beyond
 * what is kept are counted and dropped. */
static inline bool server_read(struct server *server, int fd, bool body,
			       struct server_request *request)
{
	for (;;) {
		char *end = strstr(request->text, "\r\n\r\n");
		size_t room = SERVER_REQUEST_MAX - request->len;
		char waste[4096];
		ssize_t got;

		if (end != NULL) {
			request->body = end + 4;
			if (!body || request->body_len >=
					     server_body_len(request->text))
				return true;
		}
		if (!server_wait(server, fd))
			return false;
		/* Headers one by one, so that the body stays in the kernel
		 * until somebody wants it. */
		if (room == 0)
			got = recv(fd, waste, sizeof(waste), 0);
		else
			got = recv(fd, request->text + request->len,
				   end == NULL ? 1 : room, 0);
		if (got <= 0)
			return false;
		if (room > 0) {
			request->len += (size_t)got;
			request->text[request->len] = '\0';
		}
		if (end != NULL)
			request->body_len += (size_t)got;
	}
}

static inline void server_cut_answer(int fd, enum stage stage)
{
	if (stage == STAGE_IN_STATUS)
		server_say(fd, "HTTP/1.1 2");
	if (stage == STAGE_IN_HEADERS)
		server_say(fd, "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nCont");
	if (stage == STAGE_IN_BODY)
		server_say(fd, "HTTP/1.1 200 OK\r\nETag: \"e\"\r\n"
			       "Content-Length: 100\r\n\r\nhalf");
}

/* One request. True: the connection stays. */
static inline bool server_serve(struct server *server, int fd,
				struct server_request *request)
{
	enum stage (*stage_of)(struct server *, unsigned);
	bool (*answer)(struct server *, int, const struct server_request *);
	enum stage stage;
	char first;

	if (!server_wait(server, fd) || recv(fd, &first, 1, MSG_PEEK) <= 0)
		return false;
	request->number = server->begun++;
	stage_of = server->stage_of;
	answer = server->answer;
	stage = stage_of != NULL ? stage_of(server, request->number)
				 : STAGE_ANSWER;
	if (stage == STAGE_BEFORE_READING)
		return false;
	if (!server_read(server, fd, false, request))
		return false;
	server->heads++;
	if (stage == STAGE_AFTER_HEADERS)
		return false;
	if (!server_read(server, fd, true, request))
		return false;
	pthread_mutex_lock(&server->lock);
	memcpy(server->last, request->text, request->len + 1);
	pthread_mutex_unlock(&server->lock);
	server->whole++;
	while (stage == STAGE_HANG && !server->leaving)
		server_sleep_ms(10);
	if (stage != STAGE_ANSWER) {
		server_cut_answer(fd, stage);
		return false;
	}
	if (answer != NULL)
		return answer(server, fd, request);
	server_reply(fd, 200, "", "");
	return true;
}

struct server_connection {
	struct server *server;
	int fd;
};

static inline void *server_connection_thread(void *arg)
{
	struct server_connection connection = *(struct server_connection *)arg;
	struct linger linger = {.l_onoff = 1};
	struct server_request request = {NULL};
	bool stays = true;

	free(arg);
	request.text = malloc(SERVER_REQUEST_MAX + 1);
	CHECK(request.text != NULL);
	while (stays) {
		request.text[0] = '\0';
		request.len = 0;
		request.body_len = 0;
		stays = server_serve(connection.server, connection.fd,
				     &request);
	}
	free(request.text);
	if (connection.server->reset)
		setsockopt(connection.fd, SOL_SOCKET, SO_LINGER, &linger,
			   sizeof(linger));
	close(connection.fd);
	return NULL;
}

static inline void *server_accept_thread(void *arg)
{
	struct server *server = arg;

	while (server_wait(server, server->fd)) {
		struct server_connection *connection =
			malloc(sizeof(*connection));
		int fd = accept(server->fd, NULL, NULL);

		CHECK(connection != NULL && fd >= 0);
		*connection = (struct server_connection){server, fd};
		server->connections++;
		CHECK(server->thread_count < SERVER_THREADS_MAX);
		pthread_create(&server->threads[server->thread_count++], NULL,
			       server_connection_thread, connection);
	}
	return NULL;
}

/* A socket that listens on a free port of 127.0.0.1. */
static inline int server_listen(int backlog, int *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr =
					      htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&address, len), 0);
	CHECK_EQ(listen(fd, backlog), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	*port = ntohs(address.sin_port);
	return fd;
}

/* Without a server: takes one connection from the socket LISTENER and reads the
 * headers of its request, no further. */
static inline int server_accept_head(int listener)
{
	int fd = accept(listener, NULL, NULL);
	char head[8192] = "", byte;

	CHECK(fd >= 0);
	for (size_t n = 0; strstr(head, "\r\n\r\n") == NULL; n++) {
		CHECK(n < sizeof(head) - 1);
		CHECK_EQ(recv(fd, &byte, 1, 0), 1);
		head[n] = byte;
	}
	return fd;
}

/* SERVER is zeroed but for what the test chose. */
static inline void server_start(struct server *server)
{
	server->fd = server_listen(64, &server->port);
	pthread_mutex_init(&server->lock, NULL);
	CHECK_EQ(pthread_create(&server->acceptor, NULL, server_accept_thread,
				server),
		 0);
}

static inline void server_stop(struct server *server)
{
	server->leaving = true;
	pthread_join(server->acceptor, NULL);
	for (unsigned i = 0; i < server->thread_count; i++)
		pthread_join(server->threads[i], NULL);
	close(server->fd);
	pthread_mutex_destroy(&server->lock);
}

/* A copy of the last whole request. */
static inline void server_last(struct server *server,
			       char text[SERVER_REQUEST_MAX + 1])
{
	pthread_mutex_lock(&server->lock);
	memcpy(text, server->last, sizeof(server->last));
	pthread_mutex_unlock(&server->lock);
}

#endif
