#include "control.h"

#include "clock.h"
#include "gate.h"
#include "holds.h"
#include "json.h"
#include "keeper.h"
#include "lock.h"
#include "mount.h"
#include "peers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a mount knows about itself, at one moment. */
struct facts {
	const struct mount *mount;
	const char *node; /* "" = none */
	int64_t uptime_ms;
	bool clock_known;	    /* the store's is; then: */
	struct fleet_time now;	    /* what it says */
	int64_t clock_offset_ms;    /* how far the wall clock is ahead of it */
	struct keeper_status lease; /* these two: zero without a keeper */
	uint64_t resident_cells;
	unsigned inside, waiting; /* in the gate */
	unsigned locks_held, locks_waiting;
};

static void gather(struct mount *mount, struct facts *facts)
{
	struct limits at_once = {0};
	int64_t wall_ms = clock_wall_ms();

	memset(facts, 0, sizeof(*facts));
	facts->mount = mount;
	facts->node = mount->rules.node ? mount->rules.node : "";
	facts->uptime_ms = clock_boot_ms() - mount->started_ms;
	facts->clock_known =
		store_now(mount->store, &at_once, &facts->now) == OUTCOME_OK;
	if (facts->clock_known)
		facts->clock_offset_ms = wall_ms - facts->now.earliest_ms / 2 -
					 facts->now.latest_ms / 2;
	if (mount->keeper) {
		keeper_status(mount->keeper, &facts->lease);
		facts->resident_cells = holds_count(mount->holds);
	}
	gate_counts(mount->gate, &facts->inside, &facts->waiting);
	if (mount->locks)
		locks_counts(mount->locks, &facts->locks_held,
			     &facts->locks_waiting);
}

/* ---- status: `key value` lines ---- */

static enum outcome print_clock(const struct facts *facts, struct buf *text)
{
	if (!facts->clock_known)
		return buf_printf(text, "store_time_ms -\n"
					"clock_offset_ms -\n");
	return buf_printf(text, "store_time_ms %lld\nclock_offset_ms %lld\n",
			  (long long)facts->now.latest_ms,
			  (long long)facts->clock_offset_ms);
}

static enum outcome print_lease(const struct facts *facts, struct buf *text)
{
	const struct keeper_status *lease = &facts->lease;

	if (!facts->mount->keeper)
		return buf_printf(text, "keeper %s\n",
				  facts->node[0] ? "off" : "-");
	return buf_printf(text,
			  "keeper on\n"
			  "lease %s\n"
			  "fence %s\n"
			  "lease_reason %s\n"
			  "authority_ms %lld\n"
			  "generation %s\n"
			  "renewed_ms_ago %lld\n"
			  "renewals %llu\n"
			  "renewal_errors %llu\n"
			  "ttl_ms %lld\n"
			  "resident_cells %llu\n",
			  lease->state, lease->fence[0] ? lease->fence : "-",
			  lease->reason.text[0] ? lease->reason.text : "-",
			  (long long)lease->authority_ms, lease->generation,
			  (long long)lease->renewed_ms_ago,
			  (unsigned long long)lease->renewals,
			  (unsigned long long)lease->renewal_errors,
			  (long long)facts->mount->ttl_ms,
			  (unsigned long long)facts->resident_cells);
}

static enum outcome print_counts(const struct facts *facts, struct buf *text)
{
	const struct mount *mount = facts->mount;

	return buf_printf(text,
			  "requests_in_store %u\n"
			  "requests_waiting %u\n"
			  "locks_held %u\n"
			  "locks_waiting %u\n"
			  "reads %llu\n"
			  "swaps_applied %llu\n"
			  "swaps_rejected %llu\n"
			  "swaps_unknown %llu\n"
			  "failures %llu\n",
			  facts->inside, facts->waiting, facts->locks_held,
			  facts->locks_waiting,
			  (unsigned long long)mount->reads,
			  (unsigned long long)mount->swaps_applied,
			  (unsigned long long)mount->swaps_rejected,
			  (unsigned long long)mount->swaps_unknown,
			  (unsigned long long)mount->failures);
}

static enum outcome print_status(struct mount *mount,
				 const struct limits *limits, struct buf *text,
				 struct answer *answer)
{
	struct facts facts;
	enum outcome outcome;

	(void)limits;
	(void)answer;
	gather(mount, &facts);
	outcome = buf_printf(text,
			     "version %s\n"
			     "pid %ld\n"
			     "store %s\n"
			     "node %s\n"
			     "read_only %s\n"
			     "uptime_s %lld\n"
			     "skew_ms %llu\n"
			     "deadline_ms %lld\n",
			     CELLDFS_VERSION, (long)getpid(), mount->url,
			     facts.node[0] ? facts.node : "-",
			     mount->read_only ? "yes" : "no",
			     (long long)facts.uptime_ms / 1000,
			     (unsigned long long)mount->rules.skew_ms,
			     (long long)mount->deadline_ms);
	if (outcome == OUTCOME_OK)
		outcome = print_clock(&facts, text);
	if (outcome == OUTCOME_OK)
		outcome = print_lease(&facts, text);
	if (outcome == OUTCOME_OK)
		outcome = print_counts(&facts, text);
	return outcome;
}

/* ---- metrics: Prometheus' text format ---- */

/* In quotes. The format knows three escapes, and everything else in UTF-8
 * stands for itself. */
static enum outcome put_label(struct buf *text, const char *value)
{
	struct json_text rest = {value, strlen(value)};
	enum outcome outcome = buf_append(text, "\"", 1);

	while (outcome == OUTCOME_OK && rest.len > 0) {
		size_t len = json_char_len(rest);

		if (len == 0)
			outcome = buf_append(text, "\xef\xbf\xbd", 3);
		else if (*rest.bytes == '\n')
			outcome = buf_append(text, "\\n", 2);
		else if (*rest.bytes == '"' || *rest.bytes == '\\')
			outcome = buf_printf(text, "\\%c", *rest.bytes);
		else
			outcome = buf_append(text, rest.bytes, len);
		rest.bytes += len > 0 ? len : 1;
		rest.len -= len > 0 ? len : 1;
	}
	if (outcome == OUTCOME_OK)
		outcome = buf_append(text, "\"", 1);
	return outcome;
}

static enum outcome print_info(const struct facts *facts, struct buf *text)
{
	enum outcome outcome;

	outcome = buf_printf(text,
			     "# HELP celldfs_info What is mounted, and as "
			     "which node.\n"
			     "# TYPE celldfs_info gauge\n"
			     "celldfs_info{version=\"%s\",store=",
			     CELLDFS_VERSION);
	if (outcome == OUTCOME_OK)
		outcome = put_label(text, facts->mount->url);
	if (outcome == OUTCOME_OK)
		outcome = buf_printf(text, ",node=");
	if (outcome == OUTCOME_OK)
		outcome = put_label(text, facts->node);
	if (outcome == OUTCOME_OK)
		outcome = buf_printf(text, "} 1\n");
	return outcome;
}

struct metric {
	const char *name;
	const char *type;   /* NULL: more of the metric before it */
	const char *help;   /* likewise */
	const char *labels; /* NULL: none */
	double value;	    /* NAN: not known, and not printed */
};

static enum outcome print_metric(const struct metric *metric, struct buf *text)
{
	enum outcome outcome = OUTCOME_OK;

	if (isnan(metric->value))
		return OUTCOME_OK;
	if (metric->type)
		outcome = buf_printf(text,
				     "# HELP celldfs_%s %s\n"
				     "# TYPE celldfs_%s %s\n",
				     metric->name, metric->help, metric->name,
				     metric->type);
	if (outcome != OUTCOME_OK)
		return outcome;
	/* 15 digits: exact for counts, and no noise behind milliseconds */
	return buf_printf(text, "celldfs_%s%s %.15g\n", metric->name,
			  metric->labels ? metric->labels : "", metric->value);
}

static enum outcome print_all_metrics(const struct facts *facts,
				      struct buf *text)
{
	const struct mount *mount = facts->mount;
	const bool held = facts->lease.authority_ms > 0;
	const struct metric metrics[] = {
		{"up", "gauge", "Always 1.", NULL, 1},
		{"uptime_seconds", "gauge", "Since the mount began.", NULL,
		 (double)facts->uptime_ms / 1000},
		{"reads_total", "counter", "Records read from the store.", NULL,
		 (double)mount->reads},
		{"swaps_total", "counter",
		 "Guarded writes by what became of them.",
		 "{outcome=\"applied\"}", (double)mount->swaps_applied},
		{"swaps_total", NULL, NULL, "{outcome=\"rejected\"}",
		 (double)mount->swaps_rejected},
		{"swaps_total", NULL, NULL, "{outcome=\"unknown\"}",
		 (double)mount->swaps_unknown},
		{"failures_total", "counter",
		 "Operations that failed, without swaps that were rejected.",
		 NULL, (double)mount->failures},
		{"lease_held", "gauge",
		 "1 while this mount holds its node's lease.", NULL, held},
		{"fenced", "gauge", "1 once this mount has lost its lease.",
		 NULL, mount->keeper && !held},
		{"authority_seconds", "gauge",
		 "How long the lease allows writing without a renewal.", NULL,
		 (double)facts->lease.authority_ms / 1000},
		{"renewals_total", "counter",
		 "Writes of the lease that were applied.", NULL,
		 (double)facts->lease.renewals},
		{"renewal_errors_total", "counter",
		 "Writes of the lease that were not, or not known to be.", NULL,
		 (double)facts->lease.renewal_errors},
		{"resident_cells", "gauge",
		 "Cells that are held through this mount.", NULL,
		 (double)facts->resident_cells},
		{"requests_in_store", "gauge",
		 "Operations that wait for the store.", NULL, facts->inside},
		{"requests_waiting", "gauge",
		 "Operations that wait until fewer wait for the store.", NULL,
		 facts->waiting},
		{"locks_held", "gauge", "Cells that are held by flock.", NULL,
		 facts->locks_held},
		{"locks_waiting", "gauge", "Requests that wait for a lock.",
		 NULL, facts->locks_waiting},
		{"clock_offset_seconds", "gauge",
		 "How far this machine's wall clock is ahead of the store's.",
		 NULL,
		 facts->clock_known ? (double)facts->clock_offset_ms / 1000
				    : NAN},
		{"store_clock_steps_total", "counter",
		 "How often the store's clock was seen to jump.", NULL,
		 facts->clock_known ? facts->now.steps : NAN},
	};
	const size_t count = sizeof(metrics) / sizeof(metrics[0]);
	enum outcome outcome = print_info(facts, text);

	for (size_t i = 0; i < count && outcome == OUTCOME_OK; i++)
		outcome = print_metric(&metrics[i], text);
	return outcome;
}

static enum outcome print_metrics(struct mount *mount,
				  const struct limits *limits, struct buf *text,
				  struct answer *answer)
{
	struct facts facts;

	(void)limits;
	(void)answer;
	gather(mount, &facts);
	return print_all_metrics(&facts, text);
}

/* ---- the table ---- */

const struct control_file control_files[] = {
	{"status", print_status, false},
	{"metrics", print_metrics, false},
	{"peers", peers_print, true},
};

const size_t control_file_count =
	sizeof(control_files) / sizeof(control_files[0]);

enum outcome control_print_now(struct mount *mount,
			       const struct control_file *file,
			       struct buf *text)
{
	struct limits at_once = {0};
	struct answer answer = {0};

	return file->print(mount, &at_once, text, &answer);
}
