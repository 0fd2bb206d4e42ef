#include "tree.h"

#include "handle.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define FIXED_COUNT (NODE_STATUS + 1)

struct tree {
	pthread_mutex_t lock; /* guards the nodes as their fields say, and: */
	struct node fixed[FIXED_COUNT];
	struct node *nodes; /* all others */
	void *cells;	    /* NODE_CELL by name (tsearch) */
};

static const struct {
	enum node_kind kind, parent;
	const char *name;
} fixed_names[] = {
	{NODE_CELLS, NODE_ROOT, "cells"},
	{NODE_NODES, NODE_ROOT, "nodes"},
	{NODE_CONTROL, NODE_ROOT, ".celldfs"},
	{NODE_STATUS, NODE_CONTROL, "status"},
};

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
	uint64_t ino;

	if (parent->kind == NODE_ROOT || parent->kind == NODE_CONTROL)
		for (size_t i = 0;
		     i < sizeof(fixed_names) / sizeof(*fixed_names); i++)
			if (parent->kind == fixed_names[i].parent &&
			    strcmp(name, fixed_names[i].name) == 0)
				return FUSE_ROOT_ID + fixed_names[i].kind;
	ino = hash(hash(parent->ino * 0x9e3779b97f4a7c15, "/"), name);
	/* small numbers are the fixed nodes', 0 is no inode at all */
	return ino | (uint64_t)1 << 63;
}

struct tree *tree_new(void)
{
	struct tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return NULL;
	pthread_mutex_init(&tree->lock, NULL);
	for (size_t i = 0; i < FIXED_COUNT; i++) {
		tree->fixed[i].kind = (enum node_kind)i;
		tree->fixed[i].name = tree->fixed[i].key = "";
		tree->fixed[i].ino = FUSE_ROOT_ID + i;
	}
	return tree;
}

static void nothing(void *unused)
{
	(void)unused;
}

void tree_free(struct tree *tree)
{
	if (!tree)
		return;
	tdestroy(tree->cells, nothing);
	while (tree->nodes) {
		struct node *node = tree->nodes;

		tree->nodes = node->next;
		free(node);
	}
	pthread_mutex_destroy(&tree->lock);
	free(tree);
}

struct node *tree_node(struct tree *tree, fuse_ino_t id)
{
	if (id < FUSE_ROOT_ID + FIXED_COUNT)
		return &tree->fixed[id - FUSE_ROOT_ID];
	return (struct node *)(uintptr_t)id;
}

fuse_ino_t tree_id(const struct tree *tree, const struct node *node)
{
	if (node >= tree->fixed && node < tree->fixed + FIXED_COUNT)
		return FUSE_ROOT_ID + (fuse_ino_t)(node - tree->fixed);
	return (fuse_ino_t)(uintptr_t)node;
}

bool node_is_record(const struct node *node)
{
	return node->kind == NODE_OWN || node->kind == NODE_LEASE;
}

bool node_is_directory(const struct node *node)
{
	return !node_is_record(node) && node->kind != NODE_STATUS;
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
	switch (parent->kind) {
	case NODE_ROOT:
	case NODE_CONTROL:
		for (size_t i = 0;
		     i < sizeof(fixed_names) / sizeof(*fixed_names); i++)
			if (parent->kind == fixed_names[i].parent &&
			    strcmp(name, fixed_names[i].name) == 0) {
				*kind = fixed_names[i].kind;
				return 0;
			}
		return ENOENT;
	case NODE_CELLS:
		*kind = NODE_CELL;
		return verdict_errno(name_cell(name, strlen(name)), ENOENT);
	case NODE_NODES:
		*kind = NODE_LEASE;
		return verdict_errno(name_node(name, strlen(name)), ENOENT);
	case NODE_CELL:
		*kind = NODE_OWN;
		return strcmp(name, "own") == 0 ? 0 : ENOENT;
	case NODE_STATUS:
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

struct node *tree_look_up(struct tree *tree, const struct node *parent,
			  const char *name, enum node_kind kind)
{
	struct node *node;

	if (kind < FIXED_COUNT)
		return &tree->fixed[kind];
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
		link_node(tree, node);
	}
	if (node)
		node->lookups++;
	pthread_mutex_unlock(&tree->lock);
	return node;
}

void tree_forget(struct tree *tree, struct node *node, uint64_t count)
{
	if (node->kind < FIXED_COUNT)
		return;
	pthread_mutex_lock(&tree->lock);
	node->lookups -= count < node->lookups ? count : node->lookups;
	if (node->lookups == 0) {
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
