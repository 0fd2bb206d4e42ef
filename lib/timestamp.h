/* timestamp: the two written forms of a time that S3 uses, to milliseconds.
 *
 * Pure. Strict: what is not wholly of the form is no time. A leap second counts
 * as the second after it.
 */
#ifndef CELLDFS_TIMESTAMP_H
#define CELLDFS_TIMESTAMP_H

#include <stdbool.h>
#include <stdint.h>

/* "Sun, 06 Nov 1994 08:49:37 GMT" (IMF-fixdate, RFC 9110, section 5.6.7): Date,
 * Last-Modified. TIME_MS is since 1970. False: TEXT is none, or NULL. */
bool timestamp_http(const char *text, int64_t *time_ms);

/* "2009-10-12T17:50:30.000Z" (RFC 3339; the fraction may be missing, Z may be an
 * offset): LastModified in listings, Expiration of keys. As above. */
bool timestamp_iso8601(const char *text, int64_t *time_ms);

#endif
