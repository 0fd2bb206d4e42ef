#include "holds.h"

#include <pthread.h>
#include <search.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct hold {
	uint64_t epoch;
	char key[];
};

struct holds {
	const char *node;
	pthread_mutex_t lock; /* guards the rest */
	void *entries;	      /* struct hold by key (tsearch) */
	uint64_t count;
	bool forgot; /* there was no memory for one */
};

struct holds *holds_new(const char *node)
{
	struct holds *holds = calloc(1, sizeof(*holds));

	if (!holds)
		return NULL;
	holds->node = node;
	pthread_mutex_init(&holds->lock, NULL);
	return holds;
}

/* The table holds pointers to the key inside the entry. */
static int compare_keys(const void *a, const void *b)
{
	return strcmp(a, b);
}

static struct hold *entry_of(void *found)
{
	char *key = *(char **)found;

	return (struct hold *)(void *)(key - offsetof(struct hold, key));
}

static void free_entry(void *key)
{
	free((char *)key - offsetof(struct hold, key));
}

void holds_free(struct holds *holds)
{
	if (!holds)
		return;
	tdestroy(holds->entries, free_entry);
	pthread_mutex_destroy(&holds->lock);
	free(holds);
}

static struct hold *find(struct holds *holds, const char *key)
{
	void *found = tfind(key, &holds->entries, compare_keys);

	return found ? entry_of(found) : NULL;
}

static void drop(struct holds *holds, struct hold *hold)
{
	tdelete(hold->key, &holds->entries, compare_keys);
	free(hold);
	holds->count--;
}

static struct hold *add(struct holds *holds, const char *key, uint64_t epoch)
{
	size_t size = strlen(key) + 1;
	struct hold *hold = malloc(sizeof(*hold) + size);

	if (!hold)
		return NULL;
	hold->epoch = epoch;
	memcpy(hold->key, key, size);
	if (!tsearch(hold->key, &holds->entries, compare_keys)) {
		free(hold);
		return NULL;
	}
	holds->count++;
	return hold;
}

/* With the lock. */
static void end_if_over(struct holds *holds, struct hold *hold,
			const struct own *own)
{
	bool ours = strcmp(own->node, holds->node) == 0;

	if (own->epoch > hold->epoch || (own->epoch == hold->epoch && !ours))
		drop(holds, hold);
}

void holds_wrote(struct holds *holds, const char *key, const struct own *own)
{
	struct hold *hold;

	if (!holds)
		return;
	pthread_mutex_lock(&holds->lock);
	hold = find(holds, key);
	if (strcmp(own->node, holds->node) != 0) {
		if (hold)
			end_if_over(holds, hold, own);
	} else if (!hold) {
		if (!add(holds, key, own->epoch))
			holds->forgot = true;
	} else if (own->epoch > hold->epoch) {
		hold->epoch = own->epoch;
	}
	pthread_mutex_unlock(&holds->lock);
}

void holds_read(struct holds *holds, const char *key, const struct own *own)
{
	struct hold *hold;

	if (!holds)
		return;
	pthread_mutex_lock(&holds->lock);
	hold = find(holds, key);
	if (hold)
		end_if_over(holds, hold, own);
	pthread_mutex_unlock(&holds->lock);
}

bool holds_has(struct holds *holds, const char *key, uint64_t epoch)
{
	const struct hold *hold;
	bool has;

	pthread_mutex_lock(&holds->lock);
	hold = find(holds, key);
	has = hold && hold->epoch == epoch;
	pthread_mutex_unlock(&holds->lock);
	return has;
}

uint64_t holds_count(struct holds *holds)
{
	uint64_t count;

	pthread_mutex_lock(&holds->lock);
	count = holds->count + holds->forgot;
	pthread_mutex_unlock(&holds->lock);
	return count;
}
