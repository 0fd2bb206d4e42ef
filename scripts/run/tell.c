#include "tell.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_SIZE 1024 /* a pipe that is ready takes that much */

static void tell_args(const char *format, va_list args)
	__attribute__((format(printf, 1, 0)));

static void tell_args(const char *format, va_list args)
{
	char text[LINE_SIZE - 16];

	vsnprintf(text, sizeof(text), format, args);
	dprintf(STDERR_FILENO, "celldfs-run: %s\n", text);
}

void tell(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tell_args(format, args);
	va_end(args);
}

bool tell_now(const char *format, ...)
{
	struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
	va_list args;

	if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT))
		return false;
	va_start(args, format);
	tell_args(format, args);
	va_end(args);
	return true;
}
