/* The table of outcomes: every errno and word; reasons stay one clean line. */
#include "outcome.h"

#include "check.h"

#include <errno.h>

static const struct {
	enum outcome outcome;
	int want_errno;
	const char *word;
} rows[] = {
	{OUTCOME_OK, 0, "applied"},
	{OUTCOME_UNCHANGED, 0, "unchanged"},
	{OUTCOME_REJECTED, EBUSY, "rejected"},
	{OUTCOME_EXISTS, EEXIST, "exists"},
	{OUTCOME_FORBIDDEN, EPERM, "forbidden"},
	{OUTCOME_INVALID, EINVAL, "invalid"},
	{OUTCOME_TOO_LARGE, EFBIG, "too large"},
	{OUTCOME_FENCED, EROFS, "fenced"},
	{OUTCOME_DENIED, EACCES, "denied"},
	{OUTCOME_ABSENT, ENOENT, "absent"},
	{OUTCOME_NOT_DONE, ECANCELED, "not done"},
	{OUTCOME_TIMEOUT, ETIMEDOUT, "timeout"},
	{OUTCOME_UNKNOWN, ETIMEDOUT, "unknown"},
	{OUTCOME_FAILED, EIO, "failed"},
	{OUTCOME_INTERRUPTED, EINTR, "interrupted"},
	{OUTCOME_NO_MEMORY, ENOMEM, "no memory"},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void every_outcome_has_its_errno_and_word(void)
{
	CHECK_EQ(ROWS, OUTCOME_COUNT);
	for (size_t i = 0; i < ROWS; i++) {
		CHECK_EQ(rows[i].outcome, i);
		CHECK_EQ(outcome_errno(rows[i].outcome), rows[i].want_errno);
		CHECK_STR(outcome_word(rows[i].outcome), rows[i].word);
	}
}

static void words_are_distinct(void)
{
	for (size_t i = 0; i < ROWS; i++)
		for (size_t j = 0; j < i; j++)
			CHECK(strcmp(outcome_word((enum outcome)i),
				     outcome_word((enum outcome)j)) != 0);
}

static void what_is_no_outcome_is_a_failure(void)
{
	CHECK_EQ(outcome_errno(OUTCOME_COUNT), EIO);
	CHECK_EQ(outcome_errno((enum outcome)1000), EIO);
	CHECK_STR(outcome_word(OUTCOME_COUNT), "failed");
}

static void a_reason_is_formatted_and_its_outcome_returned(void)
{
	struct reason reason = {"old"};

	CHECK_EQ(reason_set(&reason, OUTCOME_INVALID, "byte %d: %s", 3, "x"),
		 OUTCOME_INVALID);
	CHECK_STR(reason.text, "byte 3: x");
	CHECK_EQ(reason_set(&reason, OUTCOME_OK, "%s", ""), OUTCOME_OK);
	CHECK_STR(reason.text, "");
	CHECK_EQ(reason_set(NULL, OUTCOME_FAILED, "%d", 1), OUTCOME_FAILED);
}

static void a_reason_may_contain_the_old_one(void)
{
	struct reason reason = {"the lease is alive"};

	(void)reason_set(&reason, OUTCOME_REJECTED, "owned by n1; %s",
			 reason.text);
	CHECK_STR(reason.text, "owned by n1; the lease is alive");
}

static void a_long_reason_is_cut(void)
{
	char text[1001];
	struct reason reason;

	for (size_t len = 0; len <= 1000; len++) {
		memset(text, 'x', len);
		text[len] = '\0';
		memset(&reason, 'y', sizeof(reason));
		(void)reason_set(&reason, OUTCOME_FAILED, "%s", text);
		CHECK_EQ(strlen(reason.text),
			 len < sizeof(reason.text) ? len
						   : sizeof(reason.text) - 1);
	}
}

/* The cut falls on each byte of a character of 2, 3 and 4 bytes in turn. */
static void a_cut_falls_between_characters(void)
{
	static const char *const characters[] = {"\xc3\xa9", "\xe2\x82\xac",
						 "\xf0\x9f\x98\x80"};
	struct reason reason;
	char text[400];

	for (size_t i = 0; i < 3; i++) {
		size_t width = strlen(characters[i]);

		for (size_t shift = 0; shift <= width; shift++) {
			size_t before = sizeof(reason.text) - 1 - shift;
			size_t want = before + (shift == width ? width : 0);

			memset(text, 'x', before);
			memcpy(text + before, characters[i], width);
			memset(text + before + width, 'z', 100);
			text[before + width + 100] = '\0';
			(void)reason_set(&reason, OUTCOME_FAILED, "%s", text);
			CHECK_EQ(strlen(reason.text), want);
			CHECK(memcmp(reason.text, text, want) == 0);
		}
	}
}

static void a_reason_is_one_line(void)
{
	struct reason reason;

	(void)reason_set(&reason, OUTCOME_FAILED, "a%sb", "\n\r\t\x1b\x7f\x01");
	CHECK_STR(reason.text, "a??????b");
	(void)reason_set(&reason, OUTCOME_FAILED, "%s", "caf\xc3\xa9 ~");
	CHECK_STR(reason.text, "caf\xc3\xa9 ~");
}

int main(void)
{
	RUN(every_outcome_has_its_errno_and_word);
	RUN(words_are_distinct);
	RUN(what_is_no_outcome_is_a_failure);
	RUN(a_reason_is_formatted_and_its_outcome_returned);
	RUN(a_reason_may_contain_the_old_one);
	RUN(a_long_reason_is_cut);
	RUN(a_cut_falls_between_characters);
	RUN(a_reason_is_one_line);
	return 0;
}
