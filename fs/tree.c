#include "tree.h"

#include "control.h"
#include "handle.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define SPARE_COUNT 1024

struct tree {
	pthread_mutex_t lock; /* guards the nodes as their fields say, and: */
	struct node *nodes;   /* all but the fixed ones */
	void *cells;	      /* NODE_CELL by name (tsearch) */
	struct node *spare[SPARE_COUNT]; /* by st_ino; the last of each */
	size_t fixed_count;
	struct node fixed[];
};

static const char *const root_names[] = {
	[NODE_CELLS] = "cells",
	[NODE_NODES] = "nodes",
	[NODE_CONTROL] = ".celldfs",
};

/* The number of the fixed node NAME in PARENT; NODE_ROOT: there is none. */
static size_t find_fixed(const struct node *parent, const char *name)
{
	if (parent->kind == NODE_ROOT)
		for (size_t i = NODE_CELLS; i <= NODE_CONTROL; i++)
			if (strcmp(name, root_names[i]) == 0)
				return i;
	if (parent->kind == NODE_CONTROL)
		for (size_t i = 0; i < control_file_count; i++)
			if (strcmp(name, control_files[i].name) == 0)
				return NODE_CONTROL_FILE + i;
	return NODE_ROOT;
}

/* FNV-1a over the path within the mount. st_ino has to be stable while the
 * mount lives and the same for every node of one record; a hash needs no table
 * for that. */
static uint64_t hash(uint64_t seed, const char *text)
{
	for (; *text; text++)
		seed = (seed ^ (unsigned char)*text) * 0x100000001b3;
	return seed;
}

uint64_t tree_ino(const struct node *parent, const char *name)
{
	size_t fixed = find_fixed(parent, name);
	uint64_t ino;

	if (fixed != NODE_ROOT)
		return FUSE_ROOT_ID + fixed;
	ino = hash(hash(parent->ino * 0x9e3779b97f4a7c15, "/"), name);
	/* small numbers are the fixed nodes', 0 is no inode at all */
	return ino | (uint64_t)1 << 63;
}

struct tree *tree_new(void)
{
	size_t count = NODE_CONTROL_FILE + control_file_count;
	struct tree *tree =
		calloc(1, sizeof(*tree) + count * sizeof(tree->fixed[0]));

	if (!tree)
		return NULL;
	pthread_mutex_init(&tree->lock, NULL);
	tree->fixed_count = count;
	for (size_t i = 0; i < count; i++) {
		struct node *node = &tree->fixed[i];

		node->kind = (enum node_kind)i;
		node->name = node->key = "";
		node->ino = FUSE_ROOT_ID + i;
		if (i < NODE_CONTROL_FILE)
			continue;
		node->kind = NODE_CONTROL_FILE;
		node->control = &control_files[i - NODE_CONTROL_FILE];
		node->name = node->control->name;
	}
	return tree;
}

static void nothing(void *unused)
{
	(void)unused;
}

/* No release comes any more for what was open when the mount went away. */
static void close_all(struct node *node)
{
	while (node->handles) {
		struct handle *handle = node->handles;

		node->handles = handle->newer;
		handle_unref(handle);
	}
}

void tree_free(struct tree *tree)
{
	if (!tree)
		return;
	tdestroy(tree->cells, nothing);
	for (size_t i = 0; i < tree->fixed_count; i++)
		close_all(&tree->fixed[i]);
	while (tree->nodes) {
		struct node *node = tree->nodes;

		tree->nodes = node->next;
		close_all(node);
		free(node);
	}
	pthread_mutex_destroy(&tree->lock);
	free(tree);
}

struct node *tree_node(struct tree *tree, fuse_ino_t id)
{
	if (id < FUSE_ROOT_ID + tree->fixed_count)
		return &tree->fixed[id - FUSE_ROOT_ID];
	return (struct node *)(uintptr_t)id;
}

fuse_ino_t tree_id(const struct tree *tree, const struct node *node)
{
	if (node >= tree->fixed && node < tree->fixed + tree->fixed_count)
		return FUSE_ROOT_ID + (fuse_ino_t)(node - tree->fixed);
	return (fuse_ino_t)(uintptr_t)node;
}

bool node_is_record(const struct node *node)
{
	return node->kind == NODE_OWN || node->kind == NODE_LEASE;
}

bool node_is_directory(const struct node *node)
{
	return !node_is_record(node) && node->kind != NODE_CONTROL_FILE;
}

static int verdict_errno(enum name_verdict verdict, int invalid)
{
	switch (verdict) {
	case NAME_VALID:
		return 0;
	case NAME_TOO_LONG:
		return ENAMETOOLONG;
	case NAME_INVALID:
		break;
	}
	return invalid;
}

int tree_resolve(const struct node *parent, const char *name,
		 enum node_kind *kind)
{
	size_t fixed;

	switch (parent->kind) {
	case NODE_ROOT:
	case NODE_CONTROL:
		fixed = find_fixed(parent, name);
		if (fixed == NODE_ROOT)
			return ENOENT;
		*kind = fixed < NODE_CONTROL_FILE ? (enum node_kind)fixed
						  : NODE_CONTROL_FILE;
		return 0;
	case NODE_CELLS:
		*kind = NODE_CELL;
		return verdict_errno(name_cell(name, strlen(name)), ENOENT);
	case NODE_NODES:
		*kind = NODE_LEASE;
		return verdict_errno(name_node(name, strlen(name)), ENOENT);
	case NODE_CELL:
		*kind = NODE_OWN;
		return strcmp(name, "own") == 0 ? 0 : ENOENT;
	case NODE_CONTROL_FILE:
	case NODE_OWN:
	case NODE_LEASE:
		break;
	}
	return ENOTDIR;
}

int tree_may_create(const struct node *parent, const char *name)
{
	if (parent->kind == NODE_NODES)
		return verdict_errno(name_node(name, strlen(name)), EINVAL);
	if (parent->kind == NODE_CELL && strcmp(name, "own") == 0)
		return 0;
	return EPERM;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct node *)a)->name,
		      ((const struct node *)b)->name);
}

/* Name and key lie behind the struct, in the same allocation. */
static struct node *node_new(const struct node *parent, const char *name,
			     enum node_kind kind)
{
	const char *own_name = kind == NODE_OWN ? parent->name : name;
	size_t name_size = strlen(own_name) + 1;
	char key[NAME_KEY_SIZE] = "";
	struct node *node;
	char *texts;

	if (kind == NODE_OWN)
		name_own_key(key, own_name);
	if (kind == NODE_LEASE)
		name_lease_key(key, own_name);
	node = calloc(1, sizeof(*node) + name_size + strlen(key) + 1);
	if (!node)
		return NULL;
	texts = (char *)(node + 1);
	node->kind = kind;
	node->name = memcpy(texts, own_name, name_size);
	node->key = memcpy(texts + name_size, key, strlen(key) + 1);
	node->ino = tree_ino(parent, name);
	return node;
}

static void link_node(struct tree *tree, struct node *node)
{
	node->next = tree->nodes;
	if (node->next)
		node->next->prev = node;
	tree->nodes = node;
}

/* ---- spare nodes; under the lock ---- */

static struct node **spare_at(struct tree *tree, const struct node *node)
{
	return &tree->spare[node->ino % SPARE_COUNT];
}

static void lay_by(struct tree *tree, struct node *node)
{
	struct node **at = spare_at(tree, node);

	if (*at)
		(*at)->spare = false;
	*at = node;
	node->spare = true;
}

static void take_away(struct tree *tree, struct node *node)
{
	if (node->spare)
		*spare_at(tree, node) = NULL;
	node->spare = false;
}

/* The spare node that is like NODE in all but its lookups, or NULL. */
static struct node *take_like(struct tree *tree, const struct node *node)
{
	struct node *spare = *spare_at(tree, node);

	if (!spare || spare->kind != node->kind ||
	    strcmp(spare->key, node->key) != 0)
		return NULL;
	take_away(tree, spare);
	return spare;
}

/* ---- lookups ---- */

struct node *tree_look_up(struct tree *tree, const struct node *parent,
			  const char *name, enum node_kind kind)
{
	struct node *node, *spare;

	if (kind <= NODE_CONTROL_FILE)
		return &tree->fixed[find_fixed(parent, name)];
	node = node_new(parent, name, kind);
	if (!node)
		return NULL;
	pthread_mutex_lock(&tree->lock);
	if (kind == NODE_CELL) {
		struct node **found =
			tsearch(node, &tree->cells, compare_names);

		if (!found || *found != node) {
			free(node);
			node = found ? *found : NULL;
		} else {
			link_node(tree, node);
		}
	} else {
		spare = take_like(tree, node);
		if (spare) {
			free(node);
			node = spare;
		} else {
			link_node(tree, node);
		}
	}
	if (node)
		node->lookups++;
	pthread_mutex_unlock(&tree->lock);
	return node;
}

void tree_forget(struct tree *tree, struct node *node, uint64_t count)
{
	if (node->kind <= NODE_CONTROL_FILE)
		return;
	pthread_mutex_lock(&tree->lock);
	node->lookups -= count < node->lookups ? count : node->lookups;
	if (node->lookups == 0) {
		take_away(tree, node);
		if (node->kind == NODE_CELL)
			tdelete(node, &tree->cells, compare_names);
		if (node->prev)
			node->prev->next = node->next;
		else
			tree->nodes = node->next;
		if (node->next)
			node->next->prev = node->prev;
		free(node);
	}
	pthread_mutex_unlock(&tree->lock);
}

void tree_attach(struct tree *tree, struct node *node, struct handle *handle)
{
	struct handle **at = &node->handles;

	pthread_mutex_lock(&tree->lock);
	take_away(tree, node);
	while (*at)
		at = &(*at)->newer;
	*at = handle;
	pthread_mutex_unlock(&tree->lock);
}

void tree_detach(struct tree *tree, struct node *node, struct handle *handle)
{
	struct handle **at = &node->handles;

	pthread_mutex_lock(&tree->lock);
	while (*at && *at != handle)
		at = &(*at)->newer;
	if (*at)
		*at = handle->newer;
	if (!node->handles && node_is_record(node))
		lay_by(tree, node);
	pthread_mutex_unlock(&tree->lock);
}

struct handle *tree_handle(struct tree *tree, struct node *node)
{
	struct handle *handle;

	pthread_mutex_lock(&tree->lock);
	handle = node->handles;
	if (handle)
		handle_ref(handle);
	pthread_mutex_unlock(&tree->lock);
	return handle;
}
