/* attr: what stat shows.
 *
 * Source: celldfs.8, "The tree" and OPTIONS: mode 0644 (0444 on ro) less
 * umask=, the mounting user or uid= gid=, st_mtime the record's Last-Modified,
 * st_ino stable while the mount lives.
 */
#ifndef CELLDFS_ATTR_H
#define CELLDFS_ATTR_H

#define FUSE_USE_VERSION 312

#include "seen.h"
#include "tree.h"

#include <fuse_lowlevel.h>
#include <sys/stat.h>

struct mount;

/* For how long the kernel may keep what never changes. */
#define ATTR_FIXED_S 3600.0

/* Directories, and the mode and owner of every file. */
void attr_fixed(const struct mount *mount, const struct node *node,
		struct stat *attr);

/* A record as GLIMPSE knows it; NULL: created and not written yet. */
void attr_record(const struct mount *mount, const struct node *node,
		 const struct glimpse *glimpse, struct stat *attr);

/* What can be said of an open record without a request: what it shows, else
 * what the mount remembers, else nothing. */
void attr_open(struct mount *mount, const struct node *node,
	       struct handle *handle, struct stat *attr);

/* Does the mode of a record let the caller of REQ write? The kernel asks only
 * with allow_other, and never about locks. */
bool attr_may_write(const struct mount *mount, fuse_req_t req);

#endif
