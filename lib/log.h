/* log: lines for people, each written by one write(2) so that they never mix.
 *
 * To stderr, to a file, or to syslog (which the journal reads). Levels are
 * syslog's. Never log credentials or a record's body.
 */
#ifndef CELLDFS_LOG_H
#define CELLDFS_LOG_H

#include "outcome.h"

#include <syslog.h>

/* Where lines go: "stderr", "syslog" or an absolute PATH (appended). INVALID or
 * FAILED with REASON; the old destination stays. Before the first call: stderr.
 * Call it before other threads log. */
enum outcome log_to(const char *where, struct reason *reason) MUST_CHECK;

/* LEVEL is LOG_ERR, LOG_WARNING, LOG_NOTICE or LOG_INFO. Control bytes in the
 * result are printed as '?'. */
void log_line(int level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
