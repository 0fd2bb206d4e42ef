/* control: what .celldfs/ shows. No requests. */
#ifndef CELLDFS_CONTROL_H
#define CELLDFS_CONTROL_H

#include "buf.h"

struct mount;

#define CONTROL_TEXT_MAX (64 * 1024)

/* Writes .celldfs/status to TEXT (cap: CONTROL_TEXT_MAX): one `key value` per
 * line. OK, NO_MEMORY. */
enum outcome control_status(struct mount *mount, struct buf *text) MUST_CHECK;

#endif
