#include "view.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

#define STATUS_PATH ".celldfs/status"
#define STATUS_MAX  (64 * 1024)
#define DEADLINE_MS 15000

/* What went wrong with a call on the mount. */
static void explain_errno(struct trouble *trouble, const struct view *view,
			  const char *what)
{
	int status = RUN_NOT_HELD;

	if (errno == EACCES || errno == EPERM || errno == EINVAL ||
	    errno == ENOLCK)
		status = RUN_FAILED;
	explain(trouble, status, "%s: %s: %s", view->mount, what,
		strerror(errno));
}

/* ---- .celldfs/status ---- */

/* Copies the value of NAME, without its end if it does not fit. */
static bool find_value(const char *text, const char *name, char *value,
		       size_t size)
{
	size_t name_len = strlen(name), len;

	for (; text && *text; text = strchr(text, '\n')) {
		if (*text == '\n')
			text++;
		if (strncmp(text, name, name_len) != 0 || text[name_len] != ' ')
			continue;
		text += name_len + 1;
		len = strcspn(text, "\n");
		if (len >= size)
			len = size - 1;
		memcpy(value, text, len);
		value[len] = '\0';
		return true;
	}
	return false;
}

static bool find_number(const char *text, const char *name, int64_t *number)
{
	char value[32], *end;

	if (!find_value(text, name, value, sizeof(value)))
		return false;
	errno = 0;
	*number = strtoll(value, &end, 10);
	return errno == 0 && end > value && *end == '\0';
}

static bool value_is(const char *text, const char *name, const char *expected)
{
	char value[32];

	return find_value(text, name, value, sizeof(value)) &&
	       strcmp(value, expected) == 0;
}

/* The whole text; to be freed. NULL: with errno. */
static char *read_status(const struct view *view)
{
	int fd = openat(view->root, STATUS_PATH, O_RDONLY | O_CLOEXEC);
	char *text = fd < 0 ? NULL : malloc(STATUS_MAX);
	size_t len = 0;
	ssize_t got = -1;
	int err;

	while (text && len < STATUS_MAX - 1 &&
	       (got = read(fd, text + len, STATUS_MAX - 1 - len)) > 0)
		len += (size_t)got;
	err = errno;
	if (fd >= 0)
		close(fd);
	if (!text || got < 0) {
		free(text);
		errno = err;
		return NULL;
	}
	text[len] = '\0';
	return text;
}

/* ---- the mount ---- */

void view_init(struct view *view, const char *mount, const char *cell)
{
	*view = (struct view){
		.mount = mount,
		.cell = cell,
		.root = -1,
		.own = -1,
	};
}

void view_close(struct view *view)
{
	if (view->own >= 0)
		close(view->own);
	if (view->root >= 0)
		close(view->root);
	view->own = view->root = -1;
}

/* Why no authority is to be expected. */
static void explain_fence(struct trouble *trouble, const char *status)
{
	char state[32] = "lost", fence[32] = "-", reason[240] = "-";

	find_value(status, "lease", state, sizeof(state));
	find_value(status, "fence", fence, sizeof(fence));
	find_value(status, "lease_reason", reason, sizeof(reason));
	if (strcmp(state, "held") == 0) /* it is about to notice */
		snprintf(state, sizeof(state), "expired");
	explain(trouble, RUN_NOT_HELD, "this node's lease is %s%s%s%s%s", state,
		strcmp(fence, "-") != 0 ? ": " : "",
		strcmp(fence, "-") != 0 ? fence : "",
		strcmp(reason, "-") != 0 ? "; " : "",
		strcmp(reason, "-") != 0 ? reason : "");
}

static bool judge_mount(struct view *view, const char *status,
			struct trouble *trouble)
{
	if (!find_value(status, "node", view->node, sizeof(view->node)) ||
	    name_node(view->node, strlen(view->node)) != NAME_VALID ||
	    strcmp(view->node, "-") == 0) {
		explain(trouble, RUN_FAILED,
			"%s has no node name: mount it with -o node=NAME",
			view->mount);
		return false;
	}
	if (!value_is(status, "keeper", "on") ||
	    !find_number(status, "ttl_ms", &view->ttl_ms)) {
		explain(trouble, RUN_FAILED,
			"%s does not keep its node's lease (keeper=off)",
			view->mount);
		return false;
	}
	if (!find_number(status, "deadline_ms", &view->deadline_ms))
		view->deadline_ms = DEADLINE_MS;
	if (!value_is(status, "lease", "held")) {
		explain_fence(trouble, status);
		return false;
	}
	return true;
}

bool view_open(struct view *view, struct trouble *trouble)
{
	char *status;
	bool fits;

	view->root = open(view->mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
	status = view->root < 0 ? NULL : read_status(view);
	if (!status && errno == ENOENT) {
		explain(trouble, RUN_NOT_HELD, "nothing is mounted at %s",
			view->mount);
		return false;
	}
	if (!status) {
		explain_errno(trouble, view, STATUS_PATH);
		return false;
	}
	fits = judge_mount(view, status, trouble);
	free(status);
	return fits;
}

enum view_authority view_authority(struct view *view, int64_t *until_ms,
				   struct trouble *trouble)
{
	/* before the question, so that the answer is at least as late */
	int64_t asked_ms = clock_boot_ms();
	enum view_authority authority = VIEW_UNKNOWN;
	int64_t left_ms;
	char *status = read_status(view);

	if (!status && (errno == EINTR || errno == ENOMEM || errno == ENFILE ||
			errno == EMFILE))
		return VIEW_UNKNOWN;
	if (!status) {
		explain_errno(trouble, view, "the mount is gone");
		return VIEW_GONE;
	}
	if (find_number(status, "authority_ms", &left_ms) && left_ms > 0) {
		*until_ms = asked_ms + left_ms;
		authority = VIEW_HAS;
	} else {
		explain_fence(trouble, status);
		authority =
			value_is(status, "lease", "stopped") ||
					value_is(status, "lease", "stopping")
				? VIEW_GONE
				: VIEW_FENCED;
	}
	free(status);
	return authority;
}

/* ---- the cell ---- */

static bool open_own(struct view *view, struct trouble *trouble)
{
	char path[NAME_KEY_SIZE];

	snprintf(path, sizeof(path), NAME_CELLS_PREFIX "%s/own", view->cell);
	/* Only to write: an open file shows what it has read, and the
	 * attributes of this one are those of the record that the claim has
	 * written. What is created is a file without a record: nothing is
	 * written. */
	view->own =
		openat(view->root, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (view->own < 0)
		explain_errno(trouble, view, path);
	return view->own >= 0;
}

/* The attribute of the cell's record, as text. */
static bool read_attribute(const struct view *view, const char *name,
			   char *value, size_t size)
{
	ssize_t len = fgetxattr(view->own, name, value, size - 1);

	value[len > 0 ? len : 0] = '\0';
	return len > 0;
}

static void explain_busy(struct trouble *trouble, const struct view *view)
{
	char node[NAME_NODE_MAX + 2], why[240];

	if (read_attribute(view, "user.celld.node", node, sizeof(node)) &&
	    strcmp(node, view->node) == 0)
		snprintf(why, sizeof(why), "held through this mount already");
	else if (!read_attribute(view, "user.celld.why", why, sizeof(why)))
		snprintf(why, sizeof(why), "busy");
	explain(trouble, RUN_NOT_HELD, "%s: %s", view->cell, why);
}

enum view_lock view_lock(struct view *view, bool wait, struct trouble *trouble)
{
	char outcome[240];
	int failed;

	if (view->own < 0 && !open_own(view, trouble))
		return VIEW_FAILED;
	do
		failed = flock(view->own, LOCK_EX | (wait ? 0 : LOCK_NB));
	while (failed != 0 && errno == EINTR);
	if (failed == 0)
		return VIEW_LOCKED;
	if (errno == EWOULDBLOCK) {
		explain_busy(trouble, view);
		return VIEW_BUSY;
	}
	explain_errno(trouble, view, view->cell);
	if (errno != ENOLCK && read_attribute(view, "user.celld.outcome",
					      outcome, sizeof(outcome))) {
		size_t len = strlen(trouble->text);

		snprintf(trouble->text + len, sizeof(trouble->text) - len,
			 " (%s)", outcome);
	}
	return VIEW_FAILED;
}

bool view_epoch(struct view *view, uint64_t *epoch, struct trouble *trouble)
{
	char node[NAME_NODE_MAX + 2], number[32], *end = number;

	if (!read_attribute(view, "user.celld.node", node, sizeof(node)) ||
	    !read_attribute(view, "user.celld.epoch", number, sizeof(number))) {
		explain_errno(trouble, view, "the claimed record");
		return false;
	}
	errno = 0;
	*epoch = strtoull(number, &end, 10);
	if (strcmp(node, view->node) != 0 || errno != 0 || *end != '\0') {
		explain(trouble, RUN_NOT_HELD,
			"%s: the claimed record names %s at epoch %s",
			view->cell, node, number);
		return false;
	}
	return true;
}

bool view_unlock(struct view *view, struct trouble *trouble)
{
	if (flock(view->own, LOCK_UN) == 0)
		return true;
	explain_errno(trouble, view, view->cell);
	return false;
}
