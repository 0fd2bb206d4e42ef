/* The strict scanner: grammar, UTF-8, escapes, depth, and where things are. */
#include "json.h"

#include "check.h"

#define DEPTH 32

/* Exactly sized on the heap, so that a sanitizer sees a byte read too far. */
static bool check(const char *bytes, size_t len, struct json_error *error)
{
	char *copy = malloc(len ? len : 1);
	struct json_text text = {copy, len}, value;
	bool good;

	memcpy(copy, bytes, len);
	good = json_check(text, DEPTH, &value, error);
	free(copy);
	return good;
}

static const char *const valid[] = {
	"{}",
	"[]",
	"\"\"",
	"0",
	"-0",
	"7",
	"-7",
	"10",
	"1.5",
	"0.0",
	"1e3",
	"1E+3",
	"1e-03",
	"-0.5e10",
	"18446744073709551616",
	"true",
	"false",
	"null",
	" {} ",
	"\t\r\n1\t\r\n",
	"[1,2]",
	"[ 1 , [ ] , { } ]",
	"{\"a\":1}",
	"{ \"a\" : 1 , \"a\" : 2 }",
	"{\"\":\"\"}",
	"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
	"\"\\u0041\\uabCD\\uFFFF\"",
	"\"\\ud83d\\ude00\"",
	"\"\\uDBFF\\uDFFF\"",
	"\"\\ud7ff\\ue000\"",
	"\"\x7f\"",
	"\"\xc2\x80\"",
	"\"\xdf\xbf\"",
	"\"\xe0\xa0\x80\"",
	"\"\xed\x9f\xbf\"",
	"\"\xee\x80\x80\"",
	"\"\xef\xbf\xbf\"",
	"\"\xef\xbb\xbf\"",
	"\"\xf0\x90\x80\x80\"",
	"\"\xf4\x8f\xbf\xbf\"",
	"\"{[,:]}\"",
	"\"\\u0001\"",
};

static void what_is_json_passes(void)
{
	for (size_t i = 0; i < sizeof(valid) / sizeof(valid[0]); i++) {
		struct json_error error;

		if (!check(valid[i], strlen(valid[i]), &error))
			CHECK_FAIL("%s: refused at %zu: %s", valid[i],
				   error.offset, error.what);
	}
}

/* Every beginning of a value that is not a number is no value. */
static void every_cut_is_refused(void)
{
	for (size_t i = 0; i < sizeof(valid) / sizeof(valid[0]); i++) {
		size_t len = strlen(valid[i]);
		char last = valid[i][len - 1];

		if (last != '}' && last != ']' && last != '"')
			continue;
		for (size_t cut = 0; cut < len; cut++) {
			struct json_error error;

			CHECK(!check(valid[i], cut, &error));
			CHECK(error.offset <= cut);
		}
	}
}

static const struct {
	const char *text;
	size_t offset;
	const char *what;
} invalid[] = {
	{"", 0, "ends too early"},
	{" ", 1, "ends too early"},
	{"\xef\xbb\xbf{}", 0, "byte order mark"},
	{"{}x", 2, "more bytes"},
	{"{}{}", 2, "more bytes"},
	{"{} \n1", 4, "more bytes"},
	{"{},", 2, "more bytes"},
	{"{}\v", 2, "more bytes"},
	{"\f1", 0, "a value"},
	{"\xc2\xa0{}", 0, "a value"},
	{"007", 1, "leading zero"},
	{"-01", 2, "leading zero"},
	{"+1", 0, "a value"},
	{".5", 0, "a value"},
	{"1.", 2, "early"},
	{"[1.]", 3, "digit"},
	{"[1.e3]", 3, "digit"},
	{"[1e]", 3, "digit"},
	{"[1e+]", 4, "digit"},
	{"[1e+-1]", 4, "digit"},
	{"[-]", 2, "digit"},
	{"-", 1, "early"},
	{"0x10", 1, "more bytes"},
	{"1_000", 1, "more bytes"},
	{"NaN", 0, "a value"},
	{"-Infinity", 1, "digit"},
	{"True", 0, "a value"},
	{"[tru]", 4, "a value"},
	{"nul", 3, "early"},
	{"nulL", 3, "a value"},
	{"nullx", 4, "more bytes"},
	{"'a'", 0, "a value"},
	{"[1,]", 3, "a value"},
	{"[,1]", 1, "a value"},
	{"[1 2]", 3, "',' or ']'"},
	{"[1}", 2, "',' or ']'"},
	{"{\"a\":1,}", 7, "name in quotes"},
	{"{,}", 1, "name in quotes"},
	{"{a:1}", 1, "name in quotes"},
	{"{1:1}", 1, "name in quotes"},
	{"{\"a\"}", 4, "':'"},
	{"{\"a\",1}", 4, "':'"},
	{"{\"a\":}", 5, "a value"},
	{"{\"a\":1 \"b\":2}", 7, "',' or '}'"},
	{"{\"a\":1]", 6, "',' or '}'"},
	{"{/**/}", 1, "name in quotes"},
	{"\"a\nb\"", 2, "control byte"},
	{"\"\t\"", 1, "control byte"},
	{"\"\x1f\"", 1, "control byte"},
	{"\"\\x\"", 2, "escape"},
	{"\"\\'\"", 2, "escape"},
	{"\"\\U0041\"", 2, "escape"},
	{"\"\\\n\"", 2, "escape"},
	{"\"\\u12\"", 5, "hex"},
	{"\"\\u12g4\"", 5, "hex"},
	{"\"\\u+123\"", 3, "hex"},
	{"\"\\u 123\"", 3, "hex"},
	{"\"a\\u0000b\"", 4, "NUL"},
	{"\"\\ud800\"", 3, "surrogate"},
	{"\"\\ud800x\"", 3, "surrogate"},
	{"\"\\ud800\\n\"", 3, "surrogate"},
	{"\"\\ud800\\u0041\"", 3, "surrogate"},
	{"\"\\ud800\\ud800\"", 3, "surrogate"},
	{"\"\\udc00\"", 3, "surrogate"},
	{"\"\\udfff\\ud800\"", 3, "surrogate"},
	{"\"\\ud800\\u12\"", 11, "hex"},
	{"\"\x80\"", 1, "UTF-8"},
	{"\"\xbf\"", 1, "UTF-8"},
	{"\"\xc0\x80\"", 1, "UTF-8"},
	{"\"\xc1\xbf\"", 1, "UTF-8"},
	{"\"\xc2\"", 2, "UTF-8"},
	{"\"\xc3(\"", 2, "UTF-8"},
	{"\"\xe0\x80\x80\"", 2, "UTF-8"},
	{"\"\xe0\x9f\xbf\"", 2, "UTF-8"},
	{"\"\xe2\x82\"", 3, "UTF-8"},
	{"\"\xed\xa0\x80\"", 2, "UTF-8"},
	{"\"\xed\xbf\xbf\"", 2, "UTF-8"},
	{"\"\xf0\x8f\xbf\xbf\"", 2, "UTF-8"},
	{"\"\xf0\x9f\x98\"", 4, "UTF-8"},
	{"\"\xf4\x90\x80\x80\"", 2, "UTF-8"},
	{"\"\xf5\x80\x80\x80\"", 1, "UTF-8"},
	{"\"\xff\"", 1, "UTF-8"},
};

static void what_is_not_json_is_refused_at_the_right_byte(void)
{
	for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
		const char *text = invalid[i].text;
		struct json_error error;

		if (check(text, strlen(text), &error))
			CHECK_FAIL("%s: accepted", text);
		if (error.offset != invalid[i].offset ||
		    !strstr(error.what, invalid[i].what))
			CHECK_FAIL("%s: %zu: %s, expected %zu: %s", text,
				   error.offset, error.what, invalid[i].offset,
				   invalid[i].what);
	}
}

static void a_raw_nul_is_refused_everywhere(void)
{
	struct json_error error;

	CHECK(!check("\"a\0b\"", 5, &error));
	CHECK_EQ(error.offset, 2);
	CHECK(strstr(error.what, "NUL") != NULL);
	CHECK(!check("{}\0", 3, &error));
	CHECK(!check("\0{}", 3, &error));
	CHECK(!check("{\0}", 3, &error));
	CHECK(!check("\"\\\0\"", 4, &error));
}

/* All two-byte beginnings against the definition (RFC 3629, section 4). */
static void utf8_by_the_definition(void)
{
	for (unsigned code = 0x80; code <= 0x1fffff; code += 1 + code / 300) {
		unsigned char text[6] = {'"'};
		struct json_error error;
		bool good =
			code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
		size_t len = 1;

		if (code < 0x800) {
			text[len++] = (unsigned char)(0xc0 | code >> 6);
		} else if (code < 0x10000) {
			text[len++] = (unsigned char)(0xe0 | code >> 12);
			text[len++] = (unsigned char)(0x80 | (code >> 6 & 63));
		} else {
			text[len++] = (unsigned char)(0xf0 | code >> 18);
			text[len++] = (unsigned char)(0x80 | (code >> 12 & 63));
			text[len++] = (unsigned char)(0x80 | (code >> 6 & 63));
		}
		text[len++] = (unsigned char)(0x80 | (code & 63));
		text[len++] = '"';
		CHECK_EQ(check((const char *)text, len, &error), good);
	}
}

static void depth(void)
{
	char text[2 * 100 + 1];

	for (size_t deep = 1; deep <= 100; deep++) {
		struct json_error error;

		memset(text, '[', deep);
		memset(text + deep, ']', deep);
		CHECK_EQ(check(text, 2 * deep, &error), deep <= DEPTH);
		if (deep > DEPTH) {
			CHECK_EQ(error.offset, DEPTH);
			CHECK_STR(error.what, "nested too deeply");
		}
	}
}

static void depth_counts_levels_and_not_brackets(void)
{
	char text[4096] = "[";
	struct json_error error;
	size_t len = 1;

	for (int i = 0; i < 500; i++, len += 5)
		memcpy(text + len, "[{}],", 5);
	text[len - 1] = ']';
	CHECK(check(text, len, &error));
}

static void depth_of_100000_is_an_error(void)
{
	static const char *const openings[] = {"[", "{\"a\":", "[{\"a\":"};

	for (size_t i = 0; i < 3; i++) {
		size_t width = strlen(openings[i]), len = 100000 * width;
		char *text = malloc(len);
		struct json_error error;

		for (size_t at = 0; at < len; at += width)
			memcpy(text + at, openings[i], width);
		CHECK(!check(text, len, &error));
		CHECK_STR(error.what, "nested too deeply");
		free(text);
	}
}

static void check_slice(struct json_text got, const char *want)
{
	if (got.len != strlen(want) || memcmp(got.bytes, want, got.len) != 0)
		CHECK_FAIL("got '%.*s', expected '%s'", (int)got.len, got.bytes,
			   want);
}

static void members_are_found_whole(void)
{
	static const char *const parts[][2] = {
		{"\"a\"", "1"},
		{"\"b,}\"", "\"x\\\"}\""},
		{"\"\"", "{\"a\" : [ 1 , {} ] }"},
		{"\"\\u0061\"", "[]"},
		{"\"a\"", "-1.5e3"},
		{"\"t\"", "true"},
		{"\"n\"", "null"},
	};
	static const char text[] =
		"\n{ \"a\":1 ,\t\"b,}\" : \"x\\\"}\",\"\":{\"a\" : [ 1 , {} ] "
		"},\"\\u0061\":[],\n\"a\":-1.5e3, \"t\" : true,\"n\":null } \n";
	struct json_text all = {text, sizeof(text) - 1}, value;
	struct json_cursor cursor;
	struct json_member member;
	struct json_error error;

	CHECK(json_check(all, DEPTH, &value, &error));
	CHECK(value.bytes == text + 1);
	CHECK_EQ(value.bytes[value.len - 1], '}');
	cursor = json_members(value);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		CHECK(json_next(&cursor, &member));
		check_slice(member.key, parts[i][0]);
		check_slice(member.value, parts[i][1]);
	}
	CHECK(!json_next(&cursor, &member));
	CHECK(!json_next(&cursor, &member));
}

static void an_empty_object_has_no_members(void)
{
	static const char *const texts[] = {"{}", "{ }", " {\n\t} "};

	for (size_t i = 0; i < 3; i++) {
		struct json_text text = {texts[i], strlen(texts[i])}, value;
		struct json_cursor cursor;
		struct json_member member;
		struct json_error error;

		CHECK(json_check(text, DEPTH, &value, &error));
		cursor = json_members(value);
		CHECK(!json_next(&cursor, &member));
	}
}

static void kinds(void)
{
	static const struct {
		const char *text;
		enum json_kind kind;
	} cases[] = {
		{"{}", JSON_OBJECT},   {"[]", JSON_ARRAY},
		{"\"\"", JSON_STRING}, {"0", JSON_NUMBER},
		{"-1", JSON_NUMBER},   {"9", JSON_NUMBER},
		{"true", JSON_BOOL},   {"false", JSON_BOOL},
		{"null", JSON_NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_EQ(json_kind((struct json_text){cases[i].text, 1}),
			 cases[i].kind);
}

static void keys_match_once_decoded(void)
{
	static const struct {
		const char *key, *name;
		enum json_match want;
	} cases[] = {
		{"\"node\"", "node", JSON_MATCH_YES},
		{"\"no\\u0064e\"", "node", JSON_MATCH_YES},
		{"\"\\u006e\\u006f\\u0064\\u0065\"", "node", JSON_MATCH_YES},
		{"\"\"", "", JSON_MATCH_YES},
		{"\"a\\/b\"", "a/b", JSON_MATCH_YES},
		{"\"a\\tb\"", "a\tb", JSON_MATCH_YES},
		{"\"\\b\\f\\n\\r\\t\\\\\"", "\b\f\n\r\t\\", JSON_MATCH_YES},
		{"\"UP\"", "UP", JSON_MATCH_YES},
		{"\"Node\"", "node", JSON_MATCH_CASE},
		{"\"NODE\"", "node", JSON_MATCH_CASE},
		{"\"no\\u0044e\"", "node", JSON_MATCH_CASE},
		{"\"expire\xc5\xbf_ms\"", "expires_ms", JSON_MATCH_CASE},
		{"\"expire\\u017f_ms\"", "expires_ms", JSON_MATCH_CASE},
		{"\"\xe2\x84\xaa\"", "k", JSON_MATCH_CASE},
		{"\"\\u212a\"", "k", JSON_MATCH_CASE},
		{"\"nod\"", "node", JSON_MATCH_NO},
		{"\"nodes\"", "node", JSON_MATCH_NO},
		{"\"\"", "node", JSON_MATCH_NO},
		{"\"n\"", "", JSON_MATCH_NO},
		{"\"node \"", "node", JSON_MATCH_NO},
		{"\"n\xc3\xb6"
		 "de\"",
		 "node", JSON_MATCH_NO},
		{"\"n\xf0\x9f\x98\x80"
		 "de\"",
		 "node", JSON_MATCH_NO},
		{"\"nod\\ud83d\\ude00\"", "node", JSON_MATCH_NO},
		{"\"a[\"", "a{", JSON_MATCH_NO},
		{"\"expire\xd5\xbf_ms\"", "expires_ms", JSON_MATCH_NO},
		{"\"@\"", "`", JSON_MATCH_NO},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json_text key = {cases[i].key, strlen(cases[i].key)};

		if (json_match_key(key, cases[i].name) != cases[i].want)
			CHECK_FAIL("%s and %s", cases[i].key, cases[i].name);
	}
}

/* What json_quote() makes of TEXT. */
static void check_quote(const char *text, const char *want)
{
	struct json_text quoted, value;
	struct json_error error;
	struct buf out;

	buf_init(&out, 1000);
	CHECK_EQ(json_quote(&out, text), OUTCOME_OK);
	CHECK_EQ(buf_append(&out, "", 1), OUTCOME_OK);
	CHECK_STR(out.bytes, want);
	quoted = (struct json_text){out.bytes, out.len - 1};
	CHECK(json_check(quoted, 0, &value, &error));
	buf_release(&out);
}

static void quoted_text_is_a_string_whatever_it_is(void)
{
	check_quote("", "\"\"");
	check_quote("host-1:80", "\"host-1:80\"");
	check_quote("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
	check_quote("\n\t\r\x01\x1f\x7f", "\"\\u000a\\u0009\\u000d\\u0001"
					  "\\u001f\\u007f\"");
	check_quote(
		"\xc2\x80\xc2\x85\xc2\x9f\xc2\xa0\xe2\x80\xa8\xe2\x80\xa9"
		"\xe2\x80\xaa",
		"\"\\u0080\\u0085\\u009f\xc2\xa0\\u2028\\u2029\xe2\x80\xaa\"");
	check_quote("\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80",
		    "\"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\"");
	/* cut, alone, overlong, a surrogate, beyond U+10FFFF */
	check_quote("\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	check_quote("\x80z", "\"\xef\xbf\xbdz\"");
	check_quote("\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	check_quote("\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
	check_quote("\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd"
					"\xef\xbf\xbd\xef\xbf\xbd\"");
	check_quote("\xc3\"", "\"\xef\xbf\xbd\\\"\"");
}

static void any_bytes_quoted_pass_the_check(void)
{
	unsigned seed = 1;

	for (int turn = 0; turn < 2000; turn++) {
		struct json_text quoted, value;
		struct json_error error;
		struct buf out;
		char text[20];

		for (size_t i = 0; i < sizeof(text) - 1; i++) {
			seed = seed * 1103515245 + 12345;
			text[i] = (char)(seed >> 16 & 0xff);
		}
		text[sizeof(text) - 1] = '\0';
		buf_init(&out, 1000);
		CHECK_EQ(json_quote(&out, text), OUTCOME_OK);
		quoted = (struct json_text){out.bytes, out.len};
		CHECK(json_check(quoted, 0, &value, &error));
		buf_release(&out);
	}
}

static void a_full_buffer_is_told(void)
{
	struct buf out;

	for (size_t cap = 0; cap < 8; cap++) {
		buf_init(&out, cap);
		CHECK_EQ(json_quote(&out, "a\n"), OUTCOME_TOO_LARGE);
		buf_release(&out);
	}
}

static void characters_have_lengths(void)
{
	static const struct {
		const char *text;
		size_t want;
	} cases[] = {
		{"", 0},
		{"a", 1},
		{"\n", 1},
		{"\xc3\xbc", 2},
		{"\xe2\x82\xac!", 3},
		{"\xf0\x9f\x98\x80", 4},
		{"\xc3", 0},
		{"\xbc", 0},
		{"\xff", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json_text text = {cases[i].text, strlen(cases[i].text)};

		CHECK_EQ(json_char_len(text), cases[i].want);
	}
}

int main(void)
{
	RUN(what_is_json_passes);
	RUN(every_cut_is_refused);
	RUN(what_is_not_json_is_refused_at_the_right_byte);
	RUN(a_raw_nul_is_refused_everywhere);
	RUN(utf8_by_the_definition);
	RUN(depth);
	RUN(depth_counts_levels_and_not_brackets);
	RUN(depth_of_100000_is_an_error);
	RUN(members_are_found_whole);
	RUN(an_empty_object_has_no_members);
	RUN(kinds);
	RUN(keys_match_once_decoded);
	RUN(quoted_text_is_a_string_whatever_it_is);
	RUN(any_bytes_quoted_pass_the_check);
	RUN(a_full_buffer_is_told);
	RUN(characters_have_lengths);
	return 0;
}
