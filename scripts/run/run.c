#include "run.h"

#include <stdarg.h>
#include <stdio.h>

void explain(struct trouble *trouble, enum run_exit status, const char *format,
	     ...)
{
	va_list args;

	trouble->exit = status;
	va_start(args, format);
	vsnprintf(trouble->text, sizeof(trouble->text), format, args);
	va_end(args);
}
