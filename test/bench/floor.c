/* floor MOUNTPOINT: the least that a FUSE daemon can do for a client of
 * celldfs: one file, "record", whose bytes are here, which forgets what is
 * written to it; by direct_io, with no attribute or name kept by the kernel. In
 * the foreground, until it is unmounted.
 */
#define FUSE_USE_VERSION 314
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <string.h>

#define RECORD "{\"node\":\"bench\",\"epoch\":1}\n"

static struct stat attributes(fuse_ino_t node)
{
	struct stat st = {.st_ino = node, .st_nlink = 1};

	if (node == FUSE_ROOT_ID) {
		st.st_mode = S_IFDIR | 0755;
	} else {
		st.st_mode = S_IFREG | 0644;
		st.st_size = (off_t)strlen(RECORD);
	}
	return st;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = {.ino = 2};

	if (parent != FUSE_ROOT_ID || strcmp(name, "record") != 0) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	entry.attr = attributes(entry.ino);
	fuse_reply_entry(req, &entry);
}

static void op_getattr(fuse_req_t req, fuse_ino_t node,
		       struct fuse_file_info *fi)
{
	struct stat st = attributes(node);

	(void)fi;
	fuse_reply_attr(req, &st, 0);
}

static void op_open(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
	(void)node;
	fi->direct_io = 1;
	fuse_reply_open(req, fi);
}

static void op_read(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	(void)node;
	(void)fi;
	if (offset >= (off_t)strlen(RECORD) || size < strlen(RECORD))
		fuse_reply_buf(req, NULL, 0);
	else
		fuse_reply_buf(req, RECORD + offset,
			       strlen(RECORD) - (size_t)offset);
}

static void op_write(fuse_req_t req, fuse_ino_t node, const char *bytes,
		     size_t size, off_t offset, struct fuse_file_info *fi)
{
	(void)node;
	(void)bytes;
	(void)offset;
	(void)fi;
	fuse_reply_write(req, size);
}

static const struct fuse_lowlevel_ops ops = {
	.lookup = op_lookup,
	.getattr = op_getattr,
	.open = op_open,
	.read = op_read,
	.write = op_write,
};

int main(int argc, char **argv)
{
	char *names[] = {argv[0], NULL};
	struct fuse_args args = FUSE_ARGS_INIT(1, names);
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	struct fuse_session *session;
	int status = 1;

	if (argc != 2) {
		fprintf(stderr, "usage: floor MOUNTPOINT\n");
		return 2;
	}
	session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (session && fuse_set_signal_handlers(session) == 0 &&
	    fuse_session_mount(session, argv[1]) == 0) {
		status = fuse_session_loop_mt(session, config) != 0;
		fuse_session_unmount(session);
	}
	fuse_loop_cfg_destroy(config);
	return status;
}
