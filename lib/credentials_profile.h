/* credentials_profile: one profile of AWS's two files, merged.
 *
 * Source: AWS SDKs and Tools Reference Guide, "Shared config and credentials
 * files". What the credentials file says of the keys wins over the config file.
 * Sub-settings (indented lines), other sections and other settings are passed
 * over. For credentials*.c alone.
 */
#ifndef CELLDFS_CREDENTIALS_PROFILE_H
#define CELLDFS_CREDENTIALS_PROFILE_H

#include "credentials.h"

#define PROFILE_TEXT_SIZE 1024

struct profile {
	bool found; /* in either file */
	char name[PROFILE_TEXT_SIZE];
	char access_key[KEYS_KEY_SIZE];
	char secret_key[KEYS_KEY_SIZE];
	char session_token[KEYS_TOKEN_SIZE];
	char region[PROFILE_TEXT_SIZE];
	char endpoint[PROFILE_TEXT_SIZE];
	char role_arn[PROFILE_TEXT_SIZE];
	char role_session_name[PROFILE_TEXT_SIZE];
	char web_identity_token_file[PROFILE_TEXT_SIZE];

	/* Ways to get keys that are not supported; "" = not asked for. */
	char source_profile[PROFILE_TEXT_SIZE];
	char credential_source[PROFILE_TEXT_SIZE];
	char credential_process[PROFILE_TEXT_SIZE];
	char sso_session[PROFILE_TEXT_SIZE];
	char sso_start_url[PROFILE_TEXT_SIZE];
};

/* Reads the profile AWS_PROFILE, or "default" (which may be missing). Wipe it
 * with profile_wipe() whatever is returned. OK; INVALID: a malformed file, or
 * AWS_PROFILE names none; DENIED: a file cannot be read; FAILED: where they are
 * cannot be told for now; NO_MEMORY. */
enum outcome profile_read(struct profile *profile,
			  struct reason *reason) MUST_CHECK;

void profile_wipe(struct profile *profile);

#endif
