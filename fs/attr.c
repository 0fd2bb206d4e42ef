#include "attr.h"

#include "clock.h"
#include "handle.h"
#include "mount.h"

#include <string.h>

void attr_fixed(const struct mount *mount, const struct node *node,
		struct stat *attr)
{
	bool directory = node_is_directory(node);
	mode_t mode = directory ? 0755 : 0644;

	if (mount->read_only || node->kind == NODE_CONTROL_FILE)
		mode &= ~(mode_t)0222;
	memset(attr, 0, sizeof(*attr));
	attr->st_ino = node->ino;
	attr->st_mode =
		(directory ? S_IFDIR : S_IFREG) | (mode & ~mount->umask);
	attr->st_nlink = directory ? 2 : 1;
	attr->st_uid = mount->uid;
	attr->st_gid = mount->gid;
	attr->st_blksize = 4096;
}

void attr_record(const struct mount *mount, const struct node *node,
		 const struct glimpse *glimpse, struct stat *attr)
{
	int64_t modified_ms = glimpse ? glimpse->modified_ms : clock_wall_ms();

	attr_fixed(mount, node, attr);
	attr->st_mtim.tv_sec = modified_ms / 1000;
	attr->st_mtim.tv_nsec = modified_ms % 1000 * 1000000;
	attr->st_ctim = attr->st_atim = attr->st_mtim;
	if (glimpse) {
		attr->st_size = (off_t)glimpse->size_bytes;
		attr->st_blocks = (attr->st_size + 511) / 512;
	}
}

void attr_open(struct mount *mount, const struct node *node,
	       struct handle *handle, struct stat *attr)
{
	struct glimpse glimpse;
	bool known = handle_glimpse(handle, &glimpse);

	if (!known && !handle_created(handle))
		known = seen_get(mount->seen, node->key, &glimpse);
	attr_record(mount, node, known ? &glimpse : NULL, attr);
}

static bool in_group(fuse_req_t req, gid_t gid)
{
	gid_t groups[64];
	int count = fuse_req_getgroups(req, 64, groups);

	if (fuse_req_ctx(req)->gid == gid)
		return true;
	for (int i = 0; i < count && i < 64; i++)
		if (groups[i] == gid)
			return true;
	return false;
}

bool attr_may_write(const struct mount *mount, fuse_req_t req)
{
	uid_t uid = fuse_req_ctx(req)->uid;
	mode_t mode = 0644 & ~mount->umask;

	if (uid == 0)
		return true;
	if (uid == mount->uid)
		return mode & 0200;
	return mode & (in_group(req, mount->gid) ? 0020 : 0002);
}
