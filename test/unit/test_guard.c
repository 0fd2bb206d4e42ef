/* Guards: what can be one, what it matches, how it is printed. */
#include "guard.h"

#include "check.h"

#define LONGEST (ETAG_SIZE - 3)

static const struct {
	const char *value;
	const char *bare;   /* NULL = refused */
	const char *reason; /* a part of the reason, if refused */
} values[] = {
	{"abc", "abc", NULL},
	{"\"abc\"", "abc", NULL},
	{"\"9b-2\"", "9b-2", NULL},
	{"\"0x8D\"", "0x8D", NULL},
	{"\"a b\"", "a b", NULL},
	{"a b", "a b", NULL},
	{"\"a,b\"", "a,b", NULL},
	{"a*", "a*", NULL},
	{"**", "**", NULL},
	{"W", "W", NULL},
	{"Wabc", "Wabc", NULL},
	{"\"W/abc=\"", "W/abc=", NULL},
	{"a/b+c==", "a/b+c==", NULL},
	{"caf\xc3\xa9", "caf\xc3\xa9", NULL},
	{"a\\b", "a\\b", NULL},

	{"", NULL, "empty"},
	{"\"\"", NULL, "empty"},
	{"*", NULL, "any version"},
	{"\"*\"", NULL, "any version"},
	{"W/\"abc\"", NULL, "weak"},
	{"w/\"abc\"", NULL, "weak"},
	{"W/abc", NULL, "weak"},
	{"W/", NULL, "weak"},
	{"\"a\",\"b\"", NULL, "quote"},
	{"\"a\", \"b\"", NULL, "quote"},
	{"a,b", NULL, "list"},
	{",", NULL, "list"},
	{"\"", NULL, "quote"},
	{"\"abc", NULL, "quote"},
	{"abc\"", NULL, "quote"},
	{"a\"c", NULL, "quote"},
	{"\"\"abc\"\"", NULL, "quote"},
	{" \"abc\"", NULL, "quote"},
	{"abc\n", NULL, "control"},
	{"\"abc\"\n", NULL, "quote"},
	{"\"a\tb\"", NULL, "control"},
	{"a\x7f", NULL, "control"},
	{"\x01", NULL, "control"},
};

#define VALUES (sizeof(values) / sizeof(values[0]))

static void parse_takes_one_strong_etag(void)
{
	for (size_t i = 0; i < VALUES; i++) {
		const char *value = values[i].value;
		struct reason reason = {""};
		struct guard guard;
		enum outcome got;

		memset(&guard, 'x', sizeof(guard));
		got = guard_parse(&guard, value, strlen(value), &reason);
		if (values[i].bare) {
			CHECK_EQ(got, OUTCOME_OK);
			CHECK_EQ(guard.kind, GUARD_MATCH);
			CHECK_STR(guard.etag, values[i].bare);
			continue;
		}
		CHECK_EQ(got, OUTCOME_INVALID);
		CHECK_EQ(guard.kind, GUARD_NONE);
		CHECK_STR(guard.etag, "");
		if (!strstr(reason.text, values[i].reason))
			CHECK_FAIL("%s: reason '%s', expected '%s'", value,
				   reason.text, values[i].reason);
	}
}

static void the_store_s_etag_is_judged_alike(void)
{
	for (size_t i = 0; i < VALUES; i++) {
		struct reason reason = {""};
		struct guard guard;
		enum outcome got;

		memset(&guard, 'x', sizeof(guard));
		got = guard_of_etag(&guard, values[i].value, &reason);
		CHECK_EQ(got, values[i].bare ? OUTCOME_OK : OUTCOME_FAILED);
		CHECK_EQ(guard.kind, values[i].bare ? GUARD_MATCH : GUARD_NONE);
		CHECK_STR(guard.etag, values[i].bare ? values[i].bare : "");
		CHECK_EQ(reason.text[0] == '\0', values[i].bare != NULL);
	}
}

static void a_missing_etag_is_told_as_such(void)
{
	struct reason reason;
	struct guard guard;

	CHECK_EQ(guard_of_etag(&guard, "", &reason), OUTCOME_FAILED);
	CHECK_STR(reason.text, "the store sent no ETag");
	CHECK_EQ(guard_of_etag(&guard, "", NULL), OUTCOME_FAILED);
}

static void every_control_byte_is_refused(void)
{
	for (int c = 0; c < 256; c++) {
		char value[3] = {'a', (char)c, 'b'};
		char quoted[5] = {'"', 'a', (char)c, 'b', '"'};
		int control = c < 0x20 || c == 0x7f;
		struct guard guard;

		CHECK_EQ(guard_parse(&guard, quoted, 5, NULL),
			 control || c == '"' ? OUTCOME_INVALID : OUTCOME_OK);
		CHECK_EQ(guard_parse(&guard, value, 3, NULL),
			 control || c == '"' || c == ',' ? OUTCOME_INVALID
							 : OUTCOME_OK);
	}
}

static void lengths(void)
{
	char value[ETAG_SIZE + 10], printed[ETAG_SIZE + 16];
	struct guard guard;

	for (size_t len = 1; len < ETAG_SIZE + 8; len++) {
		enum outcome want =
			len <= LONGEST ? OUTCOME_OK : OUTCOME_INVALID;

		memset(value, 'e', sizeof(value));
		CHECK_EQ(guard_parse(&guard, value, len, NULL), want);
		if (want == OUTCOME_OK)
			CHECK_EQ(strlen(guard.etag), len);
		value[0] = '"';
		value[len + 1] = '"';
		CHECK_EQ(guard_parse(&guard, value, len + 2, NULL), want);
		if (want == OUTCOME_OK)
			CHECK_EQ(strlen(guard.etag), len);
	}
	memset(value, 'e', LONGEST);
	CHECK_EQ(guard_parse(&guard, value, LONGEST, NULL), OUTCOME_OK);
	CHECK_EQ(strlen(guard_print(&guard, printed)), 10 + LONGEST + 2);
	CHECK_EQ(printed[10 + LONGEST + 1], '"');
}

static void matching(void)
{
	static const struct {
		const char *guard, *etag;
		bool want;
	} cases[] = {
		{"\"abc\"", "\"abc\"", true}, {"abc", "\"abc\"", true},
		{"\"abc\"", "abc", true},     {"abc", "abc", true},
		{"abc", "\"abd\"", false},    {"abc", "\"ABC\"", false},
		{"abc", "W/\"abc\"", false},  {"abc", "", false},
		{"abc", "\"abc", false},      {"abc", "ab", false},
		{"ab", "abc", false},	      {"abc", "*", false},
		{"\"a,b\"", "\"a,b\"", true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct guard guard;

		CHECK_EQ(guard_parse(&guard, cases[i].guard,
				     strlen(cases[i].guard), NULL),
			 OUTCOME_OK);
		CHECK_EQ(guard_matches(&guard, cases[i].etag), cases[i].want);
	}
}

static void only_a_match_matches(void)
{
	struct guard none = {.kind = GUARD_NONE};
	struct guard absent = {.kind = GUARD_ABSENT};

	CHECK(!guard_matches(&none, ""));
	CHECK(!guard_matches(&none, "\"abc\""));
	CHECK(!guard_matches(&absent, ""));
	CHECK(!guard_matches(&absent, "*"));
}

static void equality(void)
{
	struct guard guards[] = {
		{.kind = GUARD_NONE},
		{.kind = GUARD_ABSENT},
		{.kind = GUARD_MATCH, .etag = "a"},
		{.kind = GUARD_MATCH, .etag = "b"},
	};

	for (size_t i = 0; i < 4; i++)
		for (size_t j = 0; j < 4; j++)
			CHECK_EQ(guard_equal(&guards[i], &guards[j]), i == j);
}

static void printing(void)
{
	struct guard none = {.kind = GUARD_NONE};
	struct guard absent = {.kind = GUARD_ABSENT};
	struct guard match = {.kind = GUARD_MATCH, .etag = "abc"};
	char out[ETAG_SIZE + 16];

	CHECK_STR(guard_print(&none, out), "no guard");
	CHECK_STR(guard_print(&absent, out), "If-None-Match: *");
	CHECK_STR(guard_print(&match, out), "If-Match: \"abc\"");
	CHECK(guard_print(&match, out) == out);
}

int main(void)
{
	RUN(parse_takes_one_strong_etag);
	RUN(the_store_s_etag_is_judged_alike);
	RUN(a_missing_etag_is_told_as_such);
	RUN(every_control_byte_is_refused);
	RUN(lengths);
	RUN(matching);
	RUN(only_a_match_matches);
	RUN(equality);
	RUN(printing);
	return 0;
}
