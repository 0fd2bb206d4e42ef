/* surroundings: what the tests of the network take from the machine that they
 * run on: its time, and none of its settings.
 */
#ifndef CELLDFS_TEST_SURROUNDINGS_H
#define CELLDFS_TEST_SURROUNDINGS_H

#include "check.h"

#include "clock.h"
#include "stop.h"

#include <strings.h>
#include <unistd.h>

static inline bool is_a_setting(const char *name)
{
	size_t len = strlen(name);

	return strncmp(name, "AWS_", 4) == 0 ||
	       (len >= 6 && strcasecmp(name + len - 6, "_proxy") == 0) ||
	       strcmp(name, "CURL_CA_BUNDLE") == 0 ||
	       strcmp(name, "SSL_CERT_FILE") == 0;
}

static inline void forget_settings(void)
{
	char **at = environ;

	while (*at != NULL) {
		char *name = strndup(*at, strcspn(*at, "="));

		CHECK(name != NULL);
		if (is_a_setting(name))
			unsetenv(name); /* the next one takes its place */
		else
			at++;
		free(name);
	}
}

static inline struct limits within_ms(int64_t ms)
{
	return (struct limits){.deadline_ms = clock_boot_ms() + ms};
}

#endif
