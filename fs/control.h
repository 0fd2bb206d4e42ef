/* control: what .celldfs/ shows. A new file is a row of the table in control.c.
 *
 * Each is text, made when it is opened, and cannot be written. What is printed
 * in two files is gathered once.
 */
#ifndef CELLDFS_CONTROL_H
#define CELLDFS_CONTROL_H

#include "stop.h"
#include "store.h"

struct mount;

#define CONTROL_TEXT_MAX (4 * 1024 * 1024)

struct control_file {
	const char *name; /* below .celldfs/ */

	/* Writes the text to TEXT (empty; cap: CONTROL_TEXT_MAX). OK;
	 * NO_MEMORY; if it asks the store also what became of that, with
	 * ANSWER, and TIMEOUT if it would have to ask after LIMITS' end. */
	enum outcome (*print)(struct mount *mount, const struct limits *limits,
			      struct buf *text, struct answer *answer);
	bool asks_store; /* it may send requests and wait */
};

extern const struct control_file control_files[];
extern const size_t control_file_count;

/* Writes FILE's text without a request. As print(); TIMEOUT: it takes one. */
enum outcome control_print_now(struct mount *mount,
			       const struct control_file *file,
			       struct buf *text) MUST_CHECK;

#endif
