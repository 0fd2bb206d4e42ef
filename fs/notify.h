/* notify: what a service manager wants to hear, by systemd's protocol (sd_notify(3)):
 * datagrams to the socket that NOTIFY_SOCKET names. Without it nothing is said.
 */
#ifndef CELLDFS_NOTIFY_H
#define CELLDFS_NOTIFY_H

/* One or more lines of NAME=VALUE: "READY=1", "STOPPING=1". A manager that cannot be
 * reached is no error. */
void notify_say(const char *state);

struct watchdog;

/* Pings the manager as often as WATCHDOG_USEC demands, for as long as the mount at
 * MOUNTPOINT answers statfs(2), which needs no store. NULL: nobody demands it, or no
 * memory, which the manager will notice. */
struct watchdog *watchdog_start(const char *mountpoint);

/* When the session is destroyed, which ends a statfs(2) that nobody answers. */
void watchdog_stop(struct watchdog *watchdog);

#endif
