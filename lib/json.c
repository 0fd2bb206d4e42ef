#include "json.h"

#include <limits.h>
#include <string.h>

struct parser {
	const char *at;
	const char *end;
	unsigned depth_left;
	const char *wrong; /* at AT; NULL = nothing so far */
};

static bool value(struct parser *p);

static bool fail(struct parser *p, const char *wrong)
{
	p->wrong = p->at == p->end ? "it ends too early" : wrong;
	return false;
}

/* The next byte, or -1 at the end. */
static int peek(const struct parser *p)
{
	return p->at < p->end ? (unsigned char)*p->at : -1;
}

static bool take(struct parser *p, char c)
{
	if (peek(p) != c)
		return false;
	p->at++;
	return true;
}

bool json_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void space(struct parser *p)
{
	while (p->at < p->end && json_is_space(*p->at))
		p->at++;
}

static bool literal(struct parser *p, const char *word)
{
	for (; *word; word++)
		if (!take(p, *word))
			return fail(p, "expected a value");
	return true;
}

static bool digits(struct parser *p)
{
	const char *start = p->at;

	while (peek(p) >= '0' && peek(p) <= '9')
		p->at++;
	return p->at > start || fail(p, "expected a digit");
}

static bool number(struct parser *p)
{
	take(p, '-');
	if (take(p, '0')) {
		if (peek(p) >= '0' && peek(p) <= '9')
			return fail(p, "a number with a leading zero");
	} else if (!digits(p)) {
		return false;
	}
	if (take(p, '.') && !digits(p))
		return false;
	if (take(p, 'e') || take(p, 'E')) {
		if (!take(p, '+'))
			take(p, '-');
		return digits(p);
	}
	return true;
}

static int hex_digit(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool hex4(struct parser *p, int *unit)
{
	*unit = 0;
	for (int i = 0; i < 4; i++) {
		int digit = hex_digit(peek(p));

		if (digit < 0)
			return fail(p, "expected a hex digit");
		*unit = *unit * 16 + digit;
		p->at++;
	}
	return true;
}

/* What follows \u. A surrogate is only good as the first half of a pair. */
static bool unicode_escape(struct parser *p)
{
	const char *start = p->at;
	int unit, low;

	if (!hex4(p, &unit))
		return false;
	if (unit == 0) {
		p->at = start;
		return fail(p, "a NUL in a string");
	}
	if (unit < 0xd800 || unit > 0xdfff)
		return true;
	if (unit <= 0xdbff && take(p, '\\') && take(p, 'u')) {
		if (!hex4(p, &low))
			return false;
		if (low >= 0xdc00 && low <= 0xdfff)
			return true;
	}
	p->at = start;
	return fail(p, "half a surrogate pair");
}

static bool escape(struct parser *p)
{
	int c = peek(p);

	if (c <= 0 || !strchr("\"\\/bfnrtu", c))
		return fail(p, "no such escape");
	p->at++;
	return c != 'u' || unicode_escape(p);
}

/* One character beyond ASCII. The bounds of the second byte shut out overlong
 * forms, surrogates and what is above U+10FFFF (RFC 3629, section 4). */
static bool utf8(struct parser *p)
{
	static const struct {
		unsigned char first, last, low, high;
		int more;
	} forms[] = {
		{0xc2, 0xdf, 0x80, 0xbf, 1}, {0xe0, 0xe0, 0xa0, 0xbf, 2},
		{0xe1, 0xec, 0x80, 0xbf, 2}, {0xed, 0xed, 0x80, 0x9f, 2},
		{0xee, 0xef, 0x80, 0xbf, 2}, {0xf0, 0xf0, 0x90, 0xbf, 3},
		{0xf1, 0xf3, 0x80, 0xbf, 3}, {0xf4, 0xf4, 0x80, 0x8f, 3},
	};
	int c = peek(p);

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		int low = forms[i].low, high = forms[i].high;

		if (c < forms[i].first || c > forms[i].last)
			continue;
		p->at++;
		for (int more = forms[i].more; more > 0; more--) {
			if (peek(p) < low || peek(p) > high)
				return fail(p, "not UTF-8");
			p->at++;
			low = 0x80;
			high = 0xbf;
		}
		return true;
	}
	return fail(p, "not UTF-8");
}

static bool string(struct parser *p)
{
	p->at++; /* the quote, which the caller has seen */
	for (;;) {
		int c = peek(p);

		if (c == '\0')
			return fail(p, "a NUL in a string");
		if (c < 0x20)
			return fail(p, "a control byte in a string");
		if (c >= 0x80) {
			if (!utf8(p))
				return false;
			continue;
		}
		p->at++;
		if (c == '"')
			return true;
		if (c == '\\' && !escape(p))
			return false;
	}
}

/* KEY and MEMBER_VALUE may be NULL. */
static bool member(struct parser *p, struct json_text *key,
		   struct json_text *member_value)
{
	const char *start = p->at;

	if (peek(p) != '"')
		return fail(p, "expected a field's name in quotes");
	if (!string(p))
		return false;
	if (key)
		*key = (struct json_text){start, (size_t)(p->at - start)};
	space(p);
	if (!take(p, ':'))
		return fail(p, "expected ':'");
	space(p);
	start = p->at;
	if (!value(p))
		return false;
	if (member_value)
		*member_value =
			(struct json_text){start, (size_t)(p->at - start)};
	return true;
}

static bool object(struct parser *p)
{
	p->at++;
	space(p);
	if (take(p, '}'))
		return true;
	for (;;) {
		if (!member(p, NULL, NULL))
			return false;
		space(p);
		if (take(p, '}'))
			return true;
		if (!take(p, ','))
			return fail(p, "expected ',' or '}'");
		space(p);
	}
}

static bool array(struct parser *p)
{
	p->at++;
	space(p);
	if (take(p, ']'))
		return true;
	for (;;) {
		if (!value(p))
			return false;
		space(p);
		if (take(p, ']'))
			return true;
		if (!take(p, ','))
			return fail(p, "expected ',' or ']'");
		space(p);
	}
}

static bool value(struct parser *p)
{
	int c = peek(p);
	bool good;

	switch (c) {
	case '{':
	case '[':
		if (p->depth_left == 0)
			return fail(p, "nested too deeply");
		p->depth_left--;
		good = c == '{' ? object(p) : array(p);
		p->depth_left++;
		return good;
	case '"':
		return string(p);
	case 't':
		return literal(p, "true");
	case 'f':
		return literal(p, "false");
	case 'n':
		return literal(p, "null");
	default:
		if (c == '-' || (c >= '0' && c <= '9'))
			return number(p);
		return fail(p, "expected a value");
	}
}

bool json_check(struct json_text text, unsigned depth_max,
		struct json_text *checked, struct json_error *error)
{
	/* An empty text may have no address to count from. */
	const char *bytes = text.len > 0 ? text.bytes : "";
	struct parser p = {
		.at = bytes, .end = bytes + text.len, .depth_left = depth_max};
	const char *start;

	if (text.len >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
		*error = (struct json_error){0, "a byte order mark"};
		return false;
	}
	space(&p);
	start = p.at;
	if (value(&p)) {
		*checked = (struct json_text){start, (size_t)(p.at - start)};
		space(&p);
		if (p.at == p.end)
			return true;
		p.wrong = "more bytes after the end";
	}
	*error = (struct json_error){(size_t)(p.at - bytes), p.wrong};
	return false;
}

enum json_kind json_kind(struct json_text text)
{
	switch (text.bytes[0]) {
	case '{':
		return JSON_OBJECT;
	case '[':
		return JSON_ARRAY;
	case '"':
		return JSON_STRING;
	case 't':
	case 'f':
		return JSON_BOOL;
	case 'n':
		return JSON_NULL;
	default:
		return JSON_NUMBER;
	}
}

struct json_cursor json_members(struct json_text text)
{
	/* Without the braces what is left is members and commas. */
	return (struct json_cursor){{text.bytes + 1, text.len - 2}};
}

bool json_next(struct json_cursor *cursor, struct json_member *found)
{
	/* The depth has been checked already. */
	struct parser p = {.at = cursor->rest.bytes,
			   .end = cursor->rest.bytes + cursor->rest.len,
			   .depth_left = UINT_MAX};

	space(&p);
	take(&p, ',');
	space(&p);
	if (p.at == p.end || !member(&p, &found->key, &found->value))
		return false;
	cursor->rest = (struct json_text){p.at, (size_t)(p.end - p.at)};
	return true;
}

/* The character at *AT, in a string that has been checked, and steps over it.
 * What no name can hold comes as what it is not: a surrogate as itself, a
 * character of four bytes as U+FFFD. */
static int next_char(const char **at)
{
	static const char escapes[] = "b\bf\fn\nr\rt\t";
	const unsigned char *s = (const unsigned char *)*at;
	int unit = 0;

	if (s[0] == '\\' && s[1] == 'u') {
		for (int i = 2; i < 6; i++)
			unit = unit * 16 + hex_digit(s[i]);
		*at += 6;
		return unit;
	}
	if (s[0] == '\\') {
		const char *found = strchr(escapes, s[1]);

		*at += 2;
		return found ? found[1] : s[1];
	}
	if (s[0] < 0x80) {
		*at += 1;
		return s[0];
	}
	if (s[0] < 0xe0) {
		*at += 2;
		return (s[0] & 0x1f) << 6 | (s[1] & 0x3f);
	}
	if (s[0] < 0xf0) {
		*at += 3;
		return (s[0] & 0x0f) << 12 | (s[1] & 0x3f) << 6 | (s[2] & 0x3f);
	}
	*at += 4;
	return 0xfffd;
}

/* As Go's encoding/json does, which folds two characters beyond ASCII. */
static int fold(int c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A' + 'a';
	if (c == 0x17f) /* long s */
		return 's';
	if (c == 0x212a) /* kelvin */
		return 'k';
	return c;
}

enum json_match json_match_key(struct json_text key, const char *name)
{
	const char *at = key.bytes + 1, *end = key.bytes + key.len - 1;
	bool exact = true;

	while (at < end) {
		int c = next_char(&at);

		if (c != *name) {
			if (fold(c) != *name)
				return JSON_MATCH_NO;
			exact = false;
		}
		name++;
	}
	if (*name)
		return JSON_MATCH_NO;
	return exact ? JSON_MATCH_YES : JSON_MATCH_CASE;
}

size_t json_char_len(struct json_text text)
{
	struct parser p = {.at = text.bytes, .end = text.bytes + text.len};
	int c = peek(&p);

	if (c < 0x80)
		return text.len > 0;
	return utf8(&p) ? (size_t)(p.at - text.bytes) : 0;
}

/* C0, DEL, C1 and the two separators of Unicode. */
static bool is_control(int c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 ||
	       c == 0x2029;
}

static enum outcome quote_char(struct buf *out, struct json_text *rest)
{
	size_t len = json_char_len(*rest);
	const char *start = rest->bytes, *at = start;
	int c;

	rest->bytes += len > 0 ? len : 1;
	rest->len -= len > 0 ? len : 1;
	if (len == 0)
		return buf_append(out, "\xef\xbf\xbd", 3);
	if (*start == '"' || *start == '\\')
		return buf_printf(out, "\\%c", *start);
	c = next_char(&at);
	if (is_control(c))
		return buf_printf(out, "\\u%04x", (unsigned)c);
	return buf_append(out, start, len);
}

enum outcome json_quote(struct buf *out, const char *text)
{
	struct json_text rest = {text, strlen(text)};
	enum outcome outcome = buf_append(out, "\"", 1);

	while (outcome == OUTCOME_OK && rest.len > 0)
		outcome = quote_char(out, &rest);
	if (outcome == OUTCOME_OK)
		outcome = buf_append(out, "\"", 1);
	return outcome;
}
