/* Times: what is accepted can be written in the same form, and is the same time
 * then.
 */
#include "fuzz.h"

#include "timestamp.h"

#include <stdbool.h>
#include <time.h>

/* Writes the time, of which BEFORE and AFTER are what stands around the year,
 * as strftime() has them. False: the year has not four digits (a leap second or
 * an offset can lead there). */
static bool written(const char *before, const char *after, int64_t time_ms,
		    char text[64])
{
	int64_t ms = ((time_ms % 1000) + 1000) % 1000;
	time_t seconds = (time_t)((time_ms - ms) / 1000);
	struct tm broken;
	size_t len;

	MUST(gmtime_r(&seconds, &broken) != NULL);
	len = strftime(text, 32, before, &broken);
	len += (size_t)snprintf(text + len, 16, "%04d", broken.tm_year + 1900);
	strftime(text + len, 64 - len, after, &broken);
	return broken.tm_year >= -1900 && broken.tm_year < 8100;
}

static void check_http(const char *text)
{
	char same[64];
	int64_t time_ms, again_ms;

	if (!timestamp_http(text, &time_ms))
		return;
	MUST(time_ms % 1000 == 0);
	if (!written("%a, %d %b ", " %H:%M:%S GMT", time_ms, same))
		return;
	MUST(strlen(text) == strlen(same));
	MUST(timestamp_http(same, &again_ms));
	MUST(again_ms == time_ms);
}

static void check_iso8601(const char *text)
{
	char same[64];
	int64_t time_ms, again_ms;
	size_t len;

	if (!timestamp_iso8601(text, &time_ms))
		return;
	if (!written("", "-%m-%dT%H:%M:%S", time_ms, same))
		return;
	len = strlen(same);
	snprintf(same + len, sizeof(same) - len, ".%03dZ",
		 (int)(((time_ms % 1000) + 1000) % 1000));
	MUST(timestamp_iso8601(same, &again_ms));
	MUST(again_ms == time_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size);

	check_http(text);
	check_iso8601(text);
	free(text);
	return 0;
}
