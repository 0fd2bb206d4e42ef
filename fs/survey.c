#include "survey.h"

#include "clock.h"
#include "fetch.h"
#include "json.h"
#include "mount.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECENT_LEAST_MS 60000
#define READ_LEAST_MS	1000 /* that one read may take */
#define LINE_MAX_BYTES	(16 * 1024)
#define END_MAX_BYTES	100 /* of the line that says what is missing */

/* ---- one node ---- */

struct peer {
	char node[NAME_NODE_MAX + 1];
	int64_t modified_ms;
	enum outcome outcome; /* of reading it: OK; ABSENT: gone meanwhile;
			       * INVALID: no lease; else it could not be read */
	struct reason reason; /* why it is in its state */
	int64_t read_at_ms;   /* CLOCK_BOOTTIME; OK: these four */
	struct lease lease;
	enum life life;
	int64_t now_ms; /* the store's time by which it was judged */
};

static void read_peer(struct mount *mount, const struct limits *limits,
		      struct peer *peer)
{
	struct answer answer = {0};
	char key[NAME_KEY_SIZE];
	struct glimpse glimpse;
	struct object object;
	enum outcome outcome;

	name_lease_key(key, peer->node);
	object_init(&object);
	outcome = fetch_object(mount, limits, NODE_LEASE, key, &object,
			       &glimpse, &answer);
	peer->read_at_ms = clock_boot_ms();
	if (outcome == OUTCOME_OK) {
		peer->modified_ms = object.modified_ms;
		outcome = record_parse_lease(&peer->lease, object.body.bytes,
					     object.body.len, &peer->reason);
		if (outcome == OUTCOME_OK)
			outcome = record_parse_load(
				&peer->lease, object.body.bytes,
				object.body.len, &peer->reason);
	} else {
		reason_set(
			&peer->reason, outcome, "%s%s%s", outcome_word(outcome),
			answer.reason.text[0] ? ": " : "", answer.reason.text);
	}
	peer->outcome = outcome;
	object_release(&object);
}

/* NOW: the store's time at BOOT_MS. */
static void judge(struct peer *peer, const struct fleet_time *now,
		  int64_t boot_ms, uint64_t skew_ms)
{
	struct fleet_time then = *now;

	fleet_time_back(&then, boot_ms - peer->read_at_ms);
	peer->now_ms = then.earliest_ms;
	peer->life = ownership_life(peer->node, &peer->lease, peer->modified_ms,
				    &then, skew_ms, &peer->reason);
}

static bool is_alive(const struct peer *peer)
{
	return peer->outcome == OUTCOME_OK && peer->life == LIFE_ALIVE;
}

static uint64_t resident_cells(const struct peer *peer)
{
	return peer->outcome == OUTCOME_OK ? peer->lease.resident_cells : 0;
}

static int compare_peers(const void *left, const void *right)
{
	const struct peer *a = left, *b = right;

	if (is_alive(a) != is_alive(b))
		return is_alive(a) ? -1 : 1;
	if (resident_cells(a) != resident_cells(b))
		return resident_cells(a) < resident_cells(b) ? -1 : 1;
	return strcmp(a->node, b->node);
}

static const char *state_word(const struct peer *peer)
{
	if (peer->outcome == OUTCOME_INVALID)
		return "malformed";
	if (peer->outcome != OUTCOME_OK)
		return "unreadable";
	switch (peer->life) {
	case LIFE_ALIVE:
		return "alive";
	case LIFE_DEAD:
		return "dead";
	case LIFE_UNKNOWN:
	default:
		return "unknown";
	}
}

static enum outcome print_text(struct buf *line, const char *field,
			       const char *text)
{
	enum outcome outcome = buf_printf(line, ",\"%s\":", field);

	return outcome == OUTCOME_OK ? json_quote(line, text) : outcome;
}

/* What a lease says. Below 0 it has run out; given up, it has no time. */
static enum outcome print_lease(struct buf *line, const struct peer *peer)
{
	const struct lease *lease = &peer->lease;
	uint64_t now_ms = peer->now_ms > 0 ? (uint64_t)peer->now_ms : 0;
	bool over = lease->expires_ms < now_ms;
	uint64_t span_ms =
		over ? now_ms - lease->expires_ms : lease->expires_ms - now_ms;
	enum outcome outcome;

	if (lease->expires_ms == 0)
		span_ms = 0;
	outcome = buf_printf(
		line,
		",\"expires_ms\":%" PRIu64 ",\"expires_in_ms\":%s%" PRIu64,
		lease->expires_ms, over && span_ms > 0 ? "-" : "", span_ms);
	if (outcome == OUTCOME_OK)
		outcome = print_text(line, "addr", lease->addr);
	if (outcome == OUTCOME_OK)
		outcome = buf_printf(line, ",\"resident_cells\":%" PRIu64,
				     lease->resident_cells);
	if (outcome == OUTCOME_OK)
		outcome = print_text(line, "generation", lease->generation);
	return outcome;
}

static enum outcome print_peer(struct buf *line, const struct peer *peer)
{
	enum outcome outcome;

	/* a valid name has nothing that must be escaped */
	outcome = buf_printf(line, "{\"node\":\"%s\",\"state\":\"%s\"",
			     peer->node, state_word(peer));
	if (outcome == OUTCOME_OK && peer->outcome == OUTCOME_OK)
		outcome = print_lease(line, peer);
	if (outcome == OUTCOME_OK)
		outcome = buf_printf(line, ",\"modified_ms\":%" PRId64,
				     peer->modified_ms);
	if (outcome == OUTCOME_OK)
		outcome = print_text(line, "why", peer->reason.text);
	if (outcome == OUTCOME_OK)
		outcome = buf_append(line, "}\n", 2);
	return outcome;
}

/* ---- a survey of the fleet ---- */

struct survey;

/* One of those who read. A stop belongs to one operation in one thread, so each
 * has its own, and a request to the survey's is passed on to all. */
struct reader {
	struct survey *survey;
	struct stop stop;
	pthread_t thread;
};

struct survey {
	struct mount *mount;
	const struct limits *limits;
	struct peer *peers;
	size_t count, room;
	bool truncated; /* there are more than SURVEY_MOST */

	/* while they are read: */
	pthread_mutex_t lock; /* guards the next one */
	size_t next;	      /* that nobody has begun to read */
	struct reader readers[SURVEY_READERS];
};

static enum outcome add_peer(void *arg, const struct list_entry *entry)
{
	struct survey *survey = arg;
	char node[NAME_NODE_MAX + 1];
	struct peer *peer;

	/* what is no lease is told by a listing of nodes/ */
	if (entry->directory || !name_lease_of(entry->name, node))
		return OUTCOME_OK;
	if (survey->count == survey->room) {
		size_t room = survey->room + LIST_PAGE_MAX;

		peer = realloc(survey->peers, room * sizeof(*peer));
		if (!peer)
			return OUTCOME_NO_MEMORY;
		survey->peers = peer;
		survey->room = room;
	}
	peer = &survey->peers[survey->count++];
	memset(peer, 0, sizeof(*peer));
	snprintf(peer->node, sizeof(peer->node), "%s", node);
	peer->modified_ms = entry->modified_ms;
	peer->outcome = reason_set(&peer->reason, OUTCOME_TIMEOUT,
				   "%s: no time was left to read it",
				   outcome_word(OUTCOME_TIMEOUT));
	return OUTCOME_OK;
}

/* Of those from FROM on, drops who is not heard of any more. */
static void drop_old(struct survey *survey, size_t from,
		     const struct fleet_time *now)
{
	int64_t recent_ms = 3 * survey->mount->ttl_ms;
	size_t kept = from;

	if (recent_ms < RECENT_LEAST_MS)
		recent_ms = RECENT_LEAST_MS;
	for (size_t i = from; i < survey->count; i++)
		if (survey->peers[i].modified_ms >= now->latest_ms - recent_ms)
			survey->peers[kept++] = survey->peers[i];
	survey->count = kept;
	if (survey->count > SURVEY_MOST) {
		survey->count = SURVEY_MOST;
		survey->truncated = true;
	}
}

static enum outcome ask_clock(struct survey *survey, struct fleet_time *now,
			      struct answer *answer)
{
	enum outcome outcome =
		store_now(survey->mount->store, survey->limits, now);

	if (outcome != OUTCOME_OK)
		reason_set(&answer->reason, outcome,
			   "the store's clock cannot be read");
	return outcome;
}

static enum outcome list_peers(struct survey *survey, struct answer *answer)
{
	struct fleet_time now;
	enum outcome outcome;
	struct buf after;

	buf_init(&after, LIST_AFTER_MAX);
	do {
		size_t from = survey->count;

		outcome = store_list(survey->mount->store, survey->limits,
				     NAME_NODES_PREFIX, &after, add_peer,
				     survey, answer);
		if (outcome == OUTCOME_OK)
			outcome = ask_clock(survey, &now, answer);
		if (outcome == OUTCOME_OK)
			drop_old(survey, from, &now);
	} while (outcome == OUTCOME_OK && after.len > 0 && !survey->truncated);
	buf_release(&after);
	return outcome;
}

/* NULL: nobody is left. */
static struct peer *next_peer(struct survey *survey)
{
	struct peer *peer = NULL;

	pthread_mutex_lock(&survey->lock);
	if (survey->next < survey->count)
		peer = &survey->peers[survey->next++];
	pthread_mutex_unlock(&survey->lock);
	return peer;
}

/* One that hangs leaves time for others. */
static int64_t read_deadline_ms(const struct limits *limits)
{
	int64_t left_ms = limits_left_ms(limits);
	int64_t most_ms = left_ms / 2;

	if (most_ms < READ_LEAST_MS)
		most_ms = left_ms < READ_LEAST_MS ? left_ms : READ_LEAST_MS;
	return limits->deadline_ms - left_ms + most_ms;
}

static void *read_some(void *arg)
{
	struct reader *reader = arg;
	struct survey *survey = reader->survey;
	struct limits limits = {.deadline_ms = survey->limits->deadline_ms,
				.stop = &reader->stop};

	while (limits_check(&limits) == OUTCOME_OK) {
		struct peer *peer = next_peer(survey);
		struct limits one = limits;

		if (!peer)
			break;
		one.deadline_ms = read_deadline_ms(&limits);
		read_peer(survey->mount, &one, peer);
	}
	return NULL;
}

/* With the lock of the survey's stop. */
static void stop_readers(void *arg)
{
	struct survey *survey = arg;

	for (size_t i = 0; i < SURVEY_READERS; i++)
		stop_request(&survey->readers[i].stop);
}

/* Starts up to WANTED threads beside this one; returns how many there are. */
static size_t start_readers(struct survey *survey, size_t wanted)
{
	sigset_t all, before;
	size_t started = 0;

	/* signals are for the thread that runs the session */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (started < wanted &&
	       pthread_create(&survey->readers[started + 1].thread, NULL,
			      read_some, &survey->readers[started + 1]) == 0)
		started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

/* This thread is the first of the readers, and enough if there are no others.
 */
static void read_peers(struct survey *survey)
{
	size_t most =
		survey->count < SURVEY_READERS ? survey->count : SURVEY_READERS;
	size_t started;

	pthread_mutex_init(&survey->lock, NULL);
	for (size_t i = 0; i < SURVEY_READERS; i++) {
		survey->readers[i].survey = survey;
		stop_init(&survey->readers[i].stop);
	}
	stop_on(survey->limits->stop, stop_readers, survey);
	started = start_readers(survey, most > 0 ? most - 1 : 0);
	read_some(&survey->readers[0]);
	for (size_t i = 1; i <= started; i++)
		pthread_join(survey->readers[i].thread, NULL);
	stop_off(survey->limits->stop);
	for (size_t i = 0; i < SURVEY_READERS; i++)
		stop_release(&survey->readers[i].stop);
	pthread_mutex_destroy(&survey->lock);
}

static enum outcome judge_all(struct survey *survey, struct answer *answer)
{
	struct fleet_time now;
	enum outcome outcome = ask_clock(survey, &now, answer);
	int64_t boot_ms = clock_boot_ms();

	if (outcome != OUTCOME_OK)
		return outcome;
	for (size_t i = 0; i < survey->count; i++)
		if (survey->peers[i].outcome == OUTCOME_OK)
			judge(&survey->peers[i], &now, boot_ms,
			      survey->mount->rules.skew_ms);
	if (survey->count > 0)
		qsort(survey->peers, survey->count, sizeof(struct peer),
		      compare_peers);
	return OUTCOME_OK;
}

static enum outcome print_all(const struct survey *survey, struct buf *text)
{
	bool truncated = survey->truncated;
	enum outcome outcome = OUTCOME_OK;
	size_t shown = 0;
	struct buf line;

	buf_init(&line, LINE_MAX_BYTES);
	for (size_t i = 0; i < survey->count && outcome == OUTCOME_OK; i++) {
		if (survey->peers[i].outcome == OUTCOME_ABSENT)
			continue;
		buf_clear(&line);
		outcome = print_peer(&line, &survey->peers[i]);
		if (line.len > text->cap - END_MAX_BYTES - text->len) {
			truncated = true;
			break;
		}
		if (outcome == OUTCOME_OK)
			outcome = buf_append(text, line.bytes, line.len);
		shown++;
	}
	buf_release(&line);
	if (outcome == OUTCOME_OK && truncated)
		outcome = buf_printf(
			text, "{\"truncated\":true,\"shown\":%zu}\n", shown);
	return outcome;
}

enum outcome survey_run(struct mount *mount, const struct limits *limits,
			struct buf *text, struct answer *answer)
{
	struct survey survey = {.mount = mount, .limits = limits};
	enum outcome outcome = list_peers(&survey, answer);

	if (outcome == OUTCOME_OK) {
		read_peers(&survey);
		if (stop_requested(limits->stop))
			outcome =
				reason_set(&answer->reason, OUTCOME_INTERRUPTED,
					   "while the leases were read");
	}
	if (outcome == OUTCOME_OK)
		outcome = judge_all(&survey, answer);
	if (outcome == OUTCOME_OK)
		outcome = print_all(&survey, text);
	free(survey.peers);
	return outcome;
}
