/* lease: the holder of a node's lease, as a state machine. Pure: no I/O, no
 * clock, no chance; time and random bits are arguments.
 *
 * Source: celldfs.8, THE NODE'S LEASE, which follows celld's protocol.
 *
 * One thread drives it: it calls lease_step(), carries the action out (sleep,
 * read nodes/<node>, write it under a guard), and comes back with what happened
 * as the next event.
 *
 *   ACQUIRING  read: absent, or dead ............... write
 *     |          alive or expired just now ......... wait, read again
 *     |          another ETag than at first ........ REFUSED: a twin
 *     |          malformed, log unsealed, nonsense . REFUSED
 *     |        written: applied in time ............ HELD
 *     |          applied after its own expiry ...... write again
 *     |          unknown or rejected ............... read; one of our tries is
 *     |                                              there: as applied
 *     |          not done .......................... read again soon
 *     v        out of patience, refused for good ... REFUSED
 *   HELD       ttl/3 after the anchor .............. write
 *     |        written: applied .................... HELD, a new anchor
 *     |          unknown or rejected ............... read
 *     |          not done, failed .................. write again soon
 *     |        read: one of our tries is there ..... HELD, with its anchor
 *     |          what we hold is there ............. write again soon
 *     |          another record .................... FENCED: replaced
 *     |          none .............................. FENCED: removed
 *     |          unreadable ........................ read again soon
 *     |        authority ended ..................... FENCED: expired
 *     v        stop: cells are held, or a run that
 *     |        was replaced alive may hold some .... STOPPED, the lease runs out
 *   STOPPING   (stop, and nothing is held) write an expired lease
 *              written: applied .................... STOPPED
 *              else as in HELD, until the authority has ended: STOPPED
 *
 * Invariants:
 * 1. There is authority only in HELD, and only before lease_authority_ms().
 *    That is the anchor (CLOCK_BOOTTIME before the write was sent) of the last
 *    write that is known to have been applied, plus ttl.
 * 2. What that write publishes as expires_ms is later, by the store's clock,
 *    than the end of the authority: so nobody finds the lease dead before.
 * 3. FENCED, REFUSED and STOPPED are for good, and nothing is written in them.
 * 4. Every write goes under a guard: that the record is absent, or the ETag of
 *    the predecessor that was judged, or that of our own last write.
 *
 * It does not know what a lease says beyond its expiry: the driver edits the
 * record and keeps what it does not know.
 */
#ifndef CELLDFS_LEASE_H
#define CELLDFS_LEASE_H

#include "store.h"

#include <stdbool.h>
#include <stdint.h>

struct lease_config {
	const char *node;
	int64_t ttl_ms;
	uint64_t skew_ms;
	int64_t patience_ms; /* errors while acquiring are borne for so long */
	bool replace; /* a living predecessor is not waited for */
};

enum lease_state {
	LEASE_ACQUIRING,
	LEASE_HELD,
	LEASE_STOPPING,
	LEASE_FENCED, /* from here on: the end */
	LEASE_REFUSED,
	LEASE_STOPPED,
};

enum lease_fence {
	LEASE_NOT_FENCED,
	LEASE_EXPIRED,
	LEASE_REPLACED,
	LEASE_REMOVED,
};

/* A write whose fate is not known to be "never". */
struct lease_try {
	struct attempt attempt;
	int64_t anchor_ms;
	bool gives_up; /* it publishes an expired lease */
};

#define LEASE_TRIES_MAX 32

struct lease_holder {
	struct lease_config config;
	enum lease_state state;
	enum lease_fence fence;
	struct reason reason; /* REFUSED, FENCED: why; ACQUIRING: what for it
			       * waits; else the last trouble, or "" */
	bool waiting;	      /* ACQUIRING: for a predecessor */
	int64_t anchor_ms;    /* HELD: of the last write that was applied */
	int64_t until_ms;     /* the end of the authority, or of STOPPING */
	int64_t next_ms;      /* nothing is done before */
	bool must_read;	      /* a read comes next, not a write */
	struct guard guard;   /* what the next write goes under */
	int64_t patience_until_ms;
	unsigned late; /* tries that landed after their own expiry */

	bool looked; /* the predecessor was read; then its ETag, "" = absent: */
	char first_etag[ETAG_SIZE];
	uint64_t old_run_ends_ms; /* fleet time: what it may still believe until
				   * then, if it was replaced alive; else 0 */

	struct lease_try tries[LEASE_TRIES_MAX]; /* all under `guard` */
	unsigned try_count;
	uint64_t last_expires_ms;
};

/* What a step is told of time and chance. The boot time is sampled first. */
struct lease_now {
	int64_t boot_ms;	 /* CLOCK_BOOTTIME */
	bool known;		 /* the store's clock is; then: */
	struct fleet_time fleet;
	struct attempt fresh;	 /* random bits, other ones in each step */
};

enum lease_event_kind {
	LEASE_TIME,	   /* nothing: the first step, or after a sleep */
	LEASE_WAS_READ,
	LEASE_WAS_WRITTEN,
	LEASE_STOP,	   /* an orderly end */
};

struct lease_event {
	enum lease_event_kind kind;
	enum outcome outcome;	     /* READ: store_get()'s; WRITTEN:
				      * store_put_if()'s, or why the driver could
				      * not even send it */
	const struct object *object; /* READ, OK */
	const char *etag;	     /* WRITTEN, OK */
	int64_t wait_ms;	     /* NOT_DONE: the store's wish */
	const char *why;	     /* for people; "" or NULL: nothing to say */
	bool holds;		     /* STOP: cells are held */
	int64_t until_ms;	     /* STOP: it must be over by then */
};

enum lease_action_kind { LEASE_SLEEP, LEASE_READ, LEASE_WRITE, LEASE_END };

struct lease_action {
	enum lease_action_kind kind;
	int64_t until_ms; /* SLEEP: wake up then; READ, WRITE: its deadline */
	struct guard guard;	/* WRITE: these three */
	struct attempt attempt;
	uint64_t expires_ms;
};

/* A holder that has done nothing yet. CONFIG->node must stay. */
void lease_init(struct lease_holder *holder, const struct lease_config *config,
		int64_t boot_ms);

/* Takes EVENT in and says what to do next. LEASE_END: nothing any more; see
 * holder->state. */
void lease_step(struct lease_holder *holder, const struct lease_event *event,
		const struct lease_now *now, struct lease_action *action);

/* The end of the authority (CLOCK_BOOTTIME): there is some before it, none at
 * or after it. INT64_MIN: there is none. */
int64_t lease_authority_ms(const struct lease_holder *holder);

/* For people: "acquiring", "waiting", "held", "stopping", "fenced", ... */
const char *lease_state_word(const struct lease_holder *holder);

/* "expired", "replaced" or "removed"; "" if it is not fenced. */
const char *lease_fence_word(enum lease_fence fence);

#endif
