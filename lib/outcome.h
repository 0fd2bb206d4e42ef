/* outcome: what became of an operation, and the only table from there to errno.
 *
 * Applied, rejected and unknown are three things. Every function that meets the
 * store or what a user wrote returns one of these; what a user sees is
 * outcome_errno() of it.
 *
 * A new errno goes here: a line in the enum, a row in outcome.c, an entry under
 * ERRORS OF OPERATIONS in celldfs.8 and in the README's table.
 */
#ifndef CELLDFS_OUTCOME_H
#define CELLDFS_OUTCOME_H

#include <stddef.h>

#define MUST_CHECK __attribute__((warn_unused_result))

enum outcome {
	OUTCOME_OK,	     /* read; or applied: the swap happened */
	OUTCOME_UNCHANGED,   /* a conditional read: still what you know */
	OUTCOME_REJECTED,    /* EBUSY: the swap did not happen and will not */
	OUTCOME_EXISTS,	     /* EEXIST: a create of what exists */
	OUTCOME_FORBIDDEN,   /* EPERM: against the rules of the mount */
	OUTCOME_INVALID,     /* EINVAL: not a record, not a guard */
	OUTCOME_TOO_LARGE,   /* EFBIG */
	OUTCOME_FENCED,	     /* EROFS: this mount has lost its lease */
	OUTCOME_DENIED,	     /* EACCES: the store refused the credentials */
	OUTCOME_ABSENT,	     /* ENOENT: there is no such record */
	OUTCOME_NOT_DONE,    /* ECANCELED: every try was answered "not done" */
	OUTCOME_TIMEOUT,     /* ETIMEDOUT: no answer in time; nothing was sent
			      * that could change anything */
	OUTCOME_UNKNOWN,     /* ETIMEDOUT: the swap may have happened */
	OUTCOME_FAILED,	     /* EIO: the store failed or answered nonsense */
	OUTCOME_INTERRUPTED, /* EINTR: before anything was sent, or reading */
	OUTCOME_NO_MEMORY,   /* ENOMEM */
	OUTCOME_COUNT
};

/* The errno that a user sees for OUTCOME; 0 for OK and UNCHANGED. Source:
 * celldfs.8, ERRORS OF OPERATIONS. */
int outcome_errno(enum outcome outcome);

/* One word for logs and for user.celld.outcome: "applied", "rejected", ... */
const char *outcome_word(enum outcome outcome);

/* Why something was refused or failed, for people: one line, no newline. */
struct reason {
	char text[240];
};

/* Sets REASON->text (cut if too long) from a printf format and returns
 * OUTCOME, so that a refusal is one statement. REASON may be NULL. */
enum outcome reason_set(struct reason *reason, enum outcome outcome,
			const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Makes each control byte of TEXT a '?', and each of the two of a control
 * character of UTF-8 (C1): what others wrote must not steer a terminal. */
void text_make_plain(char *text, size_t len);

#endif
