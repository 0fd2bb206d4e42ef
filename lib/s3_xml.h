/* s3_xml: what an S3 store says in XML: a page of a listing, an error. Pure.
 *
 * Source: Amazon S3 API Reference, ListObjectsV2 and "Error responses".
 *
 * Invariants:
 * 1. A page that is cut, malformed or contradicts itself is FAILED as a whole:
 *    no entry of it is handed out.
 * 2. No name of a page has a slash in it. A store that ignores the delimiter
 *    lists keys where directories should be: FAILED, not skipped as keys that
 *    are no names, for the cells would be missing.
 * 3. No document type, no external entity is read; nesting and the length of
 *    every text are capped.
 */
#ifndef CELLDFS_S3_XML_H
#define CELLDFS_S3_XML_H

#include "store.h"

#define S3_KEY_MAX 1024 /* bytes of a key, decoded */
#define S3_TOKEN_MAX 2048

/* One name of a page, in the order of the store. */
struct s3_name {
	char *name; /* below the prefix, without a final slash; owned */
	bool directory;
	uint64_t size_bytes;
	int64_t modified_ms;
};

struct s3_page {
	struct s3_name *names; /* sorted by key */
	size_t count;
	unsigned foreign;     /* keys that do not lie below the prefix or are
			       * too long to be any */
	bool truncated;
	char next[S3_TOKEN_MAX]; /* "" unless truncated */
};

/* Parses a ListBucketResult that was asked for with PREFIX, delimiter "/" and
 * encoding-type=url. OK; FAILED with REASON; NO_MEMORY. PAGE is released by the
 * caller in any case. */
enum outcome s3_page_parse(struct s3_page *page, const char *prefix,
			   const char *xml, size_t len,
			   struct reason *reason) MUST_CHECK;
void s3_page_release(struct s3_page *page);

/* What an Error document says; "" for what it does not. */
struct s3_error {
	char code[80];
	char message[160];
	char region[64];
};

/* Never fails: what is no Error document says nothing. */
void s3_error_parse(struct s3_error *error, const char *xml, size_t len);

#endif
