#include "clock.h"

#include <stddef.h>
#include <time.h>

static int64_t read_ms(clockid_t id)
{
	struct timespec now;

	/* Cannot fail: both clocks exist on every kernel that has FUSE 3. */
	clock_gettime(id, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t real_boot_ms(void)
{
	return read_ms(CLOCK_BOOTTIME);
}

static int64_t real_wall_ms(void)
{
	return read_ms(CLOCK_REALTIME);
}

static int64_t (*boot_source)(void) = real_boot_ms;
static int64_t (*wall_source)(void) = real_wall_ms;

int64_t clock_boot_ms(void)
{
	return boot_source();
}

int64_t clock_wall_ms(void)
{
	return wall_source();
}

void clock_replace(int64_t (*boot_ms)(void), int64_t (*wall_ms)(void))
{
	boot_source = boot_ms != NULL ? boot_ms : real_boot_ms;
	wall_source = wall_ms != NULL ? wall_ms : real_wall_ms;
}
