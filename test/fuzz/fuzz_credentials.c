/* The two files of credentials: what comes out of them can be sent in a header,
 * and what is refused is told without the secret. The input's first line says
 * which of the two files the rest is.
 */
#define _GNU_SOURCE

#include "fuzz.h"

#include "credentials_profile.h"

#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

static int files[2] = {-1, -1};
static struct reason reason;

/* The two files, as the environment names them. */
static void prepare(void)
{
	static const char *const names[] = {"AWS_SHARED_CREDENTIALS_FILE",
					    "AWS_CONFIG_FILE"};

	for (int i = 0; i < 2; i++) {
		char path[64];

		files[i] = memfd_create(names[i], 0);
		MUST(files[i] >= 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", files[i]);
		MUST(setenv(names[i], path, 1) == 0);
	}
	unsetenv("AWS_PROFILE");
}

static void put(int fd, const uint8_t *data, size_t size)
{
	MUST(ftruncate(fd, 0) == 0);
	MUST(pwrite(fd, data, size, 0) == (ssize_t)size);
}

static void check_sendable(const char *text, size_t size)
{
	MUST(strlen(text) < size);
	for (; *text; text++)
		MUST((unsigned char)*text > ' ' && *text != 0x7f);
}

static void check_profile(void)
{
	struct profile profile;
	enum outcome outcome;

	reason.text[0] = '\0';
	outcome = profile_read(&profile, &reason);
	MUST(outcome == OUTCOME_OK || outcome == OUTCOME_INVALID);
	if (outcome == OUTCOME_OK) {
		MUST(strlen(profile.access_key) < KEYS_KEY_SIZE);
		MUST(strlen(profile.session_token) < KEYS_TOKEN_SIZE);
	} else {
		MUST(reason.text[0] != '\0');
		MUST(strlen(profile.secret_key) < 8 ||
		     strstr(reason.text, profile.secret_key) == NULL);
	}
	profile_wipe(&profile);
	MUST(profile.secret_key[0] == '\0');
}

static void check_site(void)
{
	struct site site;

	if (credentials_site(&site, &reason) != OUTCOME_OK)
		return;
	check_sendable(site.region, sizeof(site.region));
	check_sendable(site.endpoint, sizeof(site.endpoint));
	MUST(site.endpoint[0] == '\0' ||
	     strncasecmp(site.endpoint, "http", 4) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
	bool config = size > 0 && data[0] == 'c';

	if (files[0] < 0)
		prepare();
	if (end == NULL)
		return 0;
	end++;
	put(files[config], end, size - (size_t)(end - data));
	put(files[!config], end, 0);
	check_profile();
	check_site();
	return 0;
}
