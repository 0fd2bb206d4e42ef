/* ops: one function per FUSE operation: decode, call, reply once.
 *
 * What needs no store is answered at once in op_<name>; the rest is submitted
 * to the gate and handled by run_<name>. The valid replies of each operation
 * are documented in fuse_lowlevel.h.
 */
#ifndef CELLDFS_OPS_H
#define CELLDFS_OPS_H

#include "gate.h"
#include "store.h"

/* The table for fuse_session_new(); its user data is the struct mount. */
extern const struct fuse_lowlevel_ops ops_table;

/* Answers WORK with the errno of OUTCOME, after one log line that names the
 * operation, the path, the errno, the status, the request id and the reason.
 * ABSENT is an answer, not a failure: it is not logged. */
void ops_fail(struct work *work, const char *operation, const struct node *node,
	      enum outcome outcome, const struct answer *answer);

/* The same line without an answer. TEXT begins with the outcome's word, as
 * user.celld.outcome does. */
void ops_log_failure(struct mount *mount, const char *operation,
		     const struct node *node, enum outcome outcome,
		     const char *text);

#endif
