/* store_sqlite: the embedded store: one SQLite file, any number of mounts and
 * processes on one machine.
 *
 * Invariants:
 * 1. A put_if() is one transaction, in WAL mode with synchronous=FULL: what was
 *    acknowledged survives power loss.
 * 2. Writers queue. PATH-queue is locked byte by byte (fcntl OFD locks, which
 *    die with their process): byte 0 is the queue, byte 1 the work. A writer
 *    takes 0, then 1, then gives back 0, writes, gives back 1. So whoever has
 *    just written cannot pass the one who waits; with SQLite's own busy waits
 *    four writers starve a fifth for seconds. An urgent writer
 *    (limits.urgent) takes byte 1 without byte 0, and byte 2 says so to the
 *    others: it waits for two transactions at most.
 * 3. ETags are 128 random bits, quoted: never repeated, also not after a
 *    restore of the file from a backup.
 * 4. The store's clock is a base kept per boot id + CLOCK_BOOTTIME: it never
 *    goes back, and all mounts have the same.
 *
 * A waiting writer is woken by a signal; which, and what that asks of the
 * program, is in turnstile.h.
 *
 * It does not work on network filesystems (SQLite's WAL does not).
 */
#ifndef CELLDFS_STORE_SQLITE_H
#define CELLDFS_STORE_SQLITE_H

#include "store.h"

/* Opens PATH, which is created with its tables if it does not exist and
 * READ_ONLY is not set. FAILED with the reason for a file that is damaged, not
 * a celldfs store, or of a newer version; DENIED if permissions forbid. */
enum outcome store_sqlite_open(struct store **store, const char *path,
			       const struct store_options *options,
			       const struct limits *limits,
			       struct reason *reason) MUST_CHECK;

/* Reads the machine's boot id from the file PATH instead of /proc, for tests.
 * Call it before any store is opened. */
void store_sqlite_boot_id_from(const char *path);

#endif
