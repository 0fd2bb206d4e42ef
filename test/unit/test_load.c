/* load: what a lease says of this process is whole, and true. */
#include "load.h"

#include "check.h"
#include "clock.h"
#include "json.h"
#include "record.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define TEXT_MAX 1024

/* The fields that celld requires. */
static const char *const fields[] = {
	"sampled_ms", "resident_cells",	  "host_websockets",
	"rss_bytes",  "cpu_percent_x100", "open_fds",
	"fd_limit",   "pressured",	  "shed_cells",
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

struct sample {
	struct json_text values[FIELDS]; /* in the text */
	struct buf text;
};

static size_t field_of(struct json_text key)
{
	size_t i = 0;

	while (i < FIELDS && json_match_key(key, fields[i]) != JSON_MATCH_YES)
		i++;
	CHECK(i < FIELDS);
	return i;
}

/* Every field once, and no other. */
static void take(struct load *load, uint64_t resident_cells,
		 struct sample *sample)
{
	struct json_cursor cursor;
	struct json_member member;
	struct json_error error;
	struct json_text value;

	memset(sample, 0, sizeof(*sample));
	buf_init(&sample->text, TEXT_MAX);
	CHECK_EQ(load_sample(load, resident_cells, &sample->text), OUTCOME_OK);
	value = (struct json_text){sample->text.bytes, sample->text.len};
	if (!json_check(value, 1, &value, &error))
		CHECK_FAIL("byte %zu: %s", error.offset, error.what);
	cursor = json_members(value);
	while (json_next(&cursor, &member)) {
		size_t i = field_of(member.key);

		CHECK_EQ(sample->values[i].len, 0);
		sample->values[i] = member.value;
	}
	for (size_t i = 0; i < FIELDS; i++)
		CHECK(sample->values[i].len > 0);
}

/* The value of FIELD, which has to be an unsigned integer. */
static uint64_t number(const struct sample *sample, const char *field)
{
	uint64_t number = 0;
	size_t i = 0;

	while (strcmp(fields[i], field) != 0)
		i++;
	for (size_t n = 0; n < sample->values[i].len; n++) {
		unsigned digit =
			(unsigned char)sample->values[i].bytes[n] - '0';

		if (digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, digit, &number))
			CHECK_FAIL("%s is %.*s", field,
				   (int)sample->values[i].len,
				   sample->values[i].bytes);
	}
	return number;
}

static void it_is_a_whole_load_of_a_lease(void)
{
	struct load load = {0};
	struct lease lease;
	struct reason reason = {""};
	struct buf record, text;

	buf_init(&record, RECORD_WRITE_MAX);
	buf_init(&text, TEXT_MAX);
	CHECK_EQ(load_sample(&load, UINT64_MAX, &text), OUTCOME_OK);
	CHECK_EQ(buf_append(&text, "", 1), OUTCOME_OK);
	CHECK_EQ(buf_printf(&record, "{\"node\":\"n1\",\"expires_ms\":1}"),
		 OUTCOME_OK);
	CHECK_EQ(record_edit(&record, "load", text.bytes), OUTCOME_OK);
	CHECK_EQ(record_parse_lease(&lease, record.bytes, record.len, &reason),
		 OUTCOME_OK);
	CHECK_EQ(record_parse_load(&lease, record.bytes, record.len, &reason),
		 OUTCOME_OK);
	CHECK(lease.has_load);
	CHECK(lease.resident_cells == UINT64_MAX);
	buf_release(&text);
	buf_release(&record);
}

static void every_number_is_an_unsigned_integer(void)
{
	struct load load = {0};
	struct sample sample;

	for (int turn = 0; turn < 3; turn++) {
		take(&load, 17, &sample);
		for (size_t i = 0; i < FIELDS; i++)
			if (strcmp(fields[i], "pressured") != 0)
				(void)number(&sample, fields[i]);
			else
				CHECK(json_kind(sample.values[i]) == JSON_BOOL);
		CHECK_EQ(number(&sample, "sampled_ms"), 0);
		CHECK_EQ(number(&sample, "resident_cells"), 17);
		buf_release(&sample.text);
	}
}

static void memory_and_descriptors_are_counted(void)
{
	struct load load = {0};
	uint64_t fds, rss, size = 64 * 1024 * 1024;
	struct rlimit limit;
	struct sample sample;
	char *memory;
	int fd;

	take(&load, 0, &sample);
	fds = number(&sample, "open_fds");
	rss = number(&sample, "rss_bytes");
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK(number(&sample, "fd_limit") == limit.rlim_cur);
	buf_release(&sample.text);
	CHECK(rss > 100 * 1024);

	fd = open("/dev/null", O_RDONLY);
	memory = malloc(size);
	CHECK(fd >= 0 && memory);
	memset(memory, 1, size);
	take(&load, 0, &sample);
	CHECK_EQ(number(&sample, "open_fds"), fds + 1);
	CHECK(number(&sample, "rss_bytes") >= rss + size / 2);
	buf_release(&sample.text);
	CHECK(memory[size / 3] == 1);
	free(memory);
	close(fd);
	take(&load, 0, &sample);
	CHECK_EQ(number(&sample, "open_fds"), fds);
	buf_release(&sample.text);
}

/* What this thread has used of its processor; a busy machine gives it less than
 * the clock shows. */
static int64_t used_ms(void)
{
	struct rusage usage;

	CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

static void the_share_of_the_processor_is_what_was_used(void)
{
	struct load load = {0};
	volatile unsigned sink = 0;
	int64_t begun_ms, begun_used_ms, want, got;
	struct sample sample;

	take(&load, 0, &sample);
	CHECK_EQ(number(&sample, "cpu_percent_x100"), 0);
	buf_release(&sample.text);

	begun_ms = clock_boot_ms();
	begun_used_ms = used_ms();
	while (used_ms() - begun_used_ms < 300)
		for (unsigned i = 0; i < 100000; i++)
			sink += i;
	take(&load, 0, &sample);
	want = (used_ms() - begun_used_ms) * 10000 /
	       (clock_boot_ms() - begun_ms);
	got = (int64_t)number(&sample, "cpu_percent_x100");
	buf_release(&sample.text);
	if (got < want * 8 / 10 || got > want * 12 / 10 + 100)
		CHECK_FAIL("%" PRId64 ", expected about %" PRId64, got, want);

	/* the next sample counts from this one */
	usleep(300000);
	take(&load, 0, &sample);
	got = (int64_t)number(&sample, "cpu_percent_x100");
	buf_release(&sample.text);
	if (got > want / 2)
		CHECK_FAIL("%" PRId64 " when idle", got);
}

static void what_does_not_fit_is_told(void)
{
	struct load load = {0};
	struct buf text;

	buf_init(&text, 20);
	CHECK_EQ(load_sample(&load, 0, &text), OUTCOME_TOO_LARGE);
	buf_release(&text);
}

int main(void)
{
	RUN(it_is_a_whole_load_of_a_lease);
	RUN(every_number_is_an_unsigned_integer);
	RUN(memory_and_descriptors_are_counted);
	RUN(the_share_of_the_processor_is_what_was_used);
	RUN(what_does_not_fit_is_told);
	return 0;
}
