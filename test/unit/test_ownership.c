/* The rules: every branch, who is told what, and no arithmetic that wraps. */
#include "ownership.h"

#include "check.h"

#include <stdbool.h>

#define MAX  UINT64_MAX
#define LAST INT64_MAX /* of the clock */

static struct own own_of(const char *node, uint64_t epoch)
{
	struct own own = {.epoch = epoch};

	memcpy(own.node, node, strlen(node));
	return own;
}

struct own_case {
	int line;
	const char *mount; /* NULL: no node name */
	enum ownership_guarded guarded;
	const char *old_node;
	uint64_t old_epoch;
	const char *new_node;
	uint64_t new_epoch;
	enum outcome want;
	bool ask;
	const char *reason; /* a part of it */
};

#define C(...)                                                                 \
	{                                                                      \
		__LINE__, __VA_ARGS__                                          \
	}
#define NOTHING		    GUARDED_ABSENT, "", 0
#define MALFORMED	    GUARDED_MALFORMED, "", 0
#define OWN(node, epoch)    GUARDED_OWN, node, epoch
#define OK		    OUTCOME_OK, false, ""
#define ASK		    OUTCOME_OK, true, ""
#define NO(outcome, reason) OUTCOME_##outcome, false, reason

static const struct own_case own_cases[] = {
	/* the first record */
	C(NULL, NOTHING, "n1", 1, OK),
	C(NULL, NOTHING, "n1", 7, OK),
	C("n1", NOTHING, "n1", 1, OK),
	C(NULL, NOTHING, "n1", 0, NO(INVALID, "at least 1")),
	C(NULL, NOTHING, "", 1, NO(INVALID, "name a node")),
	C(NULL, NOTHING, "", 0, NO(INVALID, "name a node")),
	C("n1", NOTHING, "", 1, NO(INVALID, "name a node")),
	C("n1", NOTHING, "n2", 1, NO(FORBIDDEN, "claim for n2")),
	C("n1", NOTHING, "n2", 0, NO(FORBIDDEN, "claim for n2")),
	/* a malformed one */
	C(NULL, MALFORMED, "n1", 1, NO(REJECTED, "malformed")),
	C(NULL, MALFORMED, "", 1, NO(REJECTED, "malformed")),
	C("n1", MALFORMED, "n1", MAX, NO(REJECTED, "malformed")),
	C("n1", MALFORMED, "n2", 1, NO(FORBIDDEN, "n1")),
	/* a claim */
	C(NULL, OWN("", 7), "n1", 8, OK),
	C(NULL, OWN("n1", 7), "n1", 8, OK),
	C(NULL, OWN("n2", 7), "n1", 8, ASK),
	C("n1", OWN("", 7), "n1", 8, OK),
	C("n1", OWN("n1", 7), "n1", 8, OK),
	C("n1", OWN("n2", 7), "n1", 8, ASK),
	C("n1", OWN("n2", 7), "n3", 8, NO(FORBIDDEN, "claim for n3")),
	C("n1", OWN("n2", 7), "n2", 8, NO(FORBIDDEN, "claim for n2")),
	C("n1", OWN("n2", 7), "n2", 7, NO(FORBIDDEN, "claim for n2")),
	C("n1", OWN("", 7), "N1", 8, NO(FORBIDDEN, "claim for N1")),
	C(NULL, OWN("n1", 5), "n1", 4, NO(REJECTED, "stale epoch")),
	C(NULL, OWN("n2", 5), "n1", 5, NO(REJECTED, "stale epoch")),
	C(NULL, OWN("", 5), "n1", 5, NO(REJECTED, "stale epoch")),
	C(NULL, OWN("n1", 5), "n1", 0, NO(REJECTED, "stale epoch")),
	C(NULL, OWN("n1", 0), "n1", 0, NO(REJECTED, "stale epoch")),
	C(NULL, OWN("n1", 0), "n1", 1, OK),
	C(NULL, OWN("n1", 5), "n1", 1000005, OK),
	C(NULL, OWN("n2", 5), "n1", 1000005, ASK),
	C(NULL, OWN("n1", 5), "n1", 1000006, NO(INVALID, "more than 1000000")),
	C(NULL, OWN("n2", 5), "n1", 1000006, NO(INVALID, "more than 1000000")),
	C(NULL, OWN("n1", 0), "n1", MAX, NO(INVALID, "more than 1000000")),
	C(NULL, OWN("n1", MAX - 1), "n1", MAX, OK),
	C(NULL, OWN("n1", MAX), "n1", MAX, NO(REJECTED, "stale epoch")),
	C(NULL, OWN("n1", MAX), "n1", 0, NO(REJECTED, "stale epoch")),
	C(NULL, OWN("n1", MAX), "n1", 1, NO(REJECTED, "stale epoch")),
	C(NULL, OWN("n1", MAX - 1000000), "n1", MAX, OK),
	C(NULL, OWN("n1", MAX - 1000001), "n1", MAX, NO(INVALID, "more than")),
	/* a release */
	C(NULL, OWN("n1", 7), "", 7, OK),
	C("n1", OWN("n1", 7), "", 7, OK),
	C("n1", OWN("n2", 7), "", 7, NO(FORBIDDEN, "does not release")),
	C(NULL, OWN("n1", 7), "", 6, NO(REJECTED, "stale epoch")),
	C(NULL, OWN("", 7), "", 6, NO(REJECTED, "stale epoch")),
	C("n1", OWN("n2", 7), "", 6, NO(REJECTED, "stale epoch")),
	C(NULL, OWN("", 7), "", 7, NO(INVALID, "nothing to release")),
	C(NULL, OWN("", 7), "", 8, NO(INVALID, "nothing to release")),
	C("n1", OWN("", 7), "", 7, NO(INVALID, "nothing to release")),
	C(NULL, OWN("n1", 7), "", 8, NO(INVALID, "keeps the epoch")),
	C("n1", OWN("n2", 7), "", 8, NO(INVALID, "keeps the epoch")),
	C(NULL, OWN("n1", 0), "", 0, OK),
	C(NULL, OWN("n1", MAX), "", MAX, OK),
	C(NULL, OWN("n1", 0), "", MAX, NO(INVALID, "keeps the epoch")),
	C(NULL, OWN("n1", MAX), "", 0, NO(REJECTED, "stale epoch")),
};

static void check_reason(int line, const struct reason *reason,
			 const char *part)
{
	if (!strstr(reason->text, part))
		CHECK_FAIL("case of line %d: reason '%s', expected '%s'", line,
			   reason->text, part);
}

static void run_own_case(const struct own_case *c, bool takeover_any,
			 bool clients_keep)
{
	struct ownership_rules rules = {.node = c->mount,
					.takeover_any = takeover_any,
					.clients_keep = clients_keep};
	struct own old = own_of(c->old_node, c->old_epoch);
	struct own next = own_of(c->new_node, c->new_epoch);
	struct reason reason = {""};
	bool ask = true;
	enum outcome got = ownership_check_own(
		&rules, &next, c->guarded,
		c->guarded == GUARDED_OWN ? &old : NULL, &ask, &reason);

	if (got != c->want)
		CHECK_FAIL("case of line %d: %s, expected %s", c->line,
			   outcome_word(got), outcome_word(c->want));
	if (ask != (c->ask && !takeover_any))
		CHECK_FAIL("case of line %d: ask_lease is %d", c->line, ask);
	check_reason(c->line, &reason, c->reason);
	CHECK_EQ(reason.text[0] == '\0', got == OUTCOME_OK);
}

static void records_of_ownership(void)
{
	for (size_t i = 0; i < sizeof(own_cases) / sizeof(own_cases[0]); i++)
		run_own_case(&own_cases[i], false, false);
}

/* Neither relaxes any other rule. */
static void takeover_any_only_stops_the_asking(void)
{
	for (size_t i = 0; i < sizeof(own_cases) / sizeof(own_cases[0]); i++) {
		run_own_case(&own_cases[i], true, false);
		run_own_case(&own_cases[i], false, true);
	}
}

/* Small numbers, all of them, against the rules as one sentence each. */
static void all_small_cases_agree_with_plain_sentences(void)
{
	static const char *const names[] = {"", "n1", "n2"};
	struct ownership_rules rules = {0};

	for (int i = 0; i < 3 * 3 * 6 * 6; i++) {
		struct own old = own_of(names[i % 3], (uint64_t)(i / 9 % 6));
		struct own next =
			own_of(names[i / 3 % 3], (uint64_t)(i / 54 % 6));
		bool release = !next.node[0], owned = old.node[0];
		bool good = release ? owned && next.epoch == old.epoch
				    : next.epoch > old.epoch;
		bool taken = good && !release && owned &&
			     strcmp(old.node, next.node) != 0;
		bool ask;

		CHECK_EQ(ownership_check_own(&rules, &next, GUARDED_OWN, &old,
					     &ask, NULL) == OUTCOME_OK,
			 good);
		CHECK_EQ(ask, taken);
	}
}

static void leases_are_written_by_their_keeper(void)
{
	static const struct {
		int line;
		const char *mount;
		bool clients_keep;
		const char *key, *named, *addr;
		enum outcome want;
		bool warn;
		const char *reason;
	} cases[] = {
		C(NULL, false, "n1", "n1", "h:1", OK),
		C(NULL, true, "n1", "n1", "h:1", OK),
		C(NULL, false, "n1", "n1", "", ASK /* warn */),
		C(NULL, false, "n1", "n2", "h:1", NO(INVALID, "names n2")),
		C(NULL, false, "n1", "n2", "", NO(INVALID, "names n2")),
		C(NULL, false, "n1", "N1", "h:1", NO(INVALID, "names N1")),
		C("n1", false, "n1", "n1", "h:1", NO(FORBIDDEN, "itself")),
		C("n1", false, "n1", "n2", "h:1", NO(FORBIDDEN, "itself")),
		C("n1", false, "n2", "n2", "h:1", NO(FORBIDDEN, "lease of n2")),
		C("n1", true, "n2", "n2", "h:1", NO(FORBIDDEN, "lease of n2")),
		C("n1", true, "n2", "n1", "h:1", NO(FORBIDDEN, "lease of n2")),
		C("n1", true, "n1", "n1", "h:1", OK),
		C("n1", true, "n1", "n1", "", ASK /* warn */),
		C("n1", true, "n1", "n2", "h:1", NO(INVALID, "names n2")),
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ownership_rules rules = {.node = cases[i].mount,
						.clients_keep =
							cases[i].clients_keep};
		struct lease next = {0};
		struct reason reason = {""};
		bool warn = true;

		memcpy(next.node, cases[i].named, strlen(cases[i].named));
		memcpy(next.addr, cases[i].addr, strlen(cases[i].addr));
		CHECK_EQ(ownership_check_lease(&rules, cases[i].key, &next,
					       &warn, &reason),
			 cases[i].want);
		CHECK_EQ(warn, cases[i].warn);
		check_reason(cases[i].line, &reason, cases[i].reason);
	}
}

#define DAY	  UINT64_C(86400000)
#define TEN_YEARS (DAY * 36525 / 10)

struct life_case {
	int line;
	uint64_t expires, now, skew;
	enum lease_log log;
	enum life want;
	const char *reason;
};

#define SEALED	   LEASE_LOG_SEALED
#define NONE	   LEASE_LOG_NONE
#define OPEN	   LEASE_LOG_OPEN
#define RECOVERING LEASE_LOG_RECOVERING
#define ODD	   LEASE_LOG_UNKNOWN

static const struct life_case life_cases[] = {
	C(16200, 10000, 1000, NONE, LIFE_ALIVE,
	  "its lease is alive for another 6.2 s (addr 10.0.0.5:7000)"),
	C(16200, 10000, 1000, OPEN, LIFE_ALIVE, "alive"),
	C(16200, 10000, 1000, ODD, LIFE_ALIVE, "alive"),
	C(10001, 10000, 0, NONE, LIFE_ALIVE, "another 0.0 s"),
	C(10000, 9999, 1000, NONE, LIFE_ALIVE, "alive"),
	C(10000, 10000, 1000, NONE, LIFE_UNKNOWN,
	  "expired 0 ms ago, within the skew margin of 1000 ms"),
	C(10000, 10300, 1000, SEALED, LIFE_UNKNOWN, "300 ms ago"),
	C(10000, 10999, 1000, NONE, LIFE_UNKNOWN, "999 ms ago"),
	C(10000, 10999, 1000, OPEN, LIFE_UNKNOWN, "within the skew"),
	C(10000, 11000, 1000, NONE, LIFE_DEAD, "its lease expired 1.0 s ago"),
	C(10000, 11000, 1000, SEALED, LIFE_DEAD, "expired 1.0 s ago"),
	C(10000, 11000, 1000, OPEN, LIFE_UNKNOWN,
	  "its log is open: only celld can recover it"),
	C(10000, 11000, 1000, RECOVERING, LIFE_UNKNOWN, "is recovering: only"),
	C(10000, 11000, 1000, ODD, LIFE_UNKNOWN, "not known here: only celld"),
	C(10000, 10000, 0, NONE, LIFE_DEAD, "expired 0.0 s ago"),
	C(1, 0, 0, NONE, LIFE_ALIVE, "alive"),
	C(1, 1, 0, NONE, LIFE_DEAD, "expired"),
	/* the tombstone knows no skew */
	C(0, 0, 1000, NONE, LIFE_DEAD, "given up"),
	C(0, 5, MAX, SEALED, LIFE_DEAD, "given up"),
	C(0, 5, 1000, OPEN, LIFE_UNKNOWN, "given up, but its log is open"),
	C(0, LAST, 0, RECOVERING, LIFE_UNKNOWN, "recovering"),
	C(0, LAST, 0, ODD, LIFE_UNKNOWN, "only celld"),
	/* nothing wraps */
	C(MAX, 10000, 1000, NONE, LIFE_ALIVE, "wrong clock?"),
	C(MAX, LAST, 1000, NONE, LIFE_ALIVE, "wrong clock?"),
	C(LAST, LAST - 1, 1000, NONE, LIFE_ALIVE, "another 0.0 s"),
	C(LAST, LAST, 1000, NONE, LIFE_UNKNOWN, "0 ms ago"),
	C(LAST - 5, LAST, 1000, NONE, LIFE_UNKNOWN, "5 ms ago"),
	C(10000, 20000, MAX, NONE, LIFE_UNKNOWN, "within the skew"),
	C(1, LAST, 1000, NONE, LIFE_DEAD, "days ago"),
	C(1, LAST, MAX, NONE, LIFE_UNKNOWN, "within the skew"),
	/* a wrong clock is honoured, and named */
	C(10000 + TEN_YEARS, 10000, 1000, NONE, LIFE_ALIVE,
	  "another 3652 days"),
	C(10001 + TEN_YEARS, 10000, 1000, NONE, LIFE_ALIVE,
	  "expires in 3652 days: a wrong clock?"),
	C(10000 + 3653 * DAY, 10000, 1000, NONE, LIFE_ALIVE,
	  "expires in 3653 days: a wrong clock?"),
};

/* Later bounds and later times must not matter: the earliest is judged by. */
static struct fleet_time at(uint64_t now_ms)
{
	return (struct fleet_time){(int64_t)now_ms, INT64_MAX, INT64_MAX, 0};
}

static void life_of_a_lease(void)
{
	for (size_t i = 0; i < sizeof(life_cases) / sizeof(life_cases[0]);
	     i++) {
		const struct life_case *c = &life_cases[i];
		struct lease lease = {.node = "n1",
				      .addr = "10.0.0.5:7000",
				      .expires_ms = c->expires,
				      .log = c->log};
		struct reason reason = {""};
		struct fleet_time now = at(c->now);
		enum life got =
			ownership_life("n1", &lease, 0, &now, c->skew, &reason);

		if (got != c->want)
			CHECK_FAIL("case of line %d: %d, expected %d", c->line,
				   got, c->want);
		check_reason(c->line, &reason, c->reason);
		CHECK_EQ(strstr(reason.text, "wrong clock") != NULL,
			 strstr(c->reason, "wrong clock") != NULL);
		CHECK_EQ(ownership_life("n1", &lease, 0, &now, c->skew, NULL),
			 c->want);
	}
}

/* Written at 10 s for 70 s: whoever reckons by the old clock may rely on it for
 * so long after the step, and a second more, because the store cuts its times.
 * A short span, or one that makes no sense, may have the step between its two
 * times: then for a minute. */
static void a_step_of_the_clock_is_waited_out(void)
{
	static const struct {
		int64_t modified_ms;
		uint64_t expires_ms;
		int64_t trust_ms;
	} cases[] = {
		{10000, 80000, 71000},	 {10000, 15000, 60000},
		{10000, 10001, 60000},	 {10000, 69999, 60000},
		{10000, 70000, 61000},	 {15000, 15000, 60000},
		{90000, 15000, 60000},	 {0, 70000, 71000},
		{-5, 70000, 71000},	 {10000, 3610000, 3601000},
		{10000, 3610001, 60000},
	};
	struct lease lease = {.node = "n1"};

	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		struct fleet_time now = {3620000, 3620001,
					 cases[i / 2].trust_ms - 1 + i % 2, 0};
		struct reason reason = {""};

		lease.expires_ms = cases[i / 2].expires_ms;
		CHECK_EQ(ownership_life("n1", &lease, cases[i / 2].modified_ms,
					&now, 1000, &reason),
			 i % 2 ? LIFE_DEAD : LIFE_UNKNOWN);
		CHECK_EQ(strstr(reason.text, "stepped") != NULL, i % 2 == 0);
	}
	/* what was given up needs no clock, what lives is alive by any */
	lease.expires_ms = 0;
	CHECK_EQ(ownership_life("n1", &lease, 0, &(struct fleet_time){0}, 0,
				NULL),
		 LIFE_DEAD);
	lease.expires_ms = 1;
	CHECK_EQ(ownership_life("n1", &lease, 0, &(struct fleet_time){0}, 0,
				NULL),
		 LIFE_ALIVE);
}

static void no_lease_is_dead(void)
{
	struct reason reason;

	CHECK_EQ(ownership_life("n1", NULL, 0, NULL, MAX, &reason), LIFE_DEAD);
	CHECK_STR(reason.text, "it has no lease");
}

static void another_name_is_unknown_whatever_it_says(void)
{
	static const uint64_t expires[] = {0, 1, 10000, MAX};

	for (size_t i = 0; i < 4; i++) {
		struct lease lease = {.node = "n2", .expires_ms = expires[i]};
		struct fleet_time now = at(5000);
		struct reason reason;

		CHECK_EQ(ownership_life("n1", &lease, 0, &now, 0, &reason),
			 LIFE_UNKNOWN);
		CHECK_STR(reason.text, "the lease of n1 names n2");
	}
}

static void an_empty_addr_is_alive_all_the_same(void)
{
	struct lease lease = {.node = "n1", .expires_ms = 20000};
	struct fleet_time now = at(10000);
	struct reason reason;

	CHECK_EQ(ownership_life("n1", &lease, 0, &now, 0, &reason), LIFE_ALIVE);
	CHECK_STR(reason.text,
		  "its lease is alive for another 10.0 s (addr none)");
}

static void only_the_dead_are_taken_over(void)
{
	struct reason reason = {"what was found"};

	CHECK_EQ(ownership_check_takeover(LIFE_DEAD, &reason), OUTCOME_OK);
	CHECK_STR(reason.text, "what was found");
	CHECK_EQ(ownership_check_takeover(LIFE_ALIVE, &reason),
		 OUTCOME_REJECTED);
	CHECK_STR(reason.text, "what was found");
	CHECK_EQ(ownership_check_takeover(LIFE_UNKNOWN, &reason),
		 OUTCOME_REJECTED);
	CHECK_STR(reason.text, "not known to be dead: what was found");
	CHECK_EQ(ownership_check_takeover((enum life)9, &reason),
		 OUTCOME_REJECTED);
	CHECK_EQ(ownership_check_takeover(LIFE_UNKNOWN, NULL),
		 OUTCOME_REJECTED);
}

static void what_disproves_a_write(void)
{
	static const struct {
		const char *ours;
		uint64_t our_epoch;
		const char *found;
		uint64_t found_epoch;
		bool want;
	} cases[] = {
		{"n1", 8, "n2", 8, true},     {"n1", 8, "n2", 7, true},
		{"n1", 8, "n1", 8, true},     {"n1", 8, "n1", 7, true},
		{"n1", 8, "n2", 9, false},    {"n1", 8, "n1", 9, false},
		{"n1", 8, "", 8, false},      {"n1", 8, "", 7, false},
		{"n1", 8, "", 9, false},      {"", 8, "n2", 8, false},
		{"", 8, "n2", 7, false},      {"", 8, "n2", 9, false},
		{"", 8, "", 8, false},	      {"n1", 1, "n2", 1, true},
		{"n1", MAX, "n2", MAX, true}, {"n1", 0, "n2", MAX, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct own ours = own_of(cases[i].ours, cases[i].our_epoch);
		struct own found = own_of(cases[i].found, cases[i].found_epoch);

		CHECK_EQ(ownership_disproves(&ours, &found), cases[i].want);
	}
}

/* celld's table of claims, and that each of them passes the rules. */
static void what_a_claim_writes(void)
{
	static const struct {
		enum ownership_guarded form;
		struct own found;
		uint64_t epoch;
		bool ask;
	} cases[] = {
		{GUARDED_ABSENT, {"", 0}, 1, false},
		{GUARDED_OWN, {"", 0}, 1, false},
		{GUARDED_OWN, {"", 7}, 8, false},
		{GUARDED_OWN, {"n1", 7}, 8, false},
		{GUARDED_OWN, {"n2", 7}, 8, true},
		{GUARDED_OWN, {"n2", MAX - 1}, MAX, true},
	};
	struct ownership_rules rules = {.node = "n1"};
	struct own found = {"n2", MAX}, next;
	struct reason reason;
	bool ask;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK_EQ(ownership_claim("n1", cases[i].form, &cases[i].found,
					 &next, &ask, NULL),
			 OUTCOME_OK);
		CHECK_STR(next.node, "n1");
		CHECK_EQ(next.epoch, cases[i].epoch);
		CHECK_EQ(ask, cases[i].ask);
		CHECK_EQ(ownership_check_own(&rules, &next, cases[i].form,
					     &cases[i].found, &ask, NULL),
			 OUTCOME_OK);
		CHECK_EQ(ask, cases[i].ask);
	}
	CHECK_EQ(ownership_claim("n1", GUARDED_OWN, &found, &next, &ask,
				 &reason),
		 OUTCOME_INVALID);
	CHECK_STR(reason.text, "the epoch is at its end");
	CHECK_EQ(ownership_claim("n1", GUARDED_MALFORMED, NULL, &next, &ask,
				 &reason),
		 OUTCOME_INVALID);
	CHECK(!ask);
}

int main(void)
{
	RUN(records_of_ownership);
	RUN(takeover_any_only_stops_the_asking);
	RUN(all_small_cases_agree_with_plain_sentences);
	RUN(leases_are_written_by_their_keeper);
	RUN(life_of_a_lease);
	RUN(a_step_of_the_clock_is_waited_out);
	RUN(no_lease_is_dead);
	RUN(another_name_is_unknown_whatever_it_says);
	RUN(an_empty_addr_is_alive_all_the_same);
	RUN(only_the_dead_are_taken_over);
	RUN(what_a_claim_writes);
	RUN(what_disproves_a_write);
	return 0;
}
