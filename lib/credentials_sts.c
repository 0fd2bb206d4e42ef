/* Web identity: a token from a file is exchanged for keys at STS.
 *
 * Source: AWS Security Token Service API Reference,
 * AssumeRoleWithWebIdentity. The request is not signed: the token is what
 * proves it.
 */
#include "credentials_source.h"

#include "clock.h"
#include "sigv4.h"
#include "url.h"

#include <expat.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define URL_SIZE  2048
#define DEPTH_MAX 16
#define FORM_MAX  (256 * 1024)

static const char sts[] = "STS";

/* --- The answer ----------------------------------------------------------- */

/* The parser's state: the text of the elements that matter. */
struct answer {
	XML_Parser parser;
	struct source_answer keys;
	char code[64]; /* of an error */
	char *out;     /* where the current element's text goes; NULL */
	size_t out_size;
	unsigned depth;
	bool inside; /* in Credentials */
	bool failed;
};

/* Without the namespace that some servers put before it. */
static const char *local_name(const char *name)
{
	const char *colon = strrchr(name, ':');

	return colon != NULL ? colon + 1 : name;
}

static void choose(struct answer *answer, char *out, size_t size)
{
	out[0] = '\0';
	answer->out = out;
	answer->out_size = size;
}

static void start_element(void *arg, const char *name, const char **attributes)
{
	struct answer *answer = arg;
	struct source_answer *keys = &answer->keys;

	(void)attributes;
	name = local_name(name);
	answer->out = NULL;
	if (++answer->depth > DEPTH_MAX) {
		answer->failed = true;
		XML_StopParser(answer->parser, XML_FALSE);
	} else if (strcmp(name, "Credentials") == 0) {
		answer->inside = true;
	} else if (strcmp(name, "Code") == 0) {
		choose(answer, answer->code, sizeof(answer->code));
	} else if (!answer->inside) {
		return;
	} else if (strcmp(name, "AccessKeyId") == 0) {
		choose(answer, keys->access_key, sizeof(keys->access_key));
	} else if (strcmp(name, "SecretAccessKey") == 0) {
		choose(answer, keys->secret_key, sizeof(keys->secret_key));
	} else if (strcmp(name, "SessionToken") == 0) {
		choose(answer, keys->session_token,
		       sizeof(keys->session_token));
	} else if (strcmp(name, "Expiration") == 0) {
		choose(answer, keys->expiration, sizeof(keys->expiration));
	}
}

static void end_element(void *arg, const char *name)
{
	struct answer *answer = arg;

	answer->depth--;
	answer->out = NULL;
	if (strcmp(local_name(name), "Credentials") == 0)
		answer->inside = false;
}

static void take_text(void *arg, const char *text, int len)
{
	struct answer *answer = arg;
	size_t old_len;

	if (answer->out == NULL)
		return;
	old_len = strlen(answer->out);
	if (old_len + (size_t)len >= answer->out_size) {
		answer->failed = true;
		XML_StopParser(answer->parser, XML_FALSE);
		return;
	}
	memcpy(answer->out + old_len, text, (size_t)len);
	answer->out[old_len + (size_t)len] = '\0';
}

/* A document type can make a small answer grow without end. */
static void refuse_doctype(void *arg, const char *name, const char *system_id,
			   const char *public_id, int has_subset)
{
	struct answer *answer = arg;

	(void)name;
	(void)system_id;
	(void)public_id;
	(void)has_subset;
	answer->failed = true;
	XML_StopParser(answer->parser, XML_FALSE);
}

/* OK; FAILED: it is not what STS says; NO_MEMORY. */
static enum outcome parse(struct answer *answer, const struct buf *body)
{
	enum outcome outcome = OUTCOME_OK;

	answer->parser = XML_ParserCreate(NULL);
	if (answer->parser == NULL)
		return OUTCOME_NO_MEMORY;
	XML_SetUserData(answer->parser, answer);
	XML_SetElementHandler(answer->parser, start_element, end_element);
	XML_SetCharacterDataHandler(answer->parser, take_text);
	XML_SetStartDoctypeDeclHandler(answer->parser, refuse_doctype);
	if (XML_Parse(answer->parser, body->bytes, (int)body->len, XML_TRUE) !=
		    XML_STATUS_OK ||
	    answer->failed)
		outcome = OUTCOME_FAILED;
	if (XML_GetErrorCode(answer->parser) == XML_ERROR_NO_MEMORY)
		outcome = OUTCOME_NO_MEMORY;
	XML_ParserFree(answer->parser);
	return outcome;
}

/* A refusal's code says more than its status; its message may quote what was
 * sent. */
static enum outcome refused(const struct http_response *response,
			    const char *code, struct reason *reason)
{
	enum outcome outcome =
		source_failure(HTTP_ANSWERED, response, sts, reason);

	for (const char *at = code; *at != '\0'; at++)
		if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx"
			   "yz0123456789.",
			   *at) == NULL)
			return outcome;
	if (code[0] == '\0')
		return outcome;
	if (strcmp(code, "IDPCommunicationError") == 0)
		outcome = OUTCOME_FAILED;
	return reason_set(reason, outcome, "STS refuses the web identity: %s",
			  code);
}

static enum outcome take_answer(struct keys *keys,
				const struct http_response *response,
				struct reason *reason)
{
	struct answer answer = {.parser = NULL};
	enum outcome outcome = parse(&answer, &response->body);

	if (outcome == OUTCOME_NO_MEMORY)
		;
	else if (response->status != 200)
		outcome = refused(response,
				  outcome == OUTCOME_OK ? answer.code : "",
				  reason);
	else if (outcome == OUTCOME_FAILED)
		outcome = reason_set(reason, OUTCOME_FAILED,
				     "the answer of STS is not the XML that "
				     "was expected");
	else if (outcome == OUTCOME_OK)
		outcome = source_accept(keys, &answer.keys, response, sts,
					reason);
	explicit_bzero(&answer, sizeof(answer));
	return outcome;
}

/* --- The request ---------------------------------------------------------- */

static enum outcome sts_url(char url[URL_SIZE], const char *region,
			    bool allow_http, struct reason *reason)
{
	const char *endpoint = source_env("AWS_ENDPOINT_URL_STS");
	bool china = strncmp(region, "cn-", 3) == 0;
	int len;

	if (endpoint != NULL)
		len = snprintf(url, URL_SIZE, "%s", endpoint);
	else
		len = snprintf(url, URL_SIZE, "https://sts%s%s.amazonaws.com%s",
			       region[0] != '\0' ? "." : "", region,
			       china ? ".cn" : "");
	if (len < 0 || len >= URL_SIZE)
		return reason_set(reason, OUTCOME_INVALID,
				  "AWS_ENDPOINT_URL_STS is too long");
	if (strncasecmp(url, "https://", 8) != 0 && !url_is_loopback(url) &&
	    !(allow_http && strncasecmp(url, "http://", 7) == 0))
		return reason_set(reason, OUTCOME_INVALID,
				  "AWS_ENDPOINT_URL_STS must be https");
	return OUTCOME_OK;
}

static enum outcome add_field(struct buf *form, const char *name,
			      const char *value)
{
	enum outcome outcome = buf_printf(form, "&%s=", name);

	return outcome == OUTCOME_OK ? sigv4_encode(form, value) : outcome;
}

static enum outcome make_form(struct buf *form,
			      const struct web_identity *identity,
			      const char *token)
{
	char made_up[64];
	const char *session_name = identity->session_name;
	enum outcome outcome;

	if (session_name == NULL || session_name[0] == '\0') {
		snprintf(made_up, sizeof(made_up), "celldfs-%lld",
			 (long long)clock_wall_ms());
		session_name = made_up;
	}
	outcome =
		source_reserve(form, 3 * (strlen(token) + strlen(session_name) +
					  strlen(identity->role_arn)) +
					     256);
	if (outcome == OUTCOME_OK)
		outcome = buf_printf(form, "Action=AssumeRoleWithWebIdentity&"
					   "Version=2011-06-15");
	if (outcome == OUTCOME_OK)
		outcome = add_field(form, "RoleArn", identity->role_arn);
	if (outcome == OUTCOME_OK)
		outcome = add_field(form, "RoleSessionName", session_name);
	if (outcome == OUTCOME_OK)
		outcome = add_field(form, "WebIdentityToken", token);
	return outcome;
}

static enum outcome ask(struct keys *keys, struct http_pool *pool,
			const struct limits *limits, const char *url,
			const struct buf *form, struct reason *reason)
{
	struct http_header type = {"Content-Type",
				   "application/x-www-form-urlencoded"};
	struct http_request request = {.method = "POST",
				       .url = url,
				       .headers = &type,
				       .header_count = 1,
				       .body = form->bytes,
				       .body_len = form->len,
				       .direct = url_is_loopback(url)};
	struct http_response response;
	enum outcome outcome;
	enum http_result result;

	http_response_init(&response, SOURCE_BODY_MAX);
	outcome = source_reserve(&response.body, SOURCE_BODY_MAX);
	if (outcome == OUTCOME_OK) {
		result = http_perform(pool, limits, &request, &response);
		outcome = result == HTTP_ANSWERED
				  ? take_answer(keys, &response, reason)
				  : source_failure(result, &response, sts,
						   reason);
	}
	http_response_release(&response);
	return outcome;
}

enum outcome source_web_identity(struct keys *keys, struct http_pool *pool,
				 const struct limits *limits,
				 const struct web_identity *identity,
				 bool allow_http, struct reason *reason)
{
	char url[URL_SIZE];
	struct source_text token = {NULL, 0};
	struct buf form;
	enum outcome outcome =
		sts_url(url, identity->region, allow_http, reason);

	if (outcome != OUTCOME_OK)
		return outcome;
	/* Read each time: it is rotated. */
	outcome = source_read_file(&token, identity->token_file, reason);
	if (outcome == OUTCOME_ABSENT)
		return OUTCOME_DENIED; /* it is configured, and not there */
	if (outcome != OUTCOME_OK)
		return outcome;
	token.bytes[strcspn(token.bytes, " \t\r\n")] = '\0';
	if (token.bytes[0] == '\0') {
		source_text_release(&token);
		return reason_set(reason, OUTCOME_DENIED, "%s holds no token",
				  identity->token_file);
	}
	buf_init(&form, FORM_MAX);
	outcome = make_form(&form, identity, token.bytes);
	source_text_release(&token);
	if (outcome == OUTCOME_OK)
		outcome = ask(keys, pool, limits, url, &form, reason);
	else
		reason_set(reason, outcome,
			   "the web identity token is too large");
	if (form.bytes != NULL)
		explicit_bzero(form.bytes, form.size);
	buf_release(&form);
	return outcome;
}
