#include "control.h"

#include "clock.h"
#include "gate.h"
#include "holds.h"
#include "keeper.h"
#include "lock.h"
#include "mount.h"

#include <stdio.h>
#include <unistd.h>

/* The store's clock and how far the wall clock is ahead of it. No request. */
static enum outcome print_clock(struct mount *mount, struct buf *text)
{
	struct limits at_once = {0};
	struct fleet_time now;
	int64_t wall_ms = clock_wall_ms();

	if (store_now(mount->store, &at_once, &now) != OUTCOME_OK)
		return buf_printf(text, "store_time_ms -\n"
					"clock_offset_ms -\n");
	return buf_printf(
		text, "store_time_ms %lld\nclock_offset_ms %lld\n",
		(long long)now.latest_ms,
		(long long)(wall_ms - now.earliest_ms / 2 - now.latest_ms / 2));
}

static enum outcome print_lease(struct mount *mount, struct buf *text)
{
	struct keeper_status status;

	if (!mount->keeper)
		return buf_printf(text, "keeper %s\n",
				  mount->rules.node ? "off" : "-");
	keeper_status(mount->keeper, &status);
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
			  status.state, status.fence[0] ? status.fence : "-",
			  status.reason.text[0] ? status.reason.text : "-",
			  (long long)status.authority_ms, status.generation,
			  (long long)status.renewed_ms_ago,
			  (unsigned long long)status.renewals,
			  (unsigned long long)status.renewal_errors,
			  (long long)mount->ttl_ms,
			  (unsigned long long)holds_count(mount->holds));
}

static enum outcome print_counts(struct mount *mount, struct buf *text)
{
	unsigned inside, waiting, held = 0, for_locks = 0;

	gate_counts(mount->gate, &inside, &waiting);
	if (mount->locks)
		locks_counts(mount->locks, &held, &for_locks);
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
			  inside, waiting, held, for_locks,
			  (unsigned long long)mount->reads,
			  (unsigned long long)mount->swaps_applied,
			  (unsigned long long)mount->swaps_rejected,
			  (unsigned long long)mount->swaps_unknown,
			  (unsigned long long)mount->failures);
}

enum outcome control_status(struct mount *mount, struct buf *text)
{
	long long uptime_ms = clock_boot_ms() - mount->started_ms;
	enum outcome outcome;

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
			     mount->rules.node ? mount->rules.node : "-",
			     mount->read_only ? "yes" : "no", uptime_ms / 1000,
			     (unsigned long long)mount->rules.skew_ms,
			     (long long)mount->deadline_ms);
	if (outcome == OUTCOME_OK)
		outcome = print_clock(mount, text);
	if (outcome == OUTCOME_OK)
		outcome = print_lease(mount, text);
	if (outcome == OUTCOME_OK)
		outcome = print_counts(mount, text);
	return outcome;
}
