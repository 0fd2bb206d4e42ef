#include "fleet.h"

int64_t fleet_drift_ms(int64_t elapsed_ms)
{
	if (elapsed_ms < 0)
		elapsed_ms = -elapsed_ms;
	return elapsed_ms / 1000000 * FLEET_DRIFT_PPM +
	       (elapsed_ms % 1000000 * FLEET_DRIFT_PPM + 999999) / 1000000;
}

static int64_t low_at(const struct fleet *fleet, int64_t boot_ms)
{
	return fleet->low_ms - fleet_drift_ms(boot_ms - fleet->low_at_ms);
}

static int64_t high_at(const struct fleet *fleet, int64_t boot_ms)
{
	return fleet->high_ms + fleet_drift_ms(boot_ms - fleet->high_at_ms);
}

static void set_low(struct fleet *fleet, int64_t low_ms, int64_t at_ms)
{
	fleet->low_ms = low_ms;
	fleet->low_at_ms = at_ms;
}

static void set_high(struct fleet *fleet, int64_t high_ms, int64_t at_ms)
{
	fleet->high_ms = high_ms;
	fleet->high_at_ms = at_ms;
}

bool fleet_sample(struct fleet *fleet, int64_t date_ms, int64_t sent_ms,
		  int64_t received_ms)
{
	int64_t low_ms = date_ms - received_ms;
	int64_t high_ms = date_ms + 1000 - sent_ms;
	bool first = !fleet->known;

	/* Each bound keeps the time at which it was found: loosening it anew
	 * with every sample would add up the roundings. */
	if (first || low_ms > low_at(fleet, received_ms))
		set_low(fleet, low_ms, received_ms);
	if (first || high_ms < high_at(fleet, received_ms))
		set_high(fleet, high_ms, received_ms);
	fleet->known = true;
	if (low_at(fleet, received_ms) - high_at(fleet, received_ms) <=
	    FLEET_APART_MS)
		return true;
	set_low(fleet, low_ms, received_ms);
	set_high(fleet, high_ms, received_ms);
	fleet->steps++;
	fleet->stepped_at_ms = received_ms;
	return false;
}

bool fleet_now(const struct fleet *fleet, int64_t boot_ms,
	       struct fleet_time *time)
{
	int64_t low_ms = low_at(fleet, boot_ms);
	int64_t high_ms = high_at(fleet, boot_ms);

	if (!fleet->known)
		return false;
	time->earliest_ms = boot_ms + (low_ms < high_ms ? low_ms : high_ms);
	time->latest_ms = boot_ms + (low_ms < high_ms ? high_ms : low_ms);
	time->since_step_ms =
		fleet->steps ? boot_ms - fleet->stepped_at_ms : INT64_MAX;
	time->steps = fleet->steps;
	return true;
}

void fleet_time_back(struct fleet_time *time, int64_t ms)
{
	time->earliest_ms -= ms;
	time->latest_ms -= ms;
	if (time->steps > 0)
		time->since_step_ms -= ms;
}

int64_t fleet_halves_ms(const struct fleet_time *time)
{
	int64_t apart_ms = time->latest_ms - time->earliest_ms;

	if (apart_ms <= FLEET_CLOSE_MS)
		return INT64_MAX;
	return 1000 - (time->earliest_ms + apart_ms / 2) % 1000;
}
