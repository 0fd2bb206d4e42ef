/* What an S3 store's error document says; what is none says nothing.
 */
#define _GNU_SOURCE

#include "check.h"

#include "s3_xml.h"

#define PAGE_SIZE (64 * 1024)

static const char whole_error[] =
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	"<Error><Code>AuthorizationHeaderMalformed</Code>"
	"<Message>The region &apos;us-east-1&apos; is wrong</Message>"
	"<Region>eu-west-1</Region><RequestId>tx0000</RequestId>"
	"<HostId>abc</HostId></Error>";

static void test_error(void)
{
	struct s3_error error;

	s3_error_parse(&error, whole_error, strlen(whole_error));
	CHECK_STR(error.code, "AuthorizationHeaderMalformed");
	CHECK_STR(error.message, "The region 'us-east-1' is wrong");
	CHECK_STR(error.region, "eu-west-1");
}

static void check_says_nothing(const char *text, size_t len)
{
	struct s3_error error;
	char *copy = malloc(len ? len : 1);

	CHECK(copy != NULL);
	memcpy(copy, text, len);
	memset(&error, 'x', sizeof(error));
	s3_error_parse(&error, copy, len);
	free(copy);
	CHECK_STR(error.code, "");
	CHECK_STR(error.message, "");
	CHECK_STR(error.region, "");
}

static void test_no_error(void)
{
	static const char *const texts[] = {
		"",
		"<html><head><title>503</title></head></html>",
		"SlowDown",
		"<Code>SlowDown</Code>",
		"<a><Error><Code>SlowDown</Code></Error></a>",
		"<Error><a><Code>SlowDown</Code></a></Error>",
		"<Error><Code>SlowDown</Code></Error>x",
		"<Error/>",
		"{\"Code\": \"SlowDown\"}",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		check_says_nothing(texts[i], strlen(texts[i]));
	for (size_t len = 0; len < sizeof(whole_error) - 1; len++)
		check_says_nothing(whole_error, len);
	check_says_nothing("\0", 1);
}

/* People's text may be cut. */
static void test_long_error(void)
{
	static char text[PAGE_SIZE], filler[PAGE_SIZE / 4];
	struct s3_error error;

	memset(filler, 'f', sizeof(filler) - 1);
	snprintf(text, sizeof(text),
		 "<Error><Message>%.200s</Message><Code>%.200s</Code>"
		 "<Region>%.200s</Region></Error>",
		 filler, filler, filler);
	s3_error_parse(&error, text, strlen(text));
	CHECK_EQ(strlen(error.message), sizeof(error.message) - 1);
	CHECK_EQ(strlen(error.code), sizeof(error.code) - 1);
	CHECK_EQ(strlen(error.region), sizeof(error.region) - 1);
	snprintf(text, sizeof(text),
		 "<Error><Message>%s</Message><Code>SlowDown</Code></Error>",
		 filler);
	s3_error_parse(&error, text, strlen(text));
	CHECK_STR(error.code, "SlowDown");
}

int main(void)
{
	RUN(test_error);
	RUN(test_no_error);
	RUN(test_long_error);
	return 0;
}
