#include "timestamp.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

/* COUNT digits at *TEXT, and steps over them. */
static bool digits(const char **text, int count, int *number)
{
	*number = 0;
	for (; count > 0; count--, (*text)++) {
		if (**text < '0' || **text > '9')
			return false;
		*number = *number * 10 + (**text - '0');
	}
	return true;
}

static bool literal(const char **text, const char *wanted)
{
	size_t len = strlen(wanted);

	if (strncmp(*text, wanted, len) != 0)
		return false;
	*text += len;
	return true;
}

/* One of COUNT names of three letters, which lie one after the other. */
static bool name(const char **text, const char *names, int count, int *index)
{
	for (*index = 0; *index < count; ++*index)
		if (strncmp(*text, names + 3 * *index, 3) == 0) {
			*text += 3;
			return true;
		}
	return false;
}

static bool clock_time(const char **text, struct tm *tm)
{
	return digits(text, 2, &tm->tm_hour) && literal(text, ":") &&
	       digits(text, 2, &tm->tm_min) && literal(text, ":") &&
	       digits(text, 2, &tm->tm_sec);
}

/* TM has the full year and the month from 1. */
static bool since_1970(struct tm tm, int64_t *time_ms)
{
	static const int days[] = {31, 29, 31, 30, 31, 30,
				   31, 31, 30, 31, 30, 31};
	int year = tm.tm_year;
	bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	if (tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 ||
	    tm.tm_mday > days[tm.tm_mon - 1] || tm.tm_hour > 23 ||
	    tm.tm_min > 59 || tm.tm_sec > 60)
		return false;
	if (tm.tm_mon == 2 && tm.tm_mday == 29 && !leap)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon--;
	*time_ms = (int64_t)timegm(&tm) * 1000;
	return true;
}

bool timestamp_http(const char *text, int64_t *time_ms)
{
	struct tm tm = {.tm_isdst = 0};
	int weekday, month;

	if (text == NULL || !name(&text, "SunMonTueWedThuFriSat", 7, &weekday))
		return false;
	if (!literal(&text, ", ") || !digits(&text, 2, &tm.tm_mday) ||
	    !literal(&text, " ") ||
	    !name(&text, "JanFebMarAprMayJunJulAugSepOctNovDec", 12, &month))
		return false;
	tm.tm_mon = month + 1;
	return literal(&text, " ") && digits(&text, 4, &tm.tm_year) &&
	       literal(&text, " ") && clock_time(&text, &tm) &&
	       literal(&text, " GMT") && *text == '\0' &&
	       since_1970(tm, time_ms);
}

/* ".123": milliseconds; further digits are passed over. */
static bool fraction(const char **text, int *ms)
{
	int weight = 100;

	*ms = 0;
	if (!literal(text, "."))
		return true;
	if (**text < '0' || **text > '9')
		return false;
	for (; **text >= '0' && **text <= '9'; (*text)++) {
		*ms += (**text - '0') * weight;
		weight /= 10;
	}
	return true;
}

/* "Z", "+02:00" or "+0200". */
static bool offset(const char **text, int64_t *offset_ms)
{
	int hours, minutes, sign = **text == '-' ? -1 : 1;

	*offset_ms = 0;
	if (literal(text, "Z"))
		return true;
	if (!literal(text, "+") && !literal(text, "-"))
		return false;
	if (!digits(text, 2, &hours))
		return false;
	(void)literal(text, ":");
	if (!digits(text, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*offset_ms = (int64_t)sign * (hours * 60 + minutes) * 60000;
	return true;
}

bool timestamp_iso8601(const char *text, int64_t *time_ms)
{
	struct tm tm = {.tm_isdst = 0};
	int64_t offset_ms;
	int ms;

	if (text == NULL || !digits(&text, 4, &tm.tm_year) ||
	    !literal(&text, "-") || !digits(&text, 2, &tm.tm_mon) ||
	    !literal(&text, "-") || !digits(&text, 2, &tm.tm_mday) ||
	    !literal(&text, "T") || !clock_time(&text, &tm) ||
	    !fraction(&text, &ms) || !offset(&text, &offset_ms) ||
	    *text != '\0' || !since_1970(tm, time_ms))
		return false;
	*time_ms += ms - offset_ms;
	return true;
}
