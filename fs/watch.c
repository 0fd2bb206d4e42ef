#include "watch.h"

#include "clock.h"
#include "fetch.h"
#include "handle.h"
#include "mount.h"
#include "thread.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define ALWAYS	      (POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM)
#define ASKED_LAST_MS 60000 /* a poll that did not wait counts for so long */

/* An open file that asks for changes. */
struct asker {
	struct asker *next;
	struct handle *handle;
	struct fuse_pollhandle *ph; /* who is to be woken; NULL: nobody */
	int64_t until_ms;	    /* CLOCK_BOOTTIME; asks until then */
};

/* A record that is looked at. */
struct watched {
	struct watched *next;
	struct asker *askers;
	enum node_kind kind;
	bool busy;	      /* the thread is reading it */
	bool known;	      /* the next two are what was seen last: */
	char etag[ETAG_SIZE]; /* "" = absent */
	int64_t looked_ms;    /* when that read began */
	int64_t due_ms;
	char key[];
};

struct watches {
	struct mount *mount;
	int64_t watch_ms;
	pthread_t thread;
	struct stop stop;     /* ends a read at the end */
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t news;  /* something is due sooner */
	struct watched *first;
	bool ends;
};

/* ---- under the lock ---- */

static struct watched *find(struct watches *watches, const char *key)
{
	for (struct watched *watched = watches->first; watched;
	     watched = watched->next)
		if (strcmp(watched->key, key) == 0)
			return watched;
	return NULL;
}

static struct watched *get(struct watches *watches, const struct node *node)
{
	struct watched *watched = find(watches, node->key);
	size_t size = strlen(node->key) + 1;

	if (watched)
		return watched;
	watched = calloc(1, sizeof(*watched) + size);
	if (!watched)
		return NULL;
	memcpy(watched->key, node->key, size);
	watched->kind = node->kind;
	watched->next = watches->first;
	watches->first = watched;
	return watched;
}

static struct asker *get_asker(struct watched *watched, struct handle *handle)
{
	struct asker *asker;

	for (asker = watched->askers; asker; asker = asker->next)
		if (asker->handle == handle)
			return asker;
	asker = calloc(1, sizeof(*asker));
	if (!asker)
		return NULL;
	asker->handle = handle;
	asker->next = watched->askers;
	watched->askers = asker;
	return asker;
}

static bool asks(const struct asker *asker, int64_t now_ms)
{
	return asker->ph || asker->until_ms > now_ms;
}

static bool is_asked_for(const struct watched *watched, int64_t now_ms)
{
	for (const struct asker *asker = watched->askers; asker;
	     asker = asker->next)
		if (asks(asker, now_ms))
			return true;
	return false;
}

/* Is what was seen last, if it was seen later, another version than HANDLE
 * shows? A file that shows nothing has seen no record. */
static bool differs(const struct watched *watched, struct handle *handle)
{
	struct glimpse shown = {.fetched_ms = INT64_MIN};

	if (!watched->known)
		return false;
	if (!handle_glimpse(handle, &shown))
		return watched->etag[0];
	return watched->looked_ms > shown.fetched_ms &&
	       strcmp(watched->etag, shown.etag) != 0;
}

/* What was seen is of no use to one who asks after a pause. */
static void forget_if_old(const struct watches *watches,
			  struct watched *watched, int64_t now_ms)
{
	if (now_ms - watched->looked_ms > 2 * watches->watch_ms)
		watched->known = false;
}

static void free_watched(struct watched *watched)
{
	while (watched->askers) {
		struct asker *next = watched->askers->next;

		if (watched->askers->ph)
			fuse_pollhandle_destroy(watched->askers->ph);
		free(watched->askers);
		watched->askers = next;
	}
	free(watched);
}

/* ---- the thread ---- */

/* The record that is due first; those that nobody asks for any more are
 * forgotten. */
static struct watched *next_due(struct watches *watches, int64_t now_ms)
{
	struct watched **at = &watches->first;
	struct watched *found = NULL;

	while (*at) {
		struct watched *watched = *at;

		if (!watched->askers) {
			*at = watched->next;
			free_watched(watched);
			continue;
		}
		if (is_asked_for(watched, now_ms) &&
		    (!found || watched->due_ms < found->due_ms))
			found = watched;
		at = &watched->next;
	}
	return found;
}

/* Wakes those that show another version, each once. */
static void wake(struct watched *watched)
{
	for (struct asker *asker = watched->askers; asker;
	     asker = asker->next) {
		if (!asker->ph || !differs(watched, asker->handle))
			continue;
		fuse_lowlevel_notify_poll(asker->ph);
		fuse_pollhandle_destroy(asker->ph);
		asker->ph = NULL;
		asker->until_ms = 0;
	}
}

/* Reads the record, without the lock. The ETag that is known, or that a file
 * shows, makes it cheap. */
static void look(struct watches *watches, struct watched *watched)
{
	struct mount *mount = watches->mount;
	int64_t began_ms = clock_boot_ms();
	struct limits limits = {.deadline_ms = began_ms + mount->deadline_ms,
				.stop = &watches->stop};
	struct glimpse shown = {.etag = ""}, found;
	struct answer answer = {0};
	enum outcome outcome;

	if (watched->known)
		memcpy(shown.etag, watched->etag, ETAG_SIZE);
	else
		(void)handle_glimpse(watched->askers->handle, &shown);
	watched->busy = true;
	pthread_mutex_unlock(&watches->lock);
	outcome = fetch_newer(mount, &limits, watched->kind, watched->key,
			      shown.etag, &found, &answer);
	pthread_mutex_lock(&watches->lock);
	watched->busy = false;
	watched->due_ms = began_ms + watches->watch_ms;
	if (outcome != OUTCOME_OK && outcome != OUTCOME_UNCHANGED &&
	    outcome != OUTCOME_ABSENT)
		return; /* nothing was seen */
	if (outcome == OUTCOME_OK)
		memcpy(watched->etag, found.etag, ETAG_SIZE);
	else if (outcome == OUTCOME_UNCHANGED)
		memcpy(watched->etag, shown.etag, ETAG_SIZE);
	else
		watched->etag[0] = '\0';
	watched->known = true;
	watched->looked_ms = began_ms;
	wake(watched);
}

static void *watch(void *arg)
{
	struct watches *watches = arg;

	pthread_mutex_lock(&watches->lock);
	while (!watches->ends) {
		int64_t now_ms = clock_boot_ms();
		struct watched *due = next_due(watches, now_ms);

		if (!due)
			pthread_cond_wait(&watches->news, &watches->lock);
		else if (due->due_ms > now_ms)
			thread_wait(&watches->news, &watches->lock,
				    due->due_ms);
		else
			look(watches, due);
	}
	pthread_mutex_unlock(&watches->lock);
	return NULL;
}

/* ---- start and end ---- */

struct watches *watches_new(struct mount *mount, int64_t watch_ms)
{
	struct watches *watches = calloc(1, sizeof(*watches));

	if (!watches)
		return NULL;
	watches->mount = mount;
	watches->watch_ms = watch_ms;
	stop_init(&watches->stop);
	pthread_mutex_init(&watches->lock, NULL);
	thread_cond_init(&watches->news);
	if (thread_start(&watches->thread, watch, watches))
		return watches;
	pthread_cond_destroy(&watches->news);
	pthread_mutex_destroy(&watches->lock);
	stop_release(&watches->stop);
	free(watches);
	return NULL;
}

void watches_free(struct watches *watches)
{
	if (!watches)
		return;
	pthread_mutex_lock(&watches->lock);
	watches->ends = true;
	pthread_cond_signal(&watches->news);
	pthread_mutex_unlock(&watches->lock);
	stop_request(&watches->stop);
	pthread_join(watches->thread, NULL);
	while (watches->first) {
		struct watched *next = watches->first->next;

		free_watched(watches->first);
		watches->first = next;
	}
	pthread_cond_destroy(&watches->news);
	pthread_mutex_destroy(&watches->lock);
	stop_release(&watches->stop);
	free(watches);
}

/* ---- the requests ---- */

/* HANDLE asks for changes. True: there has been one. PH changes hands. */
static bool ask(struct watches *watches, struct handle *handle,
		struct fuse_pollhandle *ph)
{
	int64_t now_ms = clock_boot_ms();
	struct watched *watched = get(watches, handle->node);
	struct asker *asker = watched ? get_asker(watched, handle) : NULL;
	bool changed;

	if (!asker) {
		if (ph)
			fuse_pollhandle_destroy(ph);
		return false; /* it polls, and will be asked again */
	}
	forget_if_old(watches, watched, now_ms);
	changed = differs(watched, handle);
	if (asker->ph)
		fuse_pollhandle_destroy(asker->ph);
	asker->ph = changed ? NULL : ph;
	asker->until_ms = changed ? 0 : now_ms + ASKED_LAST_MS;
	if (changed && ph)
		fuse_pollhandle_destroy(ph);
	pthread_cond_signal(&watches->news);
	return changed;
}

void watches_poll(struct watches *watches, fuse_req_t req,
		  struct handle *handle, unsigned events,
		  struct fuse_pollhandle *ph)
{
	unsigned found = events & ALWAYS;
	/* select(2) always asks for POLLPRI, and for POLLNVAL beside it */
	bool asked = events & POLLPRI && !(events & POLLNVAL);

	if (asked && node_is_record(handle->node)) {
		pthread_mutex_lock(&watches->lock);
		if (ask(watches, handle, ph))
			found |= POLLPRI;
		pthread_mutex_unlock(&watches->lock);
	} else if (ph) {
		fuse_pollhandle_destroy(ph);
	}
	fuse_reply_poll(req, found);
}

void watches_closed(struct watches *watches, struct handle *handle)
{
	struct watched *watched;
	struct asker **at;

	pthread_mutex_lock(&watches->lock);
	watched = find(watches, handle->node->key);
	for (at = watched ? &watched->askers : NULL; at && *at;
	     at = &(*at)->next)
		if ((*at)->handle == handle) {
			struct asker *gone = *at;

			*at = gone->next;
			if (gone->ph)
				fuse_pollhandle_destroy(gone->ph);
			free(gone);
			break;
		}
	pthread_mutex_unlock(&watches->lock);
}
