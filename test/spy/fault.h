/* fault: which fault a test wants in a call to the store.
 *
 * CELLDFS_SPY_RULES (an absolute path; need not exist) is read before every
 * call, so a test changes it under a running daemon (write beside it and
 * rename, lest half a line is read). A line is
 *
 *	CALL KEYGLOB ACTION [ARGUMENT] [xN]
 *
 * CALL is get, put_if, list, remove or now; KEYGLOB is for fnmatch(3), without
 * FNM_PATHNAME: "*" is any key (`list` matches its prefix, `now` "-"). The
 * first line that matches is obeyed; one with xN only N times in this process,
 * counted by the line's text. '#' starts a comment line.
 *
 *	delay MS	wait, then call; nothing was sent if the limits end first
 *	late MS		call, then wait; if the limits end first the answer is
 *			lost: UNKNOWN for put_if, else TIMEOUT or INTERRUPTED
 *	hang		delay without end
 *	fail OUTCOME	do not call; this is the outcome: a word of
 *			outcome_word() with '-' for spaces
 *	lose		call, but the outcome is UNKNOWN
 *	drop		do not call, and the outcome is UNKNOWN
 *	html		get: the body of an OK answer is an HTML page
 *	noetag		get: an OK answer has no ETag
 *
 * A line that is not a rule ends the process, loudly: no test may pass because
 * its fault never happened.
 */
#ifndef CELLDFS_FAULT_H
#define CELLDFS_FAULT_H

#include "stop.h"

enum fault_action {
	FAULT_NONE,
	FAULT_DELAY,
	FAULT_LATE,
	FAULT_HANG,
	FAULT_FAIL,
	FAULT_LOSE,
	FAULT_DROP,
	FAULT_HTML,
	FAULT_NOETAG,
	FAULT_COUNT
};

struct fault {
	enum fault_action action;
	int64_t wait_ms;      /* DELAY, LATE */
	enum outcome outcome; /* FAIL */
};

/* Room for an outcome's word. */
#define FAULT_WORD_SIZE 64

/* outcome_word() with '-' for spaces. */
const char *fault_word(enum outcome outcome, char word[FAULT_WORD_SIZE]);

/* The fault for this call now. Counts a use of the rule. Thread-safe. */
struct fault fault_for(const char *call, const char *key);

/* Does what comes before the call. True: the call must not be made, and
 * *OUTCOME is what it returns. */
bool fault_before(const struct fault *fault, const struct limits *limits,
		  enum outcome *outcome);

/* Does what comes after the call that returned OUTCOME; returns what the caller
 * is told. WRITES: the call may have changed something. */
enum outcome fault_after(const struct fault *fault,
			 const struct limits *limits, enum outcome outcome,
			 bool writes);

#endif
