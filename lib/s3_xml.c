#include "s3_xml.h"

#include "timestamp.h"

#include <expat.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 8
#define TEXT_MAX  (3 * S3_KEY_MAX + 1) /* every byte as %XX */

/* A document being read: the names of the open elements and the text of the
 * innermost. */
struct reader {
	XML_Parser parser;
	const char *path[DEPTH_MAX]; /* literals of known_elements, or "" */
	unsigned depth;
	char text[TEXT_MAX];
	size_t len;
	bool too_long;
	/* called when the element PATH[DEPTH - 1] ends */
	void (*ended)(struct reader *reader);
	void *arg;
	enum outcome outcome;
};

/* All elements that are looked at; the rest are walked past. */
static const char *const known_elements[] = {
	"ListBucketResult",
	"Contents",
	"CommonPrefixes",
	"Key",
	"Prefix",
	"Size",
	"LastModified",
	"IsTruncated",
	"NextContinuationToken",
	"Error",
	"Code",
	"Message",
	"Region",
};

static const char *known(const char *name)
{
	for (size_t i = 0;
	     i < sizeof(known_elements) / sizeof(known_elements[0]); i++)
		if (strcmp(known_elements[i], name) == 0)
			return known_elements[i];
	return "";
}

static void XMLCALL on_start(void *arg, const XML_Char *name,
			     const XML_Char **attributes)
{
	struct reader *reader = arg;

	(void)attributes;
	if (reader->depth == DEPTH_MAX) {
		XML_StopParser(reader->parser, XML_FALSE);
		return;
	}
	reader->path[reader->depth++] = known(name);
	reader->len = 0;
	reader->too_long = false;
}

static void XMLCALL on_end(void *arg, const XML_Char *name)
{
	struct reader *reader = arg;

	(void)name;
	reader->text[reader->len] = '\0';
	reader->ended(reader);
	reader->depth--;
	reader->len = 0;
	reader->too_long = false;
	if (reader->outcome != OUTCOME_OK)
		XML_StopParser(reader->parser, XML_FALSE);
}

static void XMLCALL on_text(void *arg, const XML_Char *text, int len)
{
	struct reader *reader = arg;

	if ((size_t)len >= sizeof(reader->text) - reader->len) {
		reader->too_long = true;
		return;
	}
	memcpy(reader->text + reader->len, text, (size_t)len);
	reader->len += (size_t)len;
}

static void XMLCALL on_doctype(void *arg, const XML_Char *name,
			       const XML_Char *sysid, const XML_Char *pubid,
			       int has_internal_subset)
{
	struct reader *reader = arg;

	(void)name;
	(void)sysid;
	(void)pubid;
	(void)has_internal_subset;
	XML_StopParser(reader->parser, XML_FALSE);
}

/* FAILED with REASON: not well-formed. */
static enum outcome read_document(struct reader *reader, const char *xml,
				  size_t len, struct reason *reason)
{
	enum XML_Status status;
	enum XML_Error error;

	reader->parser = XML_ParserCreate(NULL);
	if (!reader->parser)
		return OUTCOME_NO_MEMORY;
	XML_SetUserData(reader->parser, reader);
	XML_SetElementHandler(reader->parser, on_start, on_end);
	XML_SetCharacterDataHandler(reader->parser, on_text);
	XML_SetStartDoctypeDeclHandler(reader->parser, on_doctype);
	status = XML_Parse(reader->parser, xml, (int)len, 1);
	error = XML_GetErrorCode(reader->parser);
	if (error == XML_ERROR_NO_MEMORY)
		reader->outcome = OUTCOME_NO_MEMORY;
	else if (status != XML_STATUS_OK && reader->outcome == OUTCOME_OK)
		reader->outcome = reason_set(
			reason, OUTCOME_FAILED,
			"the XML is cut or malformed "
			"at byte %ld: %s",
			(long)XML_GetCurrentByteIndex(reader->parser),
			XML_ErrorString(error));
	XML_ParserFree(reader->parser);
	return reader->outcome;
}

/* Is the element that ends this one? NULL matches the end of the path. */
static bool is_at(const struct reader *reader, const char *a, const char *b,
		  const char *c)
{
	const char *want[] = {a, b, c};
	unsigned depth = c ? 3 : b ? 2 : 1;

	if (reader->depth != depth)
		return false;
	for (unsigned i = 0; i < depth; i++)
		if (strcmp(reader->path[i], want[i]) != 0)
			return false;
	return true;
}

/* ---- listings ---- */

struct listing {
	struct s3_page *page;
	const char *prefix;
	struct reason *reason;
	size_t room; /* of page->names */
	/* of the Contents or CommonPrefixes that is open */
	char key[S3_KEY_MAX + 1];
	bool has_key, bad_key;
	uint64_t size_bytes;
	int64_t modified_ms;
	bool has_root, has_truncated;
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undoes encoding-type=url. False: broken, a NUL in it, or longer than any
 * key. */
static bool decode_key(char key[S3_KEY_MAX + 1], const char *text)
{
	size_t len = 0;

	for (; *text; text++) {
		int c = (unsigned char)*text;

		if (c == '+')
			c = ' ';
		if (c == '%') {
			int high = hex_digit(text[1]);
			int low = high < 0 ? -1 : hex_digit(text[2]);

			if (low < 0)
				return false;
			c = high * 16 + low;
			text += 2;
		}
		if (c == 0 || len == S3_KEY_MAX)
			return false;
		key[len++] = (char)c;
	}
	key[len] = '\0';
	return true;
}

/* A key below the prefix becomes a name of the page. */
static enum outcome add_name(struct listing *listing, bool directory)
{
	struct s3_page *page = listing->page;
	size_t skip = strlen(listing->prefix);
	size_t len = strlen(listing->key);
	struct s3_name *name;
	const char *slash;

	if (listing->bad_key || !listing->has_key ||
	    strncmp(listing->key, listing->prefix, skip) != 0) {
		page->foreign++;
		return OUTCOME_OK;
	}
	slash = strchr(listing->key + skip, '/');
	if (slash && (!directory || slash[1]))
		return reason_set(listing->reason, OUTCOME_FAILED,
				  "the store ignores the delimiter: it lists "
				  "'%s'",
				  listing->key);
	if (directory && len > skip && listing->key[len - 1] == '/')
		listing->key[len - 1] = '\0';
	if (page->count == listing->room) {
		size_t room = listing->room ? 2 * listing->room : 64;
		void *grown = realloc(page->names, room * sizeof(*page->names));

		if (!grown)
			return OUTCOME_NO_MEMORY;
		page->names = grown;
		listing->room = room;
	}
	name = &page->names[page->count];
	name->name = strdup(listing->key + skip);
	if (!name->name)
		return OUTCOME_NO_MEMORY;
	name->directory = directory;
	name->size_bytes = directory ? 0 : listing->size_bytes;
	name->modified_ms = directory ? 0 : listing->modified_ms;
	page->count++;
	return OUTCOME_OK;
}

static void take_key(struct listing *listing, const struct reader *reader)
{
	listing->bad_key =
		reader->too_long || !decode_key(listing->key, reader->text);
	listing->has_key = true;
}

static void list_ended(struct reader *reader)
{
	static const char root[] = "ListBucketResult";
	struct listing *listing = reader->arg;
	struct s3_page *page = listing->page;

	if (is_at(reader, root, "Contents", "Key") ||
	    is_at(reader, root, "CommonPrefixes", "Prefix"))
		take_key(listing, reader);
	else if (is_at(reader, root, "Contents", "Size"))
		listing->size_bytes = strtoull(reader->text, NULL, 10);
	else if (is_at(reader, root, "Contents", "LastModified"))
		(void)timestamp_iso8601(reader->text, &listing->modified_ms);
	else if (is_at(reader, root, "Contents", NULL) ||
		 is_at(reader, root, "CommonPrefixes", NULL)) {
		reader->outcome =
			add_name(listing, reader->path[1][1] == 'o' &&
						  reader->path[1][2] == 'm');
		listing->has_key = listing->bad_key = false;
		listing->size_bytes = 0;
		listing->modified_ms = 0;
	} else if (is_at(reader, root, "IsTruncated", NULL)) {
		page->truncated = strcmp(reader->text, "true") == 0;
		listing->has_truncated =
			page->truncated || strcmp(reader->text, "false") == 0;
	} else if (is_at(reader, root, "NextContinuationToken", NULL)) {
		if (!reader->too_long && reader->len < sizeof(page->next))
			memcpy(page->next, reader->text, reader->len + 1);
	} else if (is_at(reader, root, NULL, NULL)) {
		listing->has_root = true;
	}
}

/* By key: a directory's ends in a slash. */
static int compare_names(const void *a, const void *b)
{
	const struct s3_name *left = a;
	const struct s3_name *right = b;
	const char *l = left->name;
	const char *r = right->name;
	int x, y;

	while (*l && *l == *r) {
		l++;
		r++;
	}
	x = *l ? (unsigned char)*l : left->directory ? '/' : 0;
	y = *r ? (unsigned char)*r : right->directory ? '/' : 0;
	if (x != y)
		return x - y;
	return left->directory - right->directory;
}

enum outcome s3_page_parse(struct s3_page *page, const char *prefix,
			   const char *xml, size_t len, struct reason *reason)
{
	struct listing listing = {
		.page = page, .prefix = prefix, .reason = reason};
	struct reader reader = {.ended = list_ended, .arg = &listing};
	enum outcome outcome;

	memset(page, 0, sizeof(*page));
	outcome = read_document(&reader, xml, len, reason);
	if (outcome != OUTCOME_OK)
		return outcome;
	if (!listing.has_root || !listing.has_truncated)
		return reason_set(reason, OUTCOME_FAILED,
				  "the answer is no ListBucketResult");
	if (page->truncated && !page->next[0])
		return reason_set(reason, OUTCOME_FAILED,
				  "the listing is truncated, but does not say "
				  "where it goes on");
	if (!page->truncated)
		page->next[0] = '\0';
	if (page->count > 0)
		qsort(page->names, page->count, sizeof(*page->names),
		      compare_names);
	return OUTCOME_OK;
}

void s3_page_release(struct s3_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		free(page->names[i].name);
	free(page->names);
	memset(page, 0, sizeof(*page));
}

/* ---- errors ---- */

static void copy_text(char *to, size_t size, const struct reader *reader)
{
	size_t len = reader->len < size - 1 ? reader->len : size - 1;

	memcpy(to, reader->text, len);
	to[len] = '\0';
}

static void error_ended(struct reader *reader)
{
	struct s3_error *error = reader->arg;

	if (is_at(reader, "Error", "Code", NULL))
		copy_text(error->code, sizeof(error->code), reader);
	else if (is_at(reader, "Error", "Message", NULL))
		copy_text(error->message, sizeof(error->message), reader);
	else if (is_at(reader, "Error", "Region", NULL))
		copy_text(error->region, sizeof(error->region), reader);
}

void s3_error_parse(struct s3_error *error, const char *xml, size_t len)
{
	struct reader reader = {.ended = error_ended, .arg = error};

	memset(error, 0, sizeof(*error));
	if (len > 0 && read_document(&reader, xml, len, NULL) != OUTCOME_OK)
		memset(error, 0, sizeof(*error));
}
