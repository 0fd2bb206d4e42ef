/* why: would a claim of this cell be refused now, in words for people. */
#ifndef CELLDFS_WHY_H
#define CELLDFS_WHY_H

#include "tree.h"

#include "buf.h"
#include "store.h"

struct mount;

/* Writes to TEXT what stands against a claim of NODE (a cell's record) by this
 * mount's node, or by a node that is not the owner: `busy: ...`, `free: ...`,
 * `yours: ...`, `unknown: ...`. One GET, or two when the owner's lease has to
 * be judged. OK; or the outcome of the first read with ANSWER. */
enum outcome why_claim(struct mount *mount, const struct limits *limits,
		       const struct node *node, struct buf *text,
		       struct answer *answer) MUST_CHECK;

#endif
