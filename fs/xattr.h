/* xattr: the extended attributes of records.
 *
 * Source: celldfs.8, ATTRIBUTES and COSTS. A new attribute
 * is a row in the table of xattr.c, a function that writes its value, and an
 * entry under ATTRIBUTES in celldfs.8.
 *
 * An attribute that is unknown or has no value is ENODATA: ENOSYS would switch
 * all of them off for good.
 */
#ifndef CELLDFS_XATTR_H
#define CELLDFS_XATTR_H

#include "gate.h"
#include "tree.h"

#define XATTR_PREFIX "user.celld."
#define XATTR_IF_MATCH XATTR_PREFIX "if-match"

/* SIZE 0 asks for the size of the value. ERANGE if it does not fit. */
void xattr_get(struct mount *mount, fuse_req_t req, struct node *node,
	       const char *name, size_t size);
void xattr_list(fuse_req_t req, struct node *node, size_t size);

/* Only user.celld.if-match can be set and removed: by path it arms and disarms
 * for the caller's uid, through an open file it is that file's guard. */
void xattr_set(struct mount *mount, fuse_req_t req, struct node *node,
	       const char *name, const char *value, size_t size);
void xattr_remove(struct mount *mount, fuse_req_t req, struct node *node,
		  const char *name);

#endif
