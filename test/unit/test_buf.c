/* The capped buffer, and the same operations on a plain array beside it. */
#include "buf.h"

#include "check.h"

#include <stdbool.h>
#include <stdint.h>

static void check_content(const struct buf *buf, const char *want, size_t len)
{
	CHECK_EQ(buf->len, len);
	CHECK(buf->len <= buf->size);
	CHECK(buf->size <= buf->cap);
	if (len > 0)
		CHECK(memcmp(buf->bytes, want, len) == 0);
}

static void starts_empty_and_allocates_nothing(void)
{
	struct buf buf;

	memset(&buf, 'x', sizeof(buf));
	buf_init(&buf, 10);
	CHECK(buf.bytes == NULL);
	CHECK_EQ(buf.len, 0);
	CHECK_EQ(buf.size, 0);
	CHECK_EQ(buf.cap, 10);
	buf_clear(&buf);
	buf_release(&buf);
}

static void appends_up_to_the_cap_exactly(void)
{
	struct buf buf;

	buf_init(&buf, 5);
	CHECK_EQ(buf_append(&buf, "abc", 3), OUTCOME_OK);
	CHECK_EQ(buf_append(&buf, "def", 3), OUTCOME_TOO_LARGE);
	check_content(&buf, "abc", 3);
	CHECK_EQ(buf_append(&buf, "de", 2), OUTCOME_OK);
	check_content(&buf, "abcde", 5);
	CHECK_EQ(buf_append(&buf, "", 0), OUTCOME_OK);
	CHECK_EQ(buf_append(&buf, NULL, 0), OUTCOME_OK);
	CHECK_EQ(buf_append(&buf, "f", 1), OUTCOME_TOO_LARGE);
	CHECK_EQ(buf_append(&buf, "f", SIZE_MAX), OUTCOME_TOO_LARGE);
	check_content(&buf, "abcde", 5);
	buf_release(&buf);
}

static void lengths_do_not_wrap(void)
{
	struct buf buf;

	buf_init(&buf, SIZE_MAX);
	CHECK_EQ(buf_append(&buf, "abc", 3), OUTCOME_OK);
	CHECK_EQ(buf_append(&buf, "d", SIZE_MAX - 2), OUTCOME_TOO_LARGE);
	check_content(&buf, "abc", 3);
	buf_release(&buf);
}

static void a_cap_of_nothing_takes_nothing(void)
{
	struct buf buf;

	buf_init(&buf, 0);
	CHECK_EQ(buf_append(&buf, NULL, 0), OUTCOME_OK);
	CHECK_EQ(buf_set(&buf, NULL, 0), OUTCOME_OK);
	CHECK_EQ(buf_append(&buf, "a", 1), OUTCOME_TOO_LARGE);
	CHECK_EQ(buf_printf(&buf, "%s", ""), OUTCOME_OK);
	CHECK_EQ(buf_printf(&buf, "%d", 1), OUTCOME_TOO_LARGE);
	CHECK(buf.bytes == NULL);
}

static void set_replaces_or_leaves_all(void)
{
	struct buf buf;

	buf_init(&buf, 5);
	CHECK_EQ(buf_set(&buf, "abcde", 5), OUTCOME_OK);
	CHECK_EQ(buf_set(&buf, "123456", 6), OUTCOME_TOO_LARGE);
	check_content(&buf, "abcde", 5);
	CHECK_EQ(buf_set(&buf, buf.bytes + 1, 3), OUTCOME_OK);
	check_content(&buf, "bcd", 3);
	CHECK_EQ(buf_set(&buf, NULL, 0), OUTCOME_OK);
	check_content(&buf, "", 0);
	buf_release(&buf);
}

static void printf_appends_without_its_nul(void)
{
	struct buf buf;

	buf_init(&buf, 8);
	CHECK_EQ(buf_printf(&buf, "%s=%d", "ab", 12), OUTCOME_OK);
	check_content(&buf, "ab=12", 5);
	CHECK_EQ(buf_printf(&buf, "%s", "wxyz"), OUTCOME_TOO_LARGE);
	check_content(&buf, "ab=12", 5);
	CHECK_EQ(buf_printf(&buf, "%.*s", 3, buf.bytes), OUTCOME_OK);
	check_content(&buf, "ab=12ab=", 8);
	buf_release(&buf);
}

static void release_keeps_the_cap_and_clear_the_allocation(void)
{
	struct buf buf;
	const char *bytes;

	buf_init(&buf, 100);
	CHECK_EQ(buf_append(&buf, "abc", 3), OUTCOME_OK);
	bytes = buf.bytes;
	buf_clear(&buf);
	CHECK_EQ(buf.len, 0);
	CHECK(buf.bytes == bytes);
	CHECK_EQ(buf_append(&buf, "de", 2), OUTCOME_OK);
	check_content(&buf, "de", 2);
	buf_release(&buf);
	CHECK(buf.bytes == NULL);
	CHECK_EQ(buf.len, 0);
	CHECK_EQ(buf.size, 0);
	CHECK_EQ(buf.cap, 100);
	CHECK_EQ(buf_append(&buf, "fg", 2), OUTCOME_OK);
	check_content(&buf, "fg", 2);
	buf_release(&buf);
}

/* Sanitizers end the program instead of answering NULL. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void without_memory_the_content_stays(void)
{
	size_t more = SIZE_MAX / 4; /* of no address space */
	struct buf buf;

	buf_init(&buf, more + 100);
	CHECK_EQ(buf_append(&buf, "abc", 3), OUTCOME_OK);
	CHECK_EQ(buf_append(&buf, buf.bytes, more), OUTCOME_NO_MEMORY);
	check_content(&buf, "abc", 3);
	CHECK_EQ(buf_set(&buf, buf.bytes, more), OUTCOME_NO_MEMORY);
	check_content(&buf, "abc", 3);
	buf_release(&buf);
}
#endif

static uint32_t random_next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

struct reference {
	char bytes[300];
	size_t len;
};

static void one_random_step(struct buf *buf, struct reference *plain,
			    uint32_t *seed)
{
	char piece[80];
	size_t len = random_next(seed) % sizeof(piece);
	size_t kept = plain->len;
	enum outcome got, want;

	for (size_t i = 0; i < len; i++)
		piece[i] = (char)('a' + random_next(seed) % 26);
	switch (random_next(seed) % 20) {
	case 0:
		buf_release(buf);
		plain->len = 0;
		return;
	case 1:
		buf_clear(buf);
		plain->len = 0;
		return;
	case 2:
	case 3:
		kept = 0;
		got = buf_set(buf, piece, len);
		break;
	case 4:
	case 5:
	case 6:
		got = buf_printf(buf, "%.*s", (int)len, piece);
		break;
	default:
		got = buf_append(buf, piece, len);
		break;
	}
	want = kept + len > buf->cap ? OUTCOME_TOO_LARGE : OUTCOME_OK;
	CHECK_EQ(got, want);
	if (want != OUTCOME_OK)
		return;
	memcpy(plain->bytes + kept, piece, len);
	plain->len = kept + len;
}

static void random_steps_agree_with_a_plain_array(void)
{
	uint32_t seed = 20240607;

	for (int round = 0; round < 300; round++) {
		struct reference plain = {.len = 0};
		struct buf buf;

		buf_init(&buf, random_next(&seed) % sizeof(plain.bytes));
		for (int step = 0; step < 100; step++) {
			one_random_step(&buf, &plain, &seed);
			check_content(&buf, plain.bytes, plain.len);
		}
		buf_release(&buf);
	}
}

static void a_megabyte_byte_by_byte(void)
{
	size_t cap = 1024 * 1024;
	struct buf buf;

	buf_init(&buf, cap);
	for (size_t i = 0; i < cap; i++)
		CHECK_EQ(buf_append(&buf, &"0123456789"[i % 10], 1),
			 OUTCOME_OK);
	CHECK_EQ(buf_append(&buf, "x", 1), OUTCOME_TOO_LARGE);
	CHECK_EQ(buf.len, cap);
	for (size_t i = 0; i < cap; i++)
		CHECK_EQ(buf.bytes[i], "0123456789"[i % 10]);
	buf_release(&buf);
}

int main(void)
{
	RUN(starts_empty_and_allocates_nothing);
	RUN(appends_up_to_the_cap_exactly);
	RUN(lengths_do_not_wrap);
	RUN(a_cap_of_nothing_takes_nothing);
	RUN(set_replaces_or_leaves_all);
	RUN(printf_appends_without_its_nul);
	RUN(release_keeps_the_cap_and_clear_the_allocation);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	RUN(without_memory_the_content_stays);
#endif
	RUN(random_steps_agree_with_a_plain_array);
	RUN(a_megabyte_byte_by_byte);
	return 0;
}
