#include "fetch.h"

#include "clock.h"
#include "holds.h"
#include "mount.h"

#include <string.h>

enum outcome fetch_judge(struct glimpse *glimpse, enum node_kind kind,
			 const char *bytes, size_t len)
{
	enum outcome outcome = OUTCOME_INVALID;

	if (kind == NODE_OWN)
		outcome = record_parse_own(&glimpse->own, bytes, len, NULL);
	glimpse->form = outcome == OUTCOME_OK ? GUARDED_OWN : GUARDED_MALFORMED;
	return outcome == OUTCOME_NO_MEMORY ? outcome : OUTCOME_OK;
}

static enum outcome fetch(struct mount *mount, const struct limits *limits,
			  enum node_kind kind, const char *key,
			  const char *known, struct object *object,
			  struct glimpse *glimpse, struct answer *answer)
{
	uint64_t ticket = seen_ticket(mount->seen);
	int64_t begun_ms = clock_boot_ms();
	enum outcome outcome;

	memset(glimpse, 0, sizeof(*glimpse));
	mount->reads++;
	outcome = store_get(mount->store, limits, key, known, object, answer);
	if (outcome == OUTCOME_ABSENT)
		seen_absent(mount->seen, key, ticket);
	if (outcome != OUTCOME_OK)
		return outcome;
	glimpse->size_bytes = object->body.len;
	glimpse->modified_ms = object->modified_ms;
	glimpse->at_ms = begun_ms;
	glimpse->fetched = true;
	glimpse->fetched_ms = begun_ms;
	memcpy(glimpse->etag, object->etag, ETAG_SIZE);
	outcome = fetch_judge(glimpse, kind, object->body.bytes,
			      object->body.len);
	if (outcome != OUTCOME_OK)
		return outcome;
	seen_exists(mount->seen, key, glimpse, ticket);
	if (glimpse->form == GUARDED_OWN)
		holds_read(mount->holds, key, &glimpse->own);
	return OUTCOME_OK;
}

enum outcome fetch_object(struct mount *mount, const struct limits *limits,
			  enum node_kind kind, const char *key,
			  struct object *object, struct glimpse *glimpse,
			  struct answer *answer)
{
	return fetch(mount, limits, kind, key, NULL, object, glimpse, answer);
}

enum outcome fetch_newer(struct mount *mount, const struct limits *limits,
			 enum node_kind kind, const char *key,
			 const char *known, struct glimpse *glimpse,
			 struct answer *answer)
{
	struct object object;
	enum outcome outcome;

	object_init(&object);
	outcome = fetch(mount, limits, kind, key, known[0] ? known : NULL,
			&object, glimpse, answer);
	object_release(&object);
	return outcome;
}

static enum outcome fetch_now(struct mount *mount, const struct limits *limits,
			      enum node_kind kind, const char *key,
			      struct glimpse *glimpse, struct answer *answer)
{
	struct object object;
	enum outcome outcome;

	object_init(&object);
	outcome = fetch_object(mount, limits, kind, key, &object, glimpse,
			       answer);
	object_release(&object);
	return outcome;
}

bool fetch_glimpse_known(struct mount *mount, const struct node *node,
			 struct glimpse *glimpse)
{
	return seen_get(mount->seen, node->key, glimpse) && glimpse->fetched &&
	       clock_boot_ms() - glimpse->fetched_ms < SEEN_FRESH_MS;
}

bool fetch_size_known(struct mount *mount, const char *key,
		      struct glimpse *glimpse)
{
	return seen_get(mount->seen, key, glimpse) &&
	       clock_boot_ms() - glimpse->at_ms < SEEN_FRESH_MS;
}

enum outcome fetch_glimpse(struct mount *mount, const struct limits *limits,
			   const struct node *node, struct glimpse *glimpse,
			   struct answer *answer)
{
	if (fetch_glimpse_known(mount, node, glimpse))
		return OUTCOME_OK;
	return fetch_now(mount, limits, node->kind, node->key, glimpse, answer);
}

enum outcome fetch_size(struct mount *mount, const struct limits *limits,
			enum node_kind kind, const char *key,
			struct glimpse *glimpse, struct answer *answer)
{
	if (fetch_size_known(mount, key, glimpse))
		return OUTCOME_OK;
	return fetch_now(mount, limits, kind, key, glimpse, answer);
}
