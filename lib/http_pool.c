#include "http_pool.h"

#include "clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* CURLOPT_QUICK_EXIT: without it, giving up in the middle of a name lookup
 * waits until the lookup has ended. */
#if defined(LIBCURL_VERSION_NUM) && LIBCURL_VERSION_NUM < 0x075700
#error "libcurl 7.87 or later is needed"
#endif

struct http_pool {
	unsigned idle_max;
	char *ca_bundle;      /* NULL: the system's */
	pthread_mutex_t lock; /* guards the two below */
	struct connection *idle;
	unsigned idle_count;
	int64_t fresh_until_ms; /* CLOCK_BOOTTIME: no reuse before */
};

static pthread_once_t init_once = PTHREAD_ONCE_INIT;
static CURLcode init_result;

static void init_libcurl(void)
{
	init_result = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static const char *ca_bundle_of_environment(void)
{
	static const char *const names[] = {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE",
					    "SSL_CERT_FILE"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value != NULL && value[0] != '\0')
			return value;
	}
	return NULL;
}

enum outcome http_pool_new(struct http_pool **made, unsigned idle_max,
			   struct reason *reason)
{
	const char *ca_bundle = ca_bundle_of_environment();
	struct http_pool *pool;

	pthread_once(&init_once, init_libcurl);
	if (init_result != CURLE_OK)
		return reason_set(reason, OUTCOME_FAILED, "libcurl: %s",
				  curl_easy_strerror(init_result));
	pool = calloc(1, sizeof(*pool));
	if (pool == NULL)
		return reason_set(reason, OUTCOME_NO_MEMORY, "out of memory");
	if (ca_bundle != NULL) {
		pool->ca_bundle = strdup(ca_bundle);
		if (pool->ca_bundle == NULL) {
			free(pool);
			return reason_set(reason, OUTCOME_NO_MEMORY,
					  "out of memory");
		}
	}
	pool->idle_max = idle_max;
	pthread_mutex_init(&pool->lock, NULL);
	*made = pool;
	return OUTCOME_OK;
}

static void connection_free(struct connection *connection)
{
	if (connection->easy != NULL)
		curl_easy_cleanup(connection->easy);
	if (connection->multi != NULL)
		curl_multi_cleanup(connection->multi);
	free(connection);
}

static struct connection *connection_new(void)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (connection == NULL)
		return NULL;
	connection->easy = curl_easy_init();
	connection->multi = curl_multi_init();
	if (connection->easy == NULL || connection->multi == NULL ||
	    curl_multi_setopt(connection->multi, CURLMOPT_MAXCONNECTS, 1L) !=
		    CURLM_OK) {
		connection_free(connection);
		return NULL;
	}
	return connection;
}

struct connection *connection_take(struct http_pool *pool)
{
	struct connection *connection;

	pthread_mutex_lock(&pool->lock);
	connection = clock_boot_ms() < pool->fresh_until_ms ? NULL : pool->idle;
	if (connection != NULL) {
		pool->idle = connection->next;
		pool->idle_count--;
	}
	pthread_mutex_unlock(&pool->lock);
	return connection != NULL ? connection : connection_new();
}

bool connection_reset(struct connection *connection)
{
#if LIBCURL_VERSION_NUM < 0x080100
	/* One that is used again can look for the last header of the answer
	 * before, which is freed (curl, issue 11101). */
	CURL *easy = curl_easy_init();

	if (easy == NULL)
		return false;
	curl_easy_cleanup(connection->easy);
	connection->easy = easy;
#else
	curl_easy_reset(connection->easy);
#endif
	return true;
}

void connection_distrust(struct http_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->fresh_until_ms = clock_boot_ms() + 2000;
	pthread_mutex_unlock(&pool->lock);
}

void connection_give_back(struct http_pool *pool, struct connection *connection)
{
	bool kept;

	pthread_mutex_lock(&pool->lock);
	kept = pool->idle_count < pool->idle_max;
	if (kept) {
		connection->next = pool->idle;
		pool->idle = connection;
		pool->idle_count++;
	}
	pthread_mutex_unlock(&pool->lock);
	if (!kept)
		connection_free(connection);
}

void http_pool_free(struct http_pool *pool)
{
	if (pool == NULL)
		return;
	while (pool->idle != NULL) {
		struct connection *connection = pool->idle;

		pool->idle = connection->next;
		connection_free(connection);
	}
	pthread_mutex_destroy(&pool->lock);
	free(pool->ca_bundle);
	free(pool);
}

const char *connection_ca_bundle(const struct http_pool *pool)
{
	return pool->ca_bundle;
}
