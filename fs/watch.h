/* watch: poll(2) on records: who asks for POLLPRI is told of a change.
 *
 * Source: celldfs.8, HOLDING A CELL, "Waiting for a change".
 *
 * A record is always readable and writable. Only a poll that asks for POLLPRI
 * starts a watch: a thread reads the record every watch_ms, under the ETag that
 * is known, and the poll is woken when it is another version than the one that
 * its open file shows. The watch of an open file ends when it has fired, and
 * when the file is closed. All open files of a record share one read.
 *
 * Thread-safe.
 */
#ifndef CELLDFS_WATCH_H
#define CELLDFS_WATCH_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include <stdint.h>

struct handle;
struct mount;
struct watches;

/* Starts the thread. NULL: no memory. */
struct watches *watches_new(struct mount *mount, int64_t watch_ms);

/* Ends it, before the session is destroyed. NULL is allowed. */
void watches_free(struct watches *watches);

/* poll(2) on HANDLE for EVENTS; answers REQ at once. PH is libfuse's, or NULL if
 * nobody waits; it becomes the watch's. */
void watches_poll(struct watches *watches, fuse_req_t req,
		  struct handle *handle, unsigned events,
		  struct fuse_pollhandle *ph);

/* HANDLE is closed for good. */
void watches_closed(struct watches *watches, struct handle *handle);

#endif
