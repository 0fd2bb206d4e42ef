#include "options.h"

#include "name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
const char options_help[] =
	"usage: celldfs STORE MOUNTPOINT [-f] [-o OPTION[,OPTION...]]\n"
	"       celldfs probe STORE\n"
	"A fleet's ownership records as files; every write is one compare-and-swap.\n"
	"STORE is sqlite:PATH (made if it does not exist) or s3://BUCKET[/PREFIX].\n"
	"  -f               stay in the foreground, log to stderr; -d: and trace FUSE\n"
	"  -h, --help, -V, --version\n"
	"Options:\n"
	"  node=NAME        be this node of the fleet: keep the lease nodes/NAME\n"
	"  ttl-ms=N         of the lease (10000); it is renewed three times in it\n"
	"  addr=TEXT        in the lease: where peers reach the node (the host's name)\n"
	"  peer-protocol=N  in the lease (0)\n"
	"  replace          do not wait for an earlier run's lease to run out\n"
	"  fence=exit       exit with status 3 when the lease is lost\n"
	"  keeper=off       clients keep nodes/NAME themselves\n"
	"  takeover=any     plain writes take cells from living owners, too\n"
	"  skew-ms=N        margin after a lease's expiry (1000)\n"
	"  deadline-ms=N    an operation ends by then (15000)\n"
	"  watch-ms=N       how often a poll for changes looks (1000)\n"
	"  log=WHERE        stderr, syslog or an absolute path\n"
	"  allow-http       plain http also to other machines\n"
	"  ro, rw, allow_other, default_permissions, auto_unmount, uid=N, gid=N,\n"
	"  umask=OCTAL as in other mounts; fstab's words are accepted\n"
	"Exit status: 0 mounted (or passed), 1 failed, 2 usage, 3 fenced (fence=exit).\n"
	"Unmount: umount MOUNTPOINT (a user: fusermount3 -u). Manual: man 8 celldfs.\n";
/* clang-format on */

/* Whoever has seen the store's clock step trusts a lease for a minute more: a
 * holder that has not may reckon by the old time for twice its ttl. */
#define TTL_MOST_MS 30000

enum kind {
	KIND_FUSE,   /* for libfuse, as it is */
	KIND_IGNORE, /* mount(8)'s and fstab's: means nothing to a mount */
	KIND_OURS,
};

struct parser {
	struct options *options;
	struct reason *reason;
	const char *name;  /* of the option being read */
	const char *value; /* NULL: none */
	char *room;	   /* left of options->lists */
};

static enum outcome refuse_value(struct parser *parser, const char *expected)
{
	return reason_set(parser->reason, OUTCOME_INVALID,
			  "option %s: '%s': expected %s", parser->name,
			  parser->value, expected);
}

static enum outcome parse_number(struct parser *parser, int base, uint64_t low,
				 uint64_t high, uint64_t *number)
{
	char expected[80];
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(parser->value, &end, base);
	if (errno == 0 && end != parser->value && *end == '\0' &&
	    parser->value[0] >= '0' && parser->value[0] <= '9' &&
	    value >= low && value <= high) {
		*number = value;
		return OUTCOME_OK;
	}
	if (base == 8)
		return refuse_value(parser, "an octal mode, 0 to 777");
	snprintf(expected, sizeof(expected), "a number from %llu to %llu",
		 (unsigned long long)low, (unsigned long long)high);
	return refuse_value(parser, expected);
}

static enum outcome pass_to_fuse(struct parser *parser)
{
	struct options *options = parser->options;
	char *longer;

	if (asprintf(&longer, "%s%s%s", options->fuse,
		     options->fuse[0] ? "," : "", parser->name) < 0)
		return OUTCOME_NO_MEMORY;
	free(options->fuse);
	options->fuse = longer;
	return OUTCOME_OK;
}

static enum outcome set_ro(struct parser *parser)
{
	parser->options->read_only = true;
	return OUTCOME_OK;
}

static enum outcome set_rw(struct parser *parser)
{
	parser->options->read_only = false;
	return OUTCOME_OK;
}

static enum outcome set_allow_other(struct parser *parser)
{
	parser->options->allow_other = true;
	return OUTCOME_OK;
}

static enum outcome set_allow_http(struct parser *parser)
{
	parser->options->allow_http = true;
	return OUTCOME_OK;
}

static enum outcome set_default_permissions(struct parser *parser)
{
	parser->options->default_permissions = true;
	return OUTCOME_OK;
}

static enum outcome set_node(struct parser *parser)
{
	if (name_node(parser->value, strlen(parser->value)) != NAME_VALID)
		return refuse_value(parser, "a node's name: 1 to 128 of A-Z "
					    "a-z 0-9 _ - .");
	parser->options->node = parser->value;
	return OUTCOME_OK;
}

static enum outcome set_keeper(struct parser *parser)
{
	if (strcmp(parser->value, "off") != 0)
		return refuse_value(parser, "off");
	parser->options->keeper_off = true;
	return OUTCOME_OK;
}

bool options_is_addr(const char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++)
		if (text[i] <= 0x20 || text[i] >= 0x7f || text[i] == '"' ||
		    text[i] == '\\')
			return false;
	return len > 0 && len <= 255;
}

static enum outcome set_addr(struct parser *parser)
{
	if (!options_is_addr(parser->value))
		return refuse_value(parser,
				    "1 to 255 printable ASCII characters "
				    "without space, quote and backslash");
	parser->options->addr = parser->value;
	return OUTCOME_OK;
}

static enum outcome set_ttl(struct parser *parser)
{
	uint64_t number;
	enum outcome outcome =
		parse_number(parser, 10, 1000, TTL_MOST_MS, &number);

	if (outcome == OUTCOME_OK)
		parser->options->ttl_ms = (int64_t)number;
	return outcome;
}

static enum outcome set_peer_protocol(struct parser *parser)
{
	uint64_t number;
	enum outcome outcome = parse_number(parser, 10, 0, UINT16_MAX, &number);

	if (outcome == OUTCOME_OK)
		parser->options->peer_protocol = (unsigned)number;
	return outcome;
}

static enum outcome set_fence(struct parser *parser)
{
	if (strcmp(parser->value, "exit") != 0)
		return refuse_value(parser, "exit");
	parser->options->fence_exits = true;
	return OUTCOME_OK;
}

static enum outcome set_replace(struct parser *parser)
{
	parser->options->replace = true;
	return OUTCOME_OK;
}

static enum outcome set_auto_unmount(struct parser *parser)
{
	parser->options->auto_unmount = true;
	return pass_to_fuse(parser);
}

static enum outcome set_takeover(struct parser *parser)
{
	if (strcmp(parser->value, "any") != 0)
		return refuse_value(parser, "any");
	parser->options->takeover_any = true;
	return OUTCOME_OK;
}

static enum outcome set_skew(struct parser *parser)
{
	return parse_number(parser, 10, 0, 3600000, &parser->options->skew_ms);
}

static enum outcome set_deadline(struct parser *parser)
{
	uint64_t number;
	enum outcome outcome = parse_number(parser, 10, 100, 3600000, &number);

	if (outcome == OUTCOME_OK)
		parser->options->deadline_ms = (int64_t)number;
	return outcome;
}

static enum outcome set_watch(struct parser *parser)
{
	uint64_t number;
	enum outcome outcome = parse_number(parser, 10, 100, 3600000, &number);

	if (outcome == OUTCOME_OK)
		parser->options->watch_ms = (int64_t)number;
	return outcome;
}

static enum outcome set_log(struct parser *parser)
{
	if (strcmp(parser->value, "stderr") != 0 &&
	    strcmp(parser->value, "syslog") != 0 && parser->value[0] != '/')
		return refuse_value(parser, "stderr, syslog or an absolute "
					    "path");
	parser->options->log = parser->value;
	return OUTCOME_OK;
}

static enum outcome set_uid(struct parser *parser)
{
	uint64_t number;
	enum outcome outcome =
		parse_number(parser, 10, 0, UINT32_MAX - 1, &number);

	if (outcome == OUTCOME_OK)
		parser->options->uid = (uid_t)number;
	return outcome;
}

static enum outcome set_gid(struct parser *parser)
{
	uint64_t number;
	enum outcome outcome =
		parse_number(parser, 10, 0, UINT32_MAX - 1, &number);

	if (outcome == OUTCOME_OK)
		parser->options->gid = (gid_t)number;
	return outcome;
}

static enum outcome set_umask(struct parser *parser)
{
	uint64_t number;
	enum outcome outcome = parse_number(parser, 8, 0, 0777, &number);

	if (outcome == OUTCOME_OK)
		parser->options->umask = (mode_t)number;
	return outcome;
}

static const struct option_row {
	const char *name;
	enum kind kind;
	bool takes_value;
	enum outcome (*set)(struct parser *parser);
} rows[] = {
	{"node", KIND_OURS, true, set_node},
	{"keeper", KIND_OURS, true, set_keeper},
	{"ttl-ms", KIND_OURS, true, set_ttl},
	{"addr", KIND_OURS, true, set_addr},
	{"peer-protocol", KIND_OURS, true, set_peer_protocol},
	{"replace", KIND_OURS, false, set_replace},
	{"fence", KIND_OURS, true, set_fence},
	{"takeover", KIND_OURS, true, set_takeover},
	{"skew-ms", KIND_OURS, true, set_skew},
	{"deadline-ms", KIND_OURS, true, set_deadline},
	{"watch-ms", KIND_OURS, true, set_watch},
	{"log", KIND_OURS, true, set_log},
	{"allow-http", KIND_OURS, false, set_allow_http},
	{"uid", KIND_OURS, true, set_uid},
	{"gid", KIND_OURS, true, set_gid},
	{"umask", KIND_OURS, true, set_umask},
	{"ro", KIND_OURS, false, set_ro},
	{"rw", KIND_OURS, false, set_rw},
	{"allow_other", KIND_OURS, false, set_allow_other},
	{"allow_root", KIND_FUSE, false, NULL},
	{"auto_unmount", KIND_OURS, false, set_auto_unmount},
	{"default_permissions", KIND_OURS, false, set_default_permissions},
	{"suid", KIND_FUSE, false, NULL},
	{"nosuid", KIND_FUSE, false, NULL},
	{"dev", KIND_FUSE, false, NULL},
	{"nodev", KIND_FUSE, false, NULL},
	{"exec", KIND_FUSE, false, NULL},
	{"noexec", KIND_FUSE, false, NULL},
	{"sync", KIND_FUSE, false, NULL},
	{"async", KIND_FUSE, false, NULL},
	{"dirsync", KIND_FUSE, false, NULL},
	{"atime", KIND_FUSE, false, NULL},
	{"noatime", KIND_FUSE, false, NULL},
	{"diratime", KIND_IGNORE, false, NULL},
	{"nodiratime", KIND_IGNORE, false, NULL},
	{"relatime", KIND_IGNORE, false, NULL},
	{"norelatime", KIND_IGNORE, false, NULL},
	{"strictatime", KIND_IGNORE, false, NULL},
	{"nostrictatime", KIND_IGNORE, false, NULL},
	{"lazytime", KIND_IGNORE, false, NULL},
	{"nolazytime", KIND_IGNORE, false, NULL},
	{"defaults", KIND_IGNORE, false, NULL},
	{"auto", KIND_IGNORE, false, NULL},
	{"noauto", KIND_IGNORE, false, NULL},
	{"nofail", KIND_IGNORE, false, NULL},
	{"_netdev", KIND_IGNORE, false, NULL},
	{"user", KIND_IGNORE, false, NULL},
	{"nouser", KIND_IGNORE, false, NULL},
	{"users", KIND_IGNORE, false, NULL},
	{"owner", KIND_IGNORE, false, NULL},
	{"group", KIND_IGNORE, false, NULL},
	{"comment", KIND_IGNORE, true, NULL},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* Levenshtein's distance, for names of options. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[64];
	size_t columns = strlen(b);

	if (columns >= 63)
		return 64;
	for (unsigned j = 0; j <= columns; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		unsigned corner = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= columns; j++) {
			unsigned best = corner + (a[i - 1] != b[j - 1]);

			corner = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[columns];
}

static enum outcome refuse_unknown(struct parser *parser)
{
	const char *nearest = NULL;
	unsigned best = 4;

	for (size_t i = 0; i < ROWS; i++) {
		unsigned d = distance(parser->name, rows[i].name);

		if (d < best) {
			best = d;
			nearest = rows[i].name;
		}
	}
	if (nearest)
		return reason_set(parser->reason, OUTCOME_INVALID,
				  "unknown option '%.60s', did you mean '%s'?",
				  parser->name, nearest);
	return reason_set(parser->reason, OUTCOME_INVALID,
			  "unknown option '%.60s'; celldfs --help lists them",
			  parser->name);
}

/* One option: NAME or NAME=VALUE, cut in place. */
static enum outcome parse_one(struct parser *parser, char *word)
{
	char *equals = strchr(word, '=');

	parser->name = word;
	parser->value = NULL;
	/* userspace's; and what mount(8) adds to a mount by a user */
	if (strncasecmp(word, "x-", 2) == 0 || strncmp(word, "user=", 5) == 0)
		return OUTCOME_OK;
	if (equals) {
		*equals = '\0';
		parser->value = equals + 1;
	}
	for (size_t i = 0; i < ROWS; i++) {
		if (strcmp(rows[i].name, word) != 0)
			continue;
		if (rows[i].takes_value && !parser->value)
			return reason_set(parser->reason, OUTCOME_INVALID,
					  "option %s needs a value: %s=...",
					  word, word);
		if (!rows[i].takes_value && parser->value)
			return reason_set(parser->reason, OUTCOME_INVALID,
					  "option %s takes no value, got '%s'",
					  word, parser->value);
		if (rows[i].kind == KIND_OURS)
			return rows[i].set(parser);
		return rows[i].kind == KIND_FUSE ? pass_to_fuse(parser)
						 : OUTCOME_OK;
	}
	return refuse_unknown(parser);
}

/* ps(1) goes on showing ARGV as it was. */
static enum outcome parse_list(struct parser *parser, const char *text)
{
	enum outcome outcome = OUTCOME_OK;
	char *list = memcpy(parser->room, text, strlen(text) + 1);
	char *word;

	parser->room += strlen(text) + 1;
	while (outcome == OUTCOME_OK && (word = strsep(&list, ",")))
		if (*word)
			outcome = parse_one(parser, word);
	return outcome;
}

static enum outcome take_argument(struct options *options, const char *word,
				  struct reason *reason)
{
	if (!options->store && options->command == COMMAND_MOUNT &&
	    strcmp(word, "probe") == 0) {
		options->command = COMMAND_PROBE;
		return OUTCOME_OK;
	}
	if (!options->store)
		options->store = word;
	else if (!options->mountpoint && options->command == COMMAND_MOUNT)
		options->mountpoint = word;
	else
		return reason_set(reason, OUTCOME_INVALID,
				  "one argument too many: '%s'", word);
	return OUTCOME_OK;
}

/* Options that mean something only to a lease that this mount keeps. */
static const char *keepers_option(const struct options *options)
{
	return options->ttl_ms		? "ttl-ms="
	       : options->addr		? "addr="
	       : options->replace	? "replace"
	       : options->fence_exits	? "fence=exit"
	       : options->peer_protocol ? "peer-protocol="
					: NULL;
}

static enum outcome check_keeper(const struct options *options,
				 struct reason *reason)
{
	const char *needless = keepers_option(options);

	if (needless && !options->node)
		return reason_set(reason, OUTCOME_INVALID,
				  "%s needs node=NAME: a mount without a name "
				  "keeps no lease",
				  needless);
	if (needless && options->keeper_off)
		return reason_set(reason, OUTCOME_INVALID,
				  "%s and keeper=off exclude each other: "
				  "clients keep the lease",
				  needless);
	if (options->fence_exits && options->auto_unmount)
		return reason_set(reason, OUTCOME_INVALID,
				  "fence=exit and auto_unmount exclude each "
				  "other: the dead mount point must stay, so "
				  "that nobody writes to the bare directory");
	return OUTCOME_OK;
}

static enum outcome check_whole(const struct options *options,
				struct reason *reason)
{
	if (options->command == COMMAND_PROBE && !options->store)
		return reason_set(reason, OUTCOME_INVALID,
				  "probe: which store? celldfs probe STORE");
	if (options->command == COMMAND_PROBE)
		return OUTCOME_OK;
	if (!options->store || !options->mountpoint)
		return reason_set(reason, OUTCOME_INVALID,
				  "expected a STORE and a MOUNTPOINT");
	if (options->node && options->read_only)
		return reason_set(reason, OUTCOME_INVALID,
				  "node= and ro exclude each other: a node "
				  "writes");
	if (options->keeper_off && !options->node)
		return reason_set(reason, OUTCOME_INVALID,
				  "keeper=off needs node=NAME: whose lease is "
				  "kept by clients?");
	return check_keeper(options, reason);
}

/* A dash word. *NEXT is the argument behind it, or NULL. */
static enum outcome parse_dash(struct parser *parser, const char *word,
			       const char *next, bool *used_next)
{
	struct options *options = parser->options;

	if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
		options->command = COMMAND_HELP;
	else if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0)
		options->command = COMMAND_VERSION;
	else if (strcmp(word, "-f") == 0)
		options->foreground = true;
	else if (strcmp(word, "-d") == 0)
		options->debug = options->foreground = true;
	else if (strcmp(word, "-o") == 0 && next) {
		*used_next = true;
		return parse_list(parser, next);
	} else if (strncmp(word, "-o", 2) == 0 && word[2])
		return parse_list(parser, word + 2);
	else if (strcmp(word, "-o") == 0)
		return reason_set(parser->reason, OUTCOME_INVALID,
				  "-o needs a list of options");
	else
		return reason_set(parser->reason, OUTCOME_INVALID,
				  "unknown flag '%s'", word);
	return OUTCOME_OK;
}

enum outcome options_parse(struct options *options, int argc, char **argv,
			   struct reason *reason)
{
	struct parser parser = {.options = options, .reason = reason};
	enum outcome outcome = OUTCOME_OK;
	size_t size = 1;

	memset(options, 0, sizeof(*options));
	options->skew_ms = 1000;
	options->deadline_ms = 15000;
	options->watch_ms = 1000;
	options->uid = getuid();
	options->gid = getgid();
	for (int i = 1; i < argc; i++)
		size += strlen(argv[i]) + 1;
	options->fuse = strdup("");
	options->lists = parser.room = malloc(size);
	if (!options->fuse || !options->lists)
		return OUTCOME_NO_MEMORY;
	for (int i = 1; i < argc && outcome == OUTCOME_OK; i++) {
		bool used_next = false;

		if (argv[i][0] != '-' || !argv[i][1]) {
			outcome = take_argument(options, argv[i], reason);
			continue;
		}
		outcome = parse_dash(&parser, argv[i],
				     i + 1 < argc ? argv[i + 1] : NULL,
				     &used_next);
		i += used_next;
		if (options->command == COMMAND_HELP ||
		    options->command == COMMAND_VERSION)
			return outcome;
	}
	return outcome == OUTCOME_OK ? check_whole(options, reason) : outcome;
}

void options_release(struct options *options)
{
	free(options->fuse);
	free(options->lists);
	options->fuse = options->lists = NULL;
}
