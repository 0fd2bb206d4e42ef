/* credentials: the environment and the files, and that no secret shows.
 */
#include "credentials_fixture.h"

#include <sys/prctl.h>

/* --- The environment ------------------------------------------------------ */

static void set_long(const char *name, size_t len)
{
	char value[5000] = "/";

	memset(value + 1, 'x', len - 1);
	value[len] = '\0';
	CHECK_EQ(setenv(name, value, 1), 0);
}

static void test_environment(void)
{
	start();
	set_env("AWS_ACCESS_KEY_ID", "AK1", "AWS_SECRET_ACCESS_KEY", "hush1");
	CHECK_EQ(get(), OUTCOME_OK);
	CHECK_STR(keys.access_key, "AK1");
	CHECK_STR(keys.secret_key, "hush1");
	CHECK_STR(keys.session_token, "");
	CHECK_EQ(keys.expires_boot_ms, INT64_MAX);
	CHECK_STR(keys.source, "the environment");
	set_env("AWS_SESSION_TOKEN", "hush-token");
	CHECK_EQ(get_afresh(), OUTCOME_OK);
	CHECK_STR(keys.session_token, "hush-token");

	unsetenv("AWS_ACCESS_KEY_ID");
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("AWS_ACCESS_KEY_ID");
	set_env("AWS_ACCESS_KEY_ID", "AK1", "AWS_SECRET_ACCESS_KEY", "");
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("AWS_SECRET_ACCESS_KEY");
	set_env("AWS_SECRET_ACCESS_KEY", "hush\n");
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	set_env("AWS_SECRET_ACCESS_KEY", "hush with blanks");
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	set_long("AWS_SECRET_ACCESS_KEY", KEYS_KEY_SIZE);
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("too long");
	finish();
}

static void test_nowhere(void)
{
	start();
	CHECK_EQ(get(), OUTCOME_DENIED);
	check_reason("no credentials");
	unsetenv("HOME");
	set_env("AWS_EC2_METADATA_DISABLED", "TRUE");
	link_local_asked = 0;
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	CHECK_EQ(link_local_asked, 0);
	set_long("HOME", 4000); /* which names no file */
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	set_long("AWS_PROFILE", 4900);
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("AWS_PROFILE is too long");
	finish();
}

static void check_site(const char *region, const char *endpoint)
{
	struct site site;

	CHECK_EQ(credentials_site(&site, &reason), OUTCOME_OK);
	CHECK_STR(site.region, region);
	CHECK_STR(site.endpoint, endpoint);
}

/* --- The files ------------------------------------------------------------ */

static void test_profiles(void)
{
	start();
	write_file(".aws/credentials",
		   "# comment\n"
		   "[other]\naws_access_key_id=NO\naws_secret_access_key=NO\n"
		   "[default]\n"
		   "aws_access_key_id = AKdefault\r\n"
		   "aws_secret_access_key=hush/de+fault==  # a comment\n"
		   "\n"
		   "; comment\n"
		   "unknown = x\n"
		   "[ dev ] # comment\n"
		   "  AWS_ACCESS_KEY_ID = AKdev\n"
		   "  aws_secret_access_key = hush#dev\n"
		   "  aws_session_token = hush-token=\n");
	check_file_keys("AKdefault", "hush/de+fault==", "");
	CHECK_STR(keys.source, "AWS's files");
	set_env("AWS_PROFILE", "dev");
	check_file_keys("AKdev", "hush#dev", "hush-token=");
	set_env("AWS_PROFILE", "missing");
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("'missing'");
	finish();
}

/* The keys of one file never mix with those of the other. */
static void test_both_files(void)
{
	start();
	write_file(".aws/config", "\xef\xbb\xbf[default]\nregion=eu-west-1\n"
				  "[profile dev]\n"
				  "aws_access_key_id = AKconfig\n"
				  "aws_secret_access_key = hush-config\n"
				  "aws_session_token = hush-token-of-config\n"
				  "s3 =\n"
				  "  aws_access_key_id = NO\n"
				  "region = us-west-2\n"
				  "[dev]\n"
				  "aws_access_key_id = NO\n"
				  "[profile \"two words\"]\n"
				  "aws_access_key_id = AKtwo\n"
				  "aws_secret_access_key = hush-two\n");
	set_env("AWS_PROFILE", "dev");
	check_file_keys("AKconfig", "hush-config", "hush-token-of-config");
	write_file(".aws/credentials", "[dev]\n"
				       "aws_access_key_id = AKcredentials\n"
				       "aws_secret_access_key = hush-c\n");
	check_file_keys("AKcredentials", "hush-c", "");
	set_env("AWS_PROFILE", "two words");
	check_file_keys("AKtwo", "hush-two", "");
	finish();
}

static void test_file_places(void)
{
	start();
	write_file("token", "[default]\naws_access_key_id=AK\n"
			    "aws_secret_access_key=hush\n");
	set_env("AWS_SHARED_CREDENTIALS_FILE", "~/token");
	check_file_keys("AK", "hush", "");
	setenv("AWS_SHARED_CREDENTIALS_FILE", "~/token", 1);
	check_file_keys("AK", "hush", "");
	unsetenv("AWS_SHARED_CREDENTIALS_FILE");
	set_env("AWS_CONFIG_FILE", "~/token");
	check_file_keys("AK", "hush", "");
	set_env("AWS_CONFIG_FILE", "~/.aws"); /* a directory */
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("plain file");
	set_env("AWS_CONFIG_FILE", "/dev/zero");
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	finish();
}

/* /dev/null is how one says that there is no such file. */
static void test_null_device(void)
{
	char path[256];

	start();
	write_file(".aws/config", "[default]\nregion=r-config\n");
	write_file(".aws/credentials", "[default]\naws_access_key_id=AK\n"
				       "aws_secret_access_key=hush\n");
	check_file_keys("AK", "hush", "");
	check_site("r-config", "");
	set_env("AWS_CONFIG_FILE", "/dev/null");
	check_file_keys("AK", "hush", "");
	check_site("", "");
	set_env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	check_reason("no credentials");
	set_env("AWS_PROFILE", "p");
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("'p'");
	clear_env();
	snprintf(path, sizeof(path), "%s/.aws/config", home);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(symlink("/dev/null", path), 0);
	check_file_keys("AK", "hush", "");
	set_env("AWS_CONFIG_FILE", "/dev/full");
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("plain file");
	finish();
}

static void test_malformed_files(void)
{
	static const struct {
		const char *text, *reason;
	} rows[] = {
		{"[default]\naws_access_key_id=AK\nhush without equals\n",
		 "line 3: neither"},
		{"[default\naws_access_key_id=AK\n", "line 1: a section"},
		{"[default]\naws_access_key_id=AK\n", "only one of"},
		{"[default]\naws_secret_access_key=hush\n", "only one of"},
		{"[default]\naws_access_key_id=A\naws_secret_access_key=hu "
		 "sh\n",
		 "a blank"},
		{"[default]\nrole_arn=arn\nsource_profile=base\n",
		 "another source"},
		{"[default]\nrole_arn=arn\ncredential_source=Environment\n",
		 "another source"},
		{"[default]\nrole_arn=arn\naws_access_key_id=A\n"
		 "aws_secret_access_key=hush\n",
		 "role_arn without"},
		{"[default]\ncredential_process=/bin/hush\n",
		 "credential_process"},
		{"[default]\nsso_session=x\n", "single sign-on"},
		{"[default]\nsso_start_url=x\n", "single sign-on"},
		{"[default]\nweb_identity_token_file=/x\n", "no role_arn"},
	};
	static char large[2 * 1024 * 1024];
	char path[256];

	start();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		write_file(".aws/credentials", rows[i].text);
		CHECK_EQ(get_afresh(), OUTCOME_INVALID);
		check_reason(rows[i].reason);
	}
	memset(large, '#', sizeof(large) - 1);
	write_file(".aws/credentials", large);
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("larger than");
	snprintf(large, 2000, "[default]\naws_access_key_id=%01000d\n", 1);
	write_file(".aws/credentials", large);
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("too long");
	snprintf(path, sizeof(path), "%s/.aws/credentials", home);
	CHECK_EQ(truncate(path, 100), 0);
	CHECK_EQ(truncate(path, 200), 0); /* NULs at the end */
	CHECK_EQ(get_afresh(), OUTCOME_INVALID);
	check_reason("no text");
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(symlink(path, path), 0);
	CHECK_EQ(get_afresh(), OUTCOME_DENIED);
	check_reason("cannot open");
	finish();
}

/* --- The site ------------------------------------------------------------- */

static void test_site(void)
{
	static const char *const no_regions[] = {"a b", "a/b", "a.b", "a#",
						 "a@b"};
	static const char *const no_endpoints[] = {"127.0.0.1:80", "ftp://x",
						   "http://a b", "hush"};
	struct site site;

	start();
	check_site("", "");
	write_file(".aws/config", "[default]\nregion=r-file\n"
				  "endpoint_url = http://file:1\n"
				  "[profile p]\nregion=r-p\n");
	check_site("r-file", "http://file:1");
	set_env("AWS_PROFILE", "p");
	check_site("r-p", "");
	unsetenv("AWS_PROFILE");
	set_env("AWS_DEFAULT_REGION", "r-default", "AWS_ENDPOINT_URL",
		"https://all");
	check_site("r-default", "https://all");
	set_env("AWS_REGION", "r-env", "AWS_ENDPOINT_URL_S3", "https://s3");
	check_site("r-env", "https://s3");
	set_env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
	check_site("r-env", "");
	unsetenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");

	for (size_t i = 0; i < sizeof(no_endpoints) / sizeof(char *); i++) {
		set_env("AWS_ENDPOINT_URL_S3", no_endpoints[i]);
		CHECK_EQ(credentials_site(&site, &reason), OUTCOME_INVALID);
	}
	/* who writes a password there finds it in no log */
	set_env("AWS_ENDPOINT_URL_S3", "user:quiet@host");
	CHECK_EQ(credentials_site(&site, &reason), OUTCOME_INVALID);
	CHECK(strstr(reason.text, "'host'") && !strstr(reason.text, "quiet"));
	unsetenv("AWS_ENDPOINT_URL_S3");
	for (size_t i = 0; i < sizeof(no_regions) / sizeof(char *); i++) {
		set_env("AWS_REGION", no_regions[i]);
		CHECK_EQ(credentials_site(&site, &reason), OUTCOME_INVALID);
		CHECK_STR(site.region, "");
	}
	unsetenv("AWS_REGION");
	set_env("AWS_PROFILE", "missing");
	CHECK_EQ(credentials_site(&site, &reason), OUTCOME_INVALID);
	finish();
}

static void test_not_dumpable(void)
{
	prctl(PR_SET_DUMPABLE, 1);
	start();
	CHECK_EQ(prctl(PR_GET_DUMPABLE), 0);
	finish();
}

int main(void)
{
	machine_start();
	RUN(test_environment);
	RUN(test_nowhere);
	RUN(test_profiles);
	RUN(test_both_files);
	RUN(test_file_places);
	RUN(test_null_device);
	RUN(test_malformed_files);
	RUN(test_site);
	RUN(test_not_dumpable);
	machine_stop();
	return 0;
}
