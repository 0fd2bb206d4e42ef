/* s3_list: a listing over several pages: where it is, and whether it moves on.
 * Pure.
 *
 * Invariants:
 * 1. A page is handed out as a whole, or not at all.
 * 2. A listing ends: a token that comes again, names that go back and
 *    S3_EMPTY_PAGES_MAX pages without a name are FAILED. A page without names but
 *    with a new token is legal.
 */
#ifndef CELLDFS_S3_LIST_H
#define CELLDFS_S3_LIST_H

#include "s3_xml.h"

#define S3_EMPTY_PAGES_MAX 100

/* Between two pages this is a text in the caller's struct buf *after. */
struct s3_place {
	unsigned empty_pages; /* in a row */
	char last[S3_KEY_MAX + 2]; /* the last name, a directory's with "/" */
	char token[S3_TOKEN_MAX];  /* of the next page; "" = from the start */
};

/* Reads PLACE from AFTER. OK; FAILED: it is none. */
enum outcome s3_place_read(struct s3_place *place,
			   const struct buf *after) MUST_CHECK;

/* Takes in the page that was asked for with PREFIX at PLACE, hands its names to
 * FN, and sets AFTER to where the next page starts ("" at the end). OK; FAILED
 * with REASON; what FN returned; NO_MEMORY. */
enum outcome s3_list_take(const char *xml, size_t len, const char *prefix,
			  struct s3_place *place, struct buf *after,
			  list_fn *fn, void *arg,
			  struct reason *reason) MUST_CHECK;

#endif
