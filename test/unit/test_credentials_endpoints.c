/* credentials: the endpoints that give keys, and which source comes first.
 */
#include "credentials_fixture.h"

static void check_json_keys(void)
{
	CHECK_EQ(get_afresh(), OUTCOME_OK);
	CHECK_STR(keys.access_key, "AKjson");
	CHECK_STR(keys.secret_key, "hush/json+");
	CHECK_STR(keys.session_token, "hush-token");
	CHECK(keys.expires_boot_ms > clock_boot_ms() + HOUR_MS - 30000);
	CHECK(keys.expires_boot_ms <= clock_boot_ms() + HOUR_MS);
}

static void test_container(void)
{
	start_server(JSON_KEYS);
	set_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/creds?x=1");
	check_json_keys();
	CHECK(saw("GET /creds?x=1 HTTP/1.1\r\n"));
	CHECK(strcasestr(seen, "authorization") == NULL);
	set_env("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic hush");
	check_json_keys();
	CHECK(saw("\r\nAuthorization: Basic hush\r\n"));

	/* The file wins, and is read each time. */
	write_file("token", "Bearer hush-1\n");
	set_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "~/token");
	check_json_keys();
	CHECK(saw("\r\nAuthorization: Bearer hush-1\r\n"));
	write_file("token", "Bearer hush-2");
	check_json_keys();
	CHECK(saw("\r\nAuthorization: Bearer hush-2\r\n"));
	set_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "~/none");
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	unsetenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");

	/* A relative one wins, and goes to one address alone; a proxy does not
	 * see it. */
	set_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/relative",
		"http_proxy", "http://127.0.0.1:1");
	link_local_port = server->port;
	check_json_keys();
	CHECK(saw("GET /relative HTTP/1.1\r\nHost: 169.254.170.2\r\n"));
	set_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@evil/");
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	snprintf(seen, sizeof(seen), "/%02050d", 1);
	CHECK_EQ(setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", seen, 1), 0);
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("too long");
	finish_server();
}

static void test_container_hosts(void)
{
	static const char *const refused[] = {
		"http://example.com/x",
		"http://127.0.0.1.example.com/x",
		"http://127.0.0.1@evil/x",
		"http://169.254.170.3/x",
		"http://localhost.evil/x",
		"ftp://127.0.0.1/x",
		"127.0.0.1/x",
		"http://[::2]/x",
		"http://[::1/x",
		"http://[::1]evil/x",
		"http://128.0.0.1/x",
		"http://127.1/x",
		"http://evil\\@127.0.0.1/x",
		"http://a@127.0.0.1/x",
		"http://127.0.0.1:80@evil/x",
		"http:///x",
		"http://127.0.0.1.5/x",
	};
	static const char *const accepted[] = {
		"http://127.0.0.1:1/x",	    "http://127.9.8.7:1/x",
		"http://LOCALHOST:1/x",	    "http://[::1]:1/x",
		"https://example.com/x",    "http://169.254.170.23/x",
		"HTTP://169.254.170.2?x=@",
	};

	start();
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		set_env("AWS_CONTAINER_CREDENTIALS_FULL_URI", refused[i]);
		if (get_afresh() != OUTCOME_INVALID)
			CHECK_FAIL("%s: %s", refused[i], reason.text);
	}
	/* Asked, and nobody there. */
	for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
		set_env("AWS_CONTAINER_CREDENTIALS_FULL_URI", accepted[i]);
		if (get_afresh() != OUTCOME_FAILED)
			CHECK_FAIL("%s: %s", accepted[i], reason.text);
	}
	finish();
}

static bool give_undated(struct server *s, int fd,
			 const struct server_request *request)
{
	(void)s;
	(void)request;
	server_reply(fd, 200, "", body_given);
	return true;
}

static void test_bad_json(void)
{
	static const struct {
		const char *text;
		enum outcome outcome;
	} rows[] = {
		{"", OUTCOME_FAILED},
		{"<html>hush</html>", OUTCOME_FAILED},
		{"[]", OUTCOME_FAILED},
		{"{\"Code\":\"Failed\",\"Message\":\"hush\"}", OUTCOME_FAILED},
		{"{\"AccessKeyId\":\"A\"}", OUTCOME_FAILED},
		{"{\"AccessKeyId\":1,\"SecretAccessKey\":\"hush\"}",
		 OUTCOME_FAILED},
		{"{\"AccessKeyId\":\"\\u00e9\",\"SecretAccessKey\":\"hush\"}",
		 OUTCOME_FAILED},
		{"{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hu\\nsh\"}",
		 OUTCOME_FAILED},
		{"{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hush\","
		 "\"Expiration\":\"soon\"}",
		 OUTCOME_FAILED},
		{"{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hush\","
		 "\"Expiration\":\"2013-05-24T00:00:00Z\"}",
		 OUTCOME_DENIED}, /* expired when they came */
		{"{\"accesskeyid\":\"A\",\"secretaccesskey\":\"hush\"}",
		 OUTCOME_FAILED},
		{"{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hush\",}",
		 OUTCOME_FAILED},
	};

	start_server("");
	set_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		body_given = rows[i].text;
		if (get_afresh() != rows[i].outcome)
			CHECK_FAIL("%s: %s", rows[i].text, reason.text);
	}
	/* expires by the wall clock, without a Date */
	server->answer = give_undated;
	body_given = "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hush\","
		     "\"Expiration\":\"1970-01-01T00:00:13Z\"}";
	CHECK_EQ(get_afresh(), OUTCOME_OK);
	CHECK(keys.expires_boot_ms <= clock_boot_ms() + 13000 - 12345);
	server->answer = give;

	body_given = "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hush\","
		     "\"Token\":null}";
	CHECK_EQ(get_afresh(), OUTCOME_OK);
	CHECK_EQ(keys.expires_boot_ms, INT64_MAX);

	body_given = "{\"message\":\"hush\"}";
	status_given = 403;
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	check_reason("status 403");
	status_given = 500;
	CHECK_EQ(get_afresh(), OUTCOME_FAILED);
	status_given = 429;
	CHECK_EQ(get_afresh(), OUTCOME_FAILED);
	finish_server();
}

/* --- The instance --------------------------------------------------------- */

static const char *_Atomic role_given;
static const char *_Atomic token_given;

static bool instance(struct server *s, int fd,
		     const struct server_request *request)
{
	static const char base[] =
		"GET /latest/meta-data/iam/security-credentials/";
	const char *text = request->text;

	(void)s;
	if (strncmp(text, "PUT /latest/api/token ", 22) == 0) {
		CHECK(strstr(text, "\r\nx-aws-ec2-metadata-token-ttl-seconds: "
				   "300\r\n") != NULL);
		server_reply(fd, status_given, "", token_given);
		return true;
	}
	CHECK(strstr(text, "\r\nx-aws-ec2-metadata-token: "
			   "hush-instance-token\r\n") != NULL);
	CHECK(strncmp(text, base, strlen(base)) == 0);
	text += strlen(base);
	if (*text == ' ')
		server_reply(fd, role_given[0] != '\0' ? 200 : 404, "",
			     role_given);
	else if (strncmp(text, "my-role ", 8) == 0)
		server_reply(fd, 200, DATE, body_given);
	else
		server_reply(fd, 400, "", "");
	return true;
}

static void test_instance(void)
{
	start_server(JSON_KEYS);
	server->answer = instance;
	token_given = "hush-instance-token";
	role_given = "my-role\nanother-role";
	link_local_port = server->port;
	set_env("http_proxy", "http://127.0.0.1:1");
	check_json_keys();
	CHECK_STR(keys.source, "the instance's metadata");
	CHECK_EQ(server->whole, 3);

	link_local_port = 0;
	set_url("AWS_EC2_METADATA_SERVICE_ENDPOINT", "/");
	check_json_keys();
	role_given = "";
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	check_reason("no role");
	role_given = "../hush";
	CHECK_EQ(get_afresh(), OUTCOME_FAILED);
	role_given = "unknown";
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	role_given = "my-role";
	body_given = "{\"Code\":\"AssumeRoleUnauthorizedAccess\"}";
	CHECK_EQ(get_afresh(), OUTCOME_FAILED);
	token_given = "hush token";
	CHECK_EQ(get_afresh(), OUTCOME_FAILED);
	check_reason("malformed token");
	token_given = "\nhush";
	CHECK_EQ(get_afresh(), OUTCOME_FAILED);
	check_reason("malformed token");
	status_given = 403; /* no token: version 1 is not tried */
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	check_reason("status 403");
	set_env("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://example.com");
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	finish_server();
}

/* It does not take all the caller's time, and the next caller none of it. */
static void test_instance_hangs(void)
{
	int64_t start_ms;

	start_server("");
	server->stage_of = hang;
	set_url("AWS_EC2_METADATA_SERVICE_ENDPOINT", "");
	start_ms = clock_boot_ms();
	CHECK_EQ(get(), OUTCOME_FAILED);
	CHECK(clock_boot_ms() - start_ms >= 990);
	CHECK(clock_boot_ms() - start_ms < 4000);
	CHECK_EQ(get(), OUTCOME_FAILED);
	CHECK_EQ(server->whole, 1);
	finish_server();
}

/* --- Web identity --------------------------------------------------------- */

static void test_web_identity(void)
{
	start_server(XML_KEYS);
	write_file("token", "hush.jwt+/=\n");
	set_env("AWS_WEB_IDENTITY_TOKEN_FILE", "~/token", "AWS_ROLE_ARN",
		"arn:aws:iam::1:role/x", "AWS_ROLE_SESSION_NAME", "me");
	set_url("AWS_ENDPOINT_URL_STS", "/");
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_STR(keys.access_key, "AKxml");
	CHECK_STR(keys.secret_key, "hush-xml");
	CHECK_STR(keys.session_token, "hush&token");
	CHECK_STR(keys.source, "STS");
	CHECK(keys.expires_boot_ms > clock_boot_ms() + HOUR_MS - 30000);
	CHECK(saw("POST / HTTP/1.1\r\n"));
	CHECK(saw("\r\nContent-Type: application/x-www-form-urlencoded\r\n"));
	CHECK(saw("\r\n\r\nAction=AssumeRoleWithWebIdentity&Version=2011-06-15"
		  "&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx"
		  "&RoleSessionName=me&WebIdentityToken=hush.jwt%2B%2F%3D"));
	CHECK(!saw("\r\nAuthorization:"));
	unsetenv("AWS_ROLE_SESSION_NAME");
	CHECK_EQ(get_afresh(), OUTCOME_OK);
	CHECK(saw("&RoleSessionName=celldfs-12345&"));

	/* The same by a profile. */
	clear_env();
	set_url("AWS_ENDPOINT_URL_STS", "/");
	write_file(".aws/config", "[default]\nrole_arn=arn\n"
				  "role_session_name=mine\n"
				  "web_identity_token_file=/nowhere/x\n");
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	check_reason("/nowhere/x");
	finish_server();
}

static void test_web_identity_fails(void)
{
	static const char *const texts[] = {
		"",
		"{}",
		"<a>",
		"<!DOCTYPE a [<!ENTITY x \"hush\">]>" XML_KEYS,
		"<Credentials><AccessKeyId>A</AccessKeyId></Credentials>",
		"<a><AccessKeyId>A</AccessKeyId><SecretAccessKey>hush"
		"</SecretAccessKey></a>",
		"<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>hush",
	};
	char text[3000];
	unsigned whole;

	start_server(XML_KEYS);
	write_file("token", "hush-jwt");
	set_env("AWS_WEB_IDENTITY_TOKEN_FILE", "~/token");
	set_url("AWS_ENDPOINT_URL_STS", "/");
	CHECK_EQ(get(), OUTCOME_INVALID);
	check_reason("AWS_ROLE_ARN");
	set_env("AWS_ROLE_ARN", "arn");
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		body_given = texts[i];
		if (get_afresh() != OUTCOME_FAILED)
			CHECK_FAIL("%s: %s", texts[i], reason.text);
	}
	status_given = 400;
	body_given = "<ErrorResponse><Error><Type>Sender</Type><Code>"
		     "ExpiredTokenException</Code><Message>hush-jwt</Message>"
		     "</Error></ErrorResponse>";
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	check_reason("ExpiredTokenException");
	body_given = "<Code>hush jwt</Code>";
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	body_given = "<Code/>";
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	check_reason("status 400");
	/* STS could not ask the one who gave the token: that can pass */
	body_given = "<Code>IDPCommunicationError</Code>";
	CHECK_EQ(get_afresh(), OUTCOME_FAILED);
	check_reason("IDPCommunicationError");
	status_given = 503;
	CHECK_EQ(get_afresh(), OUTCOME_FAILED);

	snprintf(text, sizeof(text),
		 "<Credentials><AccessKeyId>%0300d</AccessKeyId><"
		 "SecretAccessKey>hush</SecretAccessKey></Credentials>",
		 1);
	body_given = text;
	status_given = 200;
	CHECK_EQ(get_afresh(), OUTCOME_FAILED);

	/* An empty one is none, and not worth a request. */
	status_given = 200;
	body_given = XML_KEYS;
	whole = server->whole;
	write_file("token", "\n");
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	check_reason("token holds no token");
	CHECK_EQ(server->whole, whole);
	write_file("token", "hush-jwt");

	/* The token does not go out in plain text. */
	set_env("AWS_ENDPOINT_URL_STS", "http://sts.example.com/");
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	credentials_free(credentials);
	CHECK_EQ(credentials_new(&credentials, pool, true), OUTCOME_OK);
	CHECK_EQ(get(), OUTCOME_FAILED);
	check_reason("sts.example.com");

	snprintf(text, sizeof(text), "https://%02050d", 1);
	CHECK_EQ(setenv("AWS_ENDPOINT_URL_STS", text, 1), 0);
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("too long");

	/* AWS's own, by region. */
	unsetenv("AWS_ENDPOINT_URL_STS");
	CHECK_EQ(get_afresh(), OUTCOME_FAILED);
	check_reason(" sts.amazonaws.com");
	set_env("AWS_REGION", "eu-west-1");
	CHECK_EQ(get_afresh(), OUTCOME_FAILED);
	check_reason(" sts.eu-west-1.amazonaws.com");
	set_env("AWS_REGION", "cn-north-1");
	CHECK_EQ(get_afresh(), OUTCOME_FAILED);
	check_reason(" sts.cn-north-1.amazonaws.com.cn");
	set_env("AWS_REGION", "a/b");
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("no region");
	finish_server();
}

/* The first source that is configured decides. */
static void test_order(void)
{
	start_server(JSON_KEYS);
	server->answer = instance;
	token_given = "hush-instance-token";
	role_given = "my-role";
	set_url("AWS_EC2_METADATA_SERVICE_ENDPOINT", "");
	check_json_keys();
	CHECK_EQ(server->whole, 3);
	set_env("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/");
	CHECK_EQ(get_afresh(), OUTCOME_FAILED);
	check_reason("the container's endpoint");
	write_file(".aws/credentials", "[default]\naws_access_key_id=AKfile\n"
				       "aws_secret_access_key=hush\n");
	check_file_keys("AKfile", "hush", "");
	set_env("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere/token", "AWS_ROLE_ARN",
		"arn");
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	check_reason("/nowhere/token");
	set_env("AWS_ACCESS_KEY_ID", "AKenv", "AWS_SECRET_ACCESS_KEY", "hush");
	CHECK_EQ(get_afresh(), OUTCOME_OK);
	CHECK_STR(keys.access_key, "AKenv");
	CHECK_EQ(server->whole, 3);
	finish_server();
}

int main(void)
{
	machine_start();
	RUN(test_container);
	RUN(test_container_hosts);
	RUN(test_bad_json);
	RUN(test_instance);
	RUN(test_instance_hangs);
	RUN(test_web_identity);
	RUN(test_web_identity_fails);
	RUN(test_order);
	machine_stop();
	return 0;
}
