/* options: every option, every bad value, and that --help tells of all. */

/* The module itself: its table is nobody else's business. */
#include "options.c" /* NOLINT(bugprone-suspicious-include) */

#include "check.h"

#include <ctype.h>

/* ARGUMENTS is split at spaces; "%" stands for an empty one. */
struct line {
	char text[512];
	char *argv[32];
	struct options options;
	struct reason reason;
};

static enum outcome parse(struct line *line, const char *arguments)
{
	char *rest = line->text, *word;
	int argc = 1;

	memset(line, 0, sizeof(*line));
	snprintf(line->text, sizeof(line->text), "%s", arguments);
	line->argv[0] = line->text + sizeof(line->text) - 1;
	while ((word = strsep(&rest, " "))) {
		if (strcmp(word, "%") == 0)
			*word = '\0';
		else if (!*word)
			continue;
		line->argv[argc++] = word;
	}
	return options_parse(&line->options, argc, line->argv, &line->reason);
}

static void parse_ok(struct line *line, const char *arguments)
{
	if (parse(line, arguments) != OUTCOME_OK)
		CHECK_FAIL("'%s' is refused: %s", arguments, line->reason.text);
}

/* Takes the bare list of -o. */
static void take(struct line *line, const char *list)
{
	char arguments[480];

	snprintf(arguments, sizeof(arguments), "sqlite:s /mnt -o %s", list);
	parse_ok(line, arguments);
}

/* REASON: words that must be in it, separated by '|'. */
static void check_refused(const char *arguments, const char *reason)
{
	struct line line;
	char words[256];
	char *rest = words, *word;

	snprintf(words, sizeof(words), "%s", reason);
	CHECK_EQ(parse(&line, arguments), OUTCOME_INVALID);
	while ((word = strsep(&rest, "|")))
		if (!strstr(line.reason.text, word))
			CHECK_FAIL("'%s': '%s' does not say '%s'", arguments,
				   line.reason.text, word);
	options_release(&line.options);
}

static void refuse(const char *list, const char *reason)
{
	char arguments[480];

	snprintf(arguments, sizeof(arguments), "sqlite:s /mnt -o %s", list);
	check_refused(arguments, reason);
}

static void test_defaults(void)
{
	struct line line;
	const struct options *o = &line.options;

	parse_ok(&line, "sqlite:s /mnt");
	CHECK_EQ(o->command, COMMAND_MOUNT);
	CHECK_STR(o->store, "sqlite:s");
	CHECK_STR(o->mountpoint, "/mnt");
	CHECK(!o->foreground && !o->debug && !o->read_only && !o->allow_other);
	CHECK(o->node == NULL && !o->keeper_off && !o->takeover_any);
	CHECK(o->addr == NULL && !o->replace && !o->fence_exits);
	CHECK_EQ(o->ttl_ms, 0);
	CHECK_EQ(o->skew_ms, 1000);
	CHECK_EQ(o->deadline_ms, 15000);
	CHECK_EQ(o->watch_ms, 1000);
	CHECK(o->log == NULL);
	CHECK_EQ(o->uid, getuid());
	CHECK_EQ(o->gid, getgid());
	CHECK_EQ(o->umask, 0);
	CHECK_STR(o->fuse, "");
	options_release(&line.options);
	CHECK(o->fuse == NULL);
	options_release(&line.options);
}

static void test_each_option(void)
{
	struct line line;
	const struct options *o = &line.options;

	take(&line, "node=n-1.x_Y,keeper=off");
	CHECK_STR(o->node, "n-1.x_Y");
	CHECK(o->keeper_off);
	options_release(&line.options);
	take(&line, "node=n,ttl-ms=30000,addr=h-1.x:7/y,peer-protocol=65535");
	CHECK(!o->keeper_off && !o->replace && !o->fence_exits);
	CHECK_EQ(o->ttl_ms, 30000);
	CHECK_STR(o->addr, "h-1.x:7/y");
	CHECK_EQ(o->peer_protocol, 65535);
	options_release(&line.options);
	take(&line, "replace,fence=exit,ttl-ms=1000,node=n");
	CHECK(o->replace && o->fence_exits);
	CHECK_EQ(o->ttl_ms, 1000);
	CHECK(o->addr == NULL);
	options_release(&line.options);
	take(&line, "takeover=any,skew-ms=0,deadline-ms=100,log=/var/log/c");
	CHECK(o->takeover_any);
	CHECK_EQ(o->skew_ms, 0);
	CHECK_EQ(o->deadline_ms, 100);
	CHECK_STR(o->log, "/var/log/c");
	options_release(&line.options);
	take(&line, "skew-ms=3600000,deadline-ms=3600000,watch-ms=100,"
		    "log=syslog");
	CHECK_EQ(o->watch_ms, 100);
	CHECK_EQ(o->skew_ms, 3600000);
	CHECK_EQ(o->deadline_ms, 3600000);
	CHECK_STR(o->log, "syslog");
	options_release(&line.options);
	take(&line, "uid=0,gid=4294967294,umask=027,log=stderr,ro,allow_other");
	CHECK_EQ(o->uid, 0);
	CHECK_EQ(o->gid, 4294967294u);
	CHECK_EQ(o->umask, 027);
	CHECK_STR(o->log, "stderr");
	CHECK(o->read_only && o->allow_other);
	CHECK_STR(o->fuse, "");
	options_release(&line.options);
	take(&line, "umask=777");
	CHECK_EQ(o->umask, 0777);
	options_release(&line.options);
	/* the last one counts */
	take(&line, "ro,rw,skew-ms=5,skew-ms=6");
	CHECK(!o->read_only);
	CHECK_EQ(o->skew_ms, 6);
	options_release(&line.options);
}

static void test_forms(void)
{
	struct line line;
	const struct options *o = &line.options;

	/* as mount(8) calls it, and as people do */
	parse_ok(&line, "sqlite:s /mnt -o rw,nodev -o skew-ms=7");
	CHECK_EQ(o->skew_ms, 7);
	CHECK_STR(o->fuse, "nodev");
	options_release(&line.options);
	parse_ok(&line, "-f -oskew-ms=8,,ro, sqlite:s -o % /mnt");
	CHECK_EQ(o->skew_ms, 8);
	CHECK(o->read_only && o->foreground && !o->debug);
	CHECK_STR(o->mountpoint, "/mnt");
	options_release(&line.options);
	parse_ok(&line, "-d sqlite:s /mnt");
	CHECK(o->debug && o->foreground);
	options_release(&line.options);
	parse_ok(&line, "probe sqlite:s");
	CHECK_EQ(o->command, COMMAND_PROBE);
	CHECK_STR(o->store, "sqlite:s");
	options_release(&line.options);
	/* a mount point may have any name */
	parse_ok(&line, "sqlite:s probe");
	CHECK_EQ(o->command, COMMAND_MOUNT);
	CHECK_STR(o->mountpoint, "probe");
	options_release(&line.options);
	/* these ask for nothing else */
	parse_ok(&line, "-h");
	CHECK_EQ(o->command, COMMAND_HELP);
	options_release(&line.options);
	parse_ok(&line, "sqlite:s --help --nonsense");
	CHECK_EQ(o->command, COMMAND_HELP);
	options_release(&line.options);
	parse_ok(&line, "-V");
	CHECK_EQ(o->command, COMMAND_VERSION);
	options_release(&line.options);
	parse_ok(&line, "--version");
	CHECK_EQ(o->command, COMMAND_VERSION);
	options_release(&line.options);
}

static void test_bad_values(void)
{
	static const char *const numbers[] = {
		"",	"x",   "-1",  "+1",	 "1x",
		"0x10", "1.5", "1e3", "3600001", "99999999999999999999999",
	};
	char list[64];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		snprintf(list, sizeof(list), "skew-ms=%s", numbers[i]);
		refuse(list, "option skew-ms|from 0 to 3600000");
		snprintf(list, sizeof(list), "deadline-ms=%s", numbers[i]);
		refuse(list, "option deadline-ms|from 100 to 3600000");
		snprintf(list, sizeof(list), "watch-ms=%s", numbers[i]);
		refuse(list, "option watch-ms|from 100 to 3600000");
	}
	refuse("deadline-ms=99", "option deadline-ms: '99'|from 100");
	refuse("uid=4294967295", "option uid: '4294967295'|4294967294");
	refuse("uid=root", "option uid: 'root'");
	refuse("gid=4294967295", "option gid: '4294967295'|4294967294");
	refuse("gid=-1", "option gid: '-1'");
	refuse("umask=8", "option umask: '8'|octal");
	refuse("umask=1000", "option umask: '1000'|octal");
	refuse("umask=", "option umask: ''|octal");
	refuse("umask=rwx", "option umask: 'rwx'|octal");
	refuse("node=,keeper=off", "option node: ''");
	refuse("node=a/b,keeper=off", "option node: 'a/b'");
	refuse("node=..,keeper=off", "option node: '..'");
	refuse("node=a:b,keeper=off", "option node: 'a:b'|128");
	refuse("node=n,ttl-ms=999", "option ttl-ms: '999'|1000 to 30000");
	refuse("node=n,ttl-ms=30001", "option ttl-ms|30000");
	refuse("node=n,peer-protocol=65536", "option peer-protocol|65535");
	refuse("node=n,peer-protocol=-1", "option peer-protocol");
	refuse("node=n,fence=stop", "option fence: 'stop'|exit");
	refuse("node=n,addr=", "option addr: ''|255");
	refuse("node=n,addr=a\"b", "option addr");
	refuse("node=n,addr=a\\b", "option addr");
	refuse("node=n,addr=\xc3\xa4", "option addr|ASCII");
	refuse("node=n,addr=a\nb", "option addr");
	refuse("node=n,replace=yes", "replace|no value");
	refuse("keeper=on", "option keeper: 'on'|off");
	refuse("keeper=", "option keeper: ''|off");
	refuse("takeover=dead", "option takeover: 'dead'|any");
	refuse("log=file", "option log: 'file'|absolute");
	refuse("log=", "option log: ''|absolute");
}

static void test_wholes(void)
{
	check_refused("", "STORE|MOUNTPOINT");
	check_refused("sqlite:s", "STORE|MOUNTPOINT");
	check_refused("sqlite:s /mnt more", "'more'");
	check_refused("probe", "which store");
	check_refused("probe sqlite:s /mnt", "'/mnt'");
	check_refused("sqlite:s /mnt -o", "-o needs");
	check_refused("sqlite:s /mnt -x", "'-x'");
	check_refused("sqlite:s /mnt --nonsense", "'--nonsense'");
	check_refused("sqlite:s /mnt -foreground", "'-foreground'");
	refuse("keeper=off", "node=");
	refuse("ttl-ms=5000", "ttl-ms=|node=");
	refuse("addr=h", "addr=|node=");
	refuse("replace", "replace|node=");
	refuse("fence=exit", "fence=exit|node=");
	refuse("peer-protocol=2", "peer-protocol=|node=");
	refuse("ttl-ms=5000,node=n1,keeper=off", "ttl-ms=|keeper=off");
	refuse("node=n1,keeper=off,addr=h", "addr=|keeper=off");
	refuse("node=n1,keeper=off,replace", "replace|keeper=off");
	refuse("node=n1,keeper=off,fence=exit", "fence=exit|keeper=off");
	refuse("node=n1,fence=exit,auto_unmount", "fence=exit|auto_unmount");
	refuse("node=n1,ro", "node=|ro");
	refuse("node=n1,keeper=off,ro", "node=|ro");
	refuse("ro,keeper=off,node=n1", "node=|ro");
	/* the first mistake is told, whatever comes behind */
	refuse("skew-ms=x,nonsense", "skew-ms");
}

static void test_typos(void)
{
	static const struct {
		const char *typed, *meant;
	} typos[] = {
		{"nod=n1", "node"},
		{"Node=n1", "node"},
		{"keper=off", "keeper"},
		{"takover=any", "takeover"},
		{"take-over=any", "takeover"},
		{"skew=5", "skew-ms"},
		{"skew_ms=5", "skew-ms"},
		{"deadline_ms=5", "deadline-ms"},
		{"deadline=5", "deadline-ms"},
		{"logs=stderr", "log"},
		{"guid=1", "uid"},
		{"unmask=022", "umask"},
		{"allow-other", "allow_other"},
		{"allowother", "allow_other"},
		{"netdev", "_netdev"},
		{"nofial", "nofail"},
		{"default", "defaults"},
		{"read-only", NULL},
		{"nonsense", NULL},
		{"an-option-that-is-much-longer-than-any-of-those-that-there-"
		 "are-here",
		 NULL},
	};
	char want[100];

	for (size_t i = 0; i < sizeof(typos) / sizeof(typos[0]); i++) {
		if (typos[i].meant)
			snprintf(want, sizeof(want),
				 "unknown option '%.*s', did you mean '%s'?",
				 (int)strcspn(typos[i].typed, "="),
				 typos[i].typed, typos[i].meant);
		else
			snprintf(want, sizeof(want),
				 "unknown option '%.40s|--help",
				 typos[i].typed);
		refuse(typos[i].typed, want);
	}
}

/* What mount(8) and fstab may say. */
static void test_words_of_fstab(void)
{
	struct line line;

	take(&line, "defaults,nofail,_netdev,noauto,auto,user,nouser,users,"
		    "owner,group,comment=x,x-systemd.automount,"
		    "x-systemd.idle-timeout=60,x-gvfs-show,diratime,"
		    "nodiratime,relatime,norelatime,strictatime,lazytime,"
		    "user=someone,X-mount.mkdir");
	CHECK_STR(line.options.fuse, "");
	options_release(&line.options);
	take(&line, "suid,nosuid,dev,nodev,exec,noexec,sync,async,dirsync,"
		    "atime,noatime,allow_root,auto_unmount");
	CHECK_STR(line.options.fuse,
		  "suid,nosuid,dev,nodev,exec,noexec,sync,async,dirsync,"
		  "atime,noatime,allow_root,auto_unmount");
	options_release(&line.options);
}

/* Every row does what its kind says. */
static void test_each_row(void)
{
	for (size_t i = 0; i < ROWS; i++) {
		const struct option_row *row = &rows[i];
		struct line line;
		char list[64];

		CHECK_EQ(row->set != NULL, row->kind == KIND_OURS);
		for (size_t j = 0; j < i; j++)
			CHECK(strcmp(rows[j].name, row->name) != 0);
		snprintf(list, sizeof(list), "%s%s", row->name,
			 row->takes_value ? "" : "=1");
		if (strcmp(row->name, "user") != 0) {
			refuse(list, row->name);
			refuse(list, row->takes_value ? "needs a value"
						      : "takes no value");
		}
		if (row->kind == KIND_OURS)
			continue;
		snprintf(list, sizeof(list), "%s%s", row->name,
			 row->takes_value ? "=x" : "");
		take(&line, list);
		CHECK_STR(line.options.fuse,
			  row->kind == KIND_FUSE ? row->name : "");
		options_release(&line.options);
	}
}

static bool is_word_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* Does --help name WORD, and with a value if it takes one? */
static bool help_names(const char *word, bool takes_value)
{
	size_t len = strlen(word);

	for (const char *at = options_help; (at = strstr(at, word)); at++) {
		if (at > options_help && is_word_byte(at[-1]))
			continue;
		if (is_word_byte(at[len]))
			continue;
		if ((at[len] == '=') == takes_value)
			return true;
	}
	return false;
}

static void test_help_names_the_options(void)
{
	static const char *const flags[] = {"-f",     "-d", "-h",
					    "--help", "-V", "--version"};

	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].kind == KIND_OURS &&
		    !help_names(rows[i].name, rows[i].takes_value))
			CHECK_FAIL("--help does not name %s", rows[i].name);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		CHECK(help_names(flags[i], false));
	CHECK(!help_names("nonsense", false));
}

/* And the other way: what --help lists below "Options:", one in a line, is an
 * option. */
static void test_the_options_know_help(void)
{
	unsigned found = 0;

	const char *at = strstr(options_help, "\nOptions:\n");

	CHECK(at);
	for (at += 10; strncmp(at, "  ro,", 5) != 0;
	     at += strcspn(at, "\n") + 1) {
		const char *name = at + 2;
		size_t len = strcspn(name, "= ");
		bool known = false;

		for (size_t i = 0; i < ROWS; i++)
			known = known ||
				(strlen(rows[i].name) == len &&
				 memcmp(rows[i].name, name, len) == 0 &&
				 rows[i].takes_value == (name[len] == '='));
		if (!known)
			CHECK_FAIL("--help names %.*s, which is no option",
				   (int)len, name);
		found++;
	}
	CHECK(found >= 12);
	/* its defaults are the parser's */
	CHECK(strstr(options_help, "margin after a lease's expiry (1000)"));
	CHECK(strstr(options_help, "(15000)"));
	for (at = options_help; *at; at += strcspn(at, "\n") + 1)
		CHECK(strcspn(at, "\n") <= 79);
}

int main(void)
{
	RUN(test_defaults);
	RUN(test_each_option);
	RUN(test_forms);
	RUN(test_bad_values);
	RUN(test_wholes);
	RUN(test_typos);
	RUN(test_words_of_fstab);
	RUN(test_each_row);
	RUN(test_help_names_the_options);
	RUN(test_the_options_know_help);
	return 0;
}
