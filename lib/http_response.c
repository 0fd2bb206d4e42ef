#include "http.h"

#include <string.h>
#include <strings.h>

void http_response_init(struct http_response *response, size_t body_max)
{
	*response = (struct http_response){.status = 0};
	buf_init(&response->body, body_max);
	buf_init(&response->headers, HTTP_HEADERS_MAX);
}

static void wipe(struct buf *buf)
{
	if (buf->bytes != NULL)
		explicit_bzero(buf->bytes, buf->size);
	buf_clear(buf);
}

void http_response_release(struct http_response *response)
{
	wipe(&response->body);
	wipe(&response->headers);
	buf_release(&response->body);
	buf_release(&response->headers);
}

const char *http_header(const struct http_response *response, const char *name)
{
	const char *at = response->headers.bytes, *end;

	if (at == NULL)
		return NULL;
	end = at + response->headers.len;
	while (at < end) {
		const char *value = at + strlen(at) + 1;

		if (strcasecmp(at, name) == 0)
			return value;
		at = value + strlen(value) + 1;
	}
	return NULL;
}
