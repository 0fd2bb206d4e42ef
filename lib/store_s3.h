/* store_s3: a bucket of an S3 store: AWS S3, Ceph RGW, R2, MinIO, whatever
 * passes the probe.
 *
 * Source: Amazon S3 API Reference; DESIGN "Stores"; CASES "Stores".
 *
 * Invariants, beside those of store.h:
 * 1. put_if() puts one request on the wire, whatever its answer. What could be
 *    corrected (a wrong clock, expired keys, another region) is corrected for
 *    the next one and told as NOT_DONE.
 * 2. Keys go to the endpoint that was configured and to AWS's own hosts; a
 *    redirect changes the region that is signed for, never the owner of the
 *    host.
 * 3. If-Match is sent in one form, with or without the ETag's quotes: the one
 *    that has passed the probe.
 */
#ifndef CELLDFS_STORE_S3_H
#define CELLDFS_STORE_S3_H

#include "store.h"

/* Opens the bucket that NAME, "BUCKET" or "BUCKET/PREFIX", names. Nothing is
 * sent. OK; INVALID: no bucket's name, no prefix, or plain http to another
 * machine without OPTIONS->allow_http; DENIED, FAILED, NO_MEMORY with REASON.
 */
enum outcome store_s3_open(struct store **store, const char *name,
			   const struct store_options *options,
			   const struct limits *limits,
			   struct reason *reason) MUST_CHECK;

#endif
