#include "supervisor.h"

#include "clock.h"
#include "descriptors.h"
#include "family.h"
#include "holder.h"
#include "leash.h"
#include "tell.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MS     10000 /* for the mount to say what it is; it asks nobody */
#define LATE_MS	      1000  /* beyond the mount's own deadline */
#define SETTLE_MS     200   /* for a holder that was killed to be gone */
#define LOOK_LEAST_MS 10    /* between two looks at what does not end, */
#define LOOK_MOST_MS  160   /* after some */
#define HOPELESS_MS   2000  /* after SIGKILL: it will not die for now */

enum phase { WAITING, RUNNING, RELEASING, DONE };

struct run {
	const struct supervisor_config *config;
	const char *cell;
	int signal_fd, timer_fd;
	enum phase phase;
	int64_t next_ms; /* when to wake up at the latest */
	int exit_status; /* DONE */
	int death;	 /* DONE: the signal to die of, or 0 */

	struct holder holder;
	int64_t deadline_ms;			/* the mount's */
	int64_t wait_until_ms, answer_until_ms; /* WAITING */
	uint64_t epoch;				/* of the claim */
	char why[TROUBLE_SIZE]; /* WAITING: who has it; lost: how */

	struct command command;
	struct family family;
	struct leash leash;
	bool ended;	     /* the command itself has */
	int status;	     /* then: its exit status, or 128 + signal */
	bool lost, told;     /* before all of it had ended */
	bool wants_continue; /* SIGCONT is to be passed on */
	bool interrupted;    /* by SIGINT */
	int64_t killed_ms;   /* the first SIGKILL; 0: none */
	int64_t look_ms;     /* pause before the next look at what is left */

	int64_t release_until_ms;
};

static int64_t until_ms(const struct run *run)
{
	return *run->holder.until_ms;
}

static void done(struct run *run, int status)
{
	run->phase = DONE;
	run->exit_status = status;
}

static void wake_at(struct run *run, int64_t at_ms)
{
	if (at_ms < run->next_ms)
		run->next_ms = at_ms;
}

/* ---- waiting for the cell ---- */

/* A wait that ends leaves no claim: the mount sees to that when the holder is
 * dead. */
static void abandon(struct run *run)
{
	struct pollfd gone = {.fd = run->holder.fd, .events = POLLIN};
	int64_t end_ms = clock_boot_ms() + SETTLE_MS;
	struct news news;

	holder_kill(&run->holder);
	do {
		poll(&gone, 1, LOOK_LEAST_MS);
		holder_news(&run->holder, &news);
	} while (news.kind != NEWS_END && clock_boot_ms() < end_ms);
}

static void fail(struct run *run, const struct trouble *trouble)
{
	abandon(run);
	tell("%s", trouble->text);
	done(run, (int)trouble->exit);
}

/* What was inherited may even be on the mount, and to close that may hang. */
static void keep_open(const struct run *run)
{
	const int ours[] = {run->signal_fd, run->timer_fd, run->holder.fd,
			    run->command.terminal_fd, run->command.gate_fd};

	descriptors_keep(ours, sizeof(ours) / sizeof(ours[0]));
}

static void start_command(struct run *run, const struct news *news)
{
	struct trouble trouble;
	char epoch[24];

	snprintf(epoch, sizeof(epoch), "%llu", (unsigned long long)news->epoch);
	if (until_ms(run) - clock_boot_ms() < run->leash.terms.term_ms) {
		explain(&trouble, RUN_NOT_HELD,
			"%s: this node's lease is about to run out", run->cell);
		fail(run, &trouble);
		return;
	}
	if (setenv("CELLD_CELL", run->cell, 1) != 0 ||
	    setenv("CELLD_NODE", news->node, 1) != 0 ||
	    setenv("CELLD_EPOCH", epoch, 1) != 0) {
		explain(&trouble, RUN_NOT_HELD, "out of memory");
		fail(run, &trouble);
		return;
	}
	if (!command_prepare(&run->command, run->config->options->command,
			     run->config->inherited, &trouble)) {
		fail(run, &trouble);
		return;
	}
	run->family.group = run->command.pid;
	run->family.other = run->holder.pid;
	holder_guard(&run->holder, run->command.pid);
	keep_open(run);
	command_begin(&run->command);
	run->phase = RUNNING;
}

static void advance_waiting(struct run *run, int64_t now_ms)
{
	struct trouble trouble;

	if (now_ms >= run->answer_until_ms) {
		explain(&trouble, RUN_NOT_HELD, "%s does not answer",
			run->config->options->mount);
		fail(run, &trouble);
	} else if (now_ms >= run->wait_until_ms) {
		explain(&trouble, RUN_NOT_HELD, "not had within %g s: %.300s",
			(double)run->config->options->wait_ms / 1000,
			run->why[0] ? run->why : "the mount is slow");
		fail(run, &trouble);
	}
	wake_at(run, run->answer_until_ms);
	wake_at(run, run->wait_until_ms);
}

/* ---- the command runs ---- */

/* The exit status will say so. The first reason counts. */
static void mark_lost(struct run *run, const char *why)
{
	if (!run->lost)
		snprintf(run->why, sizeof(run->why), "%s", why);
	run->lost = true;
}

/* The command is to end, in GRACE_MS at most. */
static void lose(struct run *run, int64_t grace_ms, const char *why)
{
	leash_pull(&run->leash, clock_boot_ms(), until_ms(run), grace_ms);
	mark_lost(run, why);
}

static void tell_lost(struct run *run)
{
	if (run->lost && !run->told)
		run->told = tell_now(
			"%s: lost at epoch %llu: %s; the command is ended",
			run->cell, (unsigned long long)run->epoch, run->why);
}

/* Nothing of the command lives any more. */
static void all_gone(struct run *run, int64_t now_ms)
{
	if (run->lost) {
		holder_kill(&run->holder);
		done(run, RUN_LOST);
		return;
	}
	holder_release(&run->holder);
	run->phase = RELEASING;
	run->release_until_ms = now_ms + run->deadline_ms + LATE_MS;
	wake_at(run, run->release_until_ms);
}

/* The command has ended, or was killed. What it has left behind is on the same
 * leash, and ends now. */
static void look_for_rest(struct run *run, int64_t now_ms)
{
	unsigned alive = family_alive(&run->family);

	if (run->ended && alive == 0) {
		all_gone(run, now_ms);
		return;
	}
	wake_at(run, now_ms + run->look_ms);
	if (run->look_ms < LOOK_MOST_MS)
		run->look_ms *= 2;
	if (!run->leash.pulled) {
		leash_pull(&run->leash, now_ms, until_ms(run),
			   run->leash.terms.grace_ms);
		wake_at(run, now_ms);
	}
	if (run->leash.last != LEASH_KILL)
		return;
	family_signal(&run->family, SIGKILL);
	if (now_ms < run->killed_ms + HOPELESS_MS || now_ms < until_ms(run))
		return;
	/* the holder goes on, and does not give the cell up before */
	tell("%s: %u processes were killed and do not die", run->cell, alive);
	done(run, RUN_LOST);
}

static void advance_running(struct run *run, int64_t now_ms)
{
	bool was_pulled = run->leash.pulled;
	int64_t next_ms;

	switch (leash_step(&run->leash, now_ms, until_ms(run), &next_ms)) {
	case LEASH_WAIT:
		break;
	case LEASH_TERM:
		family_signal(&run->family, SIGTERM);
		/* one that is stopped does not hear it otherwise */
		family_signal(&run->family, SIGCONT);
		break;
	case LEASH_KILL:
		family_signal(&run->family, SIGKILL);
		run->killed_ms = now_ms;
		run->look_ms = LOOK_LEAST_MS;
		break;
	}
	wake_at(run, next_ms);
	if (run->leash.pulled && !was_pulled)
		mark_lost(run, "the lease was not seen to be renewed");
	tell_lost(run);
	/* a stopped command does not go on before its lease was looked at */
	if (run->wants_continue && !run->leash.pulled)
		kill(-run->family.group, SIGCONT);
	run->wants_continue = false;
	if (run->ended || run->leash.last == LEASH_KILL)
		look_for_rest(run, now_ms);
}

/* ---- the cell is given up ---- */

static void advance_releasing(struct run *run, int64_t now_ms)
{
	wake_at(run, run->release_until_ms);
	if (now_ms < run->release_until_ms)
		return;
	tell("%s: not known to be released yet: the mount does not answer",
	     run->cell);
	done(run, run->status);
}

/* ---- what the holder tells ---- */

static void take_mount(struct run *run, const struct news *news)
{
	struct leash_terms terms;

	/* the holder has judged it */
	if (leash_terms(&terms, news->ttl_ms))
		leash_init(&run->leash, &terms);
	run->deadline_ms = news->deadline_ms;
	run->answer_until_ms = INT64_MAX;
	if (run->config->options->wait_ms == 0)
		run->answer_until_ms =
			clock_boot_ms() + news->deadline_ms + LATE_MS;
}

static void take_busy(struct run *run, const struct news *news)
{
	snprintf(run->why, sizeof(run->why), "%s", news->trouble.text);
	if (run->config->options->wait_ms == 0)
		fail(run, &news->trouble);
	else if (run->config->options->verbose)
		tell_now("waiting: %s", run->why);
}

static void take_held(struct run *run, const struct news *news)
{
	run->epoch = news->epoch;
	if (run->config->options->verbose)
		tell_now("%s: held by node %s at epoch %llu", run->cell,
			 news->node, (unsigned long long)news->epoch);
	start_command(run, news);
}

static void take_released(struct run *run, const struct news *news)
{
	if (news->trouble.text[0])
		tell("%s: not known to be released: %s", run->cell,
		     news->trouble.text);
	else if (run->config->options->verbose)
		tell("%s: released", run->cell);
	done(run, run->status);
}

static void take_end(struct run *run)
{
	struct trouble trouble;

	switch (run->phase) {
	case WAITING:
		explain(&trouble, RUN_NOT_HELD,
			"the process that was to hold %s has died", run->cell);
		fail(run, &trouble);
		break;
	case RUNNING:
		/* the cell is free by now */
		lose(run, 0, "the process that held it has died");
		break;
	case RELEASING:
		tell("%s: the process that held it has died", run->cell);
		done(run, run->status);
		break;
	case DONE:
		break;
	}
}

static void take_news(struct run *run)
{
	struct news news;

	while (run->phase != DONE) {
		holder_news(&run->holder, &news);
		switch (news.kind) {
		case NEWS_NONE:
			return;
		case NEWS_MOUNT:
			take_mount(run, &news);
			break;
		case NEWS_BUSY:
			take_busy(run, &news);
			break;
		case NEWS_HELD:
			take_held(run, &news);
			break;
		case NEWS_FAILED:
			fail(run, &news.trouble);
			break;
		case NEWS_LOST:
			if (run->phase == RUNNING)
				lose(run, news.grace_ms, news.trouble.text);
			break;
		case NEWS_RELEASED:
			take_released(run, &news);
			break;
		case NEWS_END:
			take_end(run);
			return;
		}
	}
}

/* ---- signals ---- */

static void stop_too(struct run *run)
{
	if (!run->config->ignores_stop)
		command_stop_too(&run->command);
}

static void take_stopped(struct run *run, int signal)
{
	if (run->leash.pulled)
		family_signal(&run->family, SIGCONT);
	else if ((signal == SIGTTIN || signal == SIGTTOU) &&
		 command_foreground(&run->command))
		kill(-run->family.group, SIGCONT);
	else
		stop_too(run);
}

/* What has become of children. The command stays a zombie. */
static void reap(struct run *run)
{
	siginfo_t info;

	while (!run->ended) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info,
			   WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0 ||
		    info.si_pid == 0)
			return;
		if (info.si_pid == run->command.pid &&
		    info.si_code != CLD_STOPPED &&
		    info.si_code != CLD_TRAPPED) {
			run->ended = true;
			run->status = info.si_status;
			if (info.si_code != CLD_EXITED)
				run->status += RUN_SIGNALLED;
			command_background(&run->command);
			return;
		}
		waitid(P_PID, (id_t)info.si_pid, &info,
		       WEXITED | WSTOPPED | WNOHANG);
		if (info.si_pid == run->command.pid)
			take_stopped(run, info.si_status);
	}
}

static void take_signal(struct run *run, int signal)
{
	bool ends =
		signal != SIGWINCH && signal != SIGCONT && signal != SIGTSTP;

	if (signal == SIGCHLD)
		return;
	switch (run->phase) {
	case WAITING:
		if (signal == SIGTSTP) {
			stop_too(run);
		} else if (ends) {
			abandon(run);
			run->death = signal;
			run->phase = DONE;
		}
		break;
	case RUNNING:
		run->interrupted = run->interrupted || signal == SIGINT;
		if (signal == SIGCONT && run->command.handed_over)
			command_foreground(&run->command);
		if (signal == SIGCONT)
			run->wants_continue = true;
		else if (signal != SIGWINCH || !run->command.handed_over)
			kill(-run->family.group, signal);
		break;
	case RELEASING:
		if (!ends)
			break;
		tell("%s: still being released", run->cell);
		done(run, run->status);
		break;
	case DONE:
		break;
	}
}

static void take_signals(struct run *run)
{
	struct signalfd_siginfo info;

	while (read(run->signal_fd, &info, sizeof(info)) ==
	       (ssize_t)sizeof(info))
		take_signal(run, (int)info.ssi_signo);
}

/* ---- the loop ---- */

static void sleep_until_next(struct run *run)
{
	struct pollfd fds[] = {
		{.fd = run->signal_fd, .events = POLLIN},
		{.fd = run->holder.fd, .events = POLLIN},
		{.fd = run->timer_fd, .events = POLLIN},
	};
	int64_t at_ms = run->next_ms > 0 ? run->next_ms : 1;
	struct itimerspec when = {
		.it_value = {.tv_sec = at_ms / 1000,
			     .tv_nsec = at_ms % 1000 * 1000000},
	};
	uint64_t times;

	timerfd_settime(run->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
	poll(fds, 3, -1);
	while (read(run->timer_fd, &times, sizeof(times)) > 0)
		;
}

/* In this order: what the holder does to the command it has told before. */
static void turn(struct run *run)
{
	int64_t now_ms;

	take_signals(run);
	reap(run);
	take_news(run);
	now_ms = clock_boot_ms();
	run->next_ms = INT64_MAX;
	if (run->phase == WAITING)
		advance_waiting(run, now_ms);
	if (run->phase == RUNNING)
		advance_running(run, now_ms);
	if (run->phase == RELEASING)
		advance_releasing(run, now_ms);
}

static void __attribute__((noreturn)) die_of(int signal, bool all)
{
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, signal);
	kill(all ? 0 : getpid(), signal);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	exit(RUN_SIGNALLED + signal);
}

static int leave(struct run *run)
{
	const struct command *command = &run->command;
	bool by_interrupt = run->exit_status == RUN_SIGNALLED + SIGINT &&
			    !run->lost && command->terminal_fd >= 0;

	if (run->lost && !run->told)
		tell("%s: lost at epoch %llu: %s", run->cell,
		     (unsigned long long)run->epoch, run->why);
	if (run->death)
		die_of(run->death, false);
	/* a shell stops its loop or script only if it sees that, or was itself
	 * interrupted, as it is when the terminal is its own */
	if (by_interrupt && (run->interrupted || command->handed_over))
		die_of(SIGINT, command->handed_over);
	return run->exit_status;
}

static bool make_descriptors(struct run *run, struct trouble *trouble)
{
	run->signal_fd =
		signalfd(-1, run->config->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	run->timer_fd =
		timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (run->signal_fd >= 0 && run->timer_fd >= 0)
		return true;
	explain(trouble, RUN_NOT_HELD, "cannot start: %s", strerror(errno));
	return false;
}

int supervise(const struct supervisor_config *config)
{
	const struct options *options = config->options;
	struct run run = {
		.config = config,
		.cell = options->cell,
		.phase = WAITING,
		.answer_until_ms = clock_boot_ms() + ANSWER_MS,
		.wait_until_ms = INT64_MAX,
		.look_ms = LOOK_LEAST_MS,
	};
	struct trouble trouble;

	if (options->wait_ms > 0 && options->wait_ms < WAIT_FOR_EVER)
		run.wait_until_ms = clock_boot_ms() + options->wait_ms;
	if (!make_descriptors(&run, &trouble) ||
	    !holder_start(&run.holder, options->mount, options->cell,
			  options->wait_ms > 0, &trouble)) {
		tell("%s", trouble.text);
		return (int)trouble.exit;
	}
	command_init(&run.command);
	if (config->has_descendants) {
		run.family.self = getpid();
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	}
	/* a kill must not wait for a disk; if this is not allowed, it may */
	mlockall(MCL_CURRENT);
	while (run.phase != DONE) {
		turn(&run);
		if (run.phase != DONE)
			sleep_until_next(&run);
	}
	return leave(&run);
}
