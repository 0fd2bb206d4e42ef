/* Records: rule 1, which is the same for both, and the fields of own. */
#include "record.h"

#include "check.h"

/* Exactly sized on the heap, so that a sanitizer sees a byte read too far. */
static enum outcome parse_own(struct own *own, const char *bytes, size_t len,
			      struct reason *reason)
{
	char *copy = malloc(len ? len : 1);
	enum outcome outcome;

	memcpy(copy, bytes, len);
	memset(own, 'x', sizeof(*own));
	outcome = record_parse_own(own, copy, len, reason);
	free(copy);
	return outcome;
}

static void own_records_are_read(void)
{
	static const struct {
		const char *text, *node;
		uint64_t epoch;
	} cases[] = {
		{"{\"node\":\"n1\",\"epoch\":7}", "n1", 7},
		{"{\"epoch\":0,\"node\":\"\"}", "", 0},
		{" \n{ \"node\" : \"n1\" , \"epoch\" : 7 }\r\n\t", "n1", 7},
		{"{\"node\":\"n1\",\"epoch\":18446744073709551615}", "n1",
		 UINT64_MAX},
		{"{\"node\":\"n1\",\"epoch\":9007199254740993}", "n1",
		 9007199254740993},
		{"{\"no\\u0064e\":\"n\\u0031\",\"\\u0065poch\":7}", "n1", 7},
		{"{\"node\":\"a.B_c-9\",\"epoch\":1,\"x\":{\"node\":3}}",
		 "a.B_c-9", 1},
		{"{\"x\":1,\"node\":\"n\",\"X\":2,\"x\":3,\"epoch\":1}", "n",
		 1},
		{"{\"node\":\"n\",\"epoch\":1,\"nodes\":1,\"nod\":\"\"}", "n",
		 1},
		{"{\"node\":\"n\",\"epoch\":1,\"caf\xc3\xa9\":"
		 "\"\xe2\x82\xac\"}",
		 "n", 1},
		{"{\"node\":\"n\",\"epoch\":1,\"expires_ms\":-1.5}", "n", 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct reason reason = {""};
		struct own own;

		if (parse_own(&own, cases[i].text, strlen(cases[i].text),
			      &reason) != OUTCOME_OK)
			CHECK_FAIL("%s: %s", cases[i].text, reason.text);
		CHECK_STR(own.node, cases[i].node);
		CHECK(own.epoch == cases[i].epoch);
	}
}

static const struct {
	const char *text, *reason;
} bad_own[] = {
	{"", "own: empty"},
	{" \n", "own: empty"},
	{"{}", "own: \"node\" is missing"},
	{"{\"epoch\":1}", "own: \"node\" is missing"},
	{"{\"node\":\"n1\"}", "own: \"epoch\" is missing"},
	{"[]", "own: byte 1: expected an object"},
	{" 7", "own: byte 2: expected an object"},
	{"null", "own: byte 1: expected an object"},
	{"hello", "own: byte 1: expected a value"},
	{"{\"node\":\"n1\" \"epoch\":1}", "own: byte 14: expected ',' or '}'"},
	{"{\"node\":\"n1\",\"epoch\":1", "own: byte 23: it ends too early"},
	{"{\"node\":\"n1\",\"epoch\":1}x", "own: byte 24: more bytes"},
	{"{\"node\":\"n1\",\"epoch\":1}{}", "own: byte 24: more bytes"},
	{"\xef\xbb\xbf{\"node\":\"n1\",\"epoch\":1}",
	 "own: byte 1: a byte ord"},
	/* integers */
	{"{\"node\":\"n1\", \"epoch\":\"4\"}",
	 "own: \"epoch\" is \"4\" (byte 23): expected an unsigned integer"},
	{"{\"node\":\"n1\",\"epoch\":-1}", "is -1 (byte 22)"},
	{"{\"node\":\"n1\",\"epoch\":-0}", "is -0 (byte 22)"},
	{"{\"node\":\"n1\",\"epoch\":3.0}", "is 3.0 (byte 22)"},
	{"{\"node\":\"n1\",\"epoch\":1e3}", "is 1e3 (byte 22)"},
	{"{\"node\":\"n1\",\"epoch\":007}", "byte 23: a number with a leading"},
	{"{\"node\":\"n1\",\"epoch\":18446744073709551616}", "unsigned"},
	{"{\"node\":\"n1\",\"epoch\":99999999999999999999}", "unsigned"},
	{"{\"node\":\"n1\",\"epoch\":184467440737095516150}", "unsigned"},
	{"{\"node\":\"n1\",\"epoch\":null}", "is null"},
	{"{\"node\":\"n1\",\"epoch\":true}", "is true"},
	{"{\"node\":\"n1\",\"epoch\":[1]}", "is [1]"},
	{"{\"node\":\"n1\",\"epoch\":{\n\"a\":\t1}}", "is { \"a\": 1} (byte"},
	/* nodes */
	{"{\"node\":7,\"epoch\":1}", "\"node\" is 7 (byte 9): expected a str"},
	{"{\"node\":null,\"epoch\":1}", "\"node\" is null"},
	{"{\"node\":\"a/b\",\"epoch\":1}",
	 "is \"a/b\" (byte 9): expected a node"},
	{"{\"node\":\"..\",\"epoch\":1}", "a node's name"},
	{"{\"node\":\" \",\"epoch\":1}", "a node's name"},
	{"{\"node\":\"n:1\",\"epoch\":1}", "a node's name"},
	{"{\"node\":\"a\\u002fb\",\"epoch\":1}", "a node's name"},
	{"{\"node\":\"a\\u0000b\",\"epoch\":1}", "a NUL in a string"},
	{"{\"node\":\"n1\",\"epoch\":1,\"x\":[\"a\\u0000\"]}", "a NUL"},
	{"{\"node\":\"n1\",\"epoch\":1,\"\\u0000\":1}", "a NUL"},
	{"{\"node\":\"n\xff\",\"epoch\":1}", "not UTF-8"},
	/* keys */
	{"{\"node\":\"a\",\"epoch\":1,\"node\":\"a\"}",
	 "own: \"node\" is given twice (byte 23)"},
	{"{\"node\":\"a\",\"no\\u0064e\":\"a\",\"epoch\":1}", "given twice"},
	{"{\"node\":\"a\",\"epoch\":1,\"epoch\":1}",
	 "\"epoch\" is given twice"},
	{"{\"Node\":\"a\",\"epoch\":1}",
	 "own: field \"Node\" (byte 2) is written \"node\""},
	{"{\"node\":\"a\",\"EPOCH\":1}", "is written \"epoch\""},
	{"{\"node\":\"a\",\"epoch\":1,\"nodE\":\"a\"}", "is written \"node\""},
	{"{\"node\":\"a\",\"epoch\":1,\"\\u0045poch\":2}",
	 "is written \"epoch\""},
};

static void what_is_no_own_record(void)
{
	static const struct own zero;

	for (size_t i = 0; i < sizeof(bad_own) / sizeof(bad_own[0]); i++) {
		const char *text = bad_own[i].text;
		struct reason reason = {""};
		struct own own;

		CHECK_EQ(parse_own(&own, text, strlen(text), &reason),
			 OUTCOME_INVALID);
		if (!strstr(reason.text, bad_own[i].reason))
			CHECK_FAIL("%s: reason '%s', expected '%s'", text,
				   reason.text, bad_own[i].reason);
		CHECK_EQ(parse_own(&own, text, strlen(text), NULL),
			 OUTCOME_INVALID);
		CHECK_STR(own.node, zero.node);
		CHECK_EQ(own.epoch, 0);
	}
}

static void raw_nuls_are_refused(void)
{
	static const char good[] = "{\"node\":\"n1\",\"epoch\":1}";
	size_t len = sizeof(good) - 1;

	for (size_t at = 0; at <= len; at++) {
		char text[sizeof(good)];
		struct own own;

		memcpy(text, good, at);
		text[at] = '\0';
		memcpy(text + at + 1, good + at, len - at);
		CHECK_EQ(parse_own(&own, text, len + 1, NULL), OUTCOME_INVALID);
	}
}

static void node_names_of_every_length(void)
{
	for (size_t len = 0; len < 300; len++) {
		char text[512], name[301];
		struct lease lease;
		struct own own;
		int n;

		memset(name, 'n', len);
		name[len] = '\0';
		n = snprintf(text, sizeof(text),
			     "{\"node\":\"%s\",\"epoch\":1}", name);
		CHECK_EQ(parse_own(&own, text, (size_t)n, NULL),
			 len <= 128 ? OUTCOME_OK : OUTCOME_INVALID);
		CHECK_STR(own.node, len <= 128 ? name : "");
		n = snprintf(text, sizeof(text),
			     "{\"node\":\"%s\",\"expires_ms\":1}", name);
		CHECK_EQ(record_parse_lease(&lease, text, (size_t)n, NULL),
			 len > 0 && len <= 128 ? OUTCOME_OK : OUTCOME_INVALID);
	}
}

static void size_is_limited(void)
{
	static const char record[] = "{\"node\":\"n1\",\"epoch\":1}";
	char *text = malloc(RECORD_READ_MAX + 1);
	struct reason reason;
	struct own own;

	memset(text, ' ', RECORD_READ_MAX + 1);
	memcpy(text, record, sizeof(record) - 1);
	CHECK_EQ(parse_own(&own, text, RECORD_READ_MAX, &reason), OUTCOME_OK);
	CHECK_EQ(parse_own(&own, text, RECORD_READ_MAX + 1, &reason),
		 OUTCOME_INVALID);
	CHECK_STR(reason.text, "own: 1048577 bytes, more than 1048576");
	free(text);
}

static void depth_is_limited(void)
{
	for (size_t deep = 1; deep <= 70; deep++) {
		char text[256];
		struct own own;
		int n = snprintf(text, sizeof(text),
				 "{\"node\":\"n\",\"epoch\":1,\"x\":");

		memset(text + n, '[', deep);
		memset(text + n + deep, ']', deep);
		text[(size_t)n + 2 * deep] = '}';
		CHECK_EQ(parse_own(&own, text, (size_t)n + 2 * deep + 1, NULL),
			 deep + 1 <= RECORD_DEPTH_MAX ? OUTCOME_OK
						      : OUTCOME_INVALID);
	}
}

static void the_reason_is_short_and_whole(void)
{
	static const char euro[] = "\xe2\x82\xac";

	for (size_t shift = 0; shift < 3; shift++) {
		char text[400] = "{\"epoch\":1,\"node\":\"xx";
		size_t len = strlen(text) - 2 + shift;
		struct reason reason;
		struct own own;
		char *dots;

		for (int i = 0; i < 50; i++, len += 3)
			memcpy(text + len, euro, 3);
		memcpy(text + len, "\"}", 2);
		CHECK_EQ(parse_own(&own, text, len + 2, &reason),
			 OUTCOME_INVALID);
		dots = strstr(reason.text, "... (byte 19): expected a node");
		CHECK(dots != NULL);
		CHECK(memcmp(dots - 3, euro, 3) == 0);
		CHECK(strlen(reason.text) < 120);
	}
}

int main(void)
{
	RUN(own_records_are_read);
	RUN(what_is_no_own_record);
	RUN(raw_nuls_are_refused);
	RUN(node_names_of_every_length);
	RUN(size_is_limited);
	RUN(depth_is_limited);
	RUN(the_reason_is_short_and_whole);
	return 0;
}
