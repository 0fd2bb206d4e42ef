#include "seen.h"

#include "clock.h"

#include <pthread.h>
#include <search.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory {
	struct memory *newer, *older; /* by last touch */
	struct note {
		char *text; /* owned; NULL: none */
		int64_t at_ms;
	} notes[SEEN_NOTES];
	bool exists;
	uint64_t ticket; /* of the last report, also of absence */
	struct glimpse glimpse;
	char key[];
};

/* Absence is remembered for groups of keys: how old a report may be that makes
 * one of them exist. It can drop a report that was none too old, which costs a
 * request and nothing else. */
#define GROUPS 256

struct seen {
	pthread_mutex_t lock; /* guards everything below */
	void *entries;	      /* by key (tsearch) */
	struct memory *newest, *oldest;
	unsigned count;
	uint64_t ticket;	    /* the last one drawn */
	uint64_t forgotten[GROUPS]; /* the highest of what was forgotten */
};

struct seen *seen_new(void)
{
	struct seen *seen = calloc(1, sizeof(*seen));

	if (seen)
		pthread_mutex_init(&seen->lock, NULL);
	return seen;
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The table holds pointers to the key inside the entry. */
static struct memory *entry_of(void *found)
{
	char *key = *(char **)found;

	return (struct memory *)(void *)(key - offsetof(struct memory, key));
}

static void unlink_entry(struct seen *seen, struct memory *entry)
{
	if (entry->newer)
		entry->newer->older = entry->older;
	else
		seen->newest = entry->older;
	if (entry->older)
		entry->older->newer = entry->newer;
	else
		seen->oldest = entry->newer;
	entry->newer = entry->older = NULL;
}

static void link_newest(struct seen *seen, struct memory *entry)
{
	entry->older = seen->newest;
	if (seen->newest)
		seen->newest->newer = entry;
	else
		seen->oldest = entry;
	seen->newest = entry;
}

/* Where the tickets of forgotten KEYs are kept (FNV-1a). */
static uint64_t *forgotten(struct seen *seen, const char *key)
{
	uint32_t hash = 2166136261u;

	for (; *key; key++)
		hash = (hash ^ (unsigned char)*key) * 16777619u;
	return &seen->forgotten[hash % GROUPS];
}

static void forget(struct seen *seen, const char *key, uint64_t ticket)
{
	uint64_t *highest = forgotten(seen, key);

	if (*highest < ticket)
		*highest = ticket;
}

static void remove_entry(struct seen *seen, struct memory *entry)
{
	forget(seen, entry->key, entry->ticket);
	tdelete(entry->key, &seen->entries, compare_keys);
	unlink_entry(seen, entry);
	seen->count--;
	for (int i = 0; i < SEEN_NOTES; i++)
		free(entry->notes[i].text);
	free(entry);
}

void seen_free(struct seen *seen)
{
	if (!seen)
		return;
	while (seen->oldest)
		remove_entry(seen, seen->oldest);
	pthread_mutex_destroy(&seen->lock);
	free(seen);
}

static struct memory *find(struct seen *seen, const char *key)
{
	void *found = tfind(key, &seen->entries, compare_keys);
	struct memory *entry;

	if (!found)
		return NULL;
	entry = entry_of(found);
	unlink_entry(seen, entry);
	link_newest(seen, entry);
	return entry;
}

/* NULL without memory: then the record is not remembered, which costs a request
 * and nothing else. */
static struct memory *find_or_add(struct seen *seen, const char *key)
{
	struct memory *entry = find(seen, key);
	size_t size = strlen(key) + 1;

	if (entry)
		return entry;
	while (seen->count >= SEEN_MOST)
		remove_entry(seen, seen->oldest);
	entry = calloc(1, sizeof(*entry) + size);
	if (!entry)
		return NULL;
	memcpy(entry->key, key, size);
	entry->ticket = *forgotten(seen, key);
	if (!tsearch(entry->key, &seen->entries, compare_keys)) {
		free(entry);
		return NULL;
	}
	link_newest(seen, entry);
	seen->count++;
	return entry;
}

bool seen_get(struct seen *seen, const char *key, struct glimpse *glimpse)
{
	struct memory *entry;
	bool exists;

	pthread_mutex_lock(&seen->lock);
	entry = find(seen, key);
	exists = entry && entry->exists;
	if (exists)
		*glimpse = entry->glimpse;
	pthread_mutex_unlock(&seen->lock);
	return exists;
}

uint64_t seen_ticket(struct seen *seen)
{
	uint64_t ticket;

	pthread_mutex_lock(&seen->lock);
	ticket = ++seen->ticket;
	pthread_mutex_unlock(&seen->lock);
	return ticket;
}

void seen_exists(struct seen *seen, const char *key,
		 const struct glimpse *glimpse, uint64_t ticket)
{
	struct memory *entry;

	pthread_mutex_lock(&seen->lock);
	entry = find_or_add(seen, key);
	if (entry && ticket > entry->ticket) {
		struct glimpse *known = &entry->glimpse;

		if (entry->exists && known->fetched && !glimpse->fetched) {
			known->size_bytes = glimpse->size_bytes;
			known->modified_ms = glimpse->modified_ms;
			known->at_ms = glimpse->at_ms;
		} else {
			*known = *glimpse;
		}
		entry->exists = true;
		entry->ticket = ticket;
	}
	pthread_mutex_unlock(&seen->lock);
}

void seen_absent(struct seen *seen, const char *key, uint64_t ticket)
{
	struct memory *entry;

	pthread_mutex_lock(&seen->lock);
	entry = find(seen, key);
	if (!entry)
		forget(seen, key, ticket);
	else if (ticket > entry->ticket) {
		entry->exists = false;
		entry->ticket = ticket;
		if (!entry->notes[SEEN_OUTCOME].text)
			remove_entry(seen, entry);
	}
	pthread_mutex_unlock(&seen->lock);
}

void seen_set_note(struct seen *seen, const char *key, enum seen_note which,
		   const char *text)
{
	char *copy = strdup(text);
	struct memory *entry;

	pthread_mutex_lock(&seen->lock);
	entry = copy ? find_or_add(seen, key) : NULL;
	if (entry) {
		free(entry->notes[which].text);
		entry->notes[which].text = copy;
		entry->notes[which].at_ms = clock_boot_ms();
		copy = NULL;
	}
	pthread_mutex_unlock(&seen->lock);
	free(copy);
}

bool seen_note(struct seen *seen, const char *key, enum seen_note which,
	       int64_t since_ms, char *text, size_t size)
{
	struct memory *entry;
	bool found;

	pthread_mutex_lock(&seen->lock);
	entry = find(seen, key);
	found = entry && entry->notes[which].text &&
		entry->notes[which].at_ms >= since_ms;
	if (found)
		snprintf(text, size, "%s", entry->notes[which].text);
	pthread_mutex_unlock(&seen->lock);
	return found;
}
