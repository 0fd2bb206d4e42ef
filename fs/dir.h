/* dir: directories: one snapshot per opendir, fetched page by page as it is
 * read.
 *
 * The offset of an entry is its place in
 * the snapshot, so it never changes: no name is lost or doubled, whatever
 * buffer, seekdir or change outside.
 *
 *   offset 0 "."   1 ".."   2 + place in the spool: the rest
 *
 * A page that cannot be had is an error, never the end. A key that is no file
 * name here is skipped, and the listing says so in the log at its end.
 */
#ifndef CELLDFS_DIR_H
#define CELLDFS_DIR_H

#include "gate.h"
#include "tree.h"

/* opendir, readdir, releasedir of ops.c. */
void dir_open(struct mount *mount, fuse_req_t req, struct node *node,
	      struct fuse_file_info *fi);
void dir_read(struct mount *mount, fuse_req_t req, struct node *node,
	      size_t size, off_t offset, struct fuse_file_info *fi);
void dir_release(struct mount *mount, fuse_req_t req,
		 struct fuse_file_info *fi);

#endif
