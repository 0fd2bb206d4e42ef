/* url: whose host a URL names. What could be read in two ways is nobody's. What
 * of it may be shown.
 */
#include "check.h"

#include "url.h"

static void check_loopback(const char *url, bool wanted)
{
	if (url_is_loopback(url) != wanted)
		CHECK_FAIL("'%s' is taken for %s", url,
			   wanted ? "another machine" : "this machine");
}

static void test_loopback(void)
{
	static const char *const here[] = {
		"http://127.0.0.1",	   "http://127.0.0.1:80/x",
		"https://127.255.255.255", "http://LocalHost?x",
		"http://localhost#x",	   "http://[::1]",
		"http://[::1]:80/x@y",	   "other://127.0.0.1/",
	};
	static const char *const elsewhere[] = {
		"",
		"127.0.0.1",
		"http://",
		"http:///",
		"http://:80",
		"http://0.0.0.0",
		"http://128.0.0.1",
		"http://126.255.255.255",
		/* names, whatever they look like */
		"http://127.1",
		"http://127.0.0.999",
		"http://127.0.0.256",
		"http://0127.0.0.1",
		"http://127.0.0.1.",
		"http://127.0.0.1.example",
		"http://127.0.0.1x",
		"http://localhost.example",
		"http://localhostile",
		"http://[::2]",
		"http://[::1",
		"http://[::1]x",
		"http://[::1].example",
		"http://[127.0.0.1]",
		/* two hosts */
		"http://localhost@example",
		"http://example@localhost",
		"http://127.0.0.1:80@example",
		"http://example\\@127.0.0.1",
		"http://127.0.0.1%2eexample",
	};
	char url[600] = "http://127.0.0.1";

	for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++)
		check_loopback(here[i], true);
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		check_loopback(elsewhere[i], false);
	memset(url + strlen(url), '0', sizeof(url) - strlen(url) - 1);
	check_loopback(url, false);
}

static void test_host(void)
{
	static const char *const hosts[] = {"169.254.170.2", "[fd00:ec2::23]",
					    NULL};
	static const char *const none[] = {NULL};

	CHECK(url_host_is("http://169.254.170.2/x", hosts));
	CHECK(url_host_is("http://[FD00:ec2::23]:80", hosts));
	CHECK(!url_host_is("http://169.254.170.23", hosts));
	CHECK(!url_host_is("http://169.254.170.2", none));
	CHECK(!url_host_is("http://169.254.170.2@example", hosts));
}

static void test_shown(void)
{
	CHECK_STR(url_shown("https://s3.example:1/x"),
		  "https://s3.example:1/x");
	CHECK_STR(url_shown("https://user:hush@s3.example"), "s3.example");
	CHECK_STR(url_shown("user:hu@sh@s3.example"), "s3.example");
}

int main(void)
{
	RUN(test_loopback);
	RUN(test_host);
	RUN(test_shown);
	return 0;
}
