#include "options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

const char options_usage[] =
	"usage: celldfs-run [-m MOUNT] [-w SECONDS | -n] [-v] CELL -- "
	"COMMAND [ARGUMENT...]\n"
	"\n"
	"Holds CELL while COMMAND runs, with CELLD_CELL, CELLD_NODE and\n"
	"CELLD_EPOCH in its environment. Whatever happens to this node's\n"
	"lease, the mount or celldfs-run, COMMAND is dead before another node\n"
	"can take the cell.\n"
	"\n"
	"  -m MOUNT    where celldfs is mounted; else $CELLDFS_MOUNT. CELL "
	"can\n"
	"              also be the path of a file, MOUNT/cells/CELL/own\n"
	"  -w SECONDS  wait so long for the cell; else for ever\n"
	"  -n          do not wait\n"
	"  -v          say when the cell is waited for, held and released\n"
	"  -h, --help  print this\n"
	"\n"
	"COMMAND runs in a process group of its own. The promise is for all "
	"of\n"
	"that group, and not for what runs as another user. What has left the\n"
	"group, but is still a descendant, is looked for and killed with it;\n"
	"not if celldfs-run itself is killed, or was started by exec in a "
	"shell\n"
	"with other children. When COMMAND ends, what it left behind is "
	"ended,\n"
	"too, and then the cell is released.\n"
	"\n"
	"Exit status: COMMAND's, or 128+n if signal n killed it; 111 the cell\n"
	"could not be had in time, or the mount failed; 112 it was lost, and\n"
	"COMMAND was ended (SIGTERM, then SIGKILL); 125 it can never be had\n"
	"like this; 126 COMMAND cannot be run, 127 is not found; 2 usage.\n";

static bool parse_wait(const char *text, int64_t *wait_ms)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0) || seconds > 1e9)
		return false;
	*wait_ms = (int64_t)(seconds * 1000);
	return true;
}

/* "MOUNT/cells/CELL/own" */
static bool parse_path(struct options *options, const char *path)
{
	static const char cells[] = "/cells", own[] = "/own";
	size_t len = strlen(path), start, end;

	if (len < strlen(own) || strcmp(path + len - strlen(own), own) != 0)
		return false;
	end = len - strlen(own);
	for (start = end; start > 0 && path[start - 1] != '/'; start--)
		;
	if (start == 0 || end - start > NAME_CELL_MAX)
		return false;
	memcpy(options->cell, path + start, end - start);
	options->cell[end - start] = '\0';

	/* a path that begins with "cells/" is in the directory where we are */
	len = start - 1;
	if (len == strlen(cells) - 1 && memcmp(path, cells + 1, len) == 0) {
		options->mount = strdup(".");
		return options->mount;
	}
	if (len < strlen(cells) ||
	    memcmp(path + len - strlen(cells), cells, strlen(cells)) != 0)
		return false;
	len -= strlen(cells);
	options->mount = len > 0 ? strndup(path, len) : strdup("/");
	return options->mount;
}

static bool parse_cell(struct options *options, const char *mount,
		       const char *cell, struct trouble *trouble)
{
	if (strchr(cell, '/')) {
		if (mount || !parse_path(options, cell)) {
			explain(trouble, RUN_USAGE,
				mount ? "-m and a path are two mounts"
				      : "%s: not a path like "
					"MOUNT/cells/CELL/own",
				cell);
			return false;
		}
	} else {
		if (!mount)
			mount = getenv("CELLDFS_MOUNT");
		if (!mount || !*mount) {
			explain(trouble, RUN_USAGE,
				"where is it mounted? give -m MOUNT, or "
				"CELLDFS_MOUNT in the environment");
			return false;
		}
		options->mount = strdup(mount);
		strncat(options->cell, cell, sizeof(options->cell) - 1);
	}
	if (!options->mount) {
		explain(trouble, RUN_NOT_HELD, "out of memory");
		return false;
	}
	if (name_cell(options->cell, strlen(options->cell)) != NAME_VALID ||
	    (!strchr(cell, '/') && strcmp(options->cell, cell) != 0)) {
		explain(trouble, RUN_USAGE, "%s is no name of a cell", cell);
		return false;
	}
	return true;
}

bool options_parse(struct options *options, int argc, char **argv,
		   struct trouble *trouble)
{
	static const struct option names[] = {{"help", no_argument, NULL, 'h'},
					      {NULL, 0, NULL, 0}};
	const char *mount = NULL;
	int option, waits = 0;

	*options = (struct options){.wait_ms = WAIT_FOR_EVER};
	while ((option = getopt_long(argc, argv, "+hm:nvw:", names, NULL)) !=
	       -1) {
		switch (option) {
		case 'h':
			options->help = true;
			return true;
		case 'm':
			mount = optarg;
			break;
		case 'n':
			options->wait_ms = 0;
			waits++;
			break;
		case 'v':
			options->verbose = true;
			break;
		case 'w':
			waits++;
			if (parse_wait(optarg, &options->wait_ms))
				break;
			explain(trouble, RUN_USAGE,
				"-w %s: not a number of seconds", optarg);
			return false;
		default:
			/* getopt has said what */
			explain(trouble, RUN_USAGE, "see celldfs-run --help");
			return false;
		}
	}
	if (waits > 1) {
		explain(trouble, RUN_USAGE, "-w and -n are one wait too many");
		return false;
	}
	if (argc - optind < 3 || strcmp(argv[optind + 1], "--") != 0) {
		explain(trouble, RUN_USAGE,
			"give CELL -- COMMAND; see celldfs-run --help");
		return false;
	}
	options->command = argv + optind + 2;
	return parse_cell(options, mount, argv[optind], trouble);
}

void options_release(struct options *options)
{
	free(options->mount);
	options->mount = NULL;
}
