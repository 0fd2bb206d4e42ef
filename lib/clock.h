/* clock: the two clocks that celldfs reads, replaceable for tests.
 *
 * Deadlines and authority are counted on CLOCK_BOOTTIME, which no setting of
 * the wall clock moves and which goes on while the machine is suspended. The
 * wall clock is for people only; the fleet's time is the store's (store.h).
 */
#ifndef CELLDFS_CLOCK_H
#define CELLDFS_CLOCK_H

#include <stdint.h>

/* Milliseconds of CLOCK_BOOTTIME. */
int64_t clock_boot_ms(void);

/* Milliseconds since 1970 by the machine's wall clock. */
int64_t clock_wall_ms(void);

/* Replaces both sources, for tests; NULL restores the real one. Call it
 * before any other thread runs. */
void clock_replace(int64_t (*boot_ms)(void), int64_t (*wall_ms)(void));

#endif
