/* store: the bucket, behind one struct of functions.
 *
 * A store keeps objects under keys, gives each version an ETag, and writes only
 * under a guard. What is above this interface neither knows nor asks which
 * store it is. A new store is one module with one open function and one row in
 * the table of store.c.
 *
 * Invariants that every store keeps:
 * 1. put_if() either applies the whole body under the guard, or nothing.
 * 2. put_if() sends one request; it never repeats one by itself.
 * 3. put_if() returns REJECTED, NOT_DONE, DENIED, TIMEOUT, INTERRUPTED, FAILED
 *    or NO_MEMORY only if this request did not and will not change anything;
 *    whatever might have is UNKNOWN.
 * 4. No call outlasts its limits by more than a second.
 * 5. All functions may be called from any thread at once.
 */
#ifndef CELLDFS_STORE_H
#define CELLDFS_STORE_H

#include "buf.h"
#include "fleet.h"
#include "guard.h"
#include "outcome.h"
#include "stop.h"

#include <stdbool.h>
#include <stdint.h>

/* 128 random bits in hex: which write an object's version came from. The same
 * over all resends of one write. */
#define ATTEMPT_SIZE 33
struct attempt {
	char hex[ATTEMPT_SIZE]; /* "" = none recorded */
};

/* A fresh attempt id. FAILED if the kernel gives no random bytes. */
enum outcome attempt_new(struct attempt *attempt) MUST_CHECK;

/* One version of an object. */
struct object {
	struct buf body;      /* cap: RECORD_READ_MAX */
	char etag[ETAG_SIZE]; /* as the store sent it; "" = it sent none */
	struct attempt attempt;
	int64_t modified_ms;  /* Last-Modified, since 1970 */
};

void object_init(struct object *object);
void object_release(struct object *object);

/* What the store said, for logs and user.celld.outcome. */
struct answer {
	int status;	      /* an HTTP status, or what would be one (the embedded
			       * store speaks so, too); 0: there was no answer */
	char request_id[64];  /* "" where there is none */
	int64_t wait_ms;      /* NOT_DONE: do not try again before; 0 = free */
	struct reason reason; /* "" when there is nothing to say */
};

/* One name of a listing. */
struct list_entry {
	const char *name;    /* below the prefix, without a final slash */
	bool directory;	     /* there are keys below NAME/; else an object */
	uint64_t size_bytes; /* objects only */
	int64_t modified_ms; /* objects only */
};

#define LIST_PAGE_MAX 1000

/* Called once per name, in key order. Not OK ends the page with that. */
typedef enum outcome list_fn(void *arg, const struct list_entry *entry);

struct store;

struct store_ops {
	/* Reads KEY into OBJECT (initialised; replaced as a whole). KNOWN is an
	 * ETag or NULL. OK; UNCHANGED (KNOWN is still its ETag); ABSENT;
	 * TOO_LARGE; DENIED; NOT_DONE; TIMEOUT; INTERRUPTED; FAILED;
	 * NO_MEMORY. */
	enum outcome (*get)(struct store *store, const struct limits *limits,
			    const char *key, const char *known,
			    struct object *object, struct answer *answer);

	/* Writes BODY to KEY under GUARD, marked with ATTEMPT. OK: applied, and
	 * ETAG is the new version's. REJECTED: the guard does not hold.
	 * NOT_DONE: busy or in conflict, try again. UNKNOWN. DENIED, TIMEOUT,
	 * INTERRUPTED, FAILED, NO_MEMORY: not sent, or refused for good.
	 * GUARD_NONE is FORBIDDEN. */
	enum outcome (*put_if)(struct store *store, const struct limits *limits,
			       const char *key, const char *body, size_t len,
			       const struct guard *guard,
			       const struct attempt *attempt,
			       char etag[ETAG_SIZE], struct answer *answer);

	/* Lists up to LIST_PAGE_MAX names below PREFIX (which ends in "/"), one
	 * level deep, in key order, those after *AFTER only; "" = from the
	 * start. *AFTER becomes where the next page starts, "" at the end; it
	 * is opaque to the caller. AFTER's content has at most
	 * LIST_AFTER_MAX bytes. OK; DENIED; NOT_DONE; TIMEOUT; INTERRUPTED;
	 * FAILED; NO_MEMORY; what FN returned. */
	enum outcome (*list)(struct store *store, const struct limits *limits,
			     const char *prefix, struct buf *after, list_fn *fn,
			     void *arg, struct answer *answer);

	/* Removes KEY, which must be under probe/ (else FORBIDDEN). OK also if
	 * there is none. */
	enum outcome (*remove)(struct store *store, const struct limits *limits,
			       const char *key, struct answer *answer);

	/* The store's clock at some instant during the call. Sends a request only if it has not
	 * heard from the store yet, and none after the deadline. OK, or as get.
	 */
	enum outcome (*now)(struct store *store, const struct limits *limits,
			    struct fleet_time *time);

	/* Switches to the next way in which stores of this kind want their
	 * guards written; the probe does that when a guard is refused that must
	 * hold. False: there is none. NULL: there is one way only. */
	bool (*next_dialect)(struct store *store);

	/* Frees everything. No other call may be under way. */
	void (*close)(struct store *store);
};

/* The first member of every store's own struct. */
struct store {
	const struct store_ops *ops;
};

#define LIST_AFTER_MAX 4096

/* How a store is opened. */
struct store_options {
	bool read_only;	 /* nothing is created or written */
	bool allow_http; /* plain http also to other machines */
};

/* Opens the store that URL names, creating an embedded one that does not exist
 * yet unless it is to be read only. On success *STORE is closed with
 * store_close(). INVALID (not a store URL), FAILED, DENIED, TIMEOUT with REASON
 * naming what and why. */
enum outcome store_open(struct store **store, const char *url,
			const struct store_options *options,
			const struct limits *limits,
			struct reason *reason) MUST_CHECK;

/* Makes a URL independent of the working directory (sqlite:PATH). The result is
 * malloced. INVALID with REASON if URL names no store. */
enum outcome store_absolute_url(char **absolute, const char *url,
				struct reason *reason) MUST_CHECK;

enum outcome store_get(struct store *store, const struct limits *limits,
		       const char *key, const char *known,
		       struct object *object, struct answer *answer) MUST_CHECK;
enum outcome store_put_if(struct store *store, const struct limits *limits,
			  const char *key, const char *body, size_t len,
			  const struct guard *guard,
			  const struct attempt *attempt, char etag[ETAG_SIZE],
			  struct answer *answer) MUST_CHECK;
enum outcome store_list(struct store *store, const struct limits *limits,
			const char *prefix, struct buf *after, list_fn *fn,
			void *arg, struct answer *answer) MUST_CHECK;
enum outcome store_remove(struct store *store, const struct limits *limits,
			  const char *key, struct answer *answer) MUST_CHECK;
enum outcome store_now(struct store *store, const struct limits *limits,
		       struct fleet_time *time) MUST_CHECK;
bool store_next_dialect(struct store *store);
void store_close(struct store *store);

#endif
