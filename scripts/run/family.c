#include "family.h"

#include <dirent.h>
#include <errno.h>
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

static void read_all(struct processes *processes, int proc)
{
	DIR *dir = fdopendir(dup(proc));
	struct dirent *entry;
	struct process process;

	if (!dir)
		return;
	rewinddir(dir);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
		    read_process(proc, entry->d_name, &process) &&
		    !add(processes, &process))
			break;
	closedir(dir);
}

/* ---- by their parents, in all that there is ---- */

static int by_pid(const void *a, const void *b)
{
	const struct process *left = a, *right = b;

	return (left->pid > right->pid) - (left->pid < right->pid);
}

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

static void find_in_all(const struct family *family,
			struct processes *processes, int proc)
{
	bool more = true;

	read_all(processes, proc);
	if (processes->count > 0)
		qsort(processes->all, processes->count,
		      sizeof(processes->all[0]), by_pid);
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

/* ---- from child to child ---- */

/* Adds those in the text of a file of children: "PID PID ... ". */
static void add_children(const struct family *family,
			 struct processes *processes, int proc, FILE *children)
{
	char pid[16];

	while (fscanf(children, "%15s", pid) == 1) {
		struct process process;

		if (!read_process(proc, pid, &process) ||
		    process.pid == family->other)
			continue;
		process.ours = true;
		if (!add(processes, &process))
			return;
	}
}

/* The children that one thread has made; or, for a first thread, inherited. */
static FILE *open_children(int proc, pid_t pid, const char *thread)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%d/task/%.16s/children", (int)pid,
		 thread);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? NULL : fdopen(fd, "r");
}

static void find_children(const struct family *family,
			  struct processes *processes, int proc, pid_t pid)
{
	char path[32];
	struct dirent *entry;
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path), "%d/task", (int)pid);
	fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		FILE *children =
			entry->d_name[0] == '.'
				? NULL
				: open_children(proc, pid, entry->d_name);

		if (!children)
			continue;
		add_children(family, processes, proc, children);
		fclose(children);
	}
	closedir(dir);
}

static void find_descendants(const struct family *family,
			     struct processes *processes, int proc)
{
	find_children(family, processes, proc, family->self);
	for (size_t i = 0; i < processes->count; i++)
		find_children(family, processes, proc, processes->all[i].pid);
}

/* ---- for all ---- */

static int open_proc(void)
{
	return open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void family_signal(const struct family *family, int signal)
{
	struct processes processes = {0};
	int proc;

	kill(-family->group, signal);
	if (family->self == 0 || (proc = open_proc()) < 0)
		return;
	find_descendants(family, &processes, proc);
	for (size_t i = 0; i < processes.count; i++) {
		const struct process *process = &processes.all[i];

		if (process->alive && process->group != family->group)
			kill(process->pid, signal);
	}
	free(processes.all);
	close(proc);
}

static unsigned count(const struct family *family,
		      const struct processes *processes)
{
	unsigned alive = 0;

	for (size_t i = 0; i < processes->count; i++) {
		const struct process *process = &processes->all[i];

		if (process->ours && process->alive)
			alive++;
		else if (process->ours && process->parent == family->self &&
			 process->pid != family->group)
			waitpid(process->pid, NULL, WNOHANG);
	}
	return alive;
}

unsigned family_alive(const struct family *family)
{
	struct processes processes = {0};
	int proc = open_proc();
	unsigned alive = 0;

	if (proc < 0)
		return 1; /* for all we know */
	if (family->self != 0)
		find_descendants(family, &processes, proc);
	alive = count(family, &processes);
	if (alive == 0) {
		processes.count = 0;
		find_in_all(family, &processes, proc);
		alive = count(family, &processes);
	}
	free(processes.all);
	close(proc);
	return alive;
}

bool family_visible(void)
{
	struct process process;
	char name[16];
	int proc = open_proc();
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

bool family_has_descendants(void)
{
	siginfo_t info;
	char name[16];
	int proc = open_proc();
	FILE *children;

	if (proc < 0)
		return false;
	snprintf(name, sizeof(name), "%d", (int)getpid());
	children = open_children(proc, getpid(), name);
	close(proc);
	if (!children)
		return false;
	fclose(children);
	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 &&
	       errno == ECHILD;
}
