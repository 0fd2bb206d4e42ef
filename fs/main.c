/* main: options, preflight, daemonise, serve, leave.
 *
 *   parent: options, paths made absolute, fork, wait on a pipe
 *   child:  open and probe the store, acquire the lease, mount, serve; then
 *           give the lease up
 *
 * The child says over the pipe that it serves when the kernel has connected.
 * Until then its stderr is the terminal's, so whatever fails is told there, and
 * the parent passes on the exit status. Threads, the store and its locks start
 * in the child: none of them survives a fork.
 */
#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <fuse_opt.h>

#include "arm.h"
#include "clock.h"
#include "gate.h"
#include "holds.h"
#include "keeper.h"
#include "lock.h"
#include "log.h"
#include "mount.h"
#include "notify.h"
#include "ops.h"
#include "options.h"
#include "peers.h"
#include "probe.h"
#include "seen.h"
#include "tree.h"
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS_FAILED 1
#define STATUS_USAGE  2
#define TTL_MS	      10000

/* What libfuse complained of while it mounted, to be told in our one line. */
static struct reason mount_complaint;

static void keep_complaint(enum fuse_log_level level, const char *format,
			   va_list arguments)
{
	char line[200];

	(void)level;
	vsnprintf(line, sizeof(line), format, arguments);
	line[strcspn(line, "\n")] = '\0';
	reason_set(&mount_complaint, OUTCOME_FAILED, "%s", line);
}

static void log_complaint(enum fuse_log_level level, const char *format,
			  va_list arguments)
{
	char line[200];

	vsnprintf(line, sizeof(line), format, arguments);
	line[strcspn(line, "\n")] = '\0';
	if (level <= FUSE_LOG_WARNING)
		log_line(LOG_WARNING, "%s", line);
}

static const struct reason no_memory = {"out of memory"};

static int fail(const char *what, const struct reason *reason)
{
	fprintf(stderr, "celldfs: %s: %s\n", what, reason->text);
	return STATUS_FAILED;
}

/* ---- before anything starts ---- */

static bool is_mounted_by_celldfs(const char *path)
{
	FILE *mounts = setmntent("/proc/self/mounts", "r");
	struct mntent *entry;
	bool found = false;

	if (!mounts)
		return false;
	while ((entry = getmntent(mounts)))
		if (strcmp(entry->mnt_dir, path) == 0)
			found = strcmp(entry->mnt_type, "fuse.celldfs") == 0;
	endmntent(mounts);
	return found;
}

/* Opens it rather than asks for its attributes: those of a mount whose daemon
 * has died may still be in the kernel's cache. */
static enum outcome check_mountpoint(const char *path, char **absolute,
				     struct reason *reason)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOTCONN)
		return reason_set(reason, OUTCOME_FAILED,
				  "a mount that died is still there; run: "
				  "fusermount3 -u %s",
				  path);
	if (fd < 0)
		return reason_set(reason, OUTCOME_FAILED, "%s",
				  strerror(errno));
	close(fd);
	*absolute = realpath(path, NULL);
	if (!*absolute)
		return reason_set(reason, OUTCOME_FAILED, "%s",
				  strerror(errno));
	if (is_mounted_by_celldfs(*absolute))
		return reason_set(reason, OUTCOME_FAILED,
				  "celldfs is mounted there already; run: "
				  "fusermount3 -u %s",
				  path);
	return OUTCOME_OK;
}

/* ---- serving ---- */

struct service {
	const struct options *options;
	const char *mountpoint;
	int ready_fd; /* the pipe to the parent; -1 in the foreground */
	struct fuse_session *session;
	struct watchdog *watchdog;
};

static void say_ready(void *arg)
{
	struct service *service = arg;
	int null_fd;

	notify_say("READY=1");
	service->watchdog = watchdog_start(service->mountpoint);
	if (service->ready_fd < 0)
		return;
	/* Until now it was in the terminal's reach: whoever interrupts the
	 * command does not want the mount. */
	setsid();
	if (write(service->ready_fd, "r", 1) != 1) {
		log_line(LOG_WARNING, "nobody waits for the mount any more");
		fuse_session_exit(service->session);
	}
	close(service->ready_fd);
	service->ready_fd = -1;
	null_fd = open("/dev/null", O_RDWR);
	if (null_fd >= 0) {
		for (int fd = 0; fd <= 2; fd++)
			dup2(null_fd, fd);
		if (null_fd > 2)
			close(null_fd);
	}
}

/* Who lets others in wants their permissions checked. */
static bool mount_checks(const struct options *options)
{
	return options->allow_other || options->default_permissions;
}

/* fsname= may hold commas and backslashes, which libfuse's lists escape. */
static char *session_options(const struct options *options, const char *url)
{
	size_t size = strlen(url) * 2 + strlen(options->fuse) + 160;
	char *text = malloc(size);
	char *to;

	if (!text)
		return NULL;
	to = stpcpy(text, "subtype=celldfs,fsname=");
	for (const char *from = url; *from; from++) {
		if (*from == ',' || *from == '\\')
			*to++ = '\\';
		*to++ = *from;
	}
	snprintf(to, size - (size_t)(to - text), "%s%s%s%s%s%s",
		 options->read_only ? ",ro" : "",
		 options->allow_other ? ",allow_other" : "",
		 mount_checks(options) ? ",default_permissions" : "",
		 options->debug ? ",debug" : "", options->fuse[0] ? "," : "",
		 options->fuse);
	return text;
}

static void end_threads(struct mount *mount, int64_t within_ms)
{
	locks_free(mount->locks, within_ms);
	watches_free(mount->watches);
	gate_free(mount->gate);
}

static int serve_session(struct service *service, struct mount *mount,
			 struct fuse_session *session)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int result;

	mount->gate = gate_new(GATE_POOL - GATE_RESERVE);
	mount->watches = watches_new(mount, service->options->watch_ms);
	if (mount->rules.node)
		mount->locks = locks_new(mount);
	if (!config || !mount->gate || !mount->watches ||
	    (mount->rules.node && !mount->locks)) {
		end_threads(mount, 0);
		fuse_loop_cfg_destroy(config);
		return fail(service->mountpoint, &no_memory);
	}
	fuse_loop_cfg_set_max_threads(config, GATE_POOL);
	/* to end and start threads costs more than to keep them */
	fuse_loop_cfg_set_idle_threads(config, GATE_POOL);
	if (!service->options->debug)
		fuse_set_log_func(log_complaint);
	service->session = session;
	mount->serving = say_ready;
	mount->serving_arg = service;
	mount->started_ms = clock_boot_ms();
	result = fuse_session_loop_mt(session, config);
	notify_say("STOPPING=1");
	/* their threads may still be answering requests of this session */
	end_threads(mount, mount->deadline_ms);
	fuse_loop_cfg_destroy(config);
	if (result < 0)
		log_line(LOG_ERR, "the session ended with an error: %s",
			 strerror(-result));
	/* a positive one is the signal that asked to leave */
	return result < 0 ? STATUS_FAILED : EXIT_SUCCESS;
}

static int run_session(struct service *service, struct mount *mount)
{
	char *options = session_options(service->options, mount->url);
	char *argv[] = {(char[]){"celldfs"}, (char[]){"-o"}, options, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	struct fuse_session *session = NULL;
	bool mounted = false;
	int status = STATUS_FAILED;

	if (!options)
		return fail(service->mountpoint, &no_memory);
	if (!service->options->debug)
		fuse_set_log_func(keep_complaint);
	session = fuse_session_new(&args, &ops_table, sizeof(ops_table), mount);
	if (session && fuse_set_signal_handlers(session) == 0) {
		mounted = fuse_session_mount(session, service->mountpoint) == 0;
		if (mounted) {
			status = serve_session(service, mount, session);
			fuse_session_unmount(session);
		}
		fuse_remove_signal_handlers(session);
	}
	if (!mounted)
		fprintf(stderr, "celldfs: %s: cannot mount%s%s\n",
			service->mountpoint,
			mount_complaint.text[0] ? ": " : "",
			mount_complaint.text);
	if (session)
		fuse_session_destroy(session);
	watchdog_stop(service->watchdog);
	fuse_opt_free_args(&args);
	free(options);
	return status;
}

static enum outcome open_store(const struct options *options, const char *url,
			       struct store **store, struct reason *reason)
{
	struct store_options store_options = {
		.read_only = options->read_only,
		.allow_http = options->allow_http,
	};
	struct limits limits = {.deadline_ms =
					clock_boot_ms() + options->deadline_ms};
	enum outcome outcome =
		store_open(store, url, &store_options, &limits, reason);

	if (outcome != OUTCOME_OK || options->read_only)
		return outcome;
	outcome = probe_run(*store, &limits, reason);
	if (outcome != OUTCOME_OK)
		store_close(*store);
	return outcome;
}

/* ---- the node's lease ---- */

static void say_waits(const struct reason *reason)
{
	fprintf(stderr, "celldfs: waiting: %s\n", reason->text);
}

/* OK also if this mount keeps none. */
static enum outcome start_keeper(const struct options *options,
				 struct mount *mount, struct reason *reason)
{
	static char host[HOST_NAME_MAX + 1]; /* as long as the keeper lives */
	struct keeper_config config = {
		.lease =
			{
				.node = options->node,
				.ttl_ms = mount->ttl_ms,
				.skew_ms = options->skew_ms,
				.patience_ms = options->deadline_ms,
				.replace = options->replace,
			},
		.addr = options->addr,
		.peer_protocol = options->peer_protocol,
		.fence_exits = options->fence_exits,
		.waits = say_waits,
	};

	if (!options->node || options->keeper_off)
		return OUTCOME_OK;
	if (!config.addr && gethostname(host, sizeof(host)) == 0)
		config.addr = host;
	if (!config.addr || !options_is_addr(config.addr))
		return reason_set(reason, OUTCOME_INVALID,
				  "this machine's name cannot stand in a "
				  "lease: give -o addr=");
	mount->holds = holds_new(options->node);
	if (!mount->holds)
		return reason_set(reason, OUTCOME_NO_MEMORY, "out of memory");
	return keeper_start(&mount->keeper, mount->store, mount->holds, &config,
			    reason);
}

static int serve_with_lease(struct service *service, struct mount *mount)
{
	struct reason reason = {""};
	int status;

	if (start_keeper(service->options, mount, &reason) == OUTCOME_OK) {
		status = run_session(service, mount);
	} else {
		fprintf(stderr, "celldfs: nodes/%s: %s\n",
			service->options->node, reason.text);
		status = STATUS_FAILED;
	}
	keeper_stop(mount->keeper, mount->deadline_ms);
	holds_free(mount->holds);
	return status;
}

static int serve(struct service *service, const char *url)
{
	const struct options *options = service->options;
	struct mount mount = {
		.url = url,
		.read_only = options->read_only,
		.kernel_checks = mount_checks(options),
		.deadline_ms = options->deadline_ms,
		.ttl_ms = options->ttl_ms ? options->ttl_ms : TTL_MS,
		.uid = options->uid,
		.gid = options->gid,
		.umask = options->umask,
		.rules =
			{
				.node = options->node,
				.clients_keep = options->keeper_off,
				.takeover_any = options->takeover_any,
				.skew_ms = options->skew_ms,
			},
	};
	struct reason reason = {""};
	int status = STATUS_FAILED;
	const char *log = options->log		? options->log
			  : options->foreground ? "stderr"
						: "syslog";

	if (log_to(log, &reason) != OUTCOME_OK)
		return fail("log", &reason);
	if (open_store(options, url, &mount.store, &reason) != OUTCOME_OK)
		return fail(url, &reason);
	mount.tree = tree_new();
	mount.seen = seen_new();
	mount.arms = arms_new();
	mount.peers = peers_new();
	if (mount.tree && mount.seen && mount.arms && mount.peers)
		status = serve_with_lease(service, &mount);
	else
		status = fail(url, &no_memory);
	peers_free(mount.peers);
	arms_free(mount.arms);
	seen_free(mount.seen);
	tree_free(mount.tree);
	store_close(mount.store);
	return status;
}

/* ---- daemonising ---- */

static int wait_for_child(pid_t child, int fd)
{
	char byte;
	int status;

	if (read(fd, &byte, 1) == 1)
		return EXIT_SUCCESS;
	if (waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	    WEXITSTATUS(status) != 0)
		return WEXITSTATUS(status);
	fprintf(stderr, "celldfs: the daemon ended before it served\n");
	return STATUS_FAILED;
}

static int serve_in_background(struct service *service, const char *url)
{
	int ready[2];
	pid_t child;

	if (pipe2(ready, O_CLOEXEC) != 0) {
		perror("celldfs: pipe");
		return STATUS_FAILED;
	}
	child = fork();
	if (child < 0) {
		perror("celldfs: fork");
		return STATUS_FAILED;
	}
	if (child > 0) {
		close(ready[1]);
		return wait_for_child(child, ready[0]);
	}
	close(ready[0]);
	if (chdir("/") != 0)
		perror("celldfs: chdir /");
	service->ready_fd = ready[1];
	return serve(service, url);
}

/* ---- commands ---- */

static int command_mount(const struct options *options)
{
	struct service service = {.options = options, .ready_fd = -1};
	char *mountpoint = NULL;
	struct reason reason = {""};
	enum outcome outcome;
	char *url = NULL;
	int status;

	outcome = store_absolute_url(&url, options->store, &reason);
	if (outcome != OUTCOME_OK) {
		fail(options->store, &reason);
		return outcome == OUTCOME_INVALID ? STATUS_USAGE
						  : STATUS_FAILED;
	}
	if (check_mountpoint(options->mountpoint, &mountpoint, &reason) !=
	    OUTCOME_OK) {
		free(mountpoint);
		free(url);
		return fail(options->mountpoint, &reason);
	}
	service.mountpoint = mountpoint;
	status = options->foreground ? serve(&service, url)
				     : serve_in_background(&service, url);
	free(mountpoint);
	free(url);
	return status;
}

static int command_probe(const struct options *options)
{
	struct store_options store_options = {
		.allow_http = options->allow_http,
	};
	struct limits limits = {.deadline_ms =
					clock_boot_ms() + options->deadline_ms};
	struct reason reason = {""};
	struct store *store;
	enum outcome outcome;
	char *url = NULL;

	outcome = store_absolute_url(&url, options->store, &reason);
	if (outcome != OUTCOME_OK) {
		fail(options->store, &reason);
		return outcome == OUTCOME_INVALID ? STATUS_USAGE
						  : STATUS_FAILED;
	}
	outcome = store_open(&store, url, &store_options, &limits, &reason);
	if (outcome == OUTCOME_OK) {
		outcome = probe_report(store, &limits, stdout, &reason);
		store_close(store);
	}
	if (outcome != OUTCOME_OK)
		fail(url, &reason);
	free(url);
	return outcome == OUTCOME_OK ? EXIT_SUCCESS : STATUS_FAILED;
}

/* What is opened later must not get the number of a standard descriptor that
 * the caller has closed: it would be taken for it. */
static void fill_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
}

int main(int argc, char **argv)
{
	struct options options;
	struct reason reason = {""};
	enum outcome outcome;
	int status = EXIT_SUCCESS;

	/* a connection that breaks is an error of that connection */
	signal(SIGPIPE, SIG_IGN);
	fill_standard_descriptors();
	outcome = options_parse(&options, argc, argv, &reason);
	if (outcome != OUTCOME_OK) {
		options_release(&options);
		if (outcome != OUTCOME_INVALID)
			return fail("options", &no_memory);
		fprintf(stderr, "celldfs: %s\n", reason.text);
		fprintf(stderr, "celldfs: see celldfs --help\n");
		return STATUS_USAGE;
	}
	switch (options.command) {
	case COMMAND_HELP:
		fputs(options_help, stdout);
		break;
	case COMMAND_VERSION:
		puts("celldfs " CELLDFS_VERSION);
		break;
	case COMMAND_PROBE:
		status = command_probe(&options);
		break;
	case COMMAND_MOUNT:
		status = command_mount(&options);
		break;
	}
	options_release(&options);
	return status;
}
