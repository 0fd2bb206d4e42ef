/* tree: names and the node ids under which the kernel knows them.
 *
 *   id 1            MOUNT/
 *   fixed           MOUNT/cells/  nodes/  .celldfs/  .celldfs/<file>
 *   one per name    MOUNT/cells/<cell>/
 *   one per lookup  MOUNT/cells/<cell>/own  nodes/<node>
 *
 * A record gets another node for every lookup, all with the same st_ino. The
 * kernel keeps one inode per node id, serialises writes on it without letting
 * them be killed, and sends fstat, fgetxattr and fsetxattr without a file
 * handle: with a node of its own, one open file never waits for another's PUT,
 * and its handle is found through its node.
 *
 * The kernel asks for the name that it remembers, and once more when it is told
 * of another node. So the node whose file was closed last is spare: it is told
 * again to the next lookup, which then is the only one. A node that was looked
 * up and not opened yet is nobody else's.
 *
 * Invariants:
 * 1. A node lives until the kernel has forgotten as many lookups as it was
 *    told of.
 * 2. A handle is in its node's list from handle_new() to handle_close(), oldest
 *    first (tree->lock). A handle's own lock is taken inside the tree's.
 */
#ifndef CELLDFS_TREE_H
#define CELLDFS_TREE_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include "name.h"

#include <stdbool.h>

/* The fixed nodes first, up to NODE_CONTROL_FILE: tree.c numbers them by it. */
enum node_kind {
	NODE_ROOT,
	NODE_CELLS,
	NODE_NODES,
	NODE_CONTROL,
	NODE_CONTROL_FILE, /* one for each row of control_files */
	NODE_CELL,  /* a cell's directory */
	NODE_OWN,   /* a cell's record */
	NODE_LEASE, /* a node's record */
};

struct control_file;
struct handle;

struct node {
	enum node_kind kind;
	const char *name; /* the cell's, node's or control file's; "" for the
			   * fixed directories */
	uint64_t ino;	  /* st_ino */
	const char *key; /* records only, else "" */
	const struct control_file *control; /* NODE_CONTROL_FILE only */

	/* tree->lock guards the rest */
	uint64_t lookups;
	bool spare;
	struct handle *handles; /* open files on this node, oldest first */
	struct node *prev, *next;
};

struct tree;

struct tree *tree_new(void); /* NULL: no memory */
void tree_free(struct tree *tree);

/* The node with this id. The kernel only sends ids that it was told of. */
struct node *tree_node(struct tree *tree, fuse_ino_t id);
fuse_ino_t tree_id(const struct tree *tree, const struct node *node);

bool node_is_directory(const struct node *node);
bool node_is_record(const struct node *node);

/* What NAME in PARENT is, judged by its form alone. 0, and *KIND is set; or the
 * errno of a lookup: ENOENT, ENAMETOOLONG. Sends nothing. */
int tree_resolve(const struct node *parent, const char *name,
		 enum node_kind *kind);

/* The errno of creating NAME in PARENT as a record: 0, EPERM, EINVAL,
 * ENAMETOOLONG. */
int tree_may_create(const struct node *parent, const char *name);

/* A node for NAME in PARENT of KIND as tree_resolve() found it, counted as
 * looked up once more. NULL: no memory. */
struct node *tree_look_up(struct tree *tree, const struct node *parent,
			  const char *name, enum node_kind kind);

/* The kernel has forgotten COUNT lookups; frees the node at 0. */
void tree_forget(struct tree *tree, struct node *node, uint64_t count);

/* The lists of handles per node; see handle.h. */
void tree_attach(struct tree *tree, struct node *node, struct handle *handle);
void tree_detach(struct tree *tree, struct node *node, struct handle *handle);

/* The oldest handle that is open on NODE, with a reference of the caller's, or
 * NULL. That is the file which was opened by path: every other one on its node
 * was opened through /dev/fd or /proc, and must not take its place. */
struct handle *tree_handle(struct tree *tree, struct node *node);

/* The st_ino of NAME in PARENT, for directory entries. */
uint64_t tree_ino(const struct node *parent, const char *name);

#endif
