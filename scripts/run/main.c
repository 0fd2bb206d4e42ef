/* celldfs-run: a command that runs while this node owns a cell. */
#include "descriptors.h"
#include "family.h"
#include "options.h"
#include "tell.h"
#include "supervisor.h"

#include <stdio.h>

/* What is passed on to the command, unless it was ignored when we started, as
 * under nohup(1): then the command ignores it, too. */
static const int passed_on[] = {SIGHUP,	 SIGINT,  SIGQUIT, SIGTERM,
				SIGUSR1, SIGUSR2, SIGTSTP, SIGWINCH};

static bool is_ignored(int signal)
{
	struct sigaction action;

	return sigaction(signal, NULL, &action) == 0 &&
	       action.sa_handler == SIG_IGN;
}

/* From here on SIGNALS are read, one by one, and nothing interrupts. */
static void take_over_signals(struct inherited *inherited, sigset_t *signals)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction standard = {.sa_handler = SIG_DFL};
	sigset_t blocked;

	sigemptyset(signals);
	sigaddset(signals, SIGCHLD);
	sigaddset(signals, SIGCONT);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		if (!is_ignored(passed_on[i]))
			sigaddset(signals, passed_on[i]);
	blocked = *signals;
	/* the terminal is written and handed over from the background */
	sigaddset(&blocked, SIGTTOU);
	sigprocmask(SIG_BLOCK, &blocked, &inherited->mask);
	sigaction(SIGCHLD, &standard, &inherited->child);
	sigaction(SIGPIPE, &ignore, &inherited->pipe);
}

int main(int argc, char **argv)
{
	struct options options;
	struct inherited inherited;
	struct trouble trouble;
	sigset_t signals;
	int status;

	descriptors_fill();
	if (!options_parse(&options, argc, argv, &trouble)) {
		tell("%s", trouble.text);
		status = (int)trouble.exit;
	} else if (options.help) {
		fputs(options_usage, stdout);
		status = fflush(stdout) == 0 ? 0 : RUN_FAILED;
	} else if (!family_visible()) {
		tell("/proc cannot be looked at");
		status = RUN_FAILED;
	} else {
		struct supervisor_config config = {
			.options = &options,
			.inherited = &inherited,
			.signals = &signals,
			.ignores_stop = is_ignored(SIGTSTP),
			.has_descendants = family_has_descendants(),
		};

		take_over_signals(&inherited, &signals);
		status = supervise(&config);
	}
	options_release(&options);
	return status;
}
