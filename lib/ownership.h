/* ownership: may this record replace that one? Pure: no I/O, no clock.
 *
 * Source: celldfs.8, RECORDS: "Rules", 2-5, and "Alive, dead, unknown", which
 * follow celld's protocol. Rule 1 is record.h. The part of
 * rule 4 about locks is for the lock module.
 *
 * It answers from what it is given. It does not know whether the guarded record
 * is still the current one: the store decides that.
 */
#ifndef CELLDFS_OWNERSHIP_H
#define CELLDFS_OWNERSHIP_H

#include "fleet.h"
#include "record.h"

#define OWNERSHIP_EPOCH_STEP_MAX 1000000

/* What a mount is, as far as the rules ask. */
struct ownership_rules {
	const char *node;   /* -o node=; NULL: a plain window */
	bool clients_keep;  /* -o keeper=off */
	bool takeover_any;  /* -o takeover=any */
	uint64_t skew_ms;   /* -o skew-ms= */
};

/* The record that the guard stands for. */
enum ownership_guarded {
	GUARDED_ABSENT,	   /* the guard is If-None-Match: * */
	GUARDED_MALFORMED, /* read, and not an ownership record */
	GUARDED_OWN,
};

/* May NEXT be written over the guarded record? Rules 2 and 4.
 * OK; or FORBIDDEN, INVALID, REJECTED with REASON. When OK and *ASK_LEASE is
 * set, the cell is taken from GUARDED_RECORD->node, and rule 3 has still to
 * hold: read that node's lease and call ownership_check_takeover(). */
enum outcome ownership_check_own(const struct ownership_rules *rules,
				 const struct own *next,
				 enum ownership_guarded guarded,
				 const struct own *guarded_record,
				 bool *ask_lease,
				 struct reason *reason) MUST_CHECK;

/* What a claim by NODE writes over the guarded record. Source: celld's protocol,
 * claims. OK, and NEXT is set; *ASK_LEASE as above. INVALID with REASON: the
 * record is malformed, or its epoch cannot grow. */
enum outcome ownership_claim(const char *node, enum ownership_guarded guarded,
			     const struct own *guarded_record,
			     struct own *next, bool *ask_lease,
			     struct reason *reason) MUST_CHECK;

/* May this mount write NEXT as the lease of NODE? Rules 4 and 5. OK,
 * FORBIDDEN, INVALID with REASON. *WARN is set when it is allowed but celld
 * would take the node for dead (an empty addr). */
enum outcome ownership_check_lease(const struct ownership_rules *rules,
				   const char *node, const struct lease *next,
				   bool *warn,
				   struct reason *reason) MUST_CHECK;

/* Is a node alive? Source: "Alive, dead, unknown": anything that is neither is
 * unknown, and unknown is never taken over. */
enum life { LIFE_ALIVE, LIFE_DEAD, LIFE_UNKNOWN };

/* Judges the lease of NODE, written at MODIFIED_MS of the store's clock, by the
 * *earliest* possible time of NOW. LEASE is NULL when the object is absent (and
 * the two mean nothing then). While the store's clock has just stepped, a lease
 * that has run out by the new time is LIFE_UNKNOWN for as long as a holder that
 * reckons by the old one may rely on it. REASON says what was found in any
 * case. A lease that was read and is malformed is LIFE_UNKNOWN to the caller. */
enum life ownership_life(const char *node, const struct lease *lease,
			 int64_t modified_ms, const struct fleet_time *now,
			 uint64_t skew_ms, struct reason *reason);

/* Is LOG of a kind that keeps its node from being replaced: are there
 * acknowledged writes that only celld can recover? NULL: no; else its state in
 * a word for people. */
const char *ownership_unsealed(enum lease_log log);

/* Rule 3, once the owner's life is known: OK if dead, else REJECTED with
 * REASON (which on entry holds what ownership_life() found). */
enum outcome ownership_check_takeover(enum life life,
				      struct reason *reason) MUST_CHECK;

/* Settling: does FOUND, read back under another attempt id, prove that our
 * write of OURS never landed? For a claim of epoch n: FOUND names a node at an
 * epoch <= n. For a release: never. Source: celldfs.8, GUARDS,
 * "Applied, rejected, unknown". */
bool ownership_disproves(const struct own *ours, const struct own *found);

#endif
