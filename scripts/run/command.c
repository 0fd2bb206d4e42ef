#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static bool is_all_terminal(void)
{
	return isatty(0) && isatty(1) && isatty(2);
}

void command_init(struct command *command)
{
	*command = (struct command){
		.gate_fd = -1,
		.terminal_fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC),
	};
}

/* In the new process, which the parent has put into its group. */
static void __attribute__((noreturn))
become(char **argv, int gate_fd, pid_t parent,
       const struct inherited *inherited)
{
	enum run_exit failed;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || read(gate_fd, &byte, 1) != 1)
		_exit(RUN_FAILED);
	sigaction(SIGCHLD, &inherited->child, NULL);
	sigaction(SIGPIPE, &inherited->pipe, NULL);
	sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
	execvp(argv[0], argv);
	failed = errno == ENOENT ? RUN_NOT_FOUND : RUN_NOT_RUNNABLE;
	dprintf(STDERR_FILENO, "celldfs-run: %s: %s\n", argv[0],
		strerror(errno));
	_exit((int)failed);
}

bool command_prepare(struct command *command, char **argv,
		     const struct inherited *inherited, struct trouble *trouble)
{
	pid_t parent = getpid();
	int gate[2] = {-1, -1};

	if (pipe2(gate, O_CLOEXEC) == 0)
		command->pid = fork();
	if (gate[0] < 0 || command->pid < 0) {
		explain(trouble, RUN_NOT_HELD, "cannot start %s: %s", argv[0],
			strerror(errno));
		command->pid = 0;
		return false;
	}
	if (command->pid == 0) {
		close(gate[1]);
		become(argv, gate[0], parent, inherited);
	}
	close(gate[0]);
	command->gate_fd = gate[1];
	setpgid(command->pid, command->pid);
	if (is_all_terminal())
		command_foreground(command);
	return true;
}

void command_begin(struct command *command)
{
	/* if it is dead already, that is seen as any end is */
	ssize_t written = write(command->gate_fd, "", 1);

	(void)written;
	close(command->gate_fd);
	command->gate_fd = -1;
}

bool command_foreground(struct command *command)
{
	if (command->terminal_fd < 0 ||
	    tcgetpgrp(command->terminal_fd) != getpgrp() ||
	    tcsetpgrp(command->terminal_fd, command->pid) != 0)
		return false;
	command->handed_over = true;
	return true;
}

void command_background(struct command *command)
{
	if (command->terminal_fd >= 0 && command->pid > 0 &&
	    tcgetpgrp(command->terminal_fd) == command->pid)
		tcsetpgrp(command->terminal_fd, getpgrp());
}

void command_stop_too(struct command *command)
{
	sigset_t stop;

	if (command->terminal_fd < 0)
		return;
	command_background(command);
	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	kill(command->handed_over ? 0 : getpid(), SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, NULL); /* here */
	sigprocmask(SIG_BLOCK, &stop, NULL);
}
