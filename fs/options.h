/* options: the command line: read, checked, explained.
 *
 * It has no other effect. A new option is a field here, a row and a setter in
 * options.c, a line in --help and an entry in celldfs.8; what it is for is
 * passed on by serve() in main.c.
 */
#ifndef CELLDFS_OPTIONS_H
#define CELLDFS_OPTIONS_H

#include "outcome.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum command { COMMAND_MOUNT, COMMAND_PROBE, COMMAND_HELP, COMMAND_VERSION };

struct options {
	enum command command;
	const char *store;
	const char *mountpoint;
	bool foreground;
	bool debug; /* libfuse's, implies foreground */
	bool read_only;
	bool allow_other;
	bool allow_http; /* plain http also to other machines */
	bool default_permissions;
	bool auto_unmount;
	const char *node; /* NULL: a plain window */
	bool keeper_off;
	bool takeover_any;
	bool replace;	   /* the next five: the keeper's */
	bool fence_exits;
	const char *addr;  /* NULL: the host's name */
	int64_t ttl_ms; /* 0: not given */
	unsigned peer_protocol;
	uint64_t skew_ms;
	int64_t deadline_ms;
	int64_t watch_ms;
	const char *log; /* NULL: stderr with -f, else syslog */
	uid_t uid;
	gid_t gid;
	mode_t umask;
	char *fuse;  /* owned: what goes to libfuse, comma-separated; "" */
	char *lists; /* owned: the lists of options, in pieces */
};

/* Parses the arguments. OK; INVALID with REASON: exit status 2; NO_MEMORY.
 * Strings point into ARGV, which must stay, or into OPTIONS->lists. */
enum outcome options_parse(struct options *options, int argc, char **argv,
			   struct reason *reason) MUST_CHECK;
void options_release(struct options *options);

/* May TEXT stand as the addr in a lease, as it is? */
bool options_is_addr(const char *text);

extern const char options_help[];

#endif
