#include "ops.h"

#include "attr.h"
#include "dir.h"
#include "fetch.h"
#include "file.h"
#include "handle.h"
#include "lock.h"
#include "log.h"
#include "mount.h"
#include "swap.h"
#include "watch.h"
#include "xattr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* One write is never split for records (64 KiB at most, unaligned). */
#define WRITE_MAX (128 * 1024)
/* A LOOKUP holds its directory's lock, so it must not wait for long. */
#define LOOKUP_DEADLINE_MS 2000

static struct mount *mount_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static struct node *node_of(fuse_req_t req, fuse_ino_t id)
{
	return tree_node(mount_of(req)->tree, id);
}

/* ---- failures ---- */

void ops_log_failure(struct mount *mount, const char *operation,
		     const struct node *node, enum outcome outcome,
		     const char *text)
{
	bool grave = outcome == OUTCOME_FAILED || outcome == OUTCOME_UNKNOWN ||
		     outcome == OUTCOME_TIMEOUT || outcome == OUTCOME_DENIED ||
		     outcome == OUTCOME_FENCED || outcome == OUTCOME_NO_MEMORY;
	const char *name = strerrorname_np(outcome_errno(outcome));

	if (outcome != OUTCOME_REJECTED)
		mount->failures++;
	log_line(grave ? LOG_WARNING : LOG_INFO, "%s %s%s: %s: %s", operation,
		 node->kind == NODE_CONTROL_FILE ? ".celldfs/" : "",
		 node->key[0] ? node->key : node->name, name ? name : "?",
		 text);
}

void ops_fail(struct work *work, const char *operation, const struct node *node,
	      enum outcome outcome, const struct answer *answer)
{
	char text[PUT_TEXT_SIZE];
	char status[32] = "";

	if (answer->status)
		snprintf(status, sizeof(status), "; status %d", answer->status);
	if (outcome != OUTCOME_ABSENT) {
		snprintf(text, sizeof(text), "%s%s%s%s%s%s",
			 outcome_word(outcome), status,
			 answer->request_id[0] ? "; request " : "",
			 answer->request_id, answer->reason.text[0] ? "; " : "",
			 answer->reason.text);
		ops_log_failure(work->mount, operation, node, outcome, text);
	}
	work_done(work);
	fuse_reply_err(work->req, outcome_errno(outcome));
}

/* ---- the connection ---- */

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct mount *mount = userdata;

	conn->max_write = WRITE_MAX;
	conn->time_gran = 1000000; /* the store's times are whole ms */
	if (mount->serving)
		mount->serving(mount->serving_arg);
}

/* ---- names ---- */

/* A control file is asked for every time: a mount that has died has none. */
static double fixed_timeout_s(const struct node *node)
{
	return node->kind == NODE_CONTROL_FILE ? 0 : ATTR_FIXED_S;
}

static void fixed_entry(struct mount *mount, struct node *node,
			struct fuse_entry_param *entry)
{
	memset(entry, 0, sizeof(*entry));
	entry->ino = tree_id(mount->tree, node);
	entry->entry_timeout = ATTR_FIXED_S;
	entry->attr_timeout = fixed_timeout_s(node);
	attr_fixed(mount, node, &entry->attr);
}

/* A node of its own for this lookup, and no timeouts: see tree.h. */
static void reply_record(struct mount *mount, fuse_req_t req,
			 struct node *parent, const char *name,
			 enum node_kind kind, const struct glimpse *glimpse)
{
	struct node *node = tree_look_up(mount->tree, parent, name, kind);
	struct fuse_entry_param entry = {0};

	if (!node) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	entry.ino = tree_id(mount->tree, node);
	attr_record(mount, node, glimpse, &entry.attr);
	if (fuse_reply_entry(req, &entry) == -ENOENT)
		tree_forget(mount->tree, node, 1);
}

static void run_lookup(struct work *work)
{
	struct mount *mount = work->mount;
	struct node *parent = work->node;
	struct answer answer = {0};
	struct glimpse glimpse;
	char key[NAME_KEY_SIZE];
	struct node child = {.key = key};
	enum outcome outcome;
	enum node_kind kind;

	tree_resolve(parent, work->name, &kind);
	if (kind == NODE_OWN)
		name_own_key(key, parent->name);
	else
		name_lease_key(key, work->name);
	outcome =
		fetch_size(mount, &work->limits, kind, key, &glimpse, &answer);
	if (outcome != OUTCOME_OK) {
		ops_fail(work, "lookup", &child, outcome, &answer);
		return;
	}
	work_done(work);
	reply_record(mount, work->req, parent, work->name, kind, &glimpse);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent_id, const char *name)
{
	struct mount *mount = mount_of(req);
	struct node *parent = node_of(req, parent_id);
	struct fuse_entry_param entry;
	char key[NAME_KEY_SIZE];
	struct glimpse glimpse;
	enum node_kind kind;
	struct node *node;
	struct work *work;
	int err = tree_resolve(parent, name, &kind);

	if (err) {
		fuse_reply_err(req, err);
		return;
	}
	if (kind == NODE_OWN)
		name_own_key(key, parent->name);
	else if (kind == NODE_LEASE)
		name_lease_key(key, name);
	else {
		node = tree_look_up(mount->tree, parent, name, kind);
		if (!node) {
			fuse_reply_err(req, ENOMEM);
			return;
		}
		fixed_entry(mount, node, &entry);
		if (fuse_reply_entry(req, &entry) == -ENOENT)
			tree_forget(mount->tree, node, 1);
		return;
	}
	if (seen_get(mount->seen, key, &glimpse)) {
		reply_record(mount, req, parent, name, kind, &glimpse);
		return;
	}
	work = work_new(mount, req, run_lookup,
			mount->deadline_ms < LOOKUP_DEADLINE_MS
				? mount->deadline_ms
				: LOOKUP_DEADLINE_MS);
	if (!work)
		return;
	work->node = parent;
	snprintf(work->name, sizeof(work->name), "%s", name);
	gate_submit(mount->gate, work);
}

static void op_forget(fuse_req_t req, fuse_ino_t id, uint64_t count)
{
	tree_forget(mount_of(req)->tree, node_of(req, id), count);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count,
			    struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		tree_forget(mount_of(req)->tree, node_of(req, forgets[i].ino),
			    forgets[i].nlookup);
	fuse_reply_none(req);
}

/* ---- attributes ---- */

static void run_getattr(struct work *work)
{
	struct answer answer = {0};
	struct glimpse glimpse;
	struct stat attr;
	bool seen = seen_get(work->mount->seen, work->node->key, &glimpse);
	enum outcome outcome =
		fetch_size(work->mount, &work->limits, work->node->kind,
			   work->node->key, &glimpse, &answer);

	if (outcome == OUTCOME_ABSENT && seen && work->mount->kernel_checks) {
		/* perhaps for an open that creates: see run_open in file.c */
		work_done(work);
		fuse_reply_err(work->req, ESTALE);
		return;
	}
	if (outcome != OUTCOME_OK) {
		ops_fail(work, "getattr", work->node, outcome, &answer);
		return;
	}
	work_done(work);
	attr_record(work->mount, work->node, &glimpse, &attr);
	fuse_reply_attr(work->req, &attr, 0);
}

static void op_getattr(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct mount *mount = mount_of(req);
	struct node *node = node_of(req, id);
	struct handle *handle;
	struct glimpse glimpse;
	struct work *work;
	struct stat attr;

	(void)fi; /* fstat sends none: the node's handle is the open file */
	if (!node_is_record(node)) {
		attr_fixed(mount, node, &attr);
		fuse_reply_attr(req, &attr, fixed_timeout_s(node));
		return;
	}
	handle = tree_handle(mount->tree, node);
	if (handle) {
		attr_open(mount, node, handle, &attr);
		handle_unref(handle);
		fuse_reply_attr(req, &attr, 0);
		return;
	}
	if (fetch_size_known(mount, node->key, &glimpse)) {
		attr_record(mount, node, &glimpse, &attr);
		fuse_reply_attr(req, &attr, 0);
		return;
	}
	work = work_new(mount, req, run_getattr, mount->deadline_ms);
	if (!work)
		return;
	work->node = node;
	gate_submit(mount->gate, work);
}

static void op_setattr(fuse_req_t req, fuse_ino_t id, struct stat *want,
		       int to_set, struct fuse_file_info *fi)
{
	struct mount *mount = mount_of(req);
	struct node *node = node_of(req, id);
	struct handle *handle = NULL;
	struct glimpse glimpse;
	struct stat attr;
	int err = 0;

	attr_fixed(mount, node, &attr);
	if (node_is_record(node)) {
		handle = tree_handle(mount->tree, node);
		if (handle)
			attr_open(mount, node, handle, &attr);
		else if (seen_get(mount->seen, node->key, &glimpse))
			attr_record(mount, node, &glimpse, &attr);
	}
	if ((to_set & FUSE_SET_ATTR_MODE &&
	     (want->st_mode & 07777) != (attr.st_mode & 07777)) ||
	    (to_set & FUSE_SET_ATTR_UID && want->st_uid != attr.st_uid) ||
	    (to_set & FUSE_SET_ATTR_GID && want->st_gid != attr.st_gid))
		err = EPERM;
	else if (to_set & FUSE_SET_ATTR_SIZE)
		err = node_is_record(node)
			      ? file_truncate(
					fi ? (struct handle *)(uintptr_t)fi->fh
					   : handle,
					want->st_size)
			      : EPERM;
	if (handle)
		handle_unref(handle);
	if (err)
		fuse_reply_err(req, err);
	else
		fuse_reply_attr(req, &attr, 0);
}

/* ---- open files: file.h ---- */

static void op_open(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	file_open(mount_of(req), req, node_of(req, id), fi);
}

static void op_create(fuse_req_t req, fuse_ino_t parent_id, const char *name,
		      mode_t mode, struct fuse_file_info *fi)
{
	(void)mode; /* every record has the mount's */
	file_create(mount_of(req), req, node_of(req, parent_id), name, fi);
}

static void op_read(fuse_req_t req, fuse_ino_t id, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	(void)id;
	file_read(mount_of(req), req, size, offset, fi);
}

static void op_write(fuse_req_t req, fuse_ino_t id, const char *bytes,
		     size_t size, off_t offset, struct fuse_file_info *fi)
{
	(void)id;
	file_write(mount_of(req), req, bytes, size, offset, fi);
}

static void op_flush(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	(void)id;
	fuse_reply_err(req, file_flush(fi));
}

static void op_fsync(fuse_req_t req, fuse_ino_t id, int datasync,
		     struct fuse_file_info *fi)
{
	(void)datasync;
	op_flush(req, id, fi);
}

static void op_release(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	(void)id;
	file_release(mount_of(req), req, fi);
}

/* ---- directories: dir.h ---- */

static void op_opendir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	dir_open(mount_of(req), req, node_of(req, id), fi);
}

static void op_readdir(fuse_req_t req, fuse_ino_t id, size_t size, off_t offset,
		       struct fuse_file_info *fi)
{
	dir_read(mount_of(req), req, node_of(req, id), size, offset, fi);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t id,
			  struct fuse_file_info *fi)
{
	(void)id;
	dir_release(mount_of(req), req, fi);
}

/* ---- what a mount of records does not do ---- */

static void op_mkdir(fuse_req_t req, fuse_ino_t parent_id, const char *name,
		     mode_t mode)
{
	(void)mode;
	/* a valid cell's directory exists as soon as it is named, so this is
	 * either a bad name or the wrong place */
	if (node_of(req, parent_id)->kind == NODE_CELLS &&
	    name_cell(name, strlen(name)) == NAME_INVALID)
		fuse_reply_err(req, EINVAL);
	else
		fuse_reply_err(req, EPERM);
}

static void op_remove(fuse_req_t req, fuse_ino_t parent_id, const char *name)
{
	(void)parent_id;
	(void)name;
	fuse_reply_err(req, EPERM);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent_id, const char *name,
		      fuse_ino_t new_parent_id, const char *new_name,
		      unsigned flags)
{
	(void)parent_id;
	(void)name;
	(void)new_parent_id;
	(void)new_name;
	(void)flags;
	fuse_reply_err(req, EPERM);
}

static void op_link(fuse_req_t req, fuse_ino_t id, fuse_ino_t parent_id,
		    const char *name)
{
	(void)id;
	(void)parent_id;
	(void)name;
	fuse_reply_err(req, EPERM);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent_id,
		       const char *name)
{
	(void)target;
	(void)parent_id;
	(void)name;
	fuse_reply_err(req, EPERM);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent_id, const char *name,
		     mode_t mode, dev_t device)
{
	(void)parent_id;
	(void)name;
	(void)mode;
	(void)device;
	fuse_reply_err(req, EPERM);
}

/* POSIX locks must never be kept by the kernel alone: they would hold on this
 * machine and nowhere else. */
static void op_getlk(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi,
		     struct flock *lock)
{
	(void)id;
	(void)fi;
	(void)lock;
	fuse_reply_err(req, ENOLCK);
}

static void op_setlk(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi,
		     struct flock *lock, int sleep)
{
	(void)id;
	(void)fi;
	(void)lock;
	(void)sleep;
	fuse_reply_err(req, ENOLCK);
}

static void op_flock(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi,
		     int operation)
{
	(void)id;
	locks_flock(mount_of(req)->locks, req,
		    (struct handle *)(uintptr_t)fi->fh, operation);
}

static void op_poll(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi,
		    struct fuse_pollhandle *ph)
{
	(void)id;
	watches_poll(mount_of(req)->watches, req,
		     (struct handle *)(uintptr_t)fi->fh, fi->poll_events, ph);
}

static void op_statfs(fuse_req_t req, fuse_ino_t id)
{
	struct statvfs stat = {
		.f_bsize = 4096,
		.f_frsize = 4096,
		.f_namemax = NAME_CELL_MAX,
	};

	(void)id;
	fuse_reply_statfs(req, &stat);
}

static void op_setxattr(fuse_req_t req, fuse_ino_t id, const char *name,
			const char *value, size_t size, int flags)
{
	(void)flags;
	xattr_set(mount_of(req), req, node_of(req, id), name, value, size);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t id, const char *name,
			size_t size)
{
	xattr_get(mount_of(req), req, node_of(req, id), name, size);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t id, size_t size)
{
	xattr_list(req, node_of(req, id), size);
}

static void op_removexattr(fuse_req_t req, fuse_ino_t id, const char *name)
{
	xattr_remove(mount_of(req), req, node_of(req, id), name);
}

const struct fuse_lowlevel_ops ops_table = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.open = op_open,
	.create = op_create,
	.read = op_read,
	.write = op_write,
	.flush = op_flush,
	.fsync = op_fsync,
	.release = op_release,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.releasedir = op_releasedir,
	.mkdir = op_mkdir,
	.rmdir = op_remove,
	.unlink = op_remove,
	.rename = op_rename,
	.link = op_link,
	.symlink = op_symlink,
	.mknod = op_mknod,
	.getlk = op_getlk,
	.setlk = op_setlk,
	.flock = op_flock,
	.poll = op_poll,
	.statfs = op_statfs,
	.setxattr = op_setxattr,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.removexattr = op_removexattr,
};
