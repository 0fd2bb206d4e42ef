/* Records: changing one field, and finding where a record ends. */
#include "record.h"

#include "check.h"

#include <stdbool.h>

static void set_record(struct buf *record, const char *text)
{
	CHECK_EQ(buf_set(record, text, strlen(text)), OUTCOME_OK);
}

static void check_record(const struct buf *record, const char *want)
{
	size_t len = strlen(want);

	if (record->len != len ||
	    (len > 0 && memcmp(record->bytes, want, len) != 0))
		CHECK_FAIL("got '%.*s', expected '%s'", (int)record->len,
			   record->bytes, want);
}

static const struct {
	const char *before, *field, *value;
	const char *after; /* NULL: INVALID, and nothing has changed */
} edits[] = {
	{"{\"a\":1}", "a", "2", "{\"a\":2}"},
	{"{\"a\":1}", "b", "2", "{\"a\":1,\"b\":2}"},
	{"{}", "a", "1", "{\"a\":1}"},
	{" { } \n", "a", "1", " {\"a\":1 } \n"},
	{"{\"a\": 1 }\n", "b", "[2]", "{\"a\": 1,\"b\":[2] }\n"},
	{"\t{ \"a\" : 1 , \"b\" : [1,2] }", "a", "{\"x\":null}",
	 "\t{ \"a\" : {\"x\":null} , \"b\" : [1,2] }"},
	{"{\"x\":{\"a\":1},\"a\":1e400}", "a", "0",
	 "{\"x\":{\"a\":1},\"a\":0}"},
	{"{\"x\":\"\\\"a\\\":1,\",\"a\":1}", "a", "2",
	 "{\"x\":\"\\\"a\\\":1,\",\"a\":2}"},
	{"{\"\\u0061\":1}", "a", "2", "{\"\\u0061\":2}"},
	{"{\"A\":1}", "a", "2", "{\"A\":1,\"a\":2}"},
	{"{\"aa\":1,\"b\":2}", "a", "3", "{\"aa\":1,\"b\":2,\"a\":3}"},
	{"{\"x\":1,\"x\":2,\"a\":3}", "a", "4", "{\"x\":1,\"x\":2,\"a\":4}"},
	{"{\"a\":1}", "a", " 2 ", "{\"a\": 2 }"},
	{"{\"a\":\"\"}", "a", "\"\\n\"", "{\"a\":\"\\n\"}"},

	{"", "a", "1", NULL},
	{"[]", "a", "1", NULL},
	{"[1]", "a", "1", NULL},
	{"{\"a\":1", "a", "1", NULL},
	{"{\"a\":1}}", "a", "1", NULL},
	{"{\"a\":007}", "a", "1", NULL},
	{"{\"a\":1,\"a\":2}", "a", "3", NULL},
	{"{\"a\":1,\"\\u0061\":2}", "a", "3", NULL},
	{"{\"a\":1}", "a", "", NULL},
	{"{\"a\":1}", "a", "x", NULL},
	{"{\"a\":1}", "a", "1,\"b\":2", NULL},
	{"{\"a\":1}", "a", "1}", NULL},
	{"{\"a\":1}", "b", "\"", NULL},
	{"{\"a\":1}", "b\"", "1", NULL},
	{"{\"a\":1}", "b\\", "1", NULL},
	{"{\"a\":1}", "b\n", "1", NULL},
	{"{\"a\":1}", "\xc3\xa9", "1", NULL},
};

static void an_edit_changes_one_value(void)
{
	for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
		const char *after = edits[i].after;
		struct buf record;

		buf_init(&record, 1000);
		set_record(&record, edits[i].before);
		CHECK_EQ(record_edit(&record, edits[i].field, edits[i].value),
			 after ? OUTCOME_OK : OUTCOME_INVALID);
		check_record(&record, after ? after : edits[i].before);
		CHECK_EQ(record.cap, 1000);
		buf_release(&record);
	}
}

static void an_edit_that_does_not_fit_changes_nothing(void)
{
	struct buf record;

	for (size_t cap = 7; cap < 20; cap++) {
		enum outcome want = cap < 13 ? OUTCOME_TOO_LARGE : OUTCOME_OK;

		buf_init(&record, cap);
		set_record(&record, "{\"a\":1}");
		CHECK_EQ(record_edit(&record, "b", "2"), want);
		check_record(&record, want == OUTCOME_OK ? "{\"a\":1,\"b\":2}"
							 : "{\"a\":1}");
		buf_release(&record);
		buf_init(&record, cap);
		set_record(&record, "{\"a\":1}");
		CHECK_EQ(record_edit(&record, "a", "1234567"), want);
		buf_release(&record);
	}
}

static void an_edit_keeps_to_the_depth(void)
{
	for (size_t deep = 1; deep < 60; deep++) {
		char value[128] = "";
		struct buf record;

		memset(value, '[', deep);
		memset(value + deep, ']', deep);
		buf_init(&record, 1000);
		set_record(&record, "{\"a\":1}");
		CHECK_EQ(record_edit(&record, "a", value),
			 deep + 1 <= RECORD_DEPTH_MAX ? OUTCOME_OK
						      : OUTCOME_INVALID);
		buf_release(&record);
	}
}

static uint32_t random_next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static const char *pick(uint32_t *seed, const char *const *from, size_t count)
{
	return from[random_next(seed) % count];
}

#define PICK(seed, from) pick(seed, from, sizeof(from) / sizeof((from)[0]))

static const char *const spaces[] = {"", "", "", " ", "\n\t", "  \r\n"};
static const char *const some_values[] = {
	"1",
	"18446744073709551615",
	"1.50",
	"-0",
	"true",
	"null",
	"\"\"",
	"\"a\\\"},{b\"",
	"[]",
	"[1, {\"node\":2}]",
	"{\"epoch\" : [[]]}",
	"\"\xe2\x82\xac\\ud83d\\ude00\"",
	"{ }",
};

/* A random object with the field "it" in the middle; HEAD and TAIL are what is
 * around its value. */
static void random_object(uint32_t *seed, struct buf *head, struct buf *tail)
{
	unsigned before = random_next(seed) % 5, after = random_next(seed) % 5;

	buf_clear(head);
	buf_clear(tail);
	CHECK_EQ(buf_printf(head, "%s{%s", PICK(seed, spaces),
			    PICK(seed, spaces)),
		 OUTCOME_OK);
	for (unsigned i = 0; i < before; i++)
		CHECK_EQ(buf_printf(head, "\"b%u\"%s:%s%s%s,%s", i,
				    PICK(seed, spaces), PICK(seed, spaces),
				    PICK(seed, some_values), PICK(seed, spaces),
				    PICK(seed, spaces)),
			 OUTCOME_OK);
	CHECK_EQ(buf_printf(head, "\"%s\"%s:%s",
			    random_next(seed) % 2 ? "it" : "i\\u0074",
			    PICK(seed, spaces), PICK(seed, spaces)),
		 OUTCOME_OK);
	for (unsigned i = 0; i < after; i++)
		CHECK_EQ(buf_printf(tail, "%s,%s\"a%u\"%s:%s%s",
				    PICK(seed, spaces), PICK(seed, spaces), i,
				    PICK(seed, spaces), PICK(seed, spaces),
				    PICK(seed, some_values)),
			 OUTCOME_OK);
	CHECK_EQ(buf_printf(tail, "%s}%s", PICK(seed, spaces),
			    PICK(seed, spaces)),
		 OUTCOME_OK);
}

static void set_joined(struct buf *out, const struct buf *head,
		       const char *value, const struct buf *tail)
{
	CHECK_EQ(buf_set(out, head->bytes, head->len), OUTCOME_OK);
	CHECK_EQ(buf_append(out, value, strlen(value)), OUTCOME_OK);
	CHECK_EQ(buf_append(out, tail->bytes, tail->len), OUTCOME_OK);
}

static void random_edits_keep_every_other_byte(void)
{
	uint32_t seed = 19970829;
	struct buf head, tail, record, want;

	buf_init(&head, 4096);
	buf_init(&tail, 4096);
	buf_init(&record, 8192);
	buf_init(&want, 8192);
	for (int round = 0; round < 3000; round++) {
		random_object(&seed, &head, &tail);
		set_joined(&record, &head, PICK(&seed, some_values), &tail);
		for (int again = 0; again < 3; again++) {
			const char *value = PICK(&seed, some_values);

			set_joined(&want, &head, value, &tail);
			CHECK_EQ(record_edit(&record, "it", value), OUTCOME_OK);
			CHECK_EQ(record.len, want.len);
			CHECK(memcmp(record.bytes, want.bytes, want.len) == 0);
		}
	}
	buf_release(&head);
	buf_release(&tail);
	buf_release(&record);
	buf_release(&want);
}

static void an_edited_record_is_read_as_edited(void)
{
	struct buf record;
	struct own own;

	buf_init(&record, RECORD_WRITE_MAX);
	set_record(&record, "{\"node\":\"n1\",\"epoch\":7,\"x\":1.0}\n");
	CHECK_EQ(record_edit(&record, "epoch", "18446744073709551615"),
		 OUTCOME_OK);
	CHECK_EQ(record_edit(&record, "node", "\"\""), OUTCOME_OK);
	check_record(&record, "{\"node\":\"\",\"epoch\":18446744073709551615,"
			      "\"x\":1.0}\n");
	CHECK_EQ(record_parse_own(&own, record.bytes, record.len, NULL),
		 OUTCOME_OK);
	CHECK_STR(own.node, "");
	CHECK(own.epoch == UINT64_MAX);
	buf_release(&record);
}

static const struct {
	const char *text;
	enum record_scan_result want;
	size_t end; /* of COMPLETE and BROKEN */
} scans[] = {
	{"", RECORD_MORE, 0},
	{" \n\t\r", RECORD_MORE, 0},
	{"{", RECORD_MORE, 0},
	{"{}", RECORD_COMPLETE, 2},
	{" {}", RECORD_COMPLETE, 3},
	{"{}\n", RECORD_COMPLETE, 2},
	{"{}{}", RECORD_COMPLETE, 2},
	{"{}x", RECORD_COMPLETE, 2},
	{"{\"a\":{\"b\":[1,{}]}}\n", RECORD_COMPLETE, 18},
	{"{\"a\":\"}\"}", RECORD_COMPLETE, 9},
	{"{\"a\":\"\\\"}\"}", RECORD_COMPLETE, 11},
	{"{\"a\":\"\\\\\"}}", RECORD_COMPLETE, 10},
	{"{\"a\":\"\\\\\\\"}\"}", RECORD_COMPLETE, 13},
	{"{\"}\":1}", RECORD_COMPLETE, 7},
	{"{\"]\":1}", RECORD_COMPLETE, 7},
	{"{\"a\":\"{{{[[[\"}", RECORD_COMPLETE, 14},
	{"{\n\t\"a\"\n:\n1\n}", RECORD_COMPLETE, 12},
	{"{\"a\":\"\xe2\x82\xac\x7f\"}", RECORD_COMPLETE, 12},
	{"{\"a\":\"x", RECORD_MORE, 0},
	{"{\"a\":\"x\\", RECORD_MORE, 0},
	{"{\"a\":[}", RECORD_MORE, 0}, /* nesting, not kinds */
	{"{nonsense}", RECORD_COMPLETE, 10},
	{"{[}}", RECORD_COMPLETE, 4},
	{"x", RECORD_BROKEN, 0},
	{"[]", RECORD_BROKEN, 0},
	{" \"a\"", RECORD_BROKEN, 1},
	{"\n7", RECORD_BROKEN, 1},
	{"}", RECORD_BROKEN, 0},
	{"\xef\xbb\xbf{}", RECORD_BROKEN, 0},
	{"\v{}", RECORD_BROKEN, 0},
	{"{]", RECORD_BROKEN, 1},
	{"{\"a\":[]]", RECORD_BROKEN, 7},
	{"{\"a\":\"x\n\"}", RECORD_BROKEN, 7},
	{"{\"a\":\"x\\\n\"}", RECORD_BROKEN, 8},
};

#define SCANS (sizeof(scans) / sizeof(scans[0]))

static void a_scan_finds_the_end(void)
{
	for (size_t i = 0; i < SCANS; i++) {
		struct record_scan scan = {0};
		size_t len = strlen(scans[i].text), end = 99;
		enum record_scan_result got =
			record_scan(&scan, scans[i].text, len, &end);

		if (got != scans[i].want)
			CHECK_FAIL("%s: %d, expected %d", scans[i].text, got,
				   scans[i].want);
		if (got != RECORD_MORE)
			CHECK_EQ(end, scans[i].end);
	}
}

/* In pieces that end where the bits of CUTS are set. */
static enum record_scan_result scan_in_pieces(const char *text, size_t len,
					      uint64_t cuts, size_t *end)
{
	struct record_scan scan = {0};
	size_t start = 0;

	for (size_t at = 1; at <= len; at++) {
		enum record_scan_result got;

		if (at < len && !(cuts >> (at - 1) & 1))
			continue;
		got = record_scan(&scan, text + start, at - start, end);
		*end += start;
		if (got != RECORD_MORE)
			return got;
		start = at;
	}
	return RECORD_MORE;
}

static void a_scan_in_pieces_equals_one_piece(void)
{
	uint32_t seed = 314159;

	for (size_t i = 0; i < SCANS; i++) {
		size_t len = strlen(scans[i].text), end = 0;

		for (size_t cut = 0; cut < len; cut++) {
			CHECK_EQ(scan_in_pieces(scans[i].text, len,
						UINT64_C(1) << cut, &end),
				 scans[i].want);
			if (scans[i].want != RECORD_MORE)
				CHECK_EQ(end, scans[i].end);
		}
		for (int round = 0; round < 100; round++) {
			uint64_t cuts = random_next(&seed);

			if (round == 0)
				cuts = UINT64_MAX;
			CHECK_EQ(scan_in_pieces(scans[i].text, len, cuts, &end),
				 scans[i].want);
			if (scans[i].want != RECORD_MORE)
				CHECK_EQ(end, scans[i].end);
		}
	}
}

/* Whatever is a record, the scan calls complete at its last byte. */
static void random_objects_are_complete_at_their_last_byte(void)
{
	uint32_t seed = 271828;
	struct buf head, tail, record;

	buf_init(&head, 4096);
	buf_init(&tail, 4096);
	buf_init(&record, 8192);
	for (int round = 0; round < 500; round++) {
		size_t last, end;

		random_object(&seed, &head, &tail);
		set_joined(&record, &head, PICK(&seed, some_values), &tail);
		last = record.len;
		while (record.bytes[last - 1] != '}')
			last--;
		for (size_t cut = 0; cut <= record.len; cut++) {
			struct record_scan scan = {0};
			enum record_scan_result got =
				record_scan(&scan, record.bytes, cut, &end);

			CHECK_EQ(got,
				 cut < last ? RECORD_MORE : RECORD_COMPLETE);
			if (got == RECORD_COMPLETE) {
				CHECK_EQ(end, last);
				continue;
			}
			CHECK_EQ(record_scan(&scan, record.bytes + cut,
					     record.len - cut, &end),
				 RECORD_COMPLETE);
			CHECK_EQ(cut + end, last);
		}
	}
	buf_release(&head);
	buf_release(&tail);
	buf_release(&record);
}

static void a_scan_does_not_follow_endless_depth(void)
{
	for (size_t deep = 1; deep < 100; deep++) {
		char text[200];
		struct record_scan scan = {0};
		size_t end;

		memset(text, '{', deep);
		memset(text + deep, '}', deep);
		if (deep <= RECORD_DEPTH_MAX) {
			CHECK_EQ(record_scan(&scan, text, 2 * deep, &end),
				 RECORD_COMPLETE);
			CHECK_EQ(end, 2 * deep);
		} else {
			CHECK_EQ(record_scan(&scan, text, 2 * deep, &end),
				 RECORD_BROKEN);
			CHECK_EQ(end, RECORD_DEPTH_MAX);
		}
	}
}

static void after_an_end_a_scan_is_at_the_start(void)
{
	static const char *const texts[] = {"{\"a\":[{", "}]}", "x",   "{}",
					    "{\"a\n",	 " ",	"{\"", "\":1}"};
	static const enum record_scan_result want[] = {
		RECORD_MORE,   RECORD_COMPLETE, RECORD_BROKEN, RECORD_COMPLETE,
		RECORD_BROKEN, RECORD_MORE,	RECORD_MORE,   RECORD_COMPLETE};
	struct record_scan scan = {0};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		size_t end;

		CHECK_EQ(record_scan(&scan, texts[i], strlen(texts[i]), &end),
			 want[i]);
	}
}

static void blanks(void)
{
	CHECK(record_is_blank("", 0));
	CHECK(record_is_blank(NULL, 0));
	CHECK(record_is_blank(" \t\r\n", 4));
	CHECK(!record_is_blank(" \v", 2));
	CHECK(!record_is_blank("\f", 1));
	CHECK(!record_is_blank("\0", 1));
	CHECK(!record_is_blank(" \n}", 3));
	CHECK(!record_is_blank("\xc2\xa0", 2));
}

int main(void)
{
	RUN(an_edit_changes_one_value);
	RUN(an_edit_that_does_not_fit_changes_nothing);
	RUN(an_edit_keeps_to_the_depth);
	RUN(random_edits_keep_every_other_byte);
	RUN(an_edited_record_is_read_as_edited);
	RUN(a_scan_finds_the_end);
	RUN(a_scan_in_pieces_equals_one_piece);
	RUN(random_objects_are_complete_at_their_last_byte);
	RUN(a_scan_does_not_follow_endless_depth);
	RUN(after_an_end_a_scan_is_at_the_start);
	RUN(blanks);
	return 0;
}
