/* json: a strict reader of JSON text: is it valid, and where are its parts? And
 * the one thing that takes care in writing it: a string.
 *
 * Pure; reading allocates nothing, and every result points into the caller's
 * bytes.
 *
 * Invariants:
 * 1. What json_check() accepts is RFC 8259 grammar in valid UTF-8 (no BOM, no
 *    surrogates, no overlong forms), and no string in it holds a NUL, raw or
 *    as \u0000, which would cut it short in C.
 * 2. Any input is judged in linear time and with bounded stack.
 *
 * It does not decode values and does not look for duplicate keys.
 */
#ifndef CELLDFS_JSON_H
#define CELLDFS_JSON_H

#include "buf.h"

#include <stdbool.h>
#include <stddef.h>

struct json_text {
	const char *bytes;
	size_t len; /* 0 = there is none */
};

enum json_kind {
	JSON_OBJECT,
	JSON_ARRAY,
	JSON_STRING,
	JSON_NUMBER,
	JSON_BOOL,
	JSON_NULL,
};

struct json_error {
	size_t offset;	  /* of the bad byte, from 0; the length = at the end */
	const char *what; /* static text: what is wrong there */
};

struct json_member {
	struct json_text key;	/* quotes included */
	struct json_text value; /* without white space around it */
};

enum json_match {
	JSON_MATCH_NO,
	JSON_MATCH_YES,
	JSON_MATCH_CASE, /* only to a parser that ignores case */
};

/* Where json_next() is in an object. */
struct json_cursor {
	struct json_text rest;
};

/* The four bytes of white space of RFC 8259. */
bool json_is_space(char c);

/* Is TEXT one JSON value, nested at most DEPTH_MAX deep (an object of numbers
 * is 1 deep)? If so VALUE is it, without the white space around; if not, ERROR
 * says what is wrong. DEPTH_MAX bounds the stack: keep it small. */
bool json_check(struct json_text text, unsigned depth_max,
		struct json_text *value, struct json_error *error);

/* The kind of a value that json_check() or json_next() gave. */
enum json_kind json_kind(struct json_text value);

/* Walks the members of OBJECT, in their order; OBJECT has passed json_check().
 * False: there are no more. */
struct json_cursor json_members(struct json_text object);
bool json_next(struct json_cursor *cursor, struct json_member *member);

/* Is KEY, as json_next() gave it, NAME once its escapes are decoded? NAME is
 * ASCII, and in lower case if JSON_MATCH_CASE matters. */
enum json_match json_match_key(struct json_text key, const char *name);

/* How many bytes the UTF-8 character has that TEXT begins with; 0: it begins
 * with none. */
size_t json_char_len(struct json_text text);

/* Appends TEXT to OUT as a JSON string, quotes included, which passes
 * json_check() and is one line whatever TEXT is: a byte that is not UTF-8
 * becomes U+FFFD, and what some programs take for a control or for the end of a
 * line is escaped. OK, TOO_LARGE, NO_MEMORY: a part of it may be there. */
enum outcome json_quote(struct buf *out, const char *text) MUST_CHECK;

#endif
