/* Names of cells and nodes, their keys, and back. */
#include "name.h"

#include "check.h"

static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			      "abcdefghijklmnopqrstuvwxyz0123456789_-.";

static void every_byte_in_every_place(void)
{
	for (int c = 0; c < 256; c++) {
		int node = c != 0 && strchr(allowed, c) != NULL;
		int cell = node || c == ':' || c == '$';

		for (int at = 0; at < 3; at++) {
			char name[3] = {'a', 'b', 'c'};

			name[at] = (char)c;
			CHECK_EQ(name_cell(name, 3),
				 cell ? NAME_VALID : NAME_INVALID);
			CHECK_EQ(name_node(name, 3),
				 node ? NAME_VALID : NAME_INVALID);
		}
	}
}

static void dots(void)
{
	static const struct {
		const char *name;
		enum name_verdict want;
	} cases[] = {
		{"", NAME_INVALID},    {".", NAME_INVALID},
		{"..", NAME_INVALID},  {"...", NAME_VALID},
		{".a", NAME_VALID},    {"a.", NAME_VALID},
		{"..a", NAME_VALID},   {".-", NAME_VALID},
		{"a", NAME_VALID},     {"-", NAME_VALID},
		{"a/b", NAME_INVALID},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *name = cases[i].name;

		CHECK_EQ(name_cell(name, strlen(name)), cases[i].want);
		CHECK_EQ(name_node(name, strlen(name)), cases[i].want);
	}
}

static void lengths(void)
{
	char name[300];

	for (size_t len = 1; len <= sizeof(name); len++) {
		memset(name, 'x', sizeof(name));
		CHECK_EQ(name_cell(name, len),
			 len <= 255 ? NAME_VALID : NAME_TOO_LONG);
		CHECK_EQ(name_node(name, len),
			 len <= 128 ? NAME_VALID : NAME_TOO_LONG);
		name[len - 1] = '/';
		CHECK_EQ(name_cell(name, len),
			 len <= 255 ? NAME_INVALID : NAME_TOO_LONG);
		CHECK_EQ(name_node(name, len),
			 len <= 128 ? NAME_INVALID : NAME_TOO_LONG);
	}
}

static void a_nul_counts_as_a_byte(void)
{
	CHECK_EQ(name_cell("a\0b", 3), NAME_INVALID);
	CHECK_EQ(name_node("a\0", 2), NAME_INVALID);
	CHECK_EQ(name_cell("ab/", 2), NAME_VALID); /* only LEN bytes count */
}

static void keys(void)
{
	char key[NAME_KEY_SIZE];

	name_own_key(key, "a:b$1");
	CHECK_STR(key, "cells/a:b$1/own.json");
	name_lease_key(key, "n1");
	CHECK_STR(key, "nodes/n1.json");
	name_lease_key(key, "n1.json");
	CHECK_STR(key, "nodes/n1.json.json");
}

static void the_longest_names_fit_whole(void)
{
	char cell[NAME_CELL_MAX + 1], node[NAME_NODE_MAX + 1];
	char key[NAME_KEY_SIZE];

	memset(cell, 'c', NAME_CELL_MAX);
	cell[NAME_CELL_MAX] = '\0';
	name_own_key(key, cell);
	CHECK_EQ(strlen(key), NAME_KEY_SIZE - 1);
	CHECK_STR(key + 6 + NAME_CELL_MAX, "/own.json");
	memset(node, 'n', NAME_NODE_MAX);
	node[NAME_NODE_MAX] = '\0';
	name_lease_key(key, node);
	CHECK_EQ(strlen(key), 6 + NAME_NODE_MAX + 5);
	CHECK_STR(key + 6 + NAME_NODE_MAX, ".json");
}

static void leases_by_object_name(void)
{
	static const struct {
		const char *object;
		const char *node; /* NULL = no lease */
	} cases[] = {
		{"n1.json", "n1"},
		{"n1.json.json", "n1.json"},
		{"a.b-c_D.json", "a.b-c_D"},
		{"....json", "..."},
		{"", NULL},
		{"n1", NULL},
		{"json", NULL},
		{".json", NULL},
		{"..json", NULL},
		{"...json", NULL},
		{"n1.JSON", NULL},
		{"n1.json ", NULL},
		{"n:1.json", NULL},
		{"n 1.json", NULL},
		{"n1xjson", NULL},
		{"a/b.json", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char node[NAME_NODE_MAX + 1] = "";

		CHECK_EQ(name_lease_of(cases[i].object, node),
			 cases[i].node != NULL);
		if (cases[i].node)
			CHECK_STR(node, cases[i].node);
	}
}

static void lease_names_of_every_length(void)
{
	for (size_t len = 1; len < 200; len++) {
		char object[256], node[NAME_NODE_MAX + 1];

		memset(object, 'n', len);
		memcpy(object + len, ".json", 6);
		CHECK_EQ(name_lease_of(object, node), len <= NAME_NODE_MAX);
		if (len <= NAME_NODE_MAX)
			CHECK_EQ(strlen(node), len);
	}
}

int main(void)
{
	RUN(every_byte_in_every_place);
	RUN(dots);
	RUN(lengths);
	RUN(a_nul_counts_as_a_byte);
	RUN(keys);
	RUN(the_longest_names_fit_whole);
	RUN(leases_by_object_name);
	RUN(lease_names_of_every_length);
	return 0;
}
