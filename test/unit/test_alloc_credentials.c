/* HTTP and the credentials when memory runs out, in libcurl, OpenSSL and expat
 * as well: a request that was sent is not called unsent, and no source of keys
 * is passed over for the next one.
 *
 * not under valgrind: it looks past the malloc() of alloc.h.
 */
#include "alloc.h"

#include "credentials_fixture.h"

#include <pwd.h>
#include <signal.h>

/* --- HTTP ----------------------------------------------------------------- */

static bool put_is_sent(void)
{
	static const struct http_header header = {"X-Mine", "1"};
	struct limits limits = within_ms(20000);
	char url[64];
	struct http_request request = {.method = "PUT",
				       .url = url,
				       .headers = &header,
				       .header_count = 1,
				       .body = "body",
				       .body_len = 4};
	struct http_pool *fresh = NULL;
	struct http_response response;
	enum http_result result = HTTP_NOT_SENT;
	unsigned before = server->whole;
	enum outcome outcome;

	snprintf(url, sizeof(url), "http://127.0.0.1:%d/k", server->port);
	http_response_init(&response, 1000);
	alloc_begin();
	outcome = http_pool_new(&fresh, 1, &reason);
	if (outcome == OUTCOME_OK)
		result = http_perform(fresh, &limits, &request, &response);
	alloc_end();
	if (result == HTTP_ANSWERED) {
		CHECK_EQ(response.status, 200);
		CHECK_EQ(response.body.len, strlen(body_given));
		CHECK_STR(http_header(&response, "date"),
			  "Fri, 24 May 2013 00:00:00 GMT");
		CHECK(saw("X-Mine: 1\r\n"));
	} else if (outcome != OUTCOME_OK) {
		CHECK_EQ(outcome, OUTCOME_NO_MEMORY);
	}
	/* that of a cut connection may yet come */
	if (result == HTTP_NOT_SENT)
		CHECK_EQ(server->whole, before);
	http_response_release(&response);
	http_pool_free(fresh);
	return result == HTTP_ANSWERED;
}

/* --- Credentials ---------------------------------------------------------- */

static const char *wanted_key;

/* Keys, or a failure; and they come once there is memory again. */
static bool get_once(void)
{
	struct credentials *fresh = NULL;
	struct limits limits = within_ms(20000);
	enum outcome outcome;
	int asked;

	link_local_asked = 0;
	keys_wipe(&keys);
	alloc_begin();
	outcome = credentials_new(&fresh, pool, false);
	if (outcome == OUTCOME_OK)
		outcome = credentials_get(fresh, &limits, &keys, &reason);
	alloc_end();
	asked = link_local_asked;
	if (outcome != OUTCOME_OK && fresh != NULL) {
		CHECK_STR(reason.text, outcome == OUTCOME_NO_MEMORY
					       ? "out of memory"
					       : "the user's home directory "
						 "cannot be looked up for now");
		later_ms += 2000; /* it does not ask again at once */
		limits = within_ms(20000);
		CHECK_EQ(credentials_get(fresh, &limits, &keys, &reason),
			 OUTCOME_OK);
	}
	if (fresh != NULL)
		CHECK_STR(keys.access_key, wanted_key);
	if (link_local_port == 0)
		CHECK_EQ(asked, 0);
	credentials_free(fresh);
	return outcome == OUTCOME_OK;
}

/* Stands in for libc's, whose files are not ours: it needs memory, too. */
int getpwuid_r(uid_t uid, struct passwd *entry, char *buffer, size_t size,
	       struct passwd **found)
{
	void *file = malloc(100);

	(void)uid;
	*found = NULL;
	if (file == NULL)
		return ENOMEM;
	free(file);
	snprintf(buffer, size, "%s", home);
	entry->pw_dir = buffer;
	*found = entry;
	return 0;
}

static bool keys_come_from_files(void)
{
	return get_once();
}

static bool keys_come_from_the_container(void)
{
	return get_once();
}

static bool keys_come_from_the_instance(void)
{
	return get_once();
}

static bool keys_come_from_sts(void)
{
	return get_once();
}

static bool site_is_read(void)
{
	struct site site;
	enum outcome outcome;

	alloc_begin();
	outcome = credentials_site(&site, &reason);
	alloc_end();
	if (outcome == OUTCOME_OK)
		CHECK_STR(site.region, "eu-west-3");
	else if (outcome != OUTCOME_FAILED)
		CHECK_EQ(outcome, OUTCOME_NO_MEMORY);
	return outcome == OUTCOME_OK;
}

static bool instance(struct server *s, int fd,
		     const struct server_request *request)
{
	char path[256] = "";

	(void)s;
	sscanf(request->text, "GET %255s", path);
	if (strncmp(request->text, "PUT ", 4) == 0)
		server_reply(fd, 200, DATE, "hush-instance-token");
	else if (path[strlen(path) - 1] == '/')
		server_reply(fd, 200, DATE, "role");
	else
		server_reply(fd, 200, DATE, JSON_KEYS);
	return true;
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	machine_start();

	start_server("the answer");
	set_env("AWS_CA_BUNDLE", "~/none");
	TRY(put_is_sent);
	finish_server();

	start();
	wanted_key = "AKfile";
	write_file(".aws/credentials", "[default]\naws_access_key_id=AKfile\n"
				       "aws_secret_access_key=hush\n");
	write_file(".aws/config", "[default]\nregion=eu-west-3\n");
	TRY(keys_come_from_files);
	TRY(site_is_read);
	unsetenv("HOME");
	TRY(keys_come_from_files);
	TRY(site_is_read);
	finish();

	start_server(JSON_KEYS);
	wanted_key = "AKjson";
	set_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/keys");
	set_env("AWS_CONTAINER_AUTHORIZATION_TOKEN", "hush-container");
	TRY(keys_come_from_the_container);
	finish_server();

	start_server("");
	server->answer = instance;
	link_local_port = server->port;
	TRY(keys_come_from_the_instance);
	finish_server();

	start_server(XML_KEYS);
	wanted_key = "AKxml";
	write_file("token", "hush-web");
	set_env("AWS_WEB_IDENTITY_TOKEN_FILE", "~/token", "AWS_ROLE_ARN", "arn",
		"AWS_REGION", "eu-west-3");
	set_url("AWS_ENDPOINT_URL_STS", "");
	TRY(keys_come_from_sts);
	finish_server();

	machine_stop();
	return 0;
}
