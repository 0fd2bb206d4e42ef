/* survey: one look at the fleet: the nodes whose leases were written lately, and
 * whether they live.
 *
 *   list nodes/ -> those written within max(3 ttl, 60 s) -> read each, at most
 *   SURVEY_READERS at once -> judge -> sort -> one JSON line each
 *
 * Source: celldfs.8, "The tree"; celld's rules for placing cells.
 *
 * Invariants:
 * 1. A lease that cannot be read or understood is shown as such and hides no
 *    other one. A listing that fails is a survey that fails.
 * 2. Each lease is judged as of the moment at which it was read, by what is
 *    known of the store's clock once all have been read: a step that one of the
 *    answers shows counts for all.
 * 3. Bounded: SURVEY_MOST leases (about 1 KiB each while they are read) and as
 *    many bytes as the text may have; a last line says that there is more.
 *
 * It does not show nodes whose lease is older: nobody would place a cell there.
 */
#ifndef CELLDFS_SURVEY_H
#define CELLDFS_SURVEY_H

#include "store.h"

struct mount;

#define SURVEY_READERS 16
#define SURVEY_MOST 10000

/* Writes the lines to TEXT (empty): the alive ones first, then by
 * resident_cells, then by name. One LIST for each 1,000 names and one GET for
 * each recent node, in threads of its own, which have ended when it returns.
 * LIMITS have a stop. OK; NO_MEMORY; INTERRUPTED, or what became of the LIST,
 * with ANSWER. */
enum outcome survey_run(struct mount *mount, const struct limits *limits,
			struct buf *text, struct answer *answer) MUST_CHECK;

#endif
