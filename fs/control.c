#include "control.h"

#include "clock.h"
#include "gate.h"
#include "mount.h"

#include <stdio.h>
#include <unistd.h>

enum outcome control_status(struct mount *mount, struct buf *text)
{
	struct limits at_once = {0};
	struct fleet_time now;
	unsigned inside, waiting;
	char store_time[24] = "-";

	if (store_now(mount->store, &at_once, &now) == OUTCOME_OK)
		snprintf(store_time, sizeof(store_time), "%lld",
			 (long long)now.latest_ms);
	gate_counts(mount->gate, &inside, &waiting);
	return buf_printf(text,
			  "version %s\n"
			  "pid %ld\n"
			  "store %s\n"
			  "node %s\n"
			  "keeper %s\n"
			  "read_only %s\n"
			  "uptime_s %lld\n"
			  "store_time_ms %s\n"
			  "skew_ms %llu\n"
			  "deadline_ms %lld\n"
			  "requests_in_store %u\n"
			  "requests_waiting %u\n"
			  "reads %llu\n"
			  "swaps_applied %llu\n"
			  "swaps_rejected %llu\n"
			  "swaps_unknown %llu\n"
			  "failures %llu\n",
			  CELLDFS_VERSION, (long)getpid(), mount->url,
			  mount->rules.node ? mount->rules.node : "-",
			  mount->rules.node ? "off" : "-",
			  mount->read_only ? "yes" : "no",
			  (long long)(clock_boot_ms() - mount->started_ms) /
				  1000,
			  store_time, (unsigned long long)mount->rules.skew_ms,
			  (long long)mount->deadline_ms, inside, waiting,
			  (unsigned long long)mount->reads,
			  (unsigned long long)mount->swaps_applied,
			  (unsigned long long)mount->swaps_rejected,
			  (unsigned long long)mount->swaps_unknown,
			  (unsigned long long)mount->failures);
}
