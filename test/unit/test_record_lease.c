/* Records: the fields of a lease. */
#include "record.h"

#include "check.h"

#include <stdbool.h>

/* Exactly sized on the heap, so that a sanitizer sees a byte read too far. */
static enum outcome parse_lease(struct lease *lease, const char *bytes,
				size_t len, struct reason *reason)
{
	char *copy = malloc(len ? len : 1);
	enum outcome outcome;

	memcpy(copy, bytes, len);
	memset(lease, 'x', sizeof(*lease));
	outcome = record_parse_lease(lease, copy, len, reason);
	if (outcome == OUTCOME_OK) {
		outcome = record_parse_load(lease, copy, len, reason);
		if (outcome != OUTCOME_OK) {
			CHECK(!lease->has_load);
			CHECK_EQ(lease->resident_cells, 0);
			memset(lease, 0, sizeof(*lease));
		}
	}
	free(copy);
	return outcome;
}

#define LOAD_REST                                                              \
	"\"host_websockets\":3,\"rss_bytes\":4,\"cpu_percent_x100\":5,"        \
	"\"open_fds\":6,\"fd_limit\":7,\"pressured\":false,\"shed_cells\":8"
#define LOAD  "{\"sampled_ms\":1,\"resident_cells\":2," LOAD_REST "}"
#define KEY64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HEAD  "{\"node\":\"n1\",\"expires_ms\":5"

static void a_whole_lease_is_read(void)
{
	static const char text[] =
		HEAD ",\"addr\":\"10.0.0.5:7000\",\"probe_public_key\":\"" KEY64
		     "\",\"peer_protocol\":2,"
		     "\"ownership_index_generation\":\"g\\u00e9\","
		     "\"log\":{\"state\":\"sealed\",\"epoch\":1,"
		     "\"ensemble\":[\"a\"],\"tiered\":0},\"load\":" LOAD "}";
	struct reason reason = {""};
	struct lease lease;

	if (parse_lease(&lease, text, sizeof(text) - 1, &reason))
		CHECK_FAIL("%s", reason.text);
	CHECK_STR(lease.node, "n1");
	CHECK_EQ(lease.expires_ms, 5);
	CHECK_STR(lease.addr, "10.0.0.5:7000");
	CHECK_STR(lease.generation, "g\xc3\xa9");
	CHECK_EQ(lease.log, LEASE_LOG_SEALED);
	CHECK(lease.has_load);
	CHECK_EQ(lease.resident_cells, 2);
}

static void the_least_lease_is_read(void)
{
	struct lease lease;

	CHECK_EQ(parse_lease(&lease, HEAD "}", sizeof(HEAD "}") - 1, NULL),
		 OUTCOME_OK);
	CHECK_STR(lease.node, "n1");
	CHECK_EQ(lease.expires_ms, 5);
	CHECK_STR(lease.addr, "");
	CHECK_STR(lease.generation, "");
	CHECK_EQ(lease.log, LEASE_LOG_NONE);
	CHECK(!lease.has_load);
	CHECK_EQ(lease.resident_cells, 0);
}

/* Each is HEAD + the text + "}"; reason NULL = it is a lease. */
static const struct {
	const char *more, *reason;
} lease_fields[] = {
	{",\"addr\":\"\"", NULL},
	{",\"addr\":null", "lease: \"addr\" is null (byte 36): expected a str"},
	{",\"addr\":7", "\"addr\" is 7"},
	{",\"Addr\":\"a\"", "is written \"addr\""},
	{",\"addr\":\"a\",\"addr\":\"a\"", "\"addr\" is given twice"},
	{",\"probe_public_key\":\"\"", NULL},
	{",\"probe_public_key\":\"" KEY64 "\"", NULL},
	{",\"probe_public_key\":\"" KEY64 "0\"", "64 lower-case hex digits"},
	{",\"probe_public_key\":\"0\"", "64 lower-case hex digits"},
	{",\"probe_public_key\":\"0123456789ABCDEF0123456789abcdef0123456789abc"
	 "def0123456789abcdef\"",
	 "64 lower-case hex digits"},
	{",\"probe_public_key\":\"g123456789abcdef0123456789abcdef0123456789abc"
	 "def0123456789abcdef\"",
	 "64 lower-case hex digits"},
	{",\"probe_public_key\":null", "expected a string"},
	{",\"peer_protocol\":0", NULL},
	{",\"peer_protocol\":65535", NULL},
	{",\"peer_protocol\":65536", "an unsigned integer to 65535"},
	{",\"peer_protocol\":-1", "an unsigned integer to 65535"},
	{",\"peer_protocol\":2.0", "an unsigned integer to 65535"},
	{",\"peer_protocol\":\"2\"", "an unsigned integer to 65535"},
	{",\"peer_protocol\":null", "an unsigned integer to 65535"},
	{",\"ownership_index_generation\":\"\"", NULL},
	{",\"ownership_index_generation\":1", "expected a string"},
	{",\"ownership_index_generation\":null", "expected a string"},
	{",\"expires_ms\":5", "\"expires_ms\" is given twice"},
	{",\"Expires_ms\":5", "is written \"expires_ms\""},
	{",\"expire\xc5\xbf_ms\":5", "is written \"expires_ms\""},
	{",\"epoch\":\"x\",\"EPOCH\":-1", NULL},
	{",\"fence\":1e400,\"fence\":{}", NULL},
	{",\"load\":" LOAD, NULL},
	{",\"load\":null",
	 "lease: \"load\" is null (byte 36): expected an obj"},
	{",\"load\":[]", "expected an object"},
	{",\"load\":{}", "lease: \"load.sampled_ms\" is missing"},
	{",\"LOAD\":{}", "is written \"load\""},
	{",\"LOG\":null", "is written \"log\""},
};

static void lease_fields_are_judged(void)
{
	for (size_t i = 0; i < sizeof(lease_fields) / sizeof(lease_fields[0]);
	     i++) {
		struct reason reason = {""};
		struct lease lease;
		char text[1024];
		int n = snprintf(text, sizeof(text), HEAD "%s}",
				 lease_fields[i].more);
		enum outcome got =
			parse_lease(&lease, text, (size_t)n, &reason);

		if (!lease_fields[i].reason) {
			if (got != OUTCOME_OK)
				CHECK_FAIL("%s: %s", text, reason.text);
			continue;
		}
		CHECK_EQ(got, OUTCOME_INVALID);
		if (!strstr(reason.text, lease_fields[i].reason))
			CHECK_FAIL("%s: reason '%s', expected '%s'", text,
				   reason.text, lease_fields[i].reason);
		CHECK_STR(lease.node, "");
		CHECK_EQ(lease.expires_ms, 0);
	}
}

static void node_and_expiry_are_required(void)
{
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{"{}", "lease: \"node\" is missing"},
		{"{\"expires_ms\":1}", "lease: \"node\" is missing"},
		{"{\"node\":\"n1\"}", "lease: \"expires_ms\" is missing"},
		{"{\"node\":\"\",\"expires_ms\":1}", "a node's name"},
		{"{\"node\":1,\"expires_ms\":1}", "a string"},
		{"{\"node\":\"n1\",\"expires_ms\":\"1\"}",
		 "an unsigned integer"},
		{"{\"node\":\"n1\",\"expires_ms\":-1}", "an unsigned integer"},
		{"{\"node\":\"n1\",\"expires_ms\":1.5}", "an unsigned integer"},
		{"<html>", "lease: byte 1: expected a value"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct reason reason = {""};
		struct lease lease;

		CHECK_EQ(parse_lease(&lease, cases[i].text,
				     strlen(cases[i].text), &reason),
			 OUTCOME_INVALID);
		if (!strstr(reason.text, cases[i].reason))
			CHECK_FAIL("%s: reason '%s', expected '%s'",
				   cases[i].text, reason.text, cases[i].reason);
	}
}

static const char *const load_fields[] = {
	"sampled_ms",	    "resident_cells", "host_websockets", "rss_bytes",
	"cpu_percent_x100", "open_fds",	      "fd_limit",	 "pressured",
	"shed_cells",	    "in_use_bytes",   "restoring",
};

#define LOAD_FIELDS 11

/* A lease whose load has VALUE at FIELD; NULL = without it. */
static enum outcome parse_load(size_t field, const char *value,
			       struct reason *reason)
{
	char text[1024] = HEAD ",\"load\":{";
	size_t len = strlen(text);
	struct lease lease;
	const char *comma = "";

	for (size_t i = 0; i < LOAD_FIELDS; i++) {
		const char *normal = i == 7 ? "true" : "1";
		const char *shown = i == field ? value : normal;

		if (!shown)
			continue;
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%s\"%s\":%s", comma, load_fields[i],
					shown);
		comma = ",";
	}
	len += (size_t)snprintf(text + len, sizeof(text) - len, "}}");
	return parse_lease(&lease, text, len, reason);
}

static void load_is_whole_or_absent(void)
{
	static const char *const values[] = {
		NULL,
		"0",
		"18446744073709551615",
		"18446744073709551616",
		"-1",
		"1.0",
		"\"1\"",
		"null",
		"true",
		"false",
		"[]",
		"{}",
	};

	for (size_t f = 0; f < LOAD_FIELDS; f++) {
		for (size_t v = 0; v < sizeof(values) / sizeof(values[0]);
		     v++) {
			struct reason reason = {""};
			bool number = v == 1 || v == 2;
			bool boolean = v == 8 || v == 9;
			bool good = f == 7 ? boolean : number;

			if (f >= 9 && v == 0)
				good = true;
			if (f == 9 && v == 7)
				good = true;
			CHECK_EQ(parse_load(f, values[v], &reason),
				 good ? OUTCOME_OK : OUTCOME_INVALID);
			if (!good) {
				CHECK(strstr(reason.text, "load.") != NULL);
				CHECK(strstr(reason.text, load_fields[f]) !=
				      NULL);
			}
		}
	}
}

static void keys_in_load_are_exact(void)
{
	static const struct {
		const char *more, *reason;
	} cases[] = {
		{"\"restoring\":1,\"restoring\":1",
		 "\"load.restoring\" is given"},
		{"\"Restoring\":1", "is written \"restoring\""},
		{"\"fd_limit\":7", "\"load.fd_limit\" is given twice"},
		{"\"Fd_limit\":7", "is written \"fd_limit\""},
		{"\"other\":1,\"other\":2,\"node\":3,\"NODE\":4", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct reason reason = {""};
		struct lease lease;
		char text[1024];
		int n = snprintf(text, sizeof(text),
				 HEAD ",\"load\":{\"sampled_ms\":1,"
				      "\"resident_cells\":2," LOAD_REST ",%s}}",
				 cases[i].more);
		enum outcome got =
			parse_lease(&lease, text, (size_t)n, &reason);

		CHECK_EQ(got, cases[i].reason ? OUTCOME_INVALID : OUTCOME_OK);
		if (cases[i].reason && !strstr(reason.text, cases[i].reason))
			CHECK_FAIL("%s: %s", text, reason.text);
	}
}

#define LOG(state)                                                             \
	"{\"state\":" state ",\"epoch\":1,\"ensemble\":[],\"tiered\":0}"

static void the_log_decides_between_sealed_and_not(void)
{
	static const struct {
		const char *log;
		enum lease_log want;
	} cases[] = {
		{"null", LEASE_LOG_NONE},
		{LOG("\"sealed\""), LEASE_LOG_SEALED},
		{LOG("\"open\""), LEASE_LOG_OPEN},
		{LOG("\"recovering\""), LEASE_LOG_RECOVERING},
		{LOG("\"s\\u0065aled\""), LEASE_LOG_SEALED},
		{LOG("\"Sealed\""), LEASE_LOG_UNKNOWN},
		{LOG("\"sealed \""), LEASE_LOG_UNKNOWN},
		{LOG("\"\""), LEASE_LOG_UNKNOWN},
		{LOG("null"), LEASE_LOG_UNKNOWN},
		{LOG("1"), LEASE_LOG_UNKNOWN},
		{LOG("[\"sealed\"]"), LEASE_LOG_UNKNOWN},
		{"{}", LEASE_LOG_UNKNOWN},
		{"[]", LEASE_LOG_UNKNOWN},
		{"false", LEASE_LOG_UNKNOWN},
		{"0", LEASE_LOG_UNKNOWN},
		{"\"sealed\"", LEASE_LOG_UNKNOWN},
		{"{\"epoch\":1,\"ensemble\":[],\"tiered\":0}",
		 LEASE_LOG_UNKNOWN},
		{"{\"state\":\"sealed\",\"ensemble\":[],\"tiered\":0}",
		 LEASE_LOG_UNKNOWN},
		{"{\"state\":\"sealed\",\"epoch\":1,\"tiered\":0}",
		 LEASE_LOG_UNKNOWN},
		{"{\"state\":\"sealed\",\"epoch\":1,\"ensemble\":[]}",
		 LEASE_LOG_UNKNOWN},
		{"{\"state\":\"sealed\",\"epoch\":-1,\"ensemble\":[],"
		 "\"tiered\":0}",
		 LEASE_LOG_UNKNOWN},
		{"{\"state\":\"sealed\",\"epoch\":1,\"ensemble\":[],"
		 "\"tiered\":0,\"active\":{\"state\":\"open\"},\"more\":1}",
		 LEASE_LOG_SEALED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct reason reason = {""};
		struct lease lease;
		char text[512];
		int n = snprintf(text, sizeof(text), HEAD ",\"log\":%s}",
				 cases[i].log);

		if (parse_lease(&lease, text, (size_t)n, &reason))
			CHECK_FAIL("%s: %s", text, reason.text);
		if (lease.log != cases[i].want)
			CHECK_FAIL("%s: %d", text, lease.log);
	}
}

static void keys_in_log_are_exact(void)
{
	static const char *const logs[] = {
		"{\"state\":\"sealed\",\"state\":\"open\",\"epoch\":1,"
		"\"ensemble\":[],\"tiered\":0}",
		"{\"state\":\"sealed\",\"State\":\"open\",\"epoch\":1,"
		"\"ensemble\":[],\"tiered\":0}",
		"{\"active\":1,\"active\":1}",
		"{\"ACTIVE\":1}",
		"{\"tiered\":1,\"tiered\":1}",
		"{\"Epoch\":1}",
		"{\"Ensemble\":1}",
	};

	for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
		struct reason reason = {""};
		struct lease lease;
		char text[512];
		int n = snprintf(text, sizeof(text), HEAD ",\"log\":%s}",
				 logs[i]);

		CHECK_EQ(parse_lease(&lease, text, (size_t)n, &reason),
			 OUTCOME_INVALID);
	}
}

static void long_strings_are_cut_between_characters(void)
{
	for (size_t len = 120; len < 300; len++) {
		for (int tail = 0; tail < 2; tail++) {
			char text[1024], value[304];
			struct lease lease;
			size_t want_addr, want_generation, whole;
			int n;

			memset(value, 'v', len);
			whole = len;
			if (tail) {
				memcpy(value + len, "\xe2\x82\xac", 3);
				whole += 3;
			}
			value[whole] = '\0';
			n = snprintf(text, sizeof(text),
				     HEAD ",\"addr\":\"%s\","
					  "\"ownership_index_generation\":"
					  "\"%s\"}",
				     value, value);
			CHECK_EQ(parse_lease(&lease, text, (size_t)n, NULL),
				 OUTCOME_OK);
			want_addr = whole <= 255 ? whole
				    : len < 255	 ? len
						 : 255;
			want_generation = whole <= 127 ? whole
					  : len < 127  ? len
						       : 127;
			CHECK_EQ(strlen(lease.addr), want_addr);
			CHECK_EQ(strlen(lease.generation), want_generation);
			CHECK(memcmp(lease.addr, value, want_addr) == 0);
		}
	}
}

static uint32_t random_next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Bytes flipped, cut and doubled in a lease: an answer, never a crash; and
 * what passes still does with the white space around it gone. */
static void mangled_records_get_an_answer(void)
{
	static const char good[] =
		HEAD ",\"addr\":\"h\\u00e9\\ud83d\\ude00:1\",\"log\":" LOG(
			"\"open\"") ",\"load\":" LOAD ",\"x\":[1.5e3,null]}";
	static const char bytes[] = "{}[]\",:\\u0e-+.\xe2\x82\xff\n";
	uint32_t seed = 161803;

	for (int round = 0; round < 20000; round++) {
		char text[sizeof(good)];
		size_t len = sizeof(good) - 1;
		struct reason reason = {""};
		struct lease lease;
		enum outcome got;

		memcpy(text, good, sizeof(good));
		for (uint32_t n = random_next(&seed) % 4; n > 0; n--)
			text[random_next(&seed) % len] =
				bytes[random_next(&seed) % sizeof(bytes)];
		if (random_next(&seed) % 4 == 0)
			len = random_next(&seed) % len;
		got = parse_lease(&lease, text, len, &reason);
		CHECK(got == OUTCOME_OK || got == OUTCOME_INVALID);
		CHECK_EQ(reason.text[0] == '\0', got == OUTCOME_OK);
	}
}

int main(void)
{
	RUN(a_whole_lease_is_read);
	RUN(the_least_lease_is_read);
	RUN(lease_fields_are_judged);
	RUN(node_and_expiry_are_required);
	RUN(load_is_whole_or_absent);
	RUN(keys_in_load_are_exact);
	RUN(the_log_decides_between_sealed_and_not);
	RUN(keys_in_log_are_exact);
	RUN(long_strings_are_cut_between_characters);
	RUN(mangled_records_get_an_answer);
	return 0;
}
