/* tree: which node a lookup of a record gets. */
#include "tree.h"

#include "check.h"
#include "handle.h"
#include "mount.h"

#include <fcntl.h>

static struct mount mount;
static struct node *cell;

static struct node *look_up(void)
{
	return tree_look_up(mount.tree, cell, "own", NODE_OWN);
}

/* In a new tree. */
static struct node *first_look_up(void)
{
	tree_free(mount.tree);
	mount.tree = tree_new();
	cell = tree_look_up(mount.tree, tree_node(mount.tree, 2), "x",
			    NODE_CELL);
	return look_up();
}

static struct handle *open_at(struct node *node)
{
	struct handle *handle = handle_new(&mount, node, O_RDONLY, false);

	CHECK(handle != NULL);
	return handle;
}

static void open_files_have_a_node_each(void)
{
	struct node *a = first_look_up(), *b = look_up(), *c;
	struct handle *on_a = open_at(a), *on_b;

	CHECK(a != b);
	CHECK(a->ino == b->ino);
	c = look_up();
	CHECK(c != a && c != b);
	on_b = open_at(b);
	CHECK(tree_handle(mount.tree, a) == on_a);
	handle_unref(on_a);
	CHECK(tree_handle(mount.tree, c) == NULL);
	handle_close(&mount, on_a);
	handle_close(&mount, on_b);
}

static void a_closed_file_leaves_its_node(void)
{
	struct node *a = first_look_up(), *b;
	struct handle *on_a = open_at(a);

	handle_close(&mount, on_a);
	CHECK(look_up() == a);
	CHECK_EQ(a->lookups, 2);
	/* it is going to be opened: nobody else's until then, and then neither
	 */
	b = look_up();
	CHECK(b != a);
	on_a = open_at(a);
	CHECK(look_up() != a);
	handle_close(&mount, on_a);
	CHECK(look_up() == a);
}

static void a_node_is_spare_when_its_last_file_is_closed(void)
{
	struct node *a = first_look_up();
	struct handle *first = open_at(a), *second = open_at(a);

	handle_close(&mount, first);
	CHECK(look_up() != a);
	handle_close(&mount, second);
	/* by /proc/PID/fd of one who has only looked at it */
	first = open_at(a);
	CHECK(look_up() != a);
	handle_close(&mount, first);
	CHECK(look_up() == a);
}

static void a_forgotten_node_is_not_spare(void)
{
	struct node *a = first_look_up();

	handle_close(&mount, open_at(a));
	tree_forget(mount.tree, a, 1);
	a = look_up(); /* valgrind would tell */
	CHECK_EQ(a->lookups, 1);
}

static void the_last_one_is_spare(void)
{
	struct node *a = first_look_up(), *b = look_up();
	struct handle *on_a = open_at(a), *on_b = open_at(b);

	handle_close(&mount, on_a);
	handle_close(&mount, on_b);
	tree_forget(mount.tree, a, 1);
	CHECK(look_up() == b);
}

static void records_do_not_mix(void)
{
	struct node *own = first_look_up(), *nodes = tree_node(mount.tree, 3);
	struct node *others[3000];

	handle_close(&mount, open_at(own));
	for (size_t i = 0; i < 3000; i++) {
		char name[16];

		snprintf(name, sizeof(name), "n%zu", i);
		others[i] = tree_look_up(mount.tree, nodes, name, NODE_LEASE);
		CHECK_STR(others[i]->name, name);
		handle_close(&mount, open_at(others[i]));
	}
	CHECK(tree_look_up(mount.tree, nodes, "n2999", NODE_LEASE) ==
	      others[2999]);
	for (size_t i = 0; i < 2999; i++)
		CHECK(tree_look_up(mount.tree, nodes, "n2999", NODE_LEASE) !=
		      others[i]);
}

/* LeakSanitizer judges this one. */
static void what_is_open_at_the_end_is_freed(void)
{
	struct node *a = first_look_up();

	CHECK(open_at(a) != NULL);
	CHECK(open_at(a) != NULL);
	CHECK(open_at(tree_node(mount.tree, FUSE_ROOT_ID)) != NULL);
	tree_free(mount.tree);
	mount.tree = NULL;
}

int main(void)
{
	RUN(open_files_have_a_node_each);
	RUN(a_closed_file_leaves_its_node);
	RUN(a_node_is_spare_when_its_last_file_is_closed);
	RUN(a_forgotten_node_is_not_spare);
	RUN(the_last_one_is_spare);
	RUN(records_do_not_mix);
	RUN(what_is_open_at_the_end_is_freed);
	tree_free(mount.tree);
	return 0;
}
