/* survey: who is shown and how, on a store and a clock that the tests hold in
 * their hands. */
#include "survey.h"

#include "check.h"
#include "clock.h"
#include "mount.h"
#include "seen.h"

#include <pthread.h>
#include <unistd.h>

#define T0	 1700000000000 /* the store's time when a test begins */
#define BOOT0	 5000
#define TEXT_MAX (4 * 1024 * 1024)

/* ---- the clock ---- */

static _Atomic int64_t boot_now_ms;

/* How often the clock was read by the thread that has read the first node,
 * since it did: so it can be seen to have taken the answer in. */
static _Thread_local bool is_first;
static _Atomic unsigned first_reads_clock;

static int64_t boot_clock(void)
{
	int64_t now_ms = boot_now_ms;

	if (is_first)
		first_reads_clock++;
	return now_ms;
}

/* ---- the store ---- */

struct fake;
static void slow_second(struct fake *self, const char *key);

struct fake {
	struct store store;
	size_t nodes;	    /* n00000 and so on */
	size_t old;	    /* so many of them are not recent */
	int64_t age_ms;	    /* of those; the others' is 0 */
	int64_t fuzz_ms;    /* between the earliest and the latest time */
	int64_t step_at_ms; /* of the boot clock; 0: never */
	int64_t step_ms;
	enum outcome list_outcome;
	void (*before_get)(struct fake *fake, const char *key);
	const char *(*body)(const char *key, char *room, size_t size);
	struct stop *stop; /* requested by the first read */
	_Atomic unsigned lists, gets, inside, most_inside;
};

static struct fake fake;

static int64_t store_ms(void)
{
	bool stepped = fake.step_at_ms && boot_now_ms >= fake.step_at_ms;

	return T0 + (boot_now_ms - BOOT0) + (stepped ? fake.step_ms : 0);
}

static enum outcome fake_now(struct store *store, const struct limits *limits,
			     struct fleet_time *time)
{
	(void)store;
	(void)limits;
	time->earliest_ms = store_ms();
	time->latest_ms = time->earliest_ms + fake.fuzz_ms;
	time->since_step_ms = INT64_MAX;
	if (fake.step_at_ms && boot_now_ms >= fake.step_at_ms)
		time->since_step_ms = boot_now_ms - fake.step_at_ms;
	time->steps = time->since_step_ms < INT64_MAX;
	return OUTCOME_OK;
}

static enum outcome fake_list(struct store *store, const struct limits *limits,
			      const char *prefix, struct buf *after,
			      list_fn *fn, void *arg, struct answer *answer)
{
	enum outcome outcome = limits_check(limits);
	size_t from = 0, to;
	char name[32];

	(void)store;
	fake.lists++;
	CHECK_STR(prefix, "nodes/");
	if (fake.list_outcome != OUTCOME_OK)
		return reason_set(&answer->reason, fake.list_outcome, "fake");
	if (after->len > 0)
		from = strtoul(after->bytes, NULL, 10);
	to = from + LIST_PAGE_MAX < fake.nodes ? from + LIST_PAGE_MAX
					       : fake.nodes;
	for (size_t i = from; i < to && outcome == OUTCOME_OK; i++) {
		struct list_entry entry = {
			.name = name,
			.modified_ms = T0 - (i < fake.old ? fake.age_ms : 0),
		};

		snprintf(name, sizeof(name), "n%05zu.json", i);
		outcome = fn(arg, &entry);
	}
	buf_clear(after);
	if (outcome == OUTCOME_OK && to < fake.nodes)
		outcome = buf_printf(after, "%zu%c", to, 0);
	return outcome;
}

static enum outcome fake_get(struct store *store, const struct limits *limits,
			     const char *key, const char *known,
			     struct object *object, struct answer *answer)
{
	unsigned inside = ++fake.inside;
	enum outcome outcome;
	char room[1000];
	const char *body;

	(void)store;
	(void)known;
	fake.gets++;
	for (unsigned most = fake.most_inside; most < inside;)
		if (atomic_compare_exchange_weak(&fake.most_inside, &most,
						 inside))
			break;
	if (fake.before_get)
		fake.before_get(&fake, key);
	outcome = limits_check(limits);
	body = fake.body(key, room, sizeof(room));
	if (outcome == OUTCOME_OK && !body)
		outcome = reason_set(&answer->reason, OUTCOME_FAILED,
				     "no \"luck\"");
	if (outcome == OUTCOME_OK && !*body)
		outcome = OUTCOME_ABSENT;
	object->modified_ms = T0;
	if (outcome == OUTCOME_OK)
		outcome = buf_set(&object->body, body, strlen(body));
	fake.inside--;
	if (fake.before_get == slow_second && !is_first)
		is_first = strcmp(key, "nodes/n00000.json") == 0;
	return outcome;
}

static const struct store_ops fake_ops = {
	.get = fake_get,
	.list = fake_list,
	.now = fake_now,
};

/* "n00007" of "nodes/n00007.json". */
static int node_of(const char *key, char node[7])
{
	snprintf(node, 7, "%.6s", key + strlen("nodes/"));
	return (int)strtol(node + 1, NULL, 10);
}

/* ---- a survey ---- */

static struct mount mount;
static char *text; /* the last one's, NUL-terminated */
static struct answer answer;

static void start(size_t nodes,
		  const char *(*body)(const char *key, char *room, size_t size))
{
	boot_now_ms = BOOT0;
	is_first = false;
	first_reads_clock = 0;
	clock_replace(boot_clock, NULL);
	memset(&fake, 0, sizeof(fake));
	fake.store.ops = &fake_ops;
	fake.nodes = nodes;
	fake.body = body;
}

static enum outcome survey_into(size_t text_max)
{
	struct limits limits = {.deadline_ms = BOOT0 + 60000};
	enum outcome outcome;
	struct stop stop;
	struct buf out;

	stop_init(&stop);
	limits.stop = &stop;
	if (fake.stop)
		fake.stop = &stop;
	memset(&mount, 0, sizeof(mount));
	memset(&answer, 0, sizeof(answer));
	mount.store = &fake.store;
	mount.seen = seen_new();
	mount.ttl_ms = 10000;
	mount.rules.skew_ms = 1000;
	buf_init(&out, text_max);
	outcome = survey_run(&mount, &limits, &out, &answer);
	free(text);
	text = strndup(out.len ? out.bytes : "", out.len);
	buf_release(&out);
	seen_free(mount.seen);
	stop_release(&stop);
	CHECK_EQ(fake.inside, 0);
	return outcome;
}

static void survey(void)
{
	CHECK_EQ(survey_into(TEXT_MAX), OUTCOME_OK);
}

static size_t lines(void)
{
	size_t count = 0;

	for (const char *at = text; (at = strchr(at, '\n')); at++)
		count++;
	return count;
}

/* Line NUMBER, from 0. */
static const char *line(size_t number)
{
	static char found[5000];
	const char *at = text;

	while (number-- > 0)
		at = strchr(at, '\n') + 1;
	snprintf(found, sizeof(found), "%.*s", (int)strcspn(at, "\n"), at);
	return found;
}

static void check_has(const char *in, const char *part)
{
	if (!strstr(in, part))
		CHECK_FAIL("'%s' is not in '%s'", part, in);
}

/* ---- bodies ---- */

/* Alive for 5 s; resident_cells as the number says. */
static const char *alive(const char *key, char *room, size_t size)
{
	char node[7];
	int number = node_of(key, node);

	snprintf(room, size,
		 "{\"node\":\"%s\",\"expires_ms\":%lld,\"addr\":\"h\","
		 "\"ownership_index_generation\":\"g\",\"load\":{"
		 "\"sampled_ms\":0,\"resident_cells\":%d,\"host_websockets\":0,"
		 "\"rss_bytes\":0,\"cpu_percent_x100\":0,\"open_fds\":0,"
		 "\"fd_limit\":0,\"pressured\":false,\"shed_cells\":0}}",
		 node, T0 + 5000LL, number % 7);
	return room;
}

/* ---- tests ---- */

static void nobody_is_an_empty_text(void)
{
	start(0, alive);
	survey();
	CHECK_STR(text, "");
	CHECK_EQ(fake.lists, 1);
	CHECK_EQ(fake.gets, 0);
}

static void one_line_says_it_all(void)
{
	start(1, alive);
	survey();
	CHECK_STR(text, "{\"node\":\"n00000\",\"state\":\"alive\","
			"\"expires_ms\":1700000005000,\"expires_in_ms\":5000,"
			"\"addr\":\"h\",\"resident_cells\":0,"
			"\"generation\":\"g\",\"modified_ms\":1700000000000,"
			"\"why\":\"its lease is alive for another 5.0 s (addr "
			"h)\"}\n");
}

/* By cells, then by name, and the dead at the end whatever they have. */
static const char *some_dead(const char *key, char *room, size_t size)
{
	char node[7];
	int number = node_of(key, node);

	if (number % 2 == 0)
		return alive(key, room, size);
	snprintf(room, size, "{\"node\":\"%s\",\"expires_ms\":%d}", node,
		 number == 1 ? 0 : number);
	return room;
}

static void alive_first_then_by_cells_then_by_name(void)
{
	static const int order[] = {0, 14, 8, 2, 16, 10, 4,  12, 6,
				    1, 3,  5, 7, 9,  11, 13, 15, 17};
	char want[40];

	start(18, some_dead);
	survey();
	CHECK_EQ(lines(), 18);
	for (size_t i = 0; i < 18; i++) {
		snprintf(want, sizeof(want),
			 "{\"node\":\"n%05d\",\"state\":\"%s\"", order[i],
			 order[i] % 2 ? "dead" : "alive");
		check_has(line(i), want);
	}
	/* given up, and run out */
	check_has(line(9), "\"expires_ms\":0,\"expires_in_ms\":0,");
	check_has(line(10), "\"expires_ms\":3,\"expires_in_ms\":-16999999");
}

/* What is not a lease, and what is one only in part. */
static const char *odd(const char *key, char *room, size_t size)
{
	char node[7];

	switch (node_of(key, node)) {
	case 0:
		return alive(key, room, size);
	case 1:
		return "<html>";
	case 2:
		return "{\"node\":\"n00002\",\"expires_ms\":-1}";
	case 3:
		return "{\"node\":\"n00003\",\"expires_ms\":1,\"load\":{}}";
	case 4:
		return NULL;
	case 5:
		return ""; /* gone since it was listed */
	case 6:
		return "{\"node\":\"other\",\"expires_ms\":1}";
	case 7:
		return "{\"node\":\"n00007\",\"expires_ms\":1,\"log\":{}}";
	default:
		return "{\"node\":\"n00008\",\"expires_ms\":"
		       "18446744073709551615,\"addr\":\"a\\\"b\\\\c\\u0001"
		       "\\u000a}\xc3\xbc\"}";
	}
}

static void an_odd_one_is_shown_and_hides_nobody(void)
{
	start(9, odd);
	survey();
	CHECK_EQ(lines(), 8);
	CHECK(!strstr(text, "n00005"));
	check_has(line(0), "{\"node\":\"n00000\",\"state\":\"alive\"");
	check_has(line(1), "{\"node\":\"n00008\",\"state\":\"alive\"");
	check_has(line(1), "\"expires_ms\":18446744073709551615,"
			   "\"expires_in_ms\":18446742373709551615,");
	check_has(line(1), "\"addr\":\"a\\\"b\\\\c\\u0001\\u000a}\xc3\xbc\"");
	check_has(line(1), "a wrong clock? (addr a\\\"b\\\\c??}");
	check_has(line(2), "{\"node\":\"n00001\",\"state\":\"malformed\","
			   "\"modified_ms\":1700000000000,\"why\":\"");
	check_has(line(3), "{\"node\":\"n00002\",\"state\":\"malformed\",");
	check_has(line(3), "\\\"expires_ms\\\" is -1 (byte 31)");
	check_has(line(4), "{\"node\":\"n00003\",\"state\":\"malformed\",");
	check_has(line(4), "load.");
	CHECK_STR(line(5), "{\"node\":\"n00004\",\"state\":\"unreadable\","
			   "\"modified_ms\":1700000000000,"
			   "\"why\":\"failed: no \\\"luck\\\"\"}");
	check_has(line(6), "{\"node\":\"n00006\",\"state\":\"unknown\",");
	check_has(line(6), "names other");
	check_has(line(7), "{\"node\":\"n00007\",\"state\":\"unknown\",");
}

static void who_was_not_heard_of_for_a_minute_is_not_read(void)
{
	start(10, alive);
	fake.old = 4;
	fake.age_ms = 60000;
	survey();
	CHECK_EQ(lines(), 10);
	fake.age_ms = 60001;
	fake.gets = 0;
	survey();
	CHECK_EQ(lines(), 6);
	CHECK_EQ(fake.gets, 6);
	/* by the latest time that the store's clock may say */
	fake.age_ms = 59990;
	fake.fuzz_ms = 11;
	survey();
	CHECK_EQ(lines(), 6);
}

/* The first is read at once, and after it the second takes 8 s. */
static void slow_second(struct fake *self, const char *key)
{
	char node[7];

	(void)self;
	if (node_of(key, node) == 0)
		return;
	/* the next thing that a reader asks for is whether there is time */
	while (first_reads_clock < 2)
		usleep(1000);
	boot_now_ms += 8000;
}

static void each_is_judged_as_of_its_own_read(void)
{
	start(2, alive);
	fake.before_get = slow_second;
	survey();
	check_has(line(0), "{\"node\":\"n00000\",\"state\":\"alive\","
			   "\"expires_ms\":1700000005000,"
			   "\"expires_in_ms\":5000,");
	check_has(line(1), "{\"node\":\"n00001\",\"state\":\"dead\","
			   "\"expires_ms\":1700000005000,"
			   "\"expires_in_ms\":-3000,");
}

/* The first was read while the store's clock was an hour behind, but that is
 * found out with the answer to the second only. */
static void a_step_that_a_later_answer_shows_counts_for_all(void)
{
	start(2, alive);
	fake.before_get = slow_second;
	fake.step_at_ms = BOOT0 + 8000;
	fake.step_ms = 3600000;
	survey();
	CHECK_EQ(lines(), 2);
	check_has(line(0), "{\"node\":\"n00000\",\"state\":\"unknown\"");
	check_has(line(0), "the store's clock stepped");
	check_has(line(1), "{\"node\":\"n00001\",\"state\":\"unknown\"");
}

/* By the end of the survey more than a minute has passed since the step, but
 * not yet when the first was read: its holder may still have relied on the old
 * time. */
static void a_step_is_as_recent_as_it_was_when_a_lease_was_read(void)
{
	start(2, alive);
	fake.before_get = slow_second;
	fake.step_at_ms = BOOT0 - 55000;
	fake.step_ms = 20000;
	survey();
	CHECK_EQ(lines(), 2);
	check_has(line(0), "{\"node\":\"n00000\",\"state\":\"unknown\"");
	check_has(line(0), "the store's clock stepped 55000 ms ago");
	check_has(line(1), "{\"node\":\"n00001\",\"state\":\"dead\"");
}

static void more_than_enough_are_cut_and_it_says_so(void)
{
	start(SURVEY_MOST, alive);
	survey();
	CHECK_EQ(lines(), SURVEY_MOST);
	CHECK_EQ(fake.lists, SURVEY_MOST / LIST_PAGE_MAX);
	CHECK(!strstr(text, "truncated"));

	start(SURVEY_MOST + 5000, alive);
	survey();
	CHECK_EQ(lines(), SURVEY_MOST + 1);
	CHECK_EQ(fake.gets, SURVEY_MOST);
	CHECK_EQ(fake.lists, SURVEY_MOST / LIST_PAGE_MAX + 1);
	CHECK_STR(line(SURVEY_MOST), "{\"truncated\":true,\"shown\":10000}");

	/* those that are not recent do not count */
	start(SURVEY_MOST + 5000, alive);
	fake.old = 5000;
	fake.age_ms = 100000;
	survey();
	CHECK_EQ(lines(), SURVEY_MOST);
	CHECK_EQ(fake.lists, 15);
	CHECK(!strstr(text, "truncated"));
}

static void a_text_that_is_full_ends_after_a_whole_line(void)
{
	char want[60];

	for (size_t max = 1000; max < 1600; max += 71) {
		start(18, some_dead);
		CHECK_EQ(survey_into(max), OUTCOME_OK);
		CHECK(strlen(text) <= max);
		CHECK(lines() >= 4);
		check_has(line(0), "\"alive\"");
		snprintf(want, sizeof(want),
			 "{\"truncated\":true,\"shown\":%zu}", lines() - 1);
		CHECK_STR(line(lines() - 1), want);
	}
}

/* Until there are as many as there can be, or for ten seconds; and a little
 * longer, so that there could be more. */
static void wait_for_others(struct fake *self, const char *key)
{
	unsigned wanted = self->nodes < SURVEY_READERS ? (unsigned)self->nodes
						       : SURVEY_READERS;

	(void)key;
	for (int n = 0; n < 10000 && self->most_inside < wanted; n++)
		usleep(1000);
	usleep(2000);
}

static void sixteen_read_at_once(void)
{
	start(200, alive);
	fake.before_get = wait_for_others;
	survey();
	CHECK_EQ(fake.gets, 200);
	CHECK_EQ(fake.most_inside, SURVEY_READERS);

	start(3, alive);
	fake.before_get = wait_for_others;
	survey();
	CHECK_EQ(fake.most_inside, 3);
}

static void a_listing_that_fails_is_the_survey_s(void)
{
	start(3, alive);
	fake.list_outcome = OUTCOME_DENIED;
	CHECK_EQ(survey_into(TEXT_MAX), OUTCOME_DENIED);
	CHECK_STR(answer.reason.text, "fake");
	CHECK_STR(text, "");
	CHECK_EQ(fake.gets, 0);
}

static void request_stop(struct fake *self, const char *key)
{
	(void)key;
	stop_request(self->stop);
}

static void a_stop_ends_all_who_read(void)
{
	start(5000, alive);
	fake.before_get = request_stop;
	fake.stop = (struct stop *)&fake; /* is set once there is one */
	CHECK_EQ(survey_into(TEXT_MAX), OUTCOME_INTERRUPTED);
	CHECK(fake.gets <= SURVEY_READERS);
	CHECK_STR(text, "");
}

static void past_the_deadline(struct fake *self, const char *key)
{
	(void)self;
	(void)key;
	boot_now_ms += 100000;
}

static void time_that_is_over_leaves_the_rest_unread(void)
{
	start(100, alive);
	fake.before_get = past_the_deadline;
	survey();
	CHECK_EQ(lines(), 100);
	CHECK(fake.gets <= SURVEY_READERS);
	check_has(line(99), "\"unreadable\",\"modified_ms\":1700000000000,"
			    "\"why\":\"timeout: no time was left");
}

int main(void)
{
	RUN(nobody_is_an_empty_text);
	RUN(one_line_says_it_all);
	RUN(alive_first_then_by_cells_then_by_name);
	RUN(an_odd_one_is_shown_and_hides_nobody);
	RUN(who_was_not_heard_of_for_a_minute_is_not_read);
	RUN(each_is_judged_as_of_its_own_read);
	RUN(a_step_that_a_later_answer_shows_counts_for_all);
	RUN(a_step_is_as_recent_as_it_was_when_a_lease_was_read);
	if (!getenv("CELLDFS_VALGRIND")) /* takes minutes */
		RUN(more_than_enough_are_cut_and_it_says_so);
	RUN(a_text_that_is_full_ends_after_a_whole_line);
	RUN(sixteen_read_at_once);
	RUN(a_listing_that_fails_is_the_survey_s);
	RUN(a_stop_ends_all_who_read);
	RUN(time_that_is_over_leaves_the_rest_unread);
	free(text);
	return 0;
}
