#include "credentials.h"

#include "clock.h"
#include "credentials_profile.h"
#include "credentials_source.h"
#include "url.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>

#define POLL_MS 20 /* how often a waiting thread looks */

/* How long not to ask: after a renewal that failed, while the keys are good;
 * after the sources refused, and there are no keys; between two reloads that
 * the store asked for. */
#define RETRY_GOOD_MS	30000
#define RETRY_NONE_MS	1000
#define RELOAD_PAUSE_MS 1000

struct credentials {
	struct http_pool *pool;
	bool allow_http;
	pthread_mutex_t lock; /* guards all below; never held while asking */
	struct keys keys;
	bool have;	   /* KEYS are some, good or expired */
	bool asking;	   /* a thread is asking the sources */
	unsigned asked;	   /* how often they have been asked */
	int64_t retry_ms;  /* CLOCK_BOOTTIME: do not ask before */
	int64_t reload_ms; /* nor reload */
	enum outcome last; /* of the last time */
	struct reason last_reason;
};

void keys_wipe(struct keys *keys)
{
	explicit_bzero(keys, sizeof(*keys));
}

enum outcome credentials_new(struct credentials **made, struct http_pool *pool,
			     bool allow_http)
{
	struct credentials *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return OUTCOME_NO_MEMORY;
	/* no core, and none but root looks into memory and environment */
	prctl(PR_SET_DUMPABLE, 0);
	c->pool = pool;
	c->allow_http = allow_http;
	pthread_mutex_init(&c->lock, NULL);
	*made = c;
	return OUTCOME_OK;
}

void credentials_free(struct credentials *c)
{
	if (c == NULL)
		return;
	pthread_mutex_destroy(&c->lock);
	explicit_bzero(c, sizeof(*c));
	free(c);
}

/* --- The sources ---------------------------------------------------------- */

/* Keys as a person wrote them. */
static enum outcome take_written(struct keys *keys, const char *access_key,
				 const char *secret_key, const char *token,
				 const char *source, struct reason *reason)
{
	if (!source_copy(keys->access_key, sizeof(keys->access_key),
			 access_key) ||
	    !source_copy(keys->secret_key, sizeof(keys->secret_key),
			 secret_key) ||
	    !source_copy(keys->session_token, sizeof(keys->session_token),
			 token))
		return reason_set(reason, OUTCOME_INVALID,
				  "a key of %s is too long, or has a blank or "
				  "a control byte in it",
				  source);
	keys->expires_boot_ms = INT64_MAX;
	keys->source = source;
	return OUTCOME_OK;
}

static enum outcome from_environment(struct keys *keys, struct reason *reason)
{
	const char *access_key = source_env("AWS_ACCESS_KEY_ID");
	const char *secret_key = source_env("AWS_SECRET_ACCESS_KEY");
	const char *token = source_env("AWS_SESSION_TOKEN");

	if (access_key == NULL && secret_key == NULL)
		return OUTCOME_ABSENT;
	if (access_key == NULL || secret_key == NULL)
		return reason_set(reason, OUTCOME_INVALID, "%s is not set",
				  access_key == NULL ? "AWS_ACCESS_KEY_ID"
						     : "AWS_SECRET_ACCESS_KEY");
	return take_written(keys, access_key, secret_key,
			    token != NULL ? token : "", "the environment",
			    reason);
}

/* Keys for the token of IDENTITY, from STS where the bucket is. */
static enum outcome exchange(struct keys *keys, struct credentials *c,
			     const struct limits *limits,
			     struct web_identity identity,
			     struct reason *reason)
{
	struct site site;
	enum outcome outcome = credentials_site(&site, reason);

	if (outcome != OUTCOME_OK)
		return outcome;
	identity.region = site.region;
	return source_web_identity(keys, c->pool, limits, &identity,
				   c->allow_http, reason);
}

static enum outcome from_web_identity(struct keys *keys, struct credentials *c,
				      const struct limits *limits,
				      struct reason *reason)
{
	struct web_identity identity = {
		.token_file = source_env("AWS_WEB_IDENTITY_TOKEN_FILE"),
		.role_arn = source_env("AWS_ROLE_ARN"),
		.session_name = source_env("AWS_ROLE_SESSION_NAME"),
	};

	if (identity.token_file == NULL)
		return OUTCOME_ABSENT;
	if (identity.role_arn == NULL)
		return reason_set(reason, OUTCOME_INVALID,
				  "AWS_ROLE_ARN is not set");
	return exchange(keys, c, limits, identity, reason);
}

/* The word for what PROFILE asks for and celldfs does not do; NULL: nothing. */
static const char *unsupported(const struct profile *profile)
{
	if (profile->source_profile[0] != '\0' ||
	    profile->credential_source[0] != '\0')
		return "role_arn with another source of keys";
	if (profile->role_arn[0] != '\0' &&
	    profile->web_identity_token_file[0] == '\0')
		return "role_arn without web_identity_token_file";
	/* These come after keys that are written there. */
	if (profile->access_key[0] != '\0')
		return NULL;
	if (profile->credential_process[0] != '\0')
		return "credential_process";
	if (profile->sso_session[0] != '\0' ||
	    profile->sso_start_url[0] != '\0')
		return "single sign-on";
	return NULL;
}

static enum outcome use_profile(struct keys *keys, struct credentials *c,
				const struct limits *limits,
				const struct profile *profile,
				struct reason *reason)
{
	const char *word = unsupported(profile);
	struct web_identity identity = {
		.token_file = profile->web_identity_token_file,
		.role_arn = profile->role_arn,
		.session_name = profile->role_session_name,
	};

	if (word != NULL)
		return reason_set(reason, OUTCOME_INVALID,
				  "the profile '%s' uses %s, which celldfs "
				  "does not support",
				  profile->name, word);
	if (identity.token_file[0] != '\0') {
		if (identity.role_arn[0] == '\0')
			return reason_set(reason, OUTCOME_INVALID,
					  "the profile '%s' has no role_arn",
					  profile->name);
		return exchange(keys, c, limits, identity, reason);
	}
	if (profile->access_key[0] == '\0' && profile->secret_key[0] == '\0')
		return OUTCOME_ABSENT;
	if (profile->access_key[0] == '\0' || profile->secret_key[0] == '\0')
		return reason_set(reason, OUTCOME_INVALID,
				  "the profile '%s' has only one of "
				  "aws_access_key_id and "
				  "aws_secret_access_key",
				  profile->name);
	return take_written(keys, profile->access_key, profile->secret_key,
			    profile->session_token, "AWS's files", reason);
}

static enum outcome from_profile(struct keys *keys, struct credentials *c,
				 const struct limits *limits,
				 struct reason *reason)
{
	struct profile profile;
	enum outcome outcome = profile_read(&profile, reason);

	if (outcome == OUTCOME_OK)
		outcome = use_profile(keys, c, limits, &profile, reason);
	profile_wipe(&profile);
	return outcome;
}

/* Asks one source after the other until one is configured. */
static enum outcome ask_sources(struct keys *keys, struct credentials *c,
				const struct limits *limits,
				struct reason *reason)
{
	enum outcome outcome;

	*keys = (struct keys){.access_key = ""};
	outcome = from_environment(keys, reason);
	if (outcome == OUTCOME_ABSENT)
		outcome = from_web_identity(keys, c, limits, reason);
	if (outcome == OUTCOME_ABSENT)
		outcome = from_profile(keys, c, limits, reason);
	if (outcome == OUTCOME_ABSENT)
		outcome = source_container(keys, c->pool, limits, reason);
	if (outcome == OUTCOME_ABSENT)
		outcome = source_instance(keys, c->pool, limits, reason);
	if (outcome == OUTCOME_ABSENT)
		outcome = reason_set(reason, OUTCOME_DENIED,
				     "no credentials: none in the environment "
				     "nor in AWS's files, no web identity, and "
				     "no container or instance endpoint");
	if (outcome == OUTCOME_NO_MEMORY)
		outcome = reason_set(reason, outcome, "out of memory");
	return outcome;
}

/* --- Renewal -------------------------------------------------------------- */

static bool same_keys(const struct keys *a, const struct keys *b)
{
	return strcmp(a->access_key, b->access_key) == 0 &&
	       strcmp(a->secret_key, b->secret_key) == 0 &&
	       strcmp(a->session_token, b->session_token) == 0;
}

/* With the lock held. */
static bool are_good(const struct credentials *c, int64_t now_ms)
{
	return c->have && now_ms < c->keys.expires_boot_ms;
}

static bool are_fresh(const struct credentials *c, int64_t now_ms)
{
	return are_good(c, now_ms) &&
	       now_ms < c->keys.expires_boot_ms - CREDENTIALS_EARLY_MS;
}

/* Takes over what the sources said. With the lock held. */
static void conclude(struct credentials *c, struct keys *fetched,
		     enum outcome outcome, const struct reason *reason)
{
	int64_t now_ms = clock_boot_ms();

	c->asking = false;
	c->asked++;
	c->last = outcome;
	c->last_reason = *reason;
	c->retry_ms = now_ms + RETRY_GOOD_MS;
	if (outcome != OUTCOME_OK && are_good(c, now_ms) &&
	    c->retry_ms > c->keys.expires_boot_ms)
		c->retry_ms = c->keys.expires_boot_ms;
	if (outcome == OUTCOME_OK) {
		fetched->generation = c->keys.generation;
		if (!c->have || !same_keys(fetched, &c->keys))
			fetched->generation++;
		c->keys = *fetched;
		c->have = true;
	} else if (!are_good(c, now_ms)) {
		/* One caller's limits say nothing about the next one's. */
		bool own = outcome == OUTCOME_TIMEOUT ||
			   outcome == OUTCOME_INTERRUPTED;

		c->retry_ms = own ? now_ms : now_ms + RETRY_NONE_MS;
	}
}

/* Asks the sources. Entered and left with the lock, and with ASKING false. */
static void renew(struct credentials *c, const struct limits *limits)
{
	struct limits own = *limits;
	struct keys fetched;
	struct reason reason = {.text = ""};
	enum outcome outcome;

	/* Good keys must not cost the caller all of its time. */
	if (are_good(c, clock_boot_ms()))
		own.deadline_ms -= limits_left_ms(limits) / 2;
	c->asking = true;
	pthread_mutex_unlock(&c->lock);
	outcome = ask_sources(&fetched, c, &own, &reason);
	pthread_mutex_lock(&c->lock);
	conclude(c, &fetched, outcome, &reason);
	keys_wipe(&fetched);
}

/* Waits until the thread that asks is done, with the lock held before and
 * after. Polled: a renewal is rare, and limits_sleep() knows of stop requests.
 */
static enum outcome wait_for_answer(struct credentials *c,
				    const struct limits *limits)
{
	unsigned asked = c->asked;
	enum outcome outcome = OUTCOME_OK;

	while (c->asking && c->asked == asked && outcome == OUTCOME_OK) {
		pthread_mutex_unlock(&c->lock);
		outcome = limits_sleep(limits, clock_boot_ms() + POLL_MS);
		pthread_mutex_lock(&c->lock);
	}
	return outcome;
}

/* One step towards good keys, with the lock: OK, and then look again; or what
 * there is to say. */
static enum outcome step(struct credentials *c, const struct limits *limits,
			 struct reason *reason)
{
	enum outcome outcome = limits_check(limits);

	if (outcome == OUTCOME_OK && c->asking)
		outcome = wait_for_answer(c, limits);
	else if (outcome == OUTCOME_OK && clock_boot_ms() < c->retry_ms &&
		 c->last != OUTCOME_OK)
		return reason_set(reason, c->last, "%s", c->last_reason.text);
	else if (outcome == OUTCOME_OK) {
		renew(c, limits);
		return c->last == OUTCOME_OK ? OUTCOME_OK
					     : reason_set(reason, c->last, "%s",
							  c->last_reason.text);
	}
	return outcome == OUTCOME_OK
		       ? OUTCOME_OK
		       : reason_set(reason, outcome,
				    "%s while waiting for credentials",
				    outcome == OUTCOME_TIMEOUT
					    ? "the deadline passed"
					    : "interrupted");
}

enum outcome credentials_get(struct credentials *c, const struct limits *limits,
			     struct keys *keys, struct reason *reason)
{
	enum outcome outcome = OUTCOME_OK;
	int64_t now_ms;

	pthread_mutex_lock(&c->lock);
	now_ms = clock_boot_ms();
	if (are_good(c, now_ms) && !are_fresh(c, now_ms) && !c->asking &&
	    now_ms >= c->retry_ms)
		renew(c, limits);
	while (!are_good(c, clock_boot_ms()) && outcome == OUTCOME_OK)
		outcome = step(c, limits, reason);
	if (outcome == OUTCOME_OK)
		*keys = c->keys;
	pthread_mutex_unlock(&c->lock);
	if (outcome != OUTCOME_OK)
		keys_wipe(keys);
	return outcome;
}

enum outcome credentials_reload(struct credentials *c,
				const struct limits *limits,
				unsigned generation, struct reason *reason)
{
	enum outcome outcome = OUTCOME_OK;

	pthread_mutex_lock(&c->lock);
	if (c->keys.generation == generation) {
		if (c->asking) {
			outcome = wait_for_answer(c, limits);
		} else if (clock_boot_ms() >= c->reload_ms) {
			renew(c, limits);
			c->reload_ms = clock_boot_ms() + RELOAD_PAUSE_MS;
		}
	}
	if (outcome != OUTCOME_OK)
		reason_set(reason, outcome,
			   "the limits ended the wait for credentials");
	else if (c->keys.generation == generation && c->last != OUTCOME_OK)
		outcome =
			reason_set(reason, c->last, "%s", c->last_reason.text);
	else if (c->keys.generation == generation)
		outcome = reason_set(reason, OUTCOME_DENIED,
				     "the store refuses the keys of %s, and "
				     "there are no others",
				     c->keys.source);
	pthread_mutex_unlock(&c->lock);
	return outcome;
}

/* --- The site ------------------------------------------------------------- */

/* A region becomes a part of a host name and of the signature. */
static bool is_region(const char *text)
{
	return strspn(text,
		      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		      "0123456789-_") == strlen(text);
}

static bool is_endpoint(const char *text)
{
	return strncasecmp(text, "http://", 7) == 0 ||
	       strncasecmp(text, "https://", 8) == 0;
}

static const char *first_of(const char *a, const char *b, const char *c)
{
	return a != NULL ? a : b != NULL ? b : c;
}

enum outcome credentials_site(struct site *site, struct reason *reason)
{
	const char *ignore = source_env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
	const char *region, *endpoint;
	struct profile profile;
	enum outcome outcome = profile_read(&profile, reason);

	*site = (struct site){.region = ""};
	region = first_of(source_env("AWS_REGION"),
			  source_env("AWS_DEFAULT_REGION"), profile.region);
	endpoint = first_of(source_env("AWS_ENDPOINT_URL_S3"),
			    source_env("AWS_ENDPOINT_URL"), profile.endpoint);
	if (ignore != NULL && strcasecmp(ignore, "true") == 0)
		endpoint = "";
	if (outcome != OUTCOME_OK)
		;
	else if (!is_region(region) ||
		 !source_copy(site->region, sizeof(site->region), region))
		outcome = reason_set(reason, OUTCOME_INVALID,
				     "'%s' is no region", region);
	else if (endpoint[0] != '\0' &&
		 (!is_endpoint(endpoint) ||
		  !source_copy(site->endpoint, sizeof(site->endpoint),
			       endpoint)))
		outcome = reason_set(reason, OUTCOME_INVALID,
				     "the endpoint '%s' is no http(s) URL",
				     url_shown(endpoint));
	profile_wipe(&profile);
	return outcome;
}
