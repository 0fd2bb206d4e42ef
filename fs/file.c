#include "file.h"

#include "attr.h"
#include "control.h"
#include "handle.h"
#include "lock.h"
#include "log.h"
#include "mount.h"
#include "ops.h"
#include "swap.h"
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct handle *handle_of(const struct fuse_file_info *fi)
{
	return (struct handle *)(uintptr_t)fi->fh;
}

/* ---- open and close ---- */

static void reply_open(fuse_req_t req, struct mount *mount,
		       struct handle *handle, struct fuse_file_info *fi)
{
	fi->direct_io = 1;
	fi->noflush = (fi->flags & O_ACCMODE) == O_RDONLY; /* nothing to say */
	fi->fh = (uint64_t)(uintptr_t)handle;
	if (fuse_reply_open(req, fi) == -ENOENT)
		handle_close(mount, handle); /* no release will come */
}

/* Opens a control file that shows TEXT. */
static void reply_control(struct mount *mount, fuse_req_t req,
			  struct node *node, struct fuse_file_info *fi,
			  struct buf *text)
{
	struct handle *handle = handle_new(mount, node, O_RDONLY, false);

	if (!handle) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	handle_show_text(handle, text);
	reply_open(req, mount, handle, fi);
}

static void run_control(struct work *work)
{
	struct node *node = work->node;
	struct answer answer = {0};
	enum outcome outcome;
	struct buf text;

	buf_init(&text, CONTROL_TEXT_MAX);
	outcome = node->control->print(work->mount, &work->limits, &text,
				       &answer);
	if (outcome == OUTCOME_OK) {
		work_done(work);
		reply_control(work->mount, work->req, node, &work->fi, &text);
	} else {
		ops_fail(work, "open", node, outcome, &answer);
	}
	buf_release(&text);
}

static void submit_open(struct mount *mount, fuse_req_t req, struct node *node,
			struct fuse_file_info *fi,
			void (*run)(struct work *work))
{
	struct work *work = work_new(mount, req, run, mount->deadline_ms);

	if (!work)
		return;
	work->node = node;
	work->fi = *fi;
	gate_submit(mount->gate, work);
}

/* What can be shown without the store is, however busy that is. */
static void open_control(struct mount *mount, fuse_req_t req, struct node *node,
			 struct fuse_file_info *fi)
{
	enum outcome outcome;
	struct buf text;

	if ((fi->flags & O_ACCMODE) != O_RDONLY) {
		fuse_reply_err(req, EACCES);
		return;
	}
	buf_init(&text, CONTROL_TEXT_MAX);
	outcome = control_print_now(mount, node->control, &text);
	if (outcome == OUTCOME_OK)
		reply_control(mount, req, node, fi, &text);
	else if (node->control->asks_store)
		submit_open(mount, req, node, fi, run_control);
	else
		fuse_reply_err(req, outcome_errno(outcome));
	buf_release(&text);
}

static void run_open(struct work *work)
{
	struct mount *mount = work->mount;
	struct answer answer = {0};
	struct glimpse glimpse;
	bool seen = seen_get(mount->seen, work->node->key, &glimpse);
	struct handle *handle = handle_new(mount, work->node,
					   work->fi.flags & O_ACCMODE, false);
	enum outcome outcome = OUTCOME_NO_MEMORY;

	if (handle)
		outcome = handle_fetch(mount, handle, &work->limits, &answer);
	if (outcome == OUTCOME_OK) {
		work_done(work);
		reply_open(work->req, mount, handle, &work->fi);
		return;
	}
	if (handle)
		handle_close(mount, handle);
	if (outcome == OUTCOME_ABSENT && seen) {
		/* The lookup went by memory and the record is gone. ESTALE
		 * makes the kernel walk once more, now asking, so that O_CREAT
		 * creates and everything else is ENOENT. */
		work_done(work);
		fuse_reply_err(work->req, ESTALE);
		return;
	}
	ops_fail(work, "open", work->node, outcome, &answer);
}

void file_open(struct mount *mount, fuse_req_t req, struct node *node,
	       struct fuse_file_info *fi)
{
	int access = fi->flags & O_ACCMODE;
	struct handle *handle;

	if (node->kind == NODE_CONTROL_FILE) {
		open_control(mount, req, node, fi);
		return;
	}
	if (access != O_RDONLY && fi->flags & O_APPEND) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	if (access == O_WRONLY || fi->flags & O_TRUNC) {
		handle = handle_new(mount, node, access, false);
		if (handle)
			reply_open(req, mount, handle, fi);
		else
			fuse_reply_err(req, ENOMEM);
		return;
	}
	submit_open(mount, req, node, fi, run_open);
}

void file_create(struct mount *mount, fuse_req_t req, struct node *parent,
		 const char *name, struct fuse_file_info *fi)
{
	struct fuse_entry_param entry = {0};
	struct handle *handle = NULL;
	struct node *node;
	int err = tree_may_create(parent, name);

	if (!err && fi->flags & O_APPEND)
		err = EINVAL;
	if (err) {
		fuse_reply_err(req, err);
		return;
	}
	node = tree_look_up(mount->tree, parent, name,
			    parent->kind == NODE_CELL ? NODE_OWN : NODE_LEASE);
	if (node)
		handle = handle_new(mount, node, fi->flags & O_ACCMODE, true);
	if (!handle) {
		if (node)
			tree_forget(mount->tree, node, 1);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	entry.ino = tree_id(mount->tree, node);
	attr_record(mount, node, NULL, &entry.attr);
	fi->direct_io = 1;
	fi->fh = (uint64_t)(uintptr_t)handle;
	if (fuse_reply_create(req, &entry, fi) == -ENOENT) {
		handle_close(mount, handle);
		tree_forget(mount->tree, node, 1);
	}
}

void file_release(struct mount *mount, fuse_req_t req,
		  struct fuse_file_info *fi)
{
	struct handle *handle = handle_of(fi);
	char text[80];

	if (handle->draft.bytes.len > 0) {
		snprintf(text, sizeof(text),
			 "invalid; closed over an incomplete record, %zu bytes "
			 "dropped",
			 handle->draft.bytes.len);
		ops_log_failure(mount, "close", handle->node, OUTCOME_INVALID,
				text);
	}
	locks_closed(mount->locks, handle);
	watches_closed(mount->watches, handle);
	handle_close(mount, handle);
	fuse_reply_err(req, 0);
}

/* ---- reading ---- */

static void reply_read(fuse_req_t req, struct handle *handle, size_t size,
		       off_t offset)
{
	enum outcome outcome;
	char *bytes;
	size_t len;

	outcome = handle_read(handle, size, offset, &bytes, &len);
	if (outcome == OUTCOME_OK)
		fuse_reply_buf(req, bytes, len);
	else
		fuse_reply_err(req, outcome_errno(outcome));
	free(bytes);
}

static void run_read(struct work *work)
{
	struct answer answer = {0};
	enum outcome outcome =
		handle_fetch(work->mount, work->handle, &work->limits, &answer);

	if (outcome != OUTCOME_OK) {
		ops_fail(work, "read", work->handle->node, outcome, &answer);
		return;
	}
	work_done(work);
	reply_read(work->req, work->handle, work->size, work->offset);
}

void file_read(struct mount *mount, fuse_req_t req, size_t size, off_t offset,
	       struct fuse_file_info *fi)
{
	struct handle *handle = handle_of(fi);
	struct work *work;

	if (handle->node->kind == NODE_CONTROL_FILE ||
	    !handle_read_fetches(handle, offset)) {
		reply_read(req, handle, size, offset);
		return;
	}
	work = work_new(mount, req, run_read, mount->deadline_ms);
	if (!work)
		return;
	work->handle = handle;
	work->size = size;
	work->offset = offset;
	gate_submit(mount->gate, work);
}

/* ---- writing ---- */

static void set_failed(struct handle *handle, int err)
{
	pthread_mutex_lock(&handle->lock);
	handle->failed_errno = err;
	pthread_mutex_unlock(&handle->lock);
}

static void run_write(struct work *work)
{
	struct handle *handle = work->handle;
	char text[PUT_TEXT_SIZE];
	enum outcome outcome;
	struct buf body;

	buf_init(&body, RECORD_WRITE_MAX);
	body.bytes = work->bytes;
	body.len = body.size = work->len;
	outcome = swap_write(work->mount, handle, work->uid, &work->limits,
			     &body, text);
	work->bytes = body.bytes; /* ours or what the handle gave for it */
	set_failed(handle, outcome_errno(outcome));
	if (outcome != OUTCOME_OK)
		ops_log_failure(work->mount, "write", handle->node, outcome,
				text);
	work_done(work);
	if (outcome == OUTCOME_OK)
		fuse_reply_write(work->req, work->size);
	else
		fuse_reply_err(work->req, outcome_errno(outcome));
}

/* Takes a fragment in. Under the handle's lock. When it completes the record,
 * the bytes change hands to BYTES. */
static enum outcome take_fragment(struct handle *handle, const char *fragment,
				  size_t size, off_t offset, char **bytes,
				  size_t *len, struct reason *reason)
{
	struct draft *draft = &handle->draft;
	bool complete;
	enum outcome outcome =
		draft_write(draft, fragment, size, offset, &complete, reason);

	if (outcome != OUTCOME_OK) {
		handle->failed_errno = outcome_errno(outcome);
		return outcome;
	}
	if (!complete)
		return OUTCOME_OK;
	*bytes = draft->bytes.bytes;
	*len = draft->bytes.len;
	handle->written_len = *len;
	handle->written_at = draft->next - (off_t)*len;
	buf_init(&draft->bytes, RECORD_WRITE_MAX);
	draft_drop(draft);
	draft->after_record = true;
	return OUTCOME_OK;
}

void file_write(struct mount *mount, fuse_req_t req, const char *fragment,
		size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct handle *handle = handle_of(fi);
	struct reason reason = {""};
	enum outcome outcome;
	struct work *work;
	char *bytes = NULL;
	size_t len = 0;

	if (fi->flags & O_APPEND) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	pthread_mutex_lock(&handle->lock);
	outcome = take_fragment(handle, fragment, size, offset, &bytes, &len,
				&reason);
	pthread_mutex_unlock(&handle->lock);
	if (outcome != OUTCOME_OK) {
		char text[PUT_TEXT_SIZE];

		snprintf(text, sizeof(text), "%s; %s", outcome_word(outcome),
			 reason.text);
		seen_set_note(mount->seen, handle->node->key, SEEN_OUTCOME,
			      text);
		ops_log_failure(mount, "write", handle->node, outcome, text);
		fuse_reply_err(req, outcome_errno(outcome));
		return;
	}
	if (!bytes) {
		fuse_reply_write(req, size);
		return;
	}
	/* without memory it is answered at once, and the file may be gone then
	 */
	set_failed(handle, ENOMEM);
	work = work_new(mount, req, run_write, mount->deadline_ms);
	if (!work) {
		free(bytes);
		return;
	}
	work->handle = handle;
	work->size = size;
	work->bytes = bytes;
	work->len = len;
	gate_submit(mount->gate, work);
}

int file_flush(struct fuse_file_info *fi)
{
	struct handle *handle = handle_of(fi);
	int err;

	pthread_mutex_lock(&handle->lock);
	err = handle->draft.bytes.len > 0 ? EINVAL : handle->failed_errno;
	pthread_mutex_unlock(&handle->lock);
	/* EINTR would be called again for ever by those who retry on it */
	return err == EINTR ? ECANCELED : err;
}

int file_truncate(struct handle *handle, off_t size)
{
	int err = 0;

	if (!handle)
		return size == 0 ? 0 : EINVAL;
	pthread_mutex_lock(&handle->lock);
	if (size == 0)
		draft_drop(&handle->draft);
	else if (handle->draft.bytes.len > 0)
		err = size == handle->draft.next ||
				      size == (off_t)handle->draft.bytes.len
			      ? 0
			      : EINVAL;
	else if (handle->written_len == 0 ||
		 (size != (off_t)handle->written_len &&
		  size != handle->written_at + (off_t)handle->written_len))
		err = EINVAL;
	pthread_mutex_unlock(&handle->lock);
	return err;
}
