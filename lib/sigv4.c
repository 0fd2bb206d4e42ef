#include "sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ALGORITHM  "AWS4-HMAC-SHA256"
#define SECRET_MAX 512

/* --- Encoding ------------------------------------------------------------- */

static bool unreserved(unsigned char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
	       c == '~';
}

static enum outcome encode(struct buf *out, const char *text, const char *keep)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t old_len = out->len;

	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;
		char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};
		bool plain = unreserved(c) || strchr(keep, c) != NULL;
		enum outcome outcome = buf_append(out, plain ? text : escaped,
						  plain ? 1 : sizeof(escaped));

		if (outcome != OUTCOME_OK) {
			out->len = old_len;
			return outcome;
		}
	}
	return OUTCOME_OK;
}

enum outcome sigv4_encode(struct buf *out, const char *text)
{
	return encode(out, text, "");
}

enum outcome sigv4_encode_path(struct buf *out, const char *path)
{
	return encode(out, path, "/");
}

/* A pair in its encoded form, as two strings in one allocation. */
struct encoded_pair {
	char *name;
	const char *value;
};

static enum outcome encode_pair(struct encoded_pair *encoded,
				const struct sigv4_pair *pair)
{
	struct buf text;
	size_t value_at = 0;
	enum outcome outcome;

	buf_init(&text, SIZE_MAX);
	outcome = sigv4_encode(&text, pair->name);
	if (outcome == OUTCOME_OK)
		outcome = buf_append(&text, "", 1);
	if (outcome == OUTCOME_OK) {
		value_at = text.len;
		outcome = sigv4_encode(&text, pair->value);
	}
	if (outcome == OUTCOME_OK)
		outcome = buf_append(&text, "", 1);
	if (outcome != OUTCOME_OK) {
		buf_release(&text);
		return outcome;
	}
	*encoded = (struct encoded_pair){text.bytes, text.bytes + value_at};
	return OUTCOME_OK;
}

static int compare_pairs(const void *left, const void *right)
{
	const struct encoded_pair *a = left, *b = right;
	int order = strcmp(a->name, b->name);

	return order != 0 ? order : strcmp(a->value, b->value);
}

enum outcome sigv4_encode_query(struct buf *out, const struct sigv4_pair *pairs,
				size_t count)
{
	struct encoded_pair encoded[SIGV4_PAIRS_MAX];
	enum outcome outcome = OUTCOME_OK;
	size_t old_len = out->len, done = 0;

	if (count > SIGV4_PAIRS_MAX)
		return OUTCOME_INVALID;
	while (done < count && outcome == OUTCOME_OK) {
		outcome = encode_pair(&encoded[done], &pairs[done]);
		if (outcome == OUTCOME_OK)
			done++;
	}
	if (outcome == OUTCOME_OK && count > 0)
		qsort(encoded, count, sizeof(encoded[0]), compare_pairs);
	for (size_t i = 0; i < count && outcome == OUTCOME_OK; i++)
		outcome = buf_printf(out, "%s%s=%s", i > 0 ? "&" : "",
				     encoded[i].name, encoded[i].value);
	if (outcome != OUTCOME_OK)
		out->len = old_len;
	while (done > 0)
		free(encoded[--done].name);
	return outcome;
}

/* --- Hashing -------------------------------------------------------------- */

/* A running SHA-256. Nothing that is hashed is gathered anywhere first: the
 * session token is among it. */
struct hash {
	EVP_MD_CTX *context;
	bool good;
};

static void hash_begin(struct hash *hash)
{
	hash->context = EVP_MD_CTX_new();
	hash->good = hash->context != NULL &&
		     EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) == 1;
}

static void hash_bytes(struct hash *hash, const void *bytes, size_t len)
{
	hash->good =
		hash->good && EVP_DigestUpdate(hash->context, bytes, len) == 1;
}

static void hash_text(struct hash *hash, const char *text)
{
	hash_bytes(hash, text, strlen(text));
}

static void print_hex(char hex[SIGV4_HASH_SIZE],
		      const unsigned char bytes[SIGV4_HASH_BYTES])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < SIGV4_HASH_BYTES; i++) {
		hex[2 * i] = digits[bytes[i] >> 4];
		hex[2 * i + 1] = digits[bytes[i] & 15];
	}
	hex[SIGV4_HASH_SIZE - 1] = '\0';
}

/* Frees the hash. False: it failed somewhere. */
static bool hash_end(struct hash *hash, char hex[SIGV4_HASH_SIZE])
{
	unsigned char digest[SIGV4_HASH_BYTES];
	bool good = hash->good &&
		    EVP_DigestFinal_ex(hash->context, digest, NULL) == 1;

	EVP_MD_CTX_free(hash->context);
	if (good)
		print_hex(hex, digest);
	return good;
}

static bool hmac(unsigned char out[SIGV4_HASH_BYTES], const void *key,
		 size_t key_len, const char *text)
{
	return HMAC(EVP_sha256(), key, (int)key_len,
		    (const unsigned char *)text, strlen(text), out,
		    NULL) != NULL;
}

/* --- Signing -------------------------------------------------------------- */

struct signed_header {
	char name[SIGV4_NAME_SIZE]; /* in lower case */
	const char *value;
};

/* The headers that are signed, sorted by name: the caller's and ours. */
struct signed_headers {
	struct signed_header all[SIGV4_PAIRS_MAX + 4];
	size_t count;
};

static bool is_plain(const char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

static enum outcome add_header(struct signed_headers *headers, const char *name,
			       const char *value)
{
	struct signed_header *header = &headers->all[headers->count];
	size_t len = strlen(name);

	if (len == 0 || len >= sizeof(header->name) || !is_plain(name) ||
	    !is_plain(value))
		return OUTCOME_INVALID;
	for (size_t i = 0; i <= len; i++) {
		char c = name[i];

		if (c == ':' || c == ';' || c == ' ')
			return OUTCOME_INVALID;
		header->name[i] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
	}
	for (size_t i = 0; i < headers->count; i++)
		if (strcmp(headers->all[i].name, header->name) == 0)
			return OUTCOME_INVALID;
	header->value = value;
	headers->count++;
	return OUTCOME_OK;
}

static int compare_headers(const void *left, const void *right)
{
	const struct signed_header *a = left, *b = right;

	return strcmp(a->name, b->name);
}

static bool has_token(const struct sigv4_keys *keys)
{
	return keys->session_token != NULL && keys->session_token[0] != '\0';
}

static enum outcome collect_headers(struct signed_headers *headers,
				    const struct sigv4_request *request,
				    const struct sigv4_keys *keys,
				    const struct sigv4_scope *scope,
				    const struct sigv4_signature *signature)
{
	enum outcome outcome;

	headers->count = 0;
	if (request->header_count > SIGV4_PAIRS_MAX)
		return OUTCOME_INVALID;
	outcome = add_header(headers, "host", request->host);
	if (outcome == OUTCOME_OK)
		outcome = add_header(headers, "x-amz-date", signature->date);
	if (outcome == OUTCOME_OK && strcmp(scope->service, "s3") == 0)
		outcome = add_header(headers, "x-amz-content-sha256",
				     signature->content_sha256);
	if (outcome == OUTCOME_OK && has_token(keys))
		outcome = add_header(headers, "x-amz-security-token",
				     keys->session_token);
	for (size_t i = 0; i < request->header_count; i++)
		if (outcome == OUTCOME_OK)
			outcome = add_header(headers, request->headers[i].name,
					     request->headers[i].value);
	if (outcome == OUTCOME_OK)
		qsort(headers->all, headers->count, sizeof(headers->all[0]),
		      compare_headers);
	return outcome;
}

/* The value without white space around it, and one space for every run of them
 * inside. */
static void hash_value(struct hash *hash, const char *value)
{
	const char *between = "";

	for (value += strspn(value, " "); *value != '\0';) {
		size_t len = strcspn(value, " ");

		hash_text(hash, between);
		hash_bytes(hash, value, len);
		value += len + strspn(value + len, " ");
		between = " ";
	}
}

static void hash_names(struct hash *hash, const struct signed_headers *headers)
{
	for (size_t i = 0; i < headers->count; i++) {
		hash_text(hash, i > 0 ? ";" : "");
		hash_text(hash, headers->all[i].name);
	}
}

/* The hash of the canonical request. */
static bool hash_request(char hex[SIGV4_HASH_SIZE],
			 const struct sigv4_request *request,
			 const struct signed_headers *headers,
			 const char *body_hash)
{
	struct hash hash;

	hash_begin(&hash);
	hash_text(&hash, request->method);
	hash_text(&hash, "\n");
	hash_text(&hash, request->path);
	hash_text(&hash, "\n");
	hash_text(&hash, request->query != NULL ? request->query : "");
	hash_text(&hash, "\n");
	for (size_t i = 0; i < headers->count; i++) {
		hash_text(&hash, headers->all[i].name);
		hash_text(&hash, ":");
		hash_value(&hash, headers->all[i].value);
		hash_text(&hash, "\n");
	}
	hash_text(&hash, "\n");
	hash_names(&hash, headers);
	hash_text(&hash, "\n");
	hash_text(&hash, body_hash);
	return hash_end(&hash, hex);
}

static enum outcome derive(struct sigv4_derived *derived,
			   const char *secret_key, const char *scope_text,
			   const struct sigv4_scope *scope)
{
	char first[SECRET_MAX + 8], day[9];
	unsigned char key[SIGV4_HASH_BYTES], next[SIGV4_HASH_BYTES];
	int len = snprintf(first, sizeof(first), "AWS4%s", secret_key);
	bool fits = len >= 0 && (size_t)len < sizeof(first);
	bool good;

	snprintf(day, sizeof(day), "%.8s", scope_text);
	good = fits && hmac(key, first, (size_t)len, day) &&
	       hmac(next, key, sizeof(key), scope->region) &&
	       hmac(key, next, sizeof(next), scope->service) &&
	       hmac(derived->key, key, sizeof(key), "aws4_request");
	snprintf(derived->scope, sizeof(derived->scope), "%s",
		 good ? scope_text : "");
	explicit_bzero(first, sizeof(first));
	explicit_bzero(key, sizeof(key));
	explicit_bzero(next, sizeof(next));
	if (!fits)
		return OUTCOME_TOO_LARGE;
	return good ? OUTCOME_OK : OUTCOME_FAILED;
}

static enum outcome sign_text(char hex[SIGV4_HASH_SIZE], const char *text,
			      const struct sigv4_keys *keys,
			      const char *scope_text,
			      const struct sigv4_scope *scope)
{
	struct sigv4_derived own = {.scope = ""};
	struct sigv4_derived *derived = keys->derived ? keys->derived : &own;
	unsigned char digest[SIGV4_HASH_BYTES];
	enum outcome outcome = OUTCOME_OK;

	if (strcmp(derived->scope, scope_text) != 0)
		outcome = derive(derived, keys->secret_key, scope_text, scope);
	if (outcome == OUTCOME_OK &&
	    !hmac(digest, derived->key, sizeof(derived->key), text))
		outcome = OUTCOME_FAILED;
	if (outcome == OUTCOME_OK)
		print_hex(hex, digest);
	explicit_bzero(&own, sizeof(own));
	return outcome;
}

static bool print_date(char date[SIGV4_DATE_SIZE], int64_t time_ms)
{
	time_t seconds = (time_t)(time_ms / 1000);
	struct tm tm;

	return time_ms >= 0 && gmtime_r(&seconds, &tm) != NULL &&
	       tm.tm_year + 1900 <= 9999 &&
	       strftime(date, SIGV4_DATE_SIZE, "%Y%m%dT%H%M%SZ", &tm) ==
		       SIGV4_DATE_SIZE - 1;
}

static bool arguments_are_good(const struct sigv4_request *request,
			       const struct sigv4_keys *keys,
			       const struct sigv4_scope *scope)
{
	return keys->access_key != NULL && keys->access_key[0] != '\0' &&
	       keys->secret_key != NULL && keys->secret_key[0] != '\0' &&
	       is_plain(keys->access_key) && is_plain(scope->region) &&
	       is_plain(scope->service) && is_plain(request->method) &&
	       is_plain(request->path) && request->path[0] == '/' &&
	       (request->query == NULL || is_plain(request->query));
}

static enum outcome print_authorization(struct sigv4_signature *signature,
					const struct signed_headers *headers,
					const char *access_key,
					const char *scope_text, const char *hex)
{
	char *out = signature->authorization;
	size_t size = sizeof(signature->authorization);
	int len = snprintf(out, size,
			   ALGORITHM " Credential=%s/%s, SignedHeaders=",
			   access_key, scope_text);

	for (size_t i = 0; i <= headers->count; i++) {
		if (len < 0 || (size_t)len >= size)
			return OUTCOME_TOO_LARGE;
		out += len;
		size -= (size_t)len;
		if (i < headers->count)
			len = snprintf(out, size, "%s%s", i > 0 ? ";" : "",
				       headers->all[i].name);
		else
			len = snprintf(out, size, ", Signature=%s", hex);
	}
	return len < 0 || (size_t)len >= size ? OUTCOME_TOO_LARGE : OUTCOME_OK;
}

enum outcome sigv4_sign(struct sigv4_signature *signature,
			const struct sigv4_request *request,
			const struct sigv4_keys *keys,
			const struct sigv4_scope *scope)
{
	char scope_text[SIGV4_SCOPE_SIZE], hex[SIGV4_HASH_SIZE];
	char text[sizeof(ALGORITHM) + SIGV4_DATE_SIZE + SIGV4_SCOPE_SIZE +
		  SIGV4_HASH_SIZE];
	struct signed_headers headers;
	struct hash body;
	enum outcome outcome;
	int len;

	*signature = (struct sigv4_signature){.authorization = ""};
	if (!arguments_are_good(request, keys, scope) ||
	    !print_date(signature->date, scope->time_ms))
		return OUTCOME_INVALID;
	hash_begin(&body);
	hash_bytes(&body, request->body, request->body_len);
	if (!hash_end(&body, signature->content_sha256))
		return OUTCOME_FAILED;
	outcome = collect_headers(&headers, request, keys, scope, signature);
	if (outcome != OUTCOME_OK)
		return outcome;

	len = snprintf(scope_text, sizeof(scope_text),
		       "%.8s/%s/%s/aws4_request", signature->date,
		       scope->region, scope->service);
	if (len < 0 || (size_t)len >= sizeof(scope_text))
		return OUTCOME_TOO_LARGE;
	if (!hash_request(hex, request, &headers, signature->content_sha256))
		return OUTCOME_FAILED;
	snprintf(text, sizeof(text), ALGORITHM "\n%s\n%s\n%s", signature->date,
		 scope_text, hex);
	outcome = sign_text(hex, text, keys, scope_text, scope);
	if (outcome != OUTCOME_OK)
		return outcome;
	return print_authorization(signature, &headers, keys->access_key,
				   scope_text, hex);
}
