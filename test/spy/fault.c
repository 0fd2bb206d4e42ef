#include "fault.h"

#include "clock.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SIZE	  1024
#define COUNTED_RULES_MAX 256

/* How often each rule with an xN was obeyed. */
static pthread_mutex_t uses_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	char *line;
	unsigned long count;
} uses[COUNTED_RULES_MAX];

const char *fault_word(enum outcome outcome, char word[FAULT_WORD_SIZE])
{
	snprintf(word, FAULT_WORD_SIZE, "%s", outcome_word(outcome));
	for (char *c = word; *c != '\0'; c++)
		if (*c == ' ')
			*c = '-';
	return word;
}

_Noreturn static void bad_rule(const char *line)
{
	fprintf(stderr, "celldfs-spy: not a rule: %s\n", line);
	abort();
}

/* Counts one use of a rule; false if its uses were up before. */
static bool use_up(const char *line, unsigned long limit)
{
	bool usable;
	size_t i = 0;

	pthread_mutex_lock(&uses_lock);
	while (i < COUNTED_RULES_MAX && uses[i].line != NULL &&
	       strcmp(uses[i].line, line) != 0)
		i++;
	if (i == COUNTED_RULES_MAX)
		bad_rule("too many different ones");
	if (uses[i].line == NULL && (uses[i].line = strdup(line)) == NULL)
		abort();
	usable = uses[i].count < limit;
	if (usable)
		uses[i].count++;
	pthread_mutex_unlock(&uses_lock);
	return usable;
}

static bool parse_action(const char *word, enum fault_action *action)
{
	static const char *const words[FAULT_COUNT] = {
		[FAULT_NONE] = "",	   [FAULT_DELAY] = "delay",
		[FAULT_LATE] = "late",	   [FAULT_HANG] = "hang",
		[FAULT_FAIL] = "fail",	   [FAULT_LOSE] = "lose",
		[FAULT_DROP] = "drop",	   [FAULT_HTML] = "html",
		[FAULT_NOETAG] = "noetag",
	};

	for (int i = FAULT_NONE + 1; i < FAULT_COUNT; i++) {
		if (strcmp(word, words[i]) == 0) {
			*action = (enum fault_action)i;
			return true;
		}
	}
	return false;
}

static bool parse_outcome(const char *word, enum outcome *outcome)
{
	char known[FAULT_WORD_SIZE];

	for (int i = 0; i < OUTCOME_COUNT; i++) {
		if (strcmp(word, fault_word((enum outcome)i, known)) == 0) {
			*outcome = (enum outcome)i;
			return true;
		}
	}
	return false;
}

/* A whole decimal number, alone in WORD? */
static bool parse_number(const char *word, long *number)
{
	char *end;

	if (word == NULL || *word < '0' || *word > '9')
		return false;
	*number = strtol(word, &end, 10);
	return *end == '\0';
}

/* Splits LINE. False for a comment or an empty line. *LIMIT is xN's N. */
static bool parse_rule(const char *line, char call[LINE_SIZE],
		       char glob[LINE_SIZE], struct fault *fault, long *limit)
{
	char words[LINE_SIZE], action[LINE_SIZE], *save, *word;
	int used = 0;

	*fault = (struct fault){0};
	*limit = LONG_MAX;
	if (sscanf(line, "%1023s", call) != 1 || call[0] == '#')
		return false;
	if (sscanf(line, "%1023s %1023s %1023s%n", call, glob, action, &used) !=
		    3 ||
	    !parse_action(action, &fault->action))
		bad_rule(line);
	snprintf(words, sizeof(words), "%s", line + used);
	word = strtok_r(words, " ", &save);
	if (fault->action == FAULT_DELAY || fault->action == FAULT_LATE) {
		if (!parse_number(word, &fault->wait_ms))
			bad_rule(line);
		word = strtok_r(NULL, " ", &save);
	} else if (fault->action == FAULT_FAIL) {
		if (word == NULL || !parse_outcome(word, &fault->outcome))
			bad_rule(line);
		word = strtok_r(NULL, " ", &save);
	}
	if (word != NULL && *word == 'x' && parse_number(word + 1, limit))
		word = strtok_r(NULL, " ", &save);
	if (word != NULL)
		bad_rule(line);
	return true;
}

struct fault fault_for(const char *call, const char *key)
{
	const char *path = getenv("CELLDFS_SPY_RULES");
	char line[LINE_SIZE], rule_call[LINE_SIZE], glob[LINE_SIZE];
	struct fault found = {0};
	FILE *file;

	if (path == NULL || (file = fopen(path, "re")) == NULL)
		return found;
	while (fgets(line, sizeof(line), file) != NULL) {
		struct fault fault;
		long limit;

		line[strcspn(line, "\n")] = '\0';
		if (!parse_rule(line, rule_call, glob, &fault, &limit) ||
		    strcmp(rule_call, call) != 0 || fnmatch(glob, key, 0) != 0)
			continue;
		if (limit == LONG_MAX || use_up(line, (unsigned long)limit)) {
			found = fault;
			break;
		}
	}
	fclose(file);
	return found;
}

bool fault_before(const struct fault *fault, const struct limits *limits,
		  enum outcome *outcome)
{
	if (fault->action == FAULT_DELAY)
		*outcome =
			limits_sleep(limits, clock_boot_ms() + fault->wait_ms);
	else if (fault->action == FAULT_HANG)
		*outcome = limits_sleep(limits, limits->deadline_ms + 1000);
	else if (fault->action == FAULT_FAIL)
		*outcome = fault->outcome;
	else if (fault->action == FAULT_DROP)
		*outcome = OUTCOME_UNKNOWN;
	else
		return false;
	return fault->action != FAULT_DELAY || *outcome != OUTCOME_OK;
}

enum outcome fault_after(const struct fault *fault, const struct limits *limits,
			 enum outcome outcome, bool writes)
{
	enum outcome slept;

	if (fault->action == FAULT_LOSE)
		return OUTCOME_UNKNOWN;
	if (fault->action != FAULT_LATE)
		return outcome;
	slept = limits_sleep(limits, clock_boot_ms() + fault->wait_ms);
	if (slept == OUTCOME_OK)
		return outcome;
	return writes ? OUTCOME_UNKNOWN : slept;
}
