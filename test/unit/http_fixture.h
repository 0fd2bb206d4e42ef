/* http_fixture: a server, a pool and a response, for the tests of http.
 */
#ifndef CELLDFS_TEST_HTTP_FIXTURE_H
#define CELLDFS_TEST_HTTP_FIXTURE_H

#include "check.h"
#include "http_server.h"
#include "surroundings.h"

#include "http.h"

#define BODY_MAX 4096

static struct http_pool *pool;
static struct server *server;
static struct http_response response;
static char url[256];

static inline void start(void)
{
	struct reason reason;

	server = calloc(1, sizeof(*server));
	CHECK(server != NULL);
	server_start(server);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/k", server->port);
	CHECK_EQ(http_pool_new(&pool, 4, &reason), OUTCOME_OK);
	http_response_init(&response, BODY_MAX);
}

static inline void finish(void)
{
	http_response_release(&response);
	http_pool_free(pool);
	server_stop(server);
	free(server);
}

static inline enum http_result perform(const char *method, const void *body,
				size_t len)
{
	struct limits limits = within_ms(5000);
	struct http_request request = {
		.method = method, .url = url, .body = body, .body_len = len};

	return http_perform(pool, &limits, &request, &response);
}

static inline enum http_result get(void)
{
	return perform("GET", NULL, 0);
}

static inline void check_body(const char *wanted)
{
	CHECK_EQ(response.body.len, strlen(wanted));
	CHECK(memcmp(response.body.bytes, wanted, strlen(wanted)) == 0);
}

static inline bool starts_with(const char *text, const char *start_of_text)
{
	return strncmp(text, start_of_text, strlen(start_of_text)) == 0;
}

/* Of two requests, where the second one ends. */
static _Atomic enum stage second_stage;

static inline enum stage stage_of_second(struct server *s, unsigned number)
{
	(void)s;
	return number == 1 ? second_stage : STAGE_ANSWER;
}

#endif
