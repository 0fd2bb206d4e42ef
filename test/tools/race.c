/* race OWN...: many processes claim one cell at once, round after round.
 *
 * The arguments are the same cell's `own` on any number of mounts; the
 * processes are spread over them. The record must exist, and none of the nodes
 * may have a lease, so that each is dead and can be robbed by the next.
 *
 *	--procs P		processes (64)
 *	--rounds R		rounds (100)
 *	--node-prefix TEXT	process k claims as node TEXTk ("race-")
 *	--log FILE		each acknowledged claim is appended, "EPOCH
 *				NODE", and synced, by its winner
 *	--tolerate		the daemons are being killed: see below
 *
 * In a round every process opens its file O_RDWR and reads; when all have read,
 * all write. Checked after each round: all have read the epoch that the round
 * began with, exactly one write succeeded, all others were EBUSY, the record
 * names the winner and the epoch has advanced by one. With --tolerate, errnos
 * of dead mounts and of unknown outcomes are allowed too, and what is checked
 * is that no two claims of an epoch were acknowledged and that no readable
 * record is older than an acknowledged claim.
 *
 * Prints one summary line. Exit status 0; 1: a check failed; 100: usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PROCS_MAX     1024
#define NODE_SIZE     256
#define ROUND_LIMIT_S 120

/* What a process made of a round. Written by it between the barriers and read
 * by the parent after the last. */
struct result {
	bool has_read;
	int error;	/* 0: the claim was acknowledged */
	uint64_t epoch; /* that was read */
};

/* Shared by all processes. */
struct arena {
	pthread_barrier_t start, all_read, all_written;
	struct result results[PROCS_MAX];
};

static struct arena *arena;
static pid_t referee_pid;
static const char *node_prefix = "race-";
static const char *log_path;
static int procs = 64, rounds = 100;
static bool tolerate;

__attribute__((format(printf, 1, 2))) _Noreturn static void
die(const char *format, ...)
{
	va_list args;

	fputs("race: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	/* All end together: the children by PR_SET_PDEATHSIG. */
	if (getpid() != referee_pid)
		kill(referee_pid, SIGTERM);
	exit(1);
}

static void on_alarm(int signal)
{
	static const char text[] = "race: a round does not end\n";

	(void)signal;
	_exit(write(STDERR_FILENO, text, sizeof(text) - 1) < 0 ? 2 : 1);
}

/* What "NAME": stands before in RECORD. */
static const char *field(const char *record, const char *name)
{
	const char *at = strstr(record, name);

	if (at == NULL)
		return NULL;
	at += strlen(name);
	return at + strspn(at, " \t\n:");
}

/* Reads the record on FD. 0, or an errno. */
static int read_record(int fd, char *record, size_t size, uint64_t *epoch)
{
	ssize_t len = pread(fd, record, size - 1, 0);
	const char *number;

	if (len < 0)
		return errno;
	record[len] = '\0';
	number = field(record, "\"epoch\"");
	if (number == NULL)
		die("not a record: '%s'", record);
	*epoch = strtoull(number, NULL, 10);
	return 0;
}

static void log_claim(uint64_t epoch, const char *node)
{
	char line[512];
	int fd;

	if (log_path == NULL)
		return;
	snprintf(line, sizeof(line), "%" PRIu64 " %s\n", epoch, node);
	fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, line, strlen(line)) < 0 || fsync(fd) != 0)
		die("%s: %m", log_path);
	close(fd);
}

/* One process's part of one round. */
static void take_part(const char *path, const char *node, struct result *result)
{
	char record[1024];
	int fd, len;

	pthread_barrier_wait(&arena->start);
	*result = (struct result){0};
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		result->error = errno;
	else
		result->error =
			read_record(fd, record, sizeof(record), &result->epoch);
	result->has_read = result->error == 0;

	pthread_barrier_wait(&arena->all_read);
	if (result->has_read) {
		len = snprintf(record, sizeof(record),
			       "{\"node\":\"%s\",\"epoch\":%" PRIu64 "}", node,
			       result->epoch + 1);
		if (pwrite(fd, record, (size_t)len, 0) != len)
			result->error = errno;
		else
			log_claim(result->epoch + 1, node);
	}
	if (fd >= 0)
		close(fd);
	pthread_barrier_wait(&arena->all_written);
}

static bool is_allowed(int error)
{
	if (error == EBUSY)
		return true;
	return tolerate &&
	       (error == ENOTCONN || error == ECONNABORTED || error == EIO ||
		error == ETIMEDOUT || error == ENOENT);
}

/* Reads PATH anew into RECORD. 0, or an errno. */
static int look(const char *path, char *record, size_t size, uint64_t *epoch)
{
	int error, fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	error = read_record(fd, record, size, epoch);
	close(fd);
	return error;
}

/* The winner of the round that is over, or -1. */
static int judge(int round, uint64_t epoch_before)
{
	int winner = -1;

	for (int k = 0; k < procs; k++) {
		const struct result *result = &arena->results[k];

		if (result->has_read && !tolerate &&
		    result->epoch != epoch_before)
			die("round %d: process %d read epoch %" PRIu64
			    ", not %" PRIu64,
			    round, k, result->epoch, epoch_before);
		if (result->error != 0) {
			if (!is_allowed(result->error) ||
			    (!tolerate && !result->has_read))
				die("round %d: process %d: %s of a %s", round,
				    k, strerrorname_np(result->error),
				    result->has_read ? "write" : "read");
			continue;
		}
		if (winner >= 0 &&
		    result->epoch == arena->results[winner].epoch)
			die("round %d: processes %d and %d both claimed epoch "
			    "%" PRIu64,
			    round, winner, k, result->epoch + 1);
		if (winner < 0 || result->epoch > arena->results[winner].epoch)
			winner = k;
	}
	if (winner < 0 && !tolerate)
		die("round %d: nobody won", round);
	return winner;
}

/* Does the record say what the last acknowledged claim wrote? */
static void check_record(int round, const char *path, int winner,
			 uint64_t acknowledged)
{
	char record[1024], node[NODE_SIZE];
	const char *found;
	uint64_t epoch = 0;
	int error = look(path, record, sizeof(record), &epoch);

	if (error != 0) {
		if (!tolerate || !is_allowed(error))
			die("round %d: %s: %s", round, path,
			    strerrorname_np(error));
		return;
	}
	if (epoch < acknowledged || (!tolerate && epoch != acknowledged))
		die("round %d: epoch %" PRIu64 " was acknowledged, but the "
		    "record is %s",
		    round, acknowledged, record);
	if (winner < 0 || epoch != acknowledged)
		return;
	snprintf(node, sizeof(node), "\"%s%d\"", node_prefix, winner);
	found = field(record, "\"node\"");
	if (found == NULL || strncmp(found, node, strlen(node)) != 0)
		die("round %d: %s won, but the record is %s", round, node,
		    record);
}

/* The parent's part: opens the barriers and judges. */
static void referee(char **paths, int path_count)
{
	uint64_t first = 0, epoch = 0;
	int wins = 0, winner, error;
	char record[1024];

	error = look(paths[0], record, sizeof(record), &epoch);
	if (error != 0 && !tolerate)
		die("%s: %s", paths[0], strerrorname_np(error));
	first = epoch;
	for (int round = 1; round <= rounds; round++) {
		alarm(ROUND_LIMIT_S);
		pthread_barrier_wait(&arena->start);
		pthread_barrier_wait(&arena->all_read);
		pthread_barrier_wait(&arena->all_written);
		winner = judge(round, epoch);
		if (winner >= 0) {
			wins++;
			epoch = arena->results[winner].epoch + 1;
		} else {
			usleep(20000); /* all mounts are dead: do not spin */
		}
		check_record(round, paths[round % path_count], winner, epoch);
	}
	printf("%d rounds, %d processes, %d files: %d claims, epoch %" PRIu64
	       " to %" PRIu64 "\n",
	       rounds, procs, path_count, wins, first, epoch);
}

static void start_processes(char **paths, int path_count)
{
	for (int k = 0; k < procs; k++) {
		char node[NODE_SIZE];
		pid_t pid = fork();

		if (pid < 0)
			die("fork: %m");
		if (pid > 0)
			continue;
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
		    getppid() != referee_pid)
			_exit(1);
		snprintf(node, sizeof(node), "%s%d", node_prefix, k);
		for (int round = 0; round < rounds; round++)
			take_part(paths[k % path_count], node,
				  &arena->results[k]);
		_exit(0);
	}
}

static void make_arena(void)
{
	pthread_barrierattr_t shared;
	unsigned count = (unsigned)procs + 1;

	arena = mmap(NULL, sizeof(*arena), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED)
		die("mmap: %m");
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&arena->start, &shared, count);
	pthread_barrier_init(&arena->all_read, &shared, count);
	pthread_barrier_init(&arena->all_written, &shared, count);
	pthread_barrierattr_destroy(&shared);
}

static int usage(void)
{
	fputs("usage: race OWN... [--procs P] [--rounds R] "
	      "[--node-prefix TEXT] [--log FILE] [--tolerate]\n",
	      stderr);
	return 100;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"procs", required_argument, NULL, 'p'},
		{"rounds", required_argument, NULL, 'r'},
		{"node-prefix", required_argument, NULL, 'n'},
		{"log", required_argument, NULL, 'l'},
		{"tolerate", no_argument, NULL, 't'},
		{NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'p')
			procs = (int)strtol(optarg, NULL, 10);
		else if (option == 'r')
			rounds = (int)strtol(optarg, NULL, 10);
		else if (option == 'n')
			node_prefix = optarg;
		else if (option == 'l')
			log_path = optarg;
		else if (option == 't')
			tolerate = true;
		else
			return usage();
	}
	if (optind == argc || procs < 1 || procs > PROCS_MAX || rounds < 1)
		return usage();
	referee_pid = getpid();
	signal(SIGALRM, on_alarm);
	make_arena();
	start_processes(argv + optind, argc - optind);
	referee(argv + optind, argc - optind);
	return 0;
}
