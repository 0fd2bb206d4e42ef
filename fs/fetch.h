/* fetch: reads of records through the mount's memory.
 *
 * Every read of a record by the mount goes through here, so that seen.h hears
 * of it; only cas.c reads back by itself to settle a write.
 */
#ifndef CELLDFS_FETCH_H
#define CELLDFS_FETCH_H

#include "seen.h"
#include "tree.h"

struct mount;

/* Reads the object KEY of KIND (NODE_OWN, NODE_LEASE), always with one request.
 * OBJECT is initialised and released by the caller. OK, and GLIMPSE is filled;
 * else the store's outcome. */
enum outcome fetch_object(struct mount *mount, const struct limits *limits,
			  enum node_kind kind, const char *key,
			  struct object *object, struct glimpse *glimpse,
			  struct answer *answer) MUST_CHECK;

/* Reads KEY unless its ETag is still KNOWN ("" = none is). OK, and GLIMPSE is
 * filled; UNCHANGED; else the store's outcome. */
enum outcome fetch_newer(struct mount *mount, const struct limits *limits,
			 enum node_kind kind, const char *key,
			 const char *known, struct glimpse *glimpse,
			 struct answer *answer) MUST_CHECK;

/* What a record says (its ETag, node, epoch), with a request unless it was
 * fetched within the last second. OK; else the store's outcome. */
enum outcome fetch_glimpse(struct mount *mount, const struct limits *limits,
			   const struct node *node, struct glimpse *glimpse,
			   struct answer *answer) MUST_CHECK;

/* What stat shows of a record, with a request unless it was fetched or listed
 * within the last second. OK; else the store's outcome. */
enum outcome fetch_size(struct mount *mount, const struct limits *limits,
			enum node_kind kind, const char *key,
			struct glimpse *glimpse,
			struct answer *answer) MUST_CHECK;

/* Can fetch_glimpse() or fetch_size() answer without a request? */
bool fetch_glimpse_known(struct mount *mount, const struct node *node,
			 struct glimpse *glimpse);
bool fetch_size_known(struct mount *mount, const char *key,
		      struct glimpse *glimpse);

/* Fills what the bytes of a record say into GLIMPSE (form, own). OK, also for
 * what is no record; NO_MEMORY: nobody knows. */
enum outcome fetch_judge(struct glimpse *glimpse, enum node_kind kind,
			 const char *bytes, size_t len) MUST_CHECK;

#endif
