#include "name.h"

#include <stdio.h>
#include <string.h>

#define JSON_SUFFIX ".json"

static bool is_common_byte(char c)
{
	/* Not isalnum(): that one asks the locale. */
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

static enum name_verdict judge(const char *name, size_t len, size_t max,
			       bool is_cell)
{
	if (len > max)
		return NAME_TOO_LONG;
	if (len == 0 || (len == 1 && name[0] == '.') ||
	    (len == 2 && name[0] == '.' && name[1] == '.'))
		return NAME_INVALID;
	for (size_t i = 0; i < len; i++) {
		if (is_common_byte(name[i]))
			continue;
		if (!is_cell || (name[i] != ':' && name[i] != '$'))
			return NAME_INVALID;
	}
	return NAME_VALID;
}

enum name_verdict name_cell(const char *name, size_t len)
{
	return judge(name, len, NAME_CELL_MAX, true);
}

enum name_verdict name_node(const char *name, size_t len)
{
	return judge(name, len, NAME_NODE_MAX, false);
}

void name_own_key(char key[NAME_KEY_SIZE], const char *cell)
{
	snprintf(key, NAME_KEY_SIZE, NAME_CELLS_PREFIX "%.*s/own" JSON_SUFFIX,
		 NAME_CELL_MAX, cell);
}

void name_lease_key(char key[NAME_KEY_SIZE], const char *node)
{
	snprintf(key, NAME_KEY_SIZE, NAME_NODES_PREFIX "%.*s" JSON_SUFFIX,
		 NAME_NODE_MAX, node);
}

bool name_lease_of(const char *object, char node[NAME_NODE_MAX + 1])
{
	size_t suffix = strlen(JSON_SUFFIX);
	size_t len = strlen(object);

	if (len < suffix || strcmp(object + len - suffix, JSON_SUFFIX) != 0)
		return false;
	len -= suffix;
	if (name_node(object, len) != NAME_VALID)
		return false;
	memcpy(node, object, len);
	node[len] = '\0';
	return true;
}
