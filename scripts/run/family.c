#include "family.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct process {
	pid_t pid, parent, group;
	bool alive;
	bool ours;
};

struct processes {
	struct process *all; /* owned; by pid, ascending */
	size_t count, size;
};

/* ---- what /proc says ---- */

/* "PID (NAME) STATE PPID PGRP ... NUM_THREADS ...". NAME can hold anything. A
 * zombie with more than one thread is a process whose first thread has ended.
 */
static bool parse_stat(const char *text, struct process *process)
{
	const char *rest = strrchr(text, ')');
	long threads;
	int pid, parent, group;
	char state;

	if (!rest ||
	    sscanf(rest + 1,
		   " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u "
		   "%*d %*d %*d %*d %ld",
		   &state, &parent, &group, &threads) != 4 ||
	    sscanf(text, "%d", &pid) != 1)
		return false;
	*process = (struct process){
		.pid = pid,
		.parent = parent,
		.group = group,
		.alive = (state != 'Z' && state != 'X') || threads > 1,
	};
	return true;
}

static bool read_process(int proc, const char *pid, struct process *process)
{
	char path[32 + sizeof("/stat")], text[1024];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "%.32s/stat", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return false;
	text[len] = '\0';
	return parse_stat(text, process);
}

static bool add(struct processes *processes, const struct process *process)
{
	if (processes->count == processes->size) {
		size_t size = processes->size ? 2 * processes->size : 512;
		struct process *all =
			realloc(processes->all, size * sizeof(*all));

		if (!all)
			return false;
		processes->all = all;
		processes->size = size;
	}
	processes->all[processes->count++] = *process;
	return true;
}

static int by_pid(const void *a, const void *b)
{
	const struct process *left = a, *right = b;

	return (left->pid > right->pid) - (left->pid < right->pid);
}

static void read_processes(struct processes *processes)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	struct process process;

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
		    read_process(dirfd(dir), entry->d_name, &process) &&
		    !add(processes, &process))
			break;
	closedir(dir);
	if (processes->count > 0)
		qsort(processes->all, processes->count, sizeof(process),
		      by_pid);
}

/* ---- whose they are ---- */

static bool is_ours(const struct family *family,
		    const struct processes *processes,
		    const struct process *process)
{
	struct process key = {.pid = process->parent};
	const struct process *parent;

	if (process->group == family->group)
		return true;
	if (family->self == 0 || process->pid == family->self ||
	    process->pid == family->other)
		return false;
	if (process->parent == family->self)
		return true;
	parent = bsearch(&key, processes->all, processes->count, sizeof(key),
			 by_pid);
	return parent && parent->ours;
}

static void find_family(const struct family *family,
			struct processes *processes)
{
	bool more = true;

	read_processes(processes);
	while (more) {
		more = false;
		for (size_t i = 0; i < processes->count; i++) {
			struct process *process = &processes->all[i];

			if (process->ours ||
			    !is_ours(family, processes, process))
				continue;
			process->ours = true;
			more = true;
		}
	}
}

void family_signal(const struct family *family, int signal)
{
	struct processes processes = {0};

	kill(-family->group, signal);
	if (family->self == 0)
		return;
	find_family(family, &processes);
	for (size_t i = 0; i < processes.count; i++) {
		const struct process *process = &processes.all[i];

		if (process->ours && process->alive &&
		    process->group != family->group)
			kill(process->pid, signal);
	}
	free(processes.all);
}

unsigned family_alive(const struct family *family)
{
	struct processes processes = {0};
	unsigned alive = 0;

	find_family(family, &processes);
	for (size_t i = 0; i < processes.count; i++) {
		const struct process *process = &processes.all[i];

		if (process->ours && process->alive)
			alive++;
		else if (process->ours && process->parent == family->self &&
			 process->pid != family->group)
			waitpid(process->pid, NULL, WNOHANG);
	}
	free(processes.all);
	return alive;
}

bool family_visible(void)
{
	struct process process;
	char name[16];
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool visible;

	if (proc < 0)
		return false;
	snprintf(name, sizeof(name), "%d", (int)getpid());
	/* another pid namespace's /proc shows somebody else there */
	visible = read_process(proc, name, &process) &&
		  process.pid == getpid() && process.parent == getppid() &&
		  process.group == getpgrp();
	close(proc);
	return visible;
}
