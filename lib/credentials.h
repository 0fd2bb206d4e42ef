/* credentials: where the keys for S3 come from, and when they expire.
 *
 * The first source that is configured decides; if it fails, that is the answer,
 * and no later one is asked. In the order of AWS's own tools:
 *
 * 1. the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
 *    AWS_SESSION_TOKEN;
 * 2. web identity: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN (and
 *    AWS_ROLE_SESSION_NAME), exchanged at STS (AWS_ENDPOINT_URL_STS);
 * 3. the profile AWS_PROFILE ("default") of the files
 *    AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials) and AWS_CONFIG_FILE
 *    (~/.aws/config): its keys, or its web identity;
 * 4. the container's endpoint: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or
 *    _FULL_URI, with AWS_CONTAINER_AUTHORIZATION_TOKEN or _TOKEN_FILE;
 * 5. the instance's metadata, version 2 alone: AWS_EC2_METADATA_DISABLED,
 *    AWS_EC2_METADATA_SERVICE_ENDPOINT and _ENDPOINT_MODE.
 *
 * Source: AWS SDKs and Tools Reference Guide, "Standardized credential
 * providers" and the pages of each provider.
 *
 * Invariants:
 * 1. No key, secret or token is in a reason or a log line, nor in memory that
 *    was freed by this module.
 * 2. Expiry is counted on CLOCK_BOOTTIME from the Date of the answer that brought
 *    the keys: a wrong wall clock changes nothing.
 * 3. One thread at a time asks a source; no lock is held meanwhile, and while
 *    the old keys are good nobody waits for new ones but that thread.
 * 4. A secret goes in plain text only to this machine, or to the fixed
 *    link-local addresses of containers and instances; never to a proxy there.
 * 5. A process with credentials is not dumpable (prctl(2)): it leaves no core
 *    file, and its memory and environment are root's alone to read.
 *
 * Not done, and refused by name if a profile asks for it: other roles
 * (role_arn with source_profile), credential_process, single sign-on.
 */
#ifndef CELLDFS_CREDENTIALS_H
#define CELLDFS_CREDENTIALS_H

#include "http.h"
#include "outcome.h"
#include "stop.h"

#include <stdbool.h>
#include <stdint.h>

#define KEYS_KEY_SIZE	(256 + 1)
#define KEYS_TOKEN_SIZE (16 * 1024)

/* Keys that expire are renewed this long before. */
#define CREDENTIALS_EARLY_MS (5 * 60 * 1000)

struct keys {
	char access_key[KEYS_KEY_SIZE];
	char secret_key[KEYS_KEY_SIZE];
	char session_token[KEYS_TOKEN_SIZE]; /* "" = there is none */
	int64_t expires_boot_ms; /* CLOCK_BOOTTIME; INT64_MAX = never */
	unsigned generation;	 /* differs if the keys differ */
	const char *source;	 /* for people: "the environment"; static */
};

/* Wipes KEYS. Whoever got a copy does this when it is not needed any more. */
void keys_wipe(struct keys *keys);

struct credentials;

/* Makes the chain; asks no source yet. POOL is the caller's and outlives it.
 * ALLOW_HTTP: STS may be asked in plain text wherever it is. OK, NO_MEMORY. */
enum outcome credentials_new(struct credentials **credentials,
			     struct http_pool *pool, bool allow_http) MUST_CHECK;

/* Wipes and frees. No other call may be under way. NULL is allowed. */
void credentials_free(struct credentials *credentials);

/* Copies keys that have not expired into KEYS, asking the sources within LIMITS
 * if there are none or if they expire within CREDENTIALS_EARLY_MS. If keys that
 * are still good cannot be renewed (in half of the time that is left), they
 * are what is given, and it is tried again later. From any thread.
 * OK; else KEYS is wiped and REASON says which source and why: DENIED (there
 * are none, or the source refuses); INVALID (a setting or a file is not what it
 * should be); FAILED (the source's answer makes no sense); TIMEOUT,
 * INTERRUPTED; NO_MEMORY. */
enum outcome credentials_get(struct credentials *credentials,
			     const struct limits *limits, struct keys *keys,
			     struct reason *reason) MUST_CHECK;

/* After the store has refused the keys of GENERATION as expired or unknown: asks
 * the sources again, unless another thread has already. OK: there are other
 * keys now, so that trying again makes sense. DENIED: the same ones came back.
 * Else as credentials_get. From any thread. */
enum outcome credentials_reload(struct credentials *credentials,
				const struct limits *limits,
				unsigned generation,
				struct reason *reason) MUST_CHECK;

/* Where the bucket is, from the same places. */
struct site {
	char region[64];     /* AWS_REGION, AWS_DEFAULT_REGION, the profile's
			      * region; "" = not said */
	char endpoint[1024]; /* AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the
			      * profile's endpoint_url; "" = AWS itself */
};

/* Reads SITE. An AWS_IGNORE_CONFIGURED_ENDPOINT_URLS of "true" leaves the
 * endpoint empty. OK; INVALID with REASON: no such profile, a malformed file,
 * a region or an endpoint that can be none; DENIED: a file cannot be read;
 * NO_MEMORY. */
enum outcome credentials_site(struct site *site,
			      struct reason *reason) MUST_CHECK;

#endif
