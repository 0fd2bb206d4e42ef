/* The lease holder, in worlds that do their worst.
 *
 * Each seed is a world of its own (lease_world.h). The network loses and delays
 * requests and answers, also for minutes; the node is paused at any time,
 * within requests, too, and may crash; the store's clock steps. The node is
 * driven as lease.h says. What must hold then, whenever anything happens:
 *
 * 1. While the node believes that it has authority, no watcher finds its lease
 *    dead, nobody has replaced or removed it, and no rival believes the same.
 *    Only with -o replace do two overlap, and then it is known until when.
 * 2. What the operator does fences, by its right word, and no later than the
 *    authority of the last write ahead of it ends.
 * 3. Authority goes back to a write that has really been applied.
 * 4. After the end nothing is written.
 * 5. With a healthy network the node is never fenced, and alone not refused.
 *
 * Everybody has had an answer before the store's clock steps: who has not
 * cannot know that it did.
 *
 * Wall clocks do not appear: neither the machine nor anything that it is told
 * has one. There are the boot clocks, of which each is its owner's alone, and
 * the store's.
 *
 * CELLDFS_LONG=1: many more worlds. CELLDFS_SEED=N: world N only.
 */
#include "lease_world.h"

#define WORLDS 3000
#define STEPS  600 /* of each */

/* A world, and how the node fares in it. */
struct life_of_a_node {
	struct world world; /* first */
	bool traffic;	    /* others use the store on its machine */
	unsigned faults;    /* in 100 */
	unsigned pauses, stops, crashes, replaces; /* likewise */
	int64_t delay_ms;			   /* at most, one way */

	struct fleet fleet;
	unsigned tries;
	int64_t cut_until_ms; /* the network is */

	/* the last request */
	int64_t anchor_ms; /* of a write */
	struct version found;
	struct object object; /* the same as an object */
};

static int64_t pick(struct world *w, const int64_t *values, int64_t count)
{
	return values[below(w, count)];
}

#define PICK(w, ...)                                                           \
	pick(w, (const int64_t[]){__VA_ARGS__},                                \
	     sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* The process does not run, or the machine is suspended. */
static int64_t pause_ms(struct life_of_a_node *n)
{
	struct world *w = &n->world;

	if (!chance(w, n->pauses))
		return 0;
	return below(w, PICK(w, 200, 200, w->ttl_ms, 4 * w->ttl_ms));
}

/* The same within a request. Where clocks step, an answer that was stuck does
 * not show it. */
static int64_t inner_pause_ms(struct life_of_a_node *n)
{
	return n->world.steps ? 0 : pause_ms(n);
}

/* ---- requests ---- */

static bool request_fails(struct life_of_a_node *n)
{
	struct world *w = &n->world;

	if (n->faults > 0 && chance(w, 2))
		n->cut_until_ms = w->now_ms + below(w, 3 * w->ttl_ms);
	return w->now_ms < n->cut_until_ms || chance(w, n->faults);
}

static int64_t left_ms(const struct world *w, const struct lease_action *action)
{
	int64_t left = action->until_ms - node_now_ms(w);

	return left > 0 ? left : 0;
}

/* Nothing is heard of a request, until it is reset or the time is up. */
static void hear_nothing(struct world *w, const struct lease_action *action)
{
	int64_t left = left_ms(w, action);

	world_go_on(w, chance(w, 50) ? earlier(left, below(w, 10)) : left);
}

static void take_sample(struct life_of_a_node *n, int64_t sent_ms,
			int64_t date_ms)
{
	seen.steps_seen += !fleet_sample(&n->fleet, date_ms, sent_ms,
					 node_now_ms(&n->world));
}

/* The way back. False: the time was up before. */
static bool hear(struct life_of_a_node *n, const struct lease_action *action,
		 int64_t sent_ms)
{
	struct world *w = &n->world;
	int64_t date_ms = store_date_ms(w);
	int64_t back_ms = below(w, n->delay_ms);
	int64_t paused_ms = inner_pause_ms(n);

	/* after a pause it may be there, or count as too late */
	if (back_ms > left_ms(w, action) || (paused_ms > 0 && chance(w, 30))) {
		world_go_on(w, left_ms(w, action) + paused_ms);
		return false;
	}
	world_go_on(w, back_ms + paused_ms);
	take_sample(n, sent_ms, date_ms);
	return true;
}

static void build_object(struct life_of_a_node *n)
{
	struct world *w = &n->world;
	const struct version *v = &n->found;

	buf_clear(&n->object.body);
	CHECK_SEED(buf_printf(&n->object.body,
			      "{\"node\":\"" NODE "\",\"expires_ms\":%" PRIu64
			      ",\"addr\":\"h\","
			      "\"ownership_index_generation\":\"%d-%u\"}",
			      v->expires_ms, (int)v->owner,
			      v->run) == OUTCOME_OK);
	snprintf(n->object.etag, ETAG_SIZE, "%s", v->etag);
	n->object.attempt = v->attempt;
	n->object.modified_ms = v->modified_ms;
}

static struct lease_event node_read(struct life_of_a_node *n,
				    const struct lease_action *action)
{
	struct world *w = &n->world;
	struct lease_event event = {.kind = LEASE_WAS_READ,
				    .outcome = OUTCOME_TIMEOUT};
	int64_t sent_ms = node_now_ms(w);

	if (request_fails(n)) {
		hear_nothing(w, action);
		event.outcome =
			(enum outcome)PICK(w, OUTCOME_FAILED, OUTCOME_TIMEOUT,
					   OUTCOME_NOT_DONE, OUTCOME_NO_MEMORY);
		if (event.outcome == OUTCOME_NOT_DONE)
			event.wait_ms = PICK(w, 0, 1000, 2000);
		if (chance(w, 1))
			event.outcome = OUTCOME_DENIED;
		return event;
	}
	world_go_on(w, below(w, n->delay_ms) + inner_pause_ms(n));
	n->found = w->record;
	if (!hear(n, action, sent_ms))
		return event;
	event.outcome = n->found.exists ? OUTCOME_OK : OUTCOME_ABSENT;
	build_object(n);
	event.object = &n->object;
	return event;
}

static void send(struct life_of_a_node *n, const struct lease_action *action,
		 int64_t takes_ms)
{
	struct world *w = &n->world;

	if (w->flight_count < FLIGHTS_MOST)
		w->flights[w->flight_count++] =
			(struct flight){.at_ms = w->now_ms + takes_ms,
					.write = *action,
					.anchor_ms = n->anchor_ms,
					.run = w->run,
					.replace = w->config.replace};
}

/* On a bad day. */
static struct lease_event fail_to_write(struct life_of_a_node *n,
					const struct lease_action *action)
{
	struct world *w = &n->world;
	struct lease_event event = {.kind = LEASE_WAS_WRITTEN,
				    .outcome = OUTCOME_UNKNOWN};

	switch (below(w, 8)) {
	case 0: /* it was not sent in time */
		event.outcome = OUTCOME_TIMEOUT;
		break;
	case 1: /* busy, or in conflict */
		event.outcome = OUTCOME_NOT_DONE;
		event.wait_ms = PICK(w, 0, 1000, 2000);
		break;
	case 2: /* refused */
		event.outcome = (enum outcome)PICK(
			w, OUTCOME_INTERRUPTED, OUTCOME_NO_MEMORY,
			OUTCOME_INTERRUPTED, OUTCOME_FAILED, OUTCOME_DENIED);
		break;
	case 3: /* the request is lost */
		break;
	case 4: /* the answer is */
	case 5:
		send(n, action, below(w, n->delay_ms));
		break;
	default: /* it arrives late */
		send(n, action, 1 + below(w, PICK(w, 3000, 60000, 300000)));
		break;
	}
	hear_nothing(w, action);
	return event;
}

static struct lease_event node_write(struct life_of_a_node *n,
				     const struct lease_action *action)
{
	struct world *w = &n->world;
	struct lease_event event = {.kind = LEASE_WAS_WRITTEN,
				    .outcome = OUTCOME_UNKNOWN,
				    .etag = w->etag};
	int64_t sent_ms = node_now_ms(w);
	int64_t there_ms = below(w, n->delay_ms) + inner_pause_ms(n);

	seen.writes++;
	/* mostly noticed before it is sent */
	if (left_ms(w, action) == 0 && chance(w, 80)) {
		event.outcome = OUTCOME_TIMEOUT;
		return event;
	}
	if (request_fails(n))
		return fail_to_write(n, action);
	snprintf(w->awaited, sizeof(w->awaited), "%s", action->attempt.hex);
	w->applied = false;
	send(n, action, there_ms);
	world_go_on(w, there_ms);
	w->awaited[0] = '\0';
	if (!hear(n, action, sent_ms))
		return event;
	if (w->applied)
		event.outcome = OUTCOME_OK;
	else if (chance(w, 70)) /* Ceph says 500 to most losers */
		event.outcome = OUTCOME_REJECTED;
	return event;
}

/* ---- steps ---- */

static void start_node(struct life_of_a_node *n)
{
	struct world *w = &n->world;

	w->run++;
	w->config = (struct lease_config){
		.node = NODE,
		.ttl_ms = w->ttl_ms,
		.skew_ms = (uint64_t)PICK(w, 0, 1000),
		.patience_ms = 15000 + below(w, 15000),
		.replace = chance(w, n->replaces),
	};
	w->held_since_ms = NEVER;
	lease_init(&w->holder, &w->config, node_now_ms(w));
}

static bool has_landed(const struct world *w, int64_t anchor_ms)
{
	unsigned count = w->landed_count;

	for (unsigned i = 0; i < count && i < LANDED_MOST; i++)
		if (w->landed[i] == anchor_ms)
			return true;
	return false;
}

/* What has to fence whoever held the lease until UNTIL_MS, at the event. */
static enum lease_fence fence_of(const struct life_of_a_node *n,
				 const struct lease_event *event,
				 int64_t boot_ms, int64_t until_ms)
{
	bool read = event->kind == LEASE_WAS_READ;
	bool ours = n->found.owner == THE_NODE && n->found.run == n->world.run;

	if (boot_ms >= until_ms)
		return LEASE_EXPIRED;
	if (read && event->outcome == OUTCOME_ABSENT)
		return LEASE_REMOVED;
	if (read && event->outcome == OUTCOME_OK && !ours)
		return LEASE_REPLACED;
	return LEASE_NOT_FENCED;
}

static void check_fence(struct life_of_a_node *n,
			const struct lease_holder *before,
			const struct lease_event *event, int64_t boot_ms)
{
	struct world *w = &n->world;
	enum lease_fence got = w->holder.fence;
	enum lease_fence want = LEASE_NOT_FENCED;

	if (before->state == LEASE_HELD)
		want = fence_of(n, event, boot_ms, before->until_ms);
	/* once the operator has removed the record, a late first write of our
	 * own may have made another one */
	if (before->state == LEASE_HELD && want == LEASE_NOT_FENCED &&
	    event->kind == LEASE_WAS_READ && w->meddled_ms >= 0 &&
	    got == LEASE_REPLACED)
		want = LEASE_REPLACED;
	CHECK_SEED(got == want);
	if (got == LEASE_REPLACED || got == LEASE_REMOVED)
		CHECK_SEED(node_is_deceived(w));
	if (w->healthy) {
		CHECK_SEED(got == LEASE_NOT_FENCED);
		/* nor kept out, unless there are others */
		if (w->rival.next_ms == NEVER && !w->stepped)
			CHECK_SEED(w->holder.state != LEASE_REFUSED);
	}
	seen.fences[got]++;
}

static void check_action(struct life_of_a_node *n, const struct lease_now *now,
			 const struct lease_action *action)
{
	struct world *w = &n->world;
	const struct lease_holder *holder = &w->holder;

	CHECK_SEED((holder->state >= LEASE_FENCED) ==
		   (action->kind == LEASE_END));
	CHECK_SEED(holder->try_count <= LEASE_TRIES_MAX);
	if (holder->state == LEASE_HELD) {
		CHECK_SEED(now->boot_ms < holder->until_ms);
		CHECK_SEED(action->until_ms <= holder->until_ms);
		CHECK_SEED(has_landed(w, holder->anchor_ms));
	}
	if (action->kind == LEASE_WRITE) {
		CHECK_SEED(action->until_ms > now->boot_ms);
		CHECK_SEED(action->guard.kind != GUARD_NONE);
		CHECK_SEED((action->expires_ms == 0) ==
			   (holder->state == LEASE_STOPPING));
	}
}

static void count(const struct world *w, const struct lease_holder *before,
		  const struct lease_event *event)
{
	const struct lease_holder *holder = &w->holder;

	seen.steps++;
	seen.held +=
		before->state == LEASE_ACQUIRING && holder->state == LEASE_HELD;
	seen.adopted += event->kind == LEASE_WAS_READ &&
			before->try_count > 1 && holder->state == LEASE_HELD &&
			holder->anchor_ms != before->anchor_ms;
	seen.late += holder->late > before->late;
	seen.tombstones += before->state == LEASE_STOPPING &&
			   holder->state == LEASE_STOPPED &&
			   event->outcome == OUTCOME_OK;
	seen.refused += holder->state == LEASE_REFUSED;
	seen.stopped += holder->state == LEASE_STOPPED;
}

static void node_step(struct life_of_a_node *n, const struct lease_event *event,
		      struct lease_action *action)
{
	struct world *w = &n->world;
	struct lease_holder before = w->holder;
	struct lease_now now = {0};

	world_go_on(w, pause_ms(n));
	now.boot_ms = node_now_ms(w); /* first */
	world_go_on(w, pause_ms(n));
	now.known = fleet_now(&n->fleet, node_now_ms(w), &now.fleet);
	snprintf(now.fresh.hex, sizeof(now.fresh.hex), "%02x%030u",
		 (unsigned)below(w, 256), ++n->tries);
	lease_step(&w->holder, event, &now, action);
	n->anchor_ms = now.boot_ms;

	if (before.state != LEASE_HELD && w->holder.state == LEASE_HELD)
		w->held_since_ms = w->now_ms;
	check_fence(n, &before, event, now.boot_ms);
	check_action(n, &now, action);
	check_beliefs(w);
	count(w, &before, event);
	world_go_on(w, pause_ms(n));
}

/* Somebody else's request, from the same machine. */
static void other_request(struct life_of_a_node *n)
{
	struct world *w = &n->world;
	int64_t sent_ms = node_now_ms(w), date_ms;

	world_go_on(w, below(w, 40));
	date_ms = store_date_ms(w);
	world_go_on(w, below(w, 40));
	take_sample(n, sent_ms, date_ms);
}

/* Until it is time, or there comes a stop. */
static struct lease_event node_sleep(struct life_of_a_node *n,
				     const struct lease_action *action)
{
	struct world *w = &n->world;
	struct lease_event event = {.kind = LEASE_TIME};

	if (n->traffic && left_ms(w, action) > 100) {
		world_go_on(w, below(w, left_ms(w, action) - 80));
		if (w->now_ms >= n->cut_until_ms)
			other_request(n);
	}
	if (chance(w, n->stops)) {
		world_go_on(w, below(w, left_ms(w, action) + 1));
		event.kind = LEASE_STOP;
		event.holds = chance(w, 30);
		event.until_ms = node_now_ms(w) + below(w, 8000);
	} else {
		world_go_on(w, left_ms(w, action) + below(w, 5));
	}
	return event;
}

/* Whatever comes, nothing is written any more. */
static void check_end(struct life_of_a_node *n)
{
	struct world *w = &n->world;
	enum lease_state state = w->holder.state;
	struct lease_now now = {.boot_ms = node_now_ms(w)};
	struct lease_action action;

	now.known = fleet_now(&n->fleet, now.boot_ms, &now.fleet);
	for (unsigned kind = LEASE_TIME; kind <= LEASE_STOP; kind++) {
		struct lease_event event = {
			.kind = kind, .object = &n->object, .etag = "\"x\""};

		lease_step(&w->holder, &event, &now, &action);
		CHECK_SEED(action.kind == LEASE_END);
		CHECK_SEED(w->holder.state == state);
		CHECK_SEED(lease_authority_ms(&w->holder) == INT64_MIN);
	}
}

/* ---- the worlds ---- */

static void life_init(struct life_of_a_node *n, uint64_t seed)
{
	struct world *w = &n->world;

	object_release(&n->object);
	memset(n, 0, sizeof(*n));
	object_init(&n->object);
	world_init(w, seed);
	w->ttl_ms = PICK(w, 2000, 6000, 10000, 20000);
	w->healthy = chance(w, 20);
	w->steps = chance(w, 30);
	n->traffic = chance(w, 50);
	n->stops = (unsigned)PICK(w, 0, 0, 3, 10);
	n->replaces = (unsigned)PICK(w, 0, 0, 10, 50);
	n->delay_ms = PICK(w, 5, 50);
	if (!w->healthy) {
		n->delay_ms = PICK(w, 5, 50, 400, 1500);
		n->faults = (unsigned)PICK(w, 0, 5, 20, 50);
		n->pauses = (unsigned)PICK(w, 0, 2, 8);
		n->crashes = (unsigned)PICK(w, 0, 0, 2);
		if (chance(w, 30))
			w->next_operator_ms = below(w, 100000);
	}
	if (w->steps) {
		w->next_step_ms = 5000 + below(w, 100000);
		take_sample(n, node_now_ms(w), store_date_ms(w));
	}
	if (chance(w, 30))
		w->rival.next_ms = NEVER;
}

static void live(struct life_of_a_node *n)
{
	struct world *w = &n->world;
	struct lease_event event = {.kind = LEASE_TIME};
	struct lease_action action;

	start_node(n);
	for (unsigned i = 0; i < STEPS; i++) {
		bool crashes = chance(w, n->crashes);

		node_step(n, &event, &action);
		event = (struct lease_event){.kind = LEASE_TIME};
		if (action.kind == LEASE_SLEEP)
			event = node_sleep(n, &action);
		else if (action.kind == LEASE_READ)
			event = node_read(n, &action);
		else if (action.kind == LEASE_WRITE)
			event = node_write(n, &action);
		if (action.kind == LEASE_END)
			check_end(n);
		if (action.kind == LEASE_END || crashes) {
			seen.crashed += action.kind != LEASE_END;
			event = (struct lease_event){.kind = LEASE_TIME};
			w->holder.state =
				LEASE_STOPPED; /* it believes nothing */
			world_go_on(w, below(w, 2 * w->ttl_ms));
			start_node(n);
		}
	}
}

/* All that can happen did. */
static void check_seen(unsigned worlds)
{
	CHECK(seen.steps == worlds * STEPS);
	CHECK(seen.writes > worlds * 100);
	CHECK(seen.held > worlds * 5);
	CHECK(seen.adopted > worlds / 10);
	CHECK(seen.late > worlds / 10);
	CHECK(seen.landed_late > worlds);
	CHECK(seen.fences[LEASE_EXPIRED] > worlds);
	CHECK(seen.fences[LEASE_REPLACED] > worlds / 10);
	CHECK(seen.fences[LEASE_REMOVED] > worlds / 10);
	CHECK(seen.meddled > worlds / 10);
	CHECK(seen.refused > worlds);
	CHECK(seen.stopped > worlds);
	CHECK(seen.tombstones > worlds / 10);
	CHECK(seen.crashed > worlds);
	CHECK(seen.overlaps > worlds / 10);
	CHECK(seen.taken_over > worlds);
	CHECK(seen.dead > worlds * 10);
	CHECK(seen.alive > worlds * 100);
	CHECK(seen.steps_seen > worlds);
}

static void test_random_worlds(void)
{
	static struct life_of_a_node life;
	const char *only = getenv("CELLDFS_SEED");
	const char *many = getenv("CELLDFS_LONG");
	unsigned worlds = WORLDS;

	if (many && many[0])
		worlds *= 40;
	if (getenv("CELLDFS_VALGRIND"))
		worlds /= 50;
	if (only) {
		life_init(&life, strtoull(only, NULL, 10));
		live(&life);
	} else {
		for (unsigned seed = 1; seed <= worlds; seed++) {
			life_init(&life, seed);
			live(&life);
		}
		check_seen(worlds);
	}
	object_release(&life.object);
}

int main(void)
{
	RUN(test_random_worlds);
	return 0;
}
