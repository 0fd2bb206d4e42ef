/* draft: from fragments to a record: at every cut, in every order. */
#include "draft.h"

#include "check.h"

#include <stdbool.h>

static const char record[] =
	" {\"node\":\"n}{1\\\"\",\"epoch\":7,\"x\":[{\"y\":{}},\"\\\\\"]} \n";

static enum outcome put(struct draft *draft, const char *bytes, size_t len,
			off_t offset, bool *complete, char said[240])
{
	/* in a block of its own, so that a sanitizer sees a read too far */
	char *copy = malloc(len + 1);
	struct reason reason = {""};
	enum outcome outcome;

	memcpy(copy, bytes, len);
	outcome = draft_write(draft, copy, len, offset, complete, &reason);
	free(copy);
	snprintf(said, 240, "%s", reason.text);
	if (outcome != OUTCOME_OK) {
		/* whatever is refused leaves nothing behind */
		CHECK(!*complete);
		CHECK_EQ(draft->bytes.len, 0);
		CHECK(!draft->scan.started);
		CHECK_EQ(draft->scan.depth, 0);
		CHECK(said[0]);
	}
	return outcome;
}

static bool add(struct draft *draft, const char *bytes, size_t len,
		off_t offset)
{
	char said[240];
	bool complete;

	CHECK_EQ(put(draft, bytes, len, offset, &complete, said), OUTCOME_OK);
	CHECK_STR(said, "");
	return complete;
}

static bool add_text(struct draft *draft, const char *text, off_t offset)
{
	return add(draft, text, strlen(text), offset);
}

static void refuse(struct draft *draft, const char *text, off_t offset,
		   enum outcome want, const char *reason)
{
	char said[240];
	bool complete;

	CHECK_EQ(put(draft, text, strlen(text), offset, &complete, said), want);
	if (!strstr(said, reason))
		CHECK_FAIL("'%s': the reason is '%s', expected '%s'", text,
			   said, reason);
}

static void check_content(const struct draft *draft, const char *want)
{
	CHECK_EQ(draft->bytes.len, strlen(want));
	CHECK(memcmp(draft->bytes.bytes, want, strlen(want)) == 0);
}

/* As fs/file.c does with a whole record. */
static void hand_over(struct draft *draft)
{
	draft_drop(draft);
	draft->after_record = true;
}

static void test_every_cut(void)
{
	size_t len = strlen(record);
	size_t end = len - 2; /* behind the brace */
	struct draft draft;

	draft_init(&draft);
	for (size_t a = 0; a < end; a++) {
		for (size_t b = a; b < end; b++) {
			CHECK(!add(&draft, record, a, 100));
			CHECK(!add(&draft, record + a, b - a,
				   (off_t)(100 + a)));
			CHECK(add(&draft, record + b, len - b,
				  (off_t)(100 + b)));
			check_content(&draft, record);
			CHECK_EQ(draft.next, 100 + (off_t)len);
			draft_drop(&draft);
		}
	}
	for (size_t i = 0; i < end; i++)
		CHECK_EQ(add(&draft, record + i, 1, (off_t)i), i == end - 1);
	CHECK_EQ(draft.bytes.len, end);
	draft_release(&draft);
}

static void test_white_space(void)
{
	struct draft draft;

	draft_init(&draft);
	/* echo's newline is stored */
	CHECK(add_text(&draft, "{}\n", 0));
	check_content(&draft, "{}\n");
	hand_over(&draft);
	/* later it is ignored, wherever it is */
	CHECK(!add_text(&draft, "\n", 3));
	CHECK(!add_text(&draft, " \t\r\n", 900));
	CHECK_EQ(draft.bytes.len, 0);
	CHECK(!add(&draft, "", 0, 5));
	/* and the next record may start anywhere */
	CHECK(add_text(&draft, "{\"a\":1}", 3));
	check_content(&draft, "{\"a\":1}");
	hand_over(&draft);
	CHECK(add_text(&draft, " {}", 0));
	check_content(&draft, " {}");
	hand_over(&draft);
	/* not so inside one */
	CHECK(!add_text(&draft, "{", 0));
	CHECK(!add_text(&draft, " ", 1));
	CHECK(add_text(&draft, "}", 2));
	check_content(&draft, "{ }");
	draft_release(&draft);

	/* before the first record it belongs to it */
	draft_init(&draft);
	CHECK(!add_text(&draft, " \n", 0));
	CHECK_EQ(draft.bytes.len, 2);
	refuse(&draft, "{}", 0, OUTCOME_INVALID, "expected 2");
	CHECK(!add_text(&draft, " \n", 0));
	CHECK(add_text(&draft, "{}", 2));
	check_content(&draft, " \n{}");
	draft_release(&draft);
}

static void test_continuity(void)
{
	struct draft draft;

	draft_init(&draft);
	/* the first may start anywhere */
	CHECK(!add_text(&draft, "{\"a\":", 5000));
	CHECK(add_text(&draft, "1}", 5005));
	check_content(&draft, "{\"a\":1}");
	draft_drop(&draft);
	/* the next one continues it */
	CHECK(!add_text(&draft, "{\"a\":", 0));
	refuse(&draft, "1}", 6, OUTCOME_INVALID, "offset 6");
	CHECK(!add_text(&draft, "{\"a\":", 0));
	refuse(&draft, "1}", 4, OUTCOME_INVALID, "expected 5");
	CHECK(!add_text(&draft, "{\"a\":", 0));
	refuse(&draft, "{\"a\":1}", 0, OUTCOME_INVALID, "continue");
	/* and what is whole in itself starts anew behind the refusal */
	CHECK(add_text(&draft, "{\"a\":1}", 0));
	check_content(&draft, "{\"a\":1}");
	draft_drop(&draft);
	/* dropped: the rest of the old is no start */
	CHECK(!add_text(&draft, "{\"a\":", 0));
	draft_drop(&draft);
	refuse(&draft, "1}", 5, OUTCOME_INVALID, "expected '{'");
	draft_release(&draft);
}

static void test_surplus(void)
{
	struct draft draft;

	draft_init(&draft);
	refuse(&draft, "{}{}", 0, OUTCOME_INVALID, "byte 3");
	refuse(&draft, "{}\n{}\n", 0, OUTCOME_INVALID, "byte 3");
	refuse(&draft, "{} x", 0, OUTCOME_INVALID, "one write, one record");
	refuse(&draft, "{}}", 0, OUTCOME_INVALID, "byte 3");
	CHECK(!add_text(&draft, "{\"a\"", 0));
	refuse(&draft, ":1},", 4, OUTCOME_INVALID, "byte 8");
	/* in a later write it is a new record, or a bad one */
	CHECK(add_text(&draft, "{}", 0));
	hand_over(&draft);
	refuse(&draft, "}", 2, OUTCOME_INVALID, "expected '{'");
	CHECK(!add_text(&draft, "\n", 2));
	CHECK(add_text(&draft, "{}", 3));
	draft_release(&draft);
}

static void test_what_cannot_become_one(void)
{
	char deep[RECORD_DEPTH_MAX + 2];
	struct draft draft;

	draft_init(&draft);
	refuse(&draft, "x", 0, OUTCOME_INVALID, "byte 1 is 0x78, expected '{'");
	refuse(&draft, " \n x", 0, OUTCOME_INVALID,
	       "byte 4 is 0x78, expected '{'");
	refuse(&draft, "[1]", 0, OUTCOME_INVALID, "byte 1 is 0x5b, expected");
	refuse(&draft, "\xef\xbb\xbf{}", 0, OUTCOME_INVALID, "byte 1 is 0xef");
	CHECK(!add_text(&draft, " ", 0));
	refuse(&draft, " 7", 1, OUTCOME_INVALID, "byte 3 is 0x37, expected");
	refuse(&draft, "{\"a\nb\":1}", 0, OUTCOME_INVALID,
	       "byte 4 is 0x0a inside a string");
	CHECK(!add_text(&draft, "{\"a", 0));
	refuse(&draft, "\n", 3, OUTCOME_INVALID, "inside a string");
	refuse(&draft, "{\"a\":1]", 0, OUTCOME_INVALID, "byte 7 is ']'");
	CHECK(!add_text(&draft, "{\"a\":1", 0));
	refuse(&draft, "]", 6, OUTCOME_INVALID, "byte 7 is ']'");

	memset(deep, '{', sizeof(deep));
	deep[RECORD_DEPTH_MAX + 1] = '\0';
	refuse(&draft, deep, 0, OUTCOME_INVALID,
	       "byte 33 is '{', which nests deeper than 32");
	deep[RECORD_DEPTH_MAX] = '\0';
	CHECK(!add_text(&draft, deep, 0));
	refuse(&draft, "[", RECORD_DEPTH_MAX, OUTCOME_INVALID,
	       "byte 33 is '['");
	draft_release(&draft);
}

static void test_too_large(void)
{
	static char bytes[RECORD_WRITE_MAX + 1];
	struct draft draft;
	bool complete;
	char said[240];

	draft_init(&draft);
	memset(bytes, ' ', sizeof(bytes));
	bytes[0] = '{';
	bytes[RECORD_WRITE_MAX - 1] = '}';
	/* just so */
	CHECK(add(&draft, bytes, RECORD_WRITE_MAX, 0));
	CHECK_EQ(draft.bytes.len, RECORD_WRITE_MAX);
	draft_drop(&draft);
	/* a byte too many, at once or in the end */
	CHECK_EQ(put(&draft, bytes, RECORD_WRITE_MAX + 1, 0, &complete, said),
		 OUTCOME_TOO_LARGE);
	CHECK(strstr(said, "65536"));
	CHECK(!add(&draft, bytes, RECORD_WRITE_MAX - 1, 0));
	refuse(&draft, " }", RECORD_WRITE_MAX - 1, OUTCOME_TOO_LARGE, "65536");
	/* never ending */
	CHECK(!add(&draft, bytes, RECORD_WRITE_MAX - 1, 0));
	refuse(&draft, "  ", RECORD_WRITE_MAX - 1, OUTCOME_TOO_LARGE, "65536");
	CHECK(add_text(&draft, "{}", 0));
	draft_release(&draft);
}

int main(void)
{
	RUN(test_every_cut);
	RUN(test_white_space);
	RUN(test_continuity);
	RUN(test_surplus);
	RUN(test_what_cannot_become_one);
	RUN(test_too_large);
	return 0;
}
