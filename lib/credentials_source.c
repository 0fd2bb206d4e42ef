#include "credentials_source.h"

#include "clock.h"
#include "timestamp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

const char *source_env(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

bool source_copy(char *out, size_t size, const char *text)
{
	size_t len = strlen(text);

	if (len >= size)
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] <= 0x20 || text[i] == 0x7f)
			return false;
	memcpy(out, text, len + 1);
	return true;
}

/* --- Files ---------------------------------------------------------------- */

static enum outcome read_all(char *out, size_t size, int fd, const char *path,
			     struct reason *reason)
{
	size_t len = 0;

	while (len < size) {
		ssize_t got = read(fd, out + len, size - len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return reason_set(reason, OUTCOME_DENIED,
					  "cannot read %s: %s", path,
					  strerror(errno));
		if (got == 0)
			break;
		len += (size_t)got;
	}
	out[len] = '\0';
	if (strlen(out) != len)
		return reason_set(reason, OUTCOME_INVALID, "%s is no text",
				  path);
	return OUTCOME_OK;
}

/* What a variable names that has to name a file, and there is none. */
static bool is_null_device(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

static enum outcome read_open_file(struct source_text *text, int fd,
				   const char *path, struct reason *reason)
{
	enum outcome outcome;
	struct stat st;

	if (fstat(fd, &st) != 0 ||
	    (!S_ISREG(st.st_mode) && !is_null_device(&st)))
		return reason_set(reason, OUTCOME_INVALID,
				  "%s is not a plain file", path);
	if (st.st_size > SECRET_FILE_MAX)
		return reason_set(reason, OUTCOME_INVALID,
				  "%s is larger than %d bytes", path,
				  SECRET_FILE_MAX);
	text->size = (size_t)st.st_size + 1;
	text->bytes = malloc(text->size);
	if (text->bytes == NULL)
		return reason_set(reason, OUTCOME_NO_MEMORY, "out of memory");
	outcome = read_all(text->bytes, text->size - 1, fd, path, reason);
	if (outcome != OUTCOME_OK)
		source_text_release(text);
	return outcome;
}

enum outcome source_read_file(struct source_text *text, const char *path,
			      struct reason *reason)
{
	/* O_NONBLOCK: a FIFO must not hang the daemon. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	enum outcome outcome;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return reason_set(reason, OUTCOME_ABSENT, "there is no %s",
				  path);
	if (fd < 0)
		return reason_set(reason, OUTCOME_DENIED, "cannot open %s: %s",
				  path, strerror(errno));
	outcome = read_open_file(text, fd, path, reason);
	close(fd);
	return outcome;
}

enum outcome source_copy_text(struct source_text *text, const char *value)
{
	text->size = strlen(value) + 1;
	text->bytes = malloc(text->size);
	if (text->bytes == NULL)
		return OUTCOME_NO_MEMORY;
	memcpy(text->bytes, value, text->size);
	return OUTCOME_OK;
}

void source_text_release(struct source_text *text)
{
	if (text->bytes != NULL)
		explicit_bzero(text->bytes, text->size);
	free(text->bytes);
	*text = (struct source_text){NULL, 0};
}

enum outcome source_reserve(struct buf *buf, size_t size)
{
	static const char zeros[4096];
	enum outcome outcome = OUTCOME_OK;

	while (buf->len < size && outcome == OUTCOME_OK)
		outcome = buf_append(buf, zeros,
				     size - buf->len < sizeof(zeros)
					     ? size - buf->len
					     : sizeof(zeros));
	buf_clear(buf);
	return outcome;
}

/* --- Endpoints ------------------------------------------------------------ */

enum outcome source_failure(enum http_result result,
			    const struct http_response *response,
			    const char *who, struct reason *reason)
{
	int status = response->status;

	if (result == HTTP_ANSWERED)
		return reason_set(reason,
				  status >= 400 && status < 500 && status != 429
					  ? OUTCOME_DENIED
					  : OUTCOME_FAILED,
				  "%s answers with status %d", who, status);
	switch (response->cause) {
	case HTTP_CAUSE_TIMEOUT:
		return reason_set(reason, OUTCOME_TIMEOUT, "%s: %s", who,
				  response->reason.text);
	case HTTP_CAUSE_STOP:
		return reason_set(reason, OUTCOME_INTERRUPTED, "%s: %s", who,
				  response->reason.text);
	case HTTP_CAUSE_NO_MEMORY:
		return reason_set(reason, OUTCOME_NO_MEMORY, "%s: %s", who,
				  response->reason.text);
	case HTTP_CAUSE_NONE:
	case HTTP_CAUSE_TOO_LARGE:
	case HTTP_CAUSE_FAILED:
	default:
		return reason_set(reason, OUTCOME_FAILED, "%s: %s", who,
				  response->reason.text);
	}
}

/* When keys that expire at EXPIRES_MS, by the clock of whoever gave them, do so
 * by ours. Without a Date the wall clock has to do. */
static int64_t expiry_by_boot(int64_t expires_ms,
			      const struct http_response *response)
{
	int64_t their_ms, our_ms = response->answered_ms;

	if (!timestamp_http(http_header(response, "date"), &their_ms)) {
		their_ms = clock_wall_ms();
		our_ms = clock_boot_ms();
	}
	return our_ms + (expires_ms - their_ms);
}

enum outcome source_accept(struct keys *keys,
			   const struct source_answer *answer,
			   const struct http_response *response,
			   const char *who, struct reason *reason)
{
	int64_t expires_ms;

	if (answer->access_key[0] == '\0' || answer->secret_key[0] == '\0')
		return reason_set(reason, OUTCOME_FAILED,
				  "the answer of %s has no keys", who);
	if (!source_copy(keys->access_key, sizeof(keys->access_key),
			 answer->access_key) ||
	    !source_copy(keys->secret_key, sizeof(keys->secret_key),
			 answer->secret_key) ||
	    !source_copy(keys->session_token, sizeof(keys->session_token),
			 answer->session_token))
		return reason_set(reason, OUTCOME_FAILED,
				  "the keys of %s are malformed", who);
	keys->source = who;
	keys->expires_boot_ms = INT64_MAX;
	if (answer->expiration[0] == '\0')
		return OUTCOME_OK;
	if (!timestamp_iso8601(answer->expiration, &expires_ms))
		return reason_set(reason, OUTCOME_FAILED,
				  "%s gives keys with the expiration '%s', "
				  "which is no time",
				  who, answer->expiration);
	keys->expires_boot_ms = expiry_by_boot(expires_ms, response);
	if (keys->expires_boot_ms <= clock_boot_ms())
		return reason_set(reason, OUTCOME_DENIED,
				  "%s gives keys that expired at %s", who,
				  answer->expiration);
	return OUTCOME_OK;
}
