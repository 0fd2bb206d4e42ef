/* file: open files: open, create, read, write, flush, release.
 *
 * Source: celldfs.8, GUARDS, "When a write is done". Each function replies to
 * REQ exactly once, those that return an int leave that to the caller.
 */
#ifndef CELLDFS_FILE_H
#define CELLDFS_FILE_H

#include "gate.h"
#include "tree.h"

/* A record that is opened for reading is fetched here, at the latest moment at
 * which its absence can be said: one GET. Opening for writing alone sends
 * nothing. */
void file_open(struct mount *mount, fuse_req_t req, struct node *node,
	       struct fuse_file_info *fi);
void file_create(struct mount *mount, fuse_req_t req, struct node *parent,
		 const char *name, struct fuse_file_info *fi);
void file_release(struct mount *mount, fuse_req_t req,
		  struct fuse_file_info *fi);

void file_read(struct mount *mount, fuse_req_t req, size_t size, off_t offset,
	       struct fuse_file_info *fi);

/* Buffers fragments; the write that completes a record is the swap. */
void file_write(struct mount *mount, fuse_req_t req, const char *fragment,
		size_t size, off_t offset, struct fuse_file_info *fi);

/* The errno of flush and fsync. They never commit: bash sends a flush before
 * its first write, and a child's exit sends one over its parent's half-written
 * record. EINVAL over an incomplete record, which stays; over a failed one its
 * errno again, but ECANCELED for EINTR: Python's fsync retries on EINTR for
 * ever. */
int file_flush(struct fuse_file_info *fi);

/* The errno of truncating to SIZE: 0 drops the fragments, the length just
 * written is accepted, everything else is EINVAL. HANDLE: NULL by path. */
int file_truncate(struct handle *handle, off_t size);

#endif
