#include "handle.h"

#include "fetch.h"
#include "mount.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct handle *handle_new(struct mount *mount, struct node *node, int access,
			  bool created)
{
	struct handle *handle = calloc(1, sizeof(*handle));

	if (!handle)
		return NULL;
	pthread_mutex_init(&handle->lock, NULL);
	handle->node = node;
	handle->access = access;
	handle->created = created;
	handle->refs = 1;
	if (created)
		handle->guard.kind = GUARD_ABSENT;
	buf_init(&handle->body, RECORD_READ_MAX);
	draft_init(&handle->draft);
	tree_attach(mount->tree, node, handle);
	return handle;
}

void handle_ref(struct handle *handle)
{
	pthread_mutex_lock(&handle->lock);
	handle->refs++;
	pthread_mutex_unlock(&handle->lock);
}

void handle_unref(struct handle *handle)
{
	int refs;

	pthread_mutex_lock(&handle->lock);
	refs = --handle->refs;
	pthread_mutex_unlock(&handle->lock);
	if (refs > 0)
		return;
	buf_release(&handle->body);
	draft_release(&handle->draft);
	pthread_mutex_destroy(&handle->lock);
	free(handle);
}

void handle_close(struct mount *mount, struct handle *handle)
{
	tree_detach(mount->tree, handle->node, handle);
	handle_unref(handle);
}

/* Under the handle's lock. BODY's buffer changes hands. */
static void show(struct handle *handle, struct buf *body,
		 const struct glimpse *glimpse)
{
	struct buf old = handle->body;

	handle->body = *body;
	*body = old;
	handle->glimpse = *glimpse;
	handle->shows = true;
	handle->bytes_read = false;
	handle->refused = false;
}

enum outcome handle_fetch(struct mount *mount, struct handle *handle,
			  const struct limits *limits, struct answer *answer)
{
	struct node *node = handle->node;
	struct glimpse glimpse;
	struct object object;
	enum outcome outcome;
	unsigned writes;
	bool superseded;

	object_init(&object);
	do {
		pthread_mutex_lock(&handle->lock);
		writes = handle->writes;
		pthread_mutex_unlock(&handle->lock);

		outcome = fetch_object(mount, limits, node->kind, node->key,
				       &object, &glimpse, answer);

		pthread_mutex_lock(&handle->lock);
		superseded = writes != handle->writes;
		if (outcome == OUTCOME_OK && !superseded)
			show(handle, &object.body, &glimpse);
		if (outcome == OUTCOME_ABSENT && handle->created &&
		    !superseded) {
			/* created and not written yet: empty, as elsewhere */
			handle->shows = false;
			outcome = OUTCOME_OK;
		}
		pthread_mutex_unlock(&handle->lock);
	} while (superseded &&
		 (outcome == OUTCOME_OK || outcome == OUTCOME_ABSENT));
	object_release(&object);
	return outcome;
}

bool handle_read_fetches(struct handle *handle, off_t offset)
{
	bool fetches;

	pthread_mutex_lock(&handle->lock);
	fetches = !handle->shows || (offset == 0 && handle->bytes_read);
	pthread_mutex_unlock(&handle->lock);
	return fetches;
}

/* Under the handle's lock: bytes of what it shows were read, so its ETag is the
 * guard from now on, unless fsetxattr named another that is not refused yet. */
static void guard_by_reading(struct handle *handle)
{
	struct guard guard;

	handle->bytes_read = true;
	if (handle->refused || (handle->guard_set && !handle->stale))
		return;
	/* an ETag that cannot be a guard leaves MATCH with no ETag, which
	 * matches nothing; swap.c says so when it is used */
	if (guard_of_etag(&guard, handle->glimpse.etag, NULL) != OUTCOME_OK)
		guard = (struct guard){.kind = GUARD_MATCH};
	handle->guard = guard;
	handle->guard_set = false;
	handle->borrowed = false;
	handle->stale = false;
}

enum outcome handle_read(struct handle *handle, size_t size, off_t offset,
			 char **bytes, size_t *len)
{
	enum outcome outcome = OUTCOME_OK;
	size_t left;

	*bytes = NULL;
	*len = 0;
	pthread_mutex_lock(&handle->lock);
	left = handle->shows && offset >= 0 && (size_t)offset < handle->body.len
		       ? handle->body.len - (size_t)offset
		       : 0;
	if (left > size)
		left = size;
	if (left > 0) {
		*bytes = malloc(left);
		if (*bytes) {
			memcpy(*bytes, handle->body.bytes + offset, left);
			*len = left;
			guard_by_reading(handle);
		} else {
			outcome = OUTCOME_NO_MEMORY;
		}
	}
	pthread_mutex_unlock(&handle->lock);
	return outcome;
}

bool handle_glimpse(struct handle *handle, struct glimpse *glimpse)
{
	bool shows;

	pthread_mutex_lock(&handle->lock);
	shows = handle->shows;
	if (shows)
		*glimpse = handle->glimpse;
	pthread_mutex_unlock(&handle->lock);
	return shows;
}

bool handle_created(struct handle *handle)
{
	bool created;

	pthread_mutex_lock(&handle->lock);
	created = handle->created;
	pthread_mutex_unlock(&handle->lock);
	return created;
}

/* Under the handle's lock: as if it had neither read nor been given a guard. */
static void reset_guard(struct handle *handle)
{
	handle->guard = (struct guard){.kind = handle->created ? GUARD_ABSENT
							       : GUARD_NONE};
	handle->guard_set = false;
	handle->borrowed = false;
	handle->stale = false;
}

void handle_set_guard(struct handle *handle, const struct guard *guard)
{
	pthread_mutex_lock(&handle->lock);
	handle->guard = *guard;
	handle->guard_set = true;
	handle->borrowed = false;
	handle->stale = false;
	pthread_mutex_unlock(&handle->lock);
}

bool handle_drop_guard(struct handle *handle)
{
	bool dropped;

	pthread_mutex_lock(&handle->lock);
	dropped = handle->guard.kind == GUARD_MATCH;
	if (dropped)
		reset_guard(handle);
	pthread_mutex_unlock(&handle->lock);
	return dropped;
}

bool handle_guard(struct handle *handle, struct guard *guard)
{
	bool found;

	pthread_mutex_lock(&handle->lock);
	found = handle->guard.kind == GUARD_MATCH && handle->guard.etag[0] &&
		!handle->borrowed;
	if (found)
		*guard = handle->guard;
	pthread_mutex_unlock(&handle->lock);
	return found;
}

void handle_intent(struct handle *handle, struct handle_intent *intent)
{
	pthread_mutex_lock(&handle->lock);
	intent->guard = handle->guard;
	intent->borrowed = handle->borrowed;
	intent->stale = handle->stale;
	intent->known = handle->shows &&
			guard_matches(&handle->guard, handle->glimpse.etag);
	if (intent->known)
		intent->glimpse = handle->glimpse;
	pthread_mutex_unlock(&handle->lock);
}

void handle_applied(struct handle *handle, struct buf *body,
		    const struct glimpse *glimpse)
{
	pthread_mutex_lock(&handle->lock);
	handle->writes++;
	show(handle, body, glimpse);
	handle->created = false;
	handle->guard_set = false;
	handle->stale = false;
	guard_by_reading(handle);
	pthread_mutex_unlock(&handle->lock);
}

void handle_refused(struct handle *handle, const struct guard *guard)
{
	pthread_mutex_lock(&handle->lock);
	if (guard_equal(guard, &handle->guard)) {
		handle->stale = true;
		handle->refused = true;
	}
	pthread_mutex_unlock(&handle->lock);
}

bool handle_borrow(struct handle *handle, const struct guard *guard)
{
	bool own;

	pthread_mutex_lock(&handle->lock);
	own = handle->guard.kind == GUARD_MATCH && !handle->borrowed;
	if (!own) {
		if (guard)
			handle->guard = *guard;
		handle->borrowed = true;
		handle->stale = !guard;
	}
	pthread_mutex_unlock(&handle->lock);
	return !own;
}

void handle_give_back(struct handle *handle)
{
	pthread_mutex_lock(&handle->lock);
	if (handle->borrowed)
		reset_guard(handle);
	pthread_mutex_unlock(&handle->lock);
}

void handle_show_text(struct handle *handle, struct buf *text)
{
	struct glimpse glimpse = {.size_bytes = text->len};

	pthread_mutex_lock(&handle->lock);
	show(handle, text, &glimpse);
	pthread_mutex_unlock(&handle->lock);
}
