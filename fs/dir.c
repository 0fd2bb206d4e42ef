#include "dir.h"

#include "clock.h"
#include "control.h"
#include "fetch.h"
#include "log.h"
#include "mount.h"
#include "ops.h"
#include "spool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An open directory. The kernel lets one thread at a time read it (the file's
 * position lock), so it needs no lock of its own. */
struct dir {
	struct node *node;
	struct spool names; /* entries: struct entry_head, then the name */
	struct buf after;   /* where the next page starts */
	bool complete;	    /* there is no next page */
	unsigned skipped;   /* keys that are no names here */
	char first_skipped[80];
	enum outcome failed; /* of the next page, not told yet */
	struct answer failed_answer;
};

struct entry_head {
	bool directory;
	unsigned char len_high, len_low; /* of the name */
};

#define FIRST_OFFSET 2

static enum outcome add_name(struct dir *dir, const char *name, bool directory)
{
	size_t len = strlen(name);
	struct entry_head head = {directory, (unsigned char)(len >> 8),
				  (unsigned char)len};
	enum outcome outcome = spool_append(&dir->names, &head, sizeof(head));

	if (outcome == OUTCOME_OK)
		outcome = spool_append(&dir->names, name, len);
	return outcome;
}

struct page {
	struct mount *mount;
	struct dir *dir;
	uint64_t ticket;
	int64_t begun_ms;
};

static void skip(struct dir *dir, const char *name)
{
	if (dir->skipped++ == 0) {
		size_t len = strnlen(name, sizeof(dir->first_skipped) - 1);

		memcpy(dir->first_skipped, name, len);
		dir->first_skipped[len] = '\0';
	}
}

static enum outcome add_cell(void *arg, const struct list_entry *entry)
{
	struct page *page = arg;

	if (!entry->directory ||
	    name_cell(entry->name, strlen(entry->name)) != NAME_VALID) {
		skip(page->dir, entry->name);
		return OUTCOME_OK;
	}
	return add_name(page->dir, entry->name, true);
}

static enum outcome add_lease(void *arg, const struct list_entry *entry)
{
	struct page *page = arg;
	struct glimpse glimpse = {
		.size_bytes = entry->size_bytes,
		.modified_ms = entry->modified_ms,
		.at_ms = page->begun_ms,
	};
	char node[NAME_NODE_MAX + 1];
	char key[NAME_KEY_SIZE];

	if (entry->directory || !name_lease_of(entry->name, node)) {
		skip(page->dir, entry->name);
		return OUTCOME_OK;
	}
	name_lease_key(key, node);
	seen_exists(page->mount->seen, key, &glimpse, page->ticket);
	return add_name(page->dir, node, false);
}

static enum outcome fetch_page(struct mount *mount, struct dir *dir,
			       const struct limits *limits,
			       struct answer *answer)
{
	bool cells = dir->node->kind == NODE_CELLS;
	struct page page = {
		.mount = mount,
		.dir = dir,
		.ticket = seen_ticket(mount->seen),
		.begun_ms = clock_boot_ms(),
	};
	uint64_t len = dir->names.len;
	enum outcome outcome;

	outcome = store_list(mount->store, limits,
			     cells ? NAME_CELLS_PREFIX : NAME_NODES_PREFIX,
			     &dir->after, cells ? add_cell : add_lease, &page,
			     answer);
	if (outcome == OUTCOME_TOO_LARGE)
		outcome =
			reason_set(&answer->reason, OUTCOME_FAILED,
				   "the listing does not end: %u MiB of names",
				   SPOOL_MAX >> 20);
	if (outcome != OUTCOME_OK)
		spool_truncate(&dir->names, len); /* half a page is none */
	dir->complete = outcome == OUTCOME_OK && dir->after.len == 0;
	if (dir->complete && dir->skipped)
		log_line(LOG_NOTICE,
			 "list %s: %u keys skipped that are no names here, the "
			 "first is '%s'",
			 cells ? NAME_CELLS_PREFIX : NAME_NODES_PREFIX,
			 dir->skipped, dir->first_skipped);
	return outcome;
}

/* A cell's directory holds its record, if there is one. */
static enum outcome fetch_cell(struct mount *mount, struct dir *dir,
			       const struct limits *limits,
			       struct answer *answer)
{
	char key[NAME_KEY_SIZE];
	struct glimpse glimpse;
	enum outcome outcome;

	name_own_key(key, dir->node->name);
	outcome = fetch_size(mount, limits, NODE_OWN, key, &glimpse, answer);
	if (outcome == OUTCOME_OK)
		outcome = add_name(dir, "own", false);
	else if (outcome == OUTCOME_ABSENT)
		outcome = OUTCOME_OK;
	dir->complete = outcome == OUTCOME_OK;
	return outcome;
}

static enum outcome fill_fixed(struct dir *dir)
{
	enum outcome outcome = OUTCOME_OK;

	if (dir->node->kind == NODE_CONTROL) {
		for (size_t i = 0; i < control_file_count; i++)
			if (outcome == OUTCOME_OK)
				outcome = add_name(dir, control_files[i].name,
						   false);
	} else if (dir->node->kind == NODE_ROOT) {
		outcome = add_name(dir, "cells", true);
		if (outcome == OUTCOME_OK)
			outcome = add_name(dir, "nodes", true);
		if (outcome == OUTCOME_OK)
			outcome = add_name(dir, ".celldfs", true);
	}
	return outcome;
}

static void dir_free(struct dir *dir)
{
	spool_release(&dir->names);
	buf_release(&dir->after);
	free(dir);
}

void dir_open(struct mount *mount, fuse_req_t req, struct node *node,
	      struct fuse_file_info *fi)
{
	struct dir *dir = calloc(1, sizeof(*dir));
	enum outcome outcome;

	(void)mount;
	if (!dir) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	dir->node = node;
	spool_init(&dir->names);
	buf_init(&dir->after, LIST_AFTER_MAX);
	outcome = fill_fixed(dir);
	dir->complete = node->kind == NODE_ROOT || node->kind == NODE_CONTROL;
	if (outcome != OUTCOME_OK) {
		dir_free(dir);
		fuse_reply_err(req, outcome_errno(outcome));
		return;
	}
	fi->fh = (uint64_t)(uintptr_t)dir;
	if (fuse_reply_open(req, fi) == -ENOENT)
		dir_free(dir); /* interrupted: no releasedir will come */
}

/* The answer to one readdir as it fills. */
struct listing {
	fuse_req_t req;
	char *bytes;
	size_t len, size;
};

/* False: no room. */
static bool put_entry(struct listing *listing, const char *name, uint64_t ino,
		      bool directory, off_t next)
{
	struct stat attr = {
		.st_ino = ino,
		.st_mode = directory ? S_IFDIR : S_IFREG,
	};
	size_t left = listing->size - listing->len;
	size_t need =
		fuse_add_direntry(listing->req, listing->bytes + listing->len,
				  left, name, &attr, next);

	if (need > left)
		return false;
	listing->len += need;
	return true;
}

/* Reads the entry at PLACE of the spool; *NEXT becomes the place behind it. */
static enum outcome read_entry(const struct dir *dir, uint64_t place,
			       char name[NAME_CELL_MAX + 1], bool *directory,
			       uint64_t *next)
{
	struct entry_head head;
	size_t len;
	enum outcome outcome =
		spool_read(&dir->names, place, &head, sizeof(head));

	if (outcome != OUTCOME_OK)
		return outcome;
	len = (size_t)head.len_high << 8 | head.len_low;
	if (len > NAME_CELL_MAX)
		return OUTCOME_INVALID; /* a seekdir to no entry */
	outcome = spool_read(&dir->names, place + sizeof(head), name, len);
	name[len] = '\0';
	*directory = head.directory;
	*next = place + sizeof(head) + len;
	return outcome;
}

static enum outcome fill(struct work *work, struct dir *dir,
			 struct listing *listing, struct answer *answer)
{
	uint64_t place;
	enum outcome outcome = OUTCOME_OK;

	if (work->offset == 0 &&
	    !put_entry(listing, ".", dir->node->ino, true, 1))
		return OUTCOME_INVALID;
	if (work->offset <= 1 &&
	    !put_entry(listing, "..", FUSE_ROOT_ID, true, FIRST_OFFSET))
		return OUTCOME_OK;
	place = work->offset <= FIRST_OFFSET
			? 0
			: (uint64_t)work->offset - FIRST_OFFSET;
	while (outcome == OUTCOME_OK) {
		char name[NAME_CELL_MAX + 1];
		bool directory = false;
		uint64_t next = place;

		if (place >= dir->names.len && dir->complete)
			break;
		if (place >= dir->names.len) {
			if (dir->failed != OUTCOME_OK) {
				outcome = dir->failed;
				*answer = dir->failed_answer;
				dir->failed = OUTCOME_OK;
			} else if (dir->node->kind == NODE_CELL)
				outcome = fetch_cell(work->mount, dir,
						     &work->limits, answer);
			else
				outcome = fetch_page(work->mount, dir,
						     &work->limits, answer);
			continue;
		}
		outcome = read_entry(dir, place, name, &directory, &next);
		if (outcome == OUTCOME_OK &&
		    !put_entry(listing, name, tree_ino(dir->node, name),
			       directory, (off_t)(next + FIRST_OFFSET)))
			break;
		place = next;
	}
	/* what fits goes out; the error comes with the next call, without
	 * asking again: that would double the cost and the deadline */
	if (listing->len == 0 || outcome == OUTCOME_INTERRUPTED)
		return outcome;
	dir->failed = outcome;
	dir->failed_answer = *answer;
	return OUTCOME_OK;
}

static void run_read(struct work *work)
{
	struct dir *dir = (struct dir *)(uintptr_t)work->fi.fh;
	struct listing listing = {.req = work->req, .size = work->size};
	struct answer answer = {0};
	enum outcome outcome = OUTCOME_NO_MEMORY;

	listing.bytes = malloc(work->size);
	if (listing.bytes)
		outcome = fill(work, dir, &listing, &answer);
	if (outcome == OUTCOME_OK) {
		work_done(work);
		fuse_reply_buf(work->req, listing.bytes, listing.len);
	} else {
		ops_fail(work, "readdir", dir->node, outcome, &answer);
	}
	free(listing.bytes);
}

void dir_read(struct mount *mount, fuse_req_t req, struct node *node,
	      size_t size, off_t offset, struct fuse_file_info *fi)
{
	const struct dir *dir = (struct dir *)(uintptr_t)fi->fh;
	struct work *work = work_new(mount, req, run_read, mount->deadline_ms);

	if (!work)
		return;
	work->node = node;
	work->size = size;
	work->offset = offset;
	work->fi = *fi;
	if (dir->complete)
		gate_bypass(work);
	else
		gate_submit(mount->gate, work);
}

void dir_release(struct mount *mount, fuse_req_t req, struct fuse_file_info *fi)
{
	(void)mount;
	dir_free((struct dir *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}
