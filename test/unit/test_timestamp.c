/* timestamp: the two forms, and what is neither. */
#include "check.h"

#include "timestamp.h"

static void check_http(const char *text, int64_t wanted_ms)
{
	int64_t ms = -1;

	if (!timestamp_http(text, &ms))
		CHECK_FAIL("'%s' is refused", text);
	CHECK_EQ(ms, wanted_ms);
}

static void check_iso8601(const char *text, int64_t wanted_ms)
{
	int64_t ms = -1;

	if (!timestamp_iso8601(text, &ms))
		CHECK_FAIL("'%s' is refused", text);
	CHECK_EQ(ms, wanted_ms);
}

static void test_http(void)
{
	static const char *const wrong[] = {
		"",
		"Sun",
		"Sun, 06 Nov 1994 08:49:37",
		"Sun, 06 Nov 1994 08:49:37 GMT ",
		"Sun, 06 Nov 1994 08:49:37 UTC",
		"Sun, 6 Nov 1994 08:49:37 GMT",
		"sun, 06 Nov 1994 08:49:37 GMT",
		"Sunday, 06-Nov-94 08:49:37 GMT",
		"Sun Nov  6 08:49:37 1994",
		"Sun, 00 Nov 1994 08:49:37 GMT",
		"Sun, 31 Nov 1994 08:49:37 GMT",
		"Sun, 29 Feb 2023 08:49:37 GMT",
		"Sun, 06 Nov 1994 24:49:37 GMT",
		"Sun, 06 Nov 1994 08:60:37 GMT",
		"Sun, 06 Nov 1994 08:49:61 GMT",
		"Sun, 06 Nov 1994 -8:49:37 GMT",
		"Sun, 06 Nov +994 08:49:37 GMT",
	};
	int64_t ms;

	check_http("Sun, 06 Nov 1994 08:49:37 GMT", INT64_C(784111777000));
	check_http("Thu, 01 Jan 1970 00:00:00 GMT", 0);
	check_http("Fri, 24 May 2013 00:00:00 GMT", INT64_C(1369353600000));
	check_http("Thu, 29 Feb 2024 23:59:59 GMT", INT64_C(1709251199000));
	check_http("Sat, 31 Dec 2016 23:59:60 GMT", INT64_C(1483228800000));
	check_http("Fri, 31 Dec 9999 23:59:59 GMT", INT64_C(253402300799000));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (timestamp_http(wrong[i], &ms))
			CHECK_FAIL("'%s' is taken", wrong[i]);
	CHECK(!timestamp_http(NULL, &ms));
}

static void test_iso8601(void)
{
	static const char *const wrong[] = {
		"",
		"2009-10-12",
		"2009-10-12T17:50:30",
		"2009-10-12 17:50:30Z",
		"2009-10-12T17:50:30.Z",
		"2009-10-12T17:50:30Z ",
		"2009-10-12T17:50:30+1",
		"2009-10-12T17:50:30+24:00",
		"2009-13-12T17:50:30Z",
		"2009-00-12T17:50:30Z",
		"2100-02-29T17:50:30Z",
		"09-10-12T17:50:30Z",
	};
	int64_t ms;

	check_iso8601("2009-10-12T17:50:30.000Z", INT64_C(1255369830000));
	check_iso8601("2009-10-12T17:50:30Z", INT64_C(1255369830000));
	check_iso8601("2009-10-12T17:50:30.1239Z", INT64_C(1255369830123));
	check_iso8601("2009-10-12T17:50:30.5Z", INT64_C(1255369830500));
	check_iso8601("2009-10-12T19:50:30+02:00", INT64_C(1255369830000));
	check_iso8601("2009-10-12T16:20:30-0130", INT64_C(1255369830000));
	check_iso8601("2000-02-29T00:00:00Z", INT64_C(951782400000));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (timestamp_iso8601(wrong[i], &ms))
			CHECK_FAIL("'%s' is taken", wrong[i]);
	CHECK(!timestamp_iso8601(NULL, &ms));
}

int main(void)
{
	RUN(test_http);
	RUN(test_iso8601);
	return 0;
}
