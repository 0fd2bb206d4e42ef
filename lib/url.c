#include "url.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* The host of URL, without a port; brackets are kept. False: there is none, or
 * something that may be taken for another. */
static bool host_of(const char *url, char *host, size_t size)
{
	const char *start = strstr(url, "://");
	size_t len;

	if (start == NULL)
		return false;
	start += 3;
	if (start[0] == '[')
		len = strcspn(start, "]") + 1;
	else
		len = strcspn(start, ":/?#");
	if (len == 0 || len >= size || len > strlen(start))
		return false;
	memcpy(host, start, len);
	host[len] = '\0';
	/* A user before the host, a backslash: not everybody reads them alike.
	 */
	if (strcspn(start, "/?#") > strcspn(start, "@") ||
	    strpbrk(host, "@\\%") != NULL)
		return false;
	return start[len] == '\0' || strchr(":/?#", start[len]) != NULL;
}

bool url_host_is(const char *url, const char *const hosts[])
{
	char host[256];

	if (!host_of(url, host, sizeof(host)))
		return false;
	for (; *hosts != NULL; hosts++)
		if (strcasecmp(host, *hosts) == 0)
			return true;
	return false;
}

bool url_is_loopback(const char *url)
{
	static const char *const names[] = {"localhost", "[::1]", NULL};
	struct in_addr address;
	char host[256];

	if (url_host_is(url, names))
		return true;
	/* what only looks like an address would be looked up as a name */
	return host_of(url, host, sizeof(host)) &&
	       inet_pton(AF_INET, host, &address) == 1 &&
	       ntohl(address.s_addr) >> 24 == 127;
}

const char *url_shown(const char *url)
{
	const char *at = strrchr(url, '@');

	return at != NULL ? at + 1 : url;
}
