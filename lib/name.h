/* name: which names cells and nodes may have, and the keys they map to.
 *
 * Source: celldfs.8, LIMITS and "The tree"; celld's own rules. Pure.
 */
#ifndef CELLDFS_NAME_H
#define CELLDFS_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define NAME_CELL_MAX 255
#define NAME_NODE_MAX 128
/* "cells/" + cell + "/own.json" + NUL */
#define NAME_KEY_SIZE (6 + NAME_CELL_MAX + 9 + 1)

#define NAME_CELLS_PREFIX "cells/"
#define NAME_NODES_PREFIX "nodes/"
#define NAME_PROBE_PREFIX "probe/"

enum name_verdict { NAME_VALID, NAME_INVALID, NAME_TOO_LONG };

/* Judges a cell's name: 1-255 bytes of A-Z a-z 0-9 _ - . : $, not "." or "..".
 * A name that is too long and also has a forbidden byte is TOO_LONG. */
enum name_verdict name_cell(const char *name, size_t len);

/* Judges a node's name: 1-128 bytes of A-Z a-z 0-9 _ - ., not "." or "..". */
enum name_verdict name_node(const char *name, size_t len);

/* Write the key of a record into KEY. NAME must be valid. */
void name_own_key(char key[NAME_KEY_SIZE], const char *cell);
void name_lease_key(char key[NAME_KEY_SIZE], const char *node);

/* For an object's name below "nodes/" ("n1.json"): true and its node in NODE
 * if it is the lease of a validly named node. */
bool name_lease_of(const char *object, char node[NAME_NODE_MAX + 1]);

#endif
