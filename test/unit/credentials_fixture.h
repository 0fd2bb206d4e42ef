/* credentials_fixture: a machine whose environment, files, clocks and link-local
 * addresses are the test's.
 */
#ifndef CELLDFS_TEST_CREDENTIALS_FIXTURE_H
#define CELLDFS_TEST_CREDENTIALS_FIXTURE_H

#include "check.h"
#include "http_server.h"
#include "surroundings.h"

#include "credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define HOUR_MS 3600000

/* --- A machine of our own ------------------------------------------------- */

static _Atomic int64_t later_ms; /* how far CLOCK_BOOTTIME has been moved on */

static inline int64_t moved_boot_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + later_ms;
}

/* The wall clock is wrong all the time. */
static inline int64_t wrong_wall_ms(void)
{
	return 12345;
}

static atomic_int link_local_port; /* who answers there; 0 = nobody */
static atomic_int link_local_asked;

/* Stands in for libc's in libcurl, too. */
int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t len)
{
	const struct sockaddr_in *in = address.__sockaddr_in__;
	struct sockaddr_in instead = {.sin_family = AF_INET};

	if (in->sin_family == AF_INET &&
	    ntohl(in->sin_addr.s_addr) >> 16 == 0xa9fe) {
		link_local_asked++;
		if (link_local_port == 0) {
			errno = ECONNREFUSED;
			return -1;
		}
		instead.sin_port = htons((uint16_t)link_local_port);
		instead.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return (int)syscall(SYS_connect, fd, &instead, sizeof(instead));
	}
	return (int)syscall(SYS_connect, fd, address.__sockaddr__, len);
}

int getaddrinfo(const char *node, const char *service,
		const struct addrinfo *hints, struct addrinfo **result)
{
	(void)node;
	(void)service;
	(void)hints;
	(void)result;
	return EAI_NONAME;
}

static char home[64];
static struct http_pool *pool;
static struct credentials *credentials;
static struct keys keys;
static struct reason reason;

static inline void write_file(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", home, name);
	file = fopen(path, "w");
	CHECK(file != NULL);
	CHECK(fwrite(text, 1, strlen(text), file) == strlen(text));
	CHECK_EQ(fclose(file), 0);
}

static inline void remove_files(void)
{
	static const char *const names[] = {".aws/credentials", ".aws/config",
					    "token"};
	char path[256];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", home, names[i]);
		unlink(path);
	}
}

/* The environment's variables of one test: NAME, VALUE, ... A VALUE that
 * begins with "~" is below the home directory. */
static inline void set_env_list(const char *name, ...)
{
	va_list args;

	va_start(args, name);
	for (; name != NULL; name = va_arg(args, const char *)) {
		const char *value = va_arg(args, const char *);
		char path[256];

		snprintf(path, sizeof(path), "%s%s",
			 value[0] == '~' ? home : "",
			 value[0] == '~' ? value + 1 : value);
		setenv(name, path, 1);
	}
	va_end(args);
}

#define set_env(...) set_env_list(__VA_ARGS__, (const char *)NULL)

static inline void clear_env(void)
{
	forget_settings();
	set_env("HOME", home);
}

static inline void start(void)
{
	clear_env();
	remove_files();
	link_local_port = 0;
	CHECK_EQ(http_pool_new(&pool, 1, &reason), OUTCOME_OK);
	CHECK_EQ(credentials_new(&credentials, pool, false), OUTCOME_OK);
}

static inline void finish(void)
{
	credentials_free(credentials);
	http_pool_free(pool);
}

/* Secrets of all tests have "hush" in them. */
static inline enum outcome checked(enum outcome outcome)
{
	if (outcome != OUTCOME_OK) {
		CHECK(reason.text[0] != '\0');
		CHECK(strstr(reason.text, "hush") == NULL);
	}
	return outcome;
}

static inline bool is_wiped(const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (((const char *)bytes)[i] != 0)
			return false;
	return true;
}

static inline enum outcome get(void)
{
	struct limits limits = within_ms(5000);
	enum outcome outcome =
		credentials_get(credentials, &limits, &keys, &reason);

	if (outcome != OUTCOME_OK)
		CHECK(is_wiped(&keys, sizeof(keys)));
	return checked(outcome);
}

/* What a fresh chain says. */
static inline enum outcome get_afresh(void)
{
	credentials_free(credentials);
	CHECK_EQ(credentials_new(&credentials, pool, false), OUTCOME_OK);
	return get();
}

static inline void check_reason(const char *part)
{
	if (strstr(reason.text, part) == NULL)
		CHECK_FAIL("'%s' is not in '%s'", part, reason.text);
}

static inline void check_file_keys(const char *access_key, const char *secret_key,
			    const char *token)
{
	CHECK_EQ(get_afresh(), OUTCOME_OK);
	CHECK_STR(keys.access_key, access_key);
	CHECK_STR(keys.secret_key, secret_key);
	CHECK_STR(keys.session_token, token);
}

/* --- An endpoint ------------------------------------------------------------ */

#define DATE "Date: Fri, 24 May 2013 00:00:00 GMT\r\n"

/* One hour after DATE. */
#define JSON_KEYS                                                              \
	"{\"Code\" : \"Success\", \"Extra\": {\"Token\": 1},"                  \
	" \"AccessKeyId\" : \"AKjson\","                                       \
	" \"SecretAccessKey\":\"hush\\/json\\u002b\","                         \
	" \"Token\" : \"hush-token\","                                         \
	" \"Expiration\" : \"2013-05-24T01:00:00Z\"}"

#define XML_KEYS                                                               \
	"<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com" \
	"/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult>"                 \
	"<AssumedRoleUser><Arn>arn</Arn></AssumedRoleUser>"                    \
	"<Credentials><SessionToken>hush&amp;token</SessionToken>"             \
	"<SecretAccessKey>hush-xml</SecretAccessKey>"                          \
	"<Expiration>2013-05-24T01:00:00Z</Expiration>"                        \
	"<AccessKeyId>AKxml</AccessKeyId></Credentials>"                       \
	"</AssumeRoleWithWebIdentityResult></"                                 \
	"AssumeRoleWithWebIdentityResponse>"

static struct server *server;
static const char *_Atomic body_given;
static atomic_int status_given, delay_ms;
static char seen[SERVER_REQUEST_MAX + 1];

static inline bool give(struct server *s, int fd, const struct server_request *request)
{
	(void)s;
	(void)request;
	server_sleep_ms(delay_ms);
	server_reply(fd, status_given, DATE, body_given);
	return true;
}

static inline void start_server(const char *body)
{
	start();
	server = calloc(1, sizeof(*server));
	CHECK(server != NULL);
	server->answer = give;
	body_given = body;
	status_given = 200;
	delay_ms = 0;
	server_start(server);
}

static inline void finish_server(void)
{
	finish();
	server_stop(server);
	free(server);
}

/* Sets VARIABLE to a URL of the server. */
static inline void set_url(const char *variable, const char *path)
{
	char url[256];

	snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", server->port, path);
	setenv(variable, url, 1);
}

static inline bool saw(const char *part)
{
	server_last(server, seen);
	return strstr(seen, part) != NULL;
}

static inline enum stage hang(struct server *s, unsigned number)
{
	(void)s;
	(void)number;
	return STAGE_HANG;
}

/* --- The whole machine ---------------------------------------------------- */

static inline void machine_start(void)
{
	char path[128];

	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(home, sizeof(home), "/tmp/test_credentials.XXXXXX");
	CHECK(mkdtemp(home) != NULL);
	snprintf(path, sizeof(path), "%s/.aws", home);
	CHECK_EQ(mkdir(path, 0700), 0);
	clock_replace(moved_boot_ms, wrong_wall_ms);
}

static inline void machine_stop(void)
{
	char path[128];

	remove_files();
	snprintf(path, sizeof(path), "%s/.aws", home);
	rmdir(path);
	rmdir(home);
}

#endif
