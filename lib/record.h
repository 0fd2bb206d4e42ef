/* record: the two kinds of records: is it one, what does it say, change a field
 * and keep the rest.
 *
 * Source: celldfs.8, RECORDS, "Rules", 1; celld's formats. Pure: no I/O, no
 * clock.
 *
 * Invariants:
 * 1. What record_parse_*() accept, every JSON parser reads in the same way:
 *    RFC 8259 grammar, UTF-8 without BOM, no known key twice or in another
 *    case, no NUL in a string, known integers exact unsigned 64-bit, nesting
 *    at most 32.
 * 2. Editing changes the bytes of the named value and no others.
 *
 * It does not judge whether a record may replace another: that is ownership.h.
 */
#ifndef CELLDFS_RECORD_H
#define CELLDFS_RECORD_H

#include "buf.h"
#include "name.h"
#include "outcome.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_WRITE_MAX (64 * 1024)   /* bytes; a longer write is EFBIG */
#define RECORD_READ_MAX (1024 * 1024)  /* bytes; a longer object is EFBIG */
#define RECORD_DEPTH_MAX 32

/* cells/<cell>/own.json */
struct own {
	char node[NAME_NODE_MAX + 1]; /* "" = released */
	uint64_t epoch;
};

/* The node's shipping log, as far as a takeover depends on it. */
enum lease_log {
	LEASE_LOG_NONE,	      /* absent or null */
	LEASE_LOG_SEALED,     /* complete and "sealed" */
	LEASE_LOG_OPEN,	      /* acknowledged writes may not be in the bucket */
	LEASE_LOG_RECOVERING,
	LEASE_LOG_UNKNOWN,    /* another state, or a required field missing */
};

/* nodes/<node>.json */
struct lease {
	char node[NAME_NODE_MAX + 1];
	uint64_t expires_ms;  /* fleet time; 0 = tombstone */
	char addr[256];	      /* "" if absent; cut if longer */
	char generation[128]; /* ownership_index_generation; cut if longer */
	enum lease_log log;
	bool has_load;		 /* these two: record_parse_load() */
	uint64_t resident_cells; /* 0 without a load */
};

/* Read and judge a whole object. OK, or INVALID with REASON naming the field
 * and the byte; NO_MEMORY. A "log" must be absent, null or an object (an
 * incomplete or unknown one is LEASE_LOG_UNKNOWN, not an error). Node names
 * must be valid (own: or ""). A lease's "load" is not looked at: that is rule
 * 5's, and record_parse_load()'s. */
enum outcome record_parse_own(struct own *own, const char *bytes, size_t len,
			      struct reason *reason) MUST_CHECK;
enum outcome record_parse_lease(struct lease *lease, const char *bytes,
				size_t len, struct reason *reason) MUST_CHECK;

/* Reads the "load" of what record_parse_lease() has accepted into LEASE. It
 * must be absent or whole: half of one breaks celld's peer listing. OK, INVALID
 * with REASON, NO_MEMORY. */
enum outcome record_parse_load(struct lease *lease, const char *bytes,
			       size_t len, struct reason *reason) MUST_CHECK;

/* Replaces the value of the top-level FIELD by the JSON text VALUE, or adds the
 * field at the end, in RECORD, which must be a valid JSON object. Everything
 * else stays byte for byte. INVALID (not an object), TOO_LARGE, NO_MEMORY. */
enum outcome record_edit(struct buf *record, const char *field,
			 const char *value) MUST_CHECK;

/* Finds where one JSON object ends, byte by byte, over any number of writes.
 * It knows strings and nesting and nothing else: what it calls complete still
 * has to pass record_parse_*(). Zeroed = at the start. */
struct record_scan {
	unsigned depth;
	bool started, in_string, escaped;
};

enum record_scan_result {
	RECORD_MORE,	 /* no end yet */
	RECORD_COMPLETE, /* *END bytes of this piece belong to the object */
	RECORD_BROKEN,	 /* cannot become an object; *END is the bad byte */
};

enum record_scan_result record_scan(struct record_scan *scan,
				    const char *bytes, size_t len,
				    size_t *end);

/* JSON white space only (also: nothing at all)? */
bool record_is_blank(const char *bytes, size_t len);

#endif
