/* options: celldfs-run's command line. */
#ifndef CELLDFS_RUN_OPTIONS_H
#define CELLDFS_RUN_OPTIONS_H

#include "name.h"
#include "run.h"

#include <stdbool.h>
#include <stdint.h>

#define WAIT_FOR_EVER INT64_MAX

struct options {
	char *mount; /* owned; where it is mounted */
	char cell[NAME_CELL_MAX + 1];
	int64_t wait_ms; /* 0: not at all */
	bool verbose;
	bool help;	/* asked for; nothing else is filled */
	char **command; /* ends with NULL; in argv */
};

/* False: with TROUBLE. */
bool options_parse(struct options *options, int argc, char **argv,
		   struct trouble *trouble);

void options_release(struct options *options);

extern const char options_usage[];

#endif
