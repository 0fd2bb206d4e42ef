/* url: whose host a URL names. Pure: no name is looked up.
 */
#ifndef CELLDFS_URL_H
#define CELLDFS_URL_H

#include <stdbool.h>

/* The host of URL, without its port, is one of HOSTS (NULL at the end; an IPv6
 * address in its brackets). False also if there is none, or something that may
 * be taken for another. */
bool url_host_is(const char *url, const char *const hosts[]);

/* It is this machine by its own names: 127.0.0.0/8, [::1], localhost. */
bool url_is_loopback(const char *url);

/* What may be shown of URL: what follows a user and a password. */
const char *url_shown(const char *url);

#endif
