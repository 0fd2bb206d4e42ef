#include "credentials_profile.h"

#include "credentials_source.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define PATH_SIZE 4096

static const struct {
	const char *name;
	size_t offset;
	size_t size;
} settings[] = {
#define SETTING(name, member)                                                  \
	{                                                                      \
		name, offsetof(struct profile, member),                        \
			sizeof(((struct profile *)NULL)->member)               \
	}
	SETTING("aws_access_key_id", access_key),
	SETTING("aws_secret_access_key", secret_key),
	SETTING("aws_session_token", session_token),
	SETTING("region", region),
	SETTING("endpoint_url", endpoint),
	SETTING("role_arn", role_arn),
	SETTING("role_session_name", role_session_name),
	SETTING("web_identity_token_file", web_identity_token_file),
	SETTING("source_profile", source_profile),
	SETTING("credential_source", credential_source),
	SETTING("credential_process", credential_process),
	SETTING("sso_session", sso_session),
	SETTING("sso_start_url", sso_start_url),
#undef SETTING
};

#define SETTING_COUNT (sizeof(settings) / sizeof(settings[0]))

static char *member(struct profile *profile, size_t setting)
{
	return (char *)profile + settings[setting].offset;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* TEXT without the blanks around it; it is cut in place. */
static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && is_blank(end[-1]))
		*--end = '\0';
	while (is_blank(*text))
		text++;
	return text;
}

/* Cuts a comment that follows a blank. */
static void cut_comment(char *text)
{
	for (char *at = text; *at != '\0'; at++)
		if ((*at == '#' || *at == ';') &&
		    (at == text || is_blank(at[-1]))) {
			*at = '\0';
			return;
		}
}

/* A file while it is read, line by line. */
struct reader {
	const char *path;
	bool is_config; /* sections are "profile NAME", but for the default */
	unsigned line;
	bool inside; /* the section is the profile's */
	int indent;  /* of the section's last setting; -1 = none yet */
	struct profile *profile;
	struct reason *reason;
};

static enum outcome malformed(const struct reader *reader, const char *what)
{
	return reason_set(reader->reason, OUTCOME_INVALID, "%s, line %u: %s",
			  reader->path, reader->line, what);
}

/* "NAME", "profile NAME" or "profile "NAME"", without the brackets. */
static bool is_our_section(const struct reader *reader, char *section)
{
	const char *name = reader->profile->name;
	size_t len;

	section = trim(section);
	if (!reader->is_config)
		return strcmp(section, name) == 0;
	if (strncmp(section, "profile", 7) != 0 || !is_blank(section[7]))
		return strcmp(section, "default") == 0 &&
		       strcmp(name, "default") == 0;
	section = trim(section + 7);
	len = strlen(section);
	if (len >= 2 && section[0] == '"' && section[len - 1] == '"') {
		section[len - 1] = '\0';
		section++;
	}
	return strcmp(section, name) == 0;
}

static enum outcome read_section(struct reader *reader, char *line)
{
	char *end = strchr(line, ']');

	if (end == NULL)
		return malformed(reader, "a section without its ']'");
	*end = '\0';
	reader->inside = is_our_section(reader, line + 1);
	reader->indent = -1;
	if (reader->inside)
		reader->profile->found = true;
	return OUTCOME_OK;
}

static enum outcome read_setting(struct reader *reader, char *line)
{
	char *equals = strchr(line, '='), *name, *value;

	if (equals == NULL)
		return malformed(reader, "neither a section nor a setting");
	if (!reader->inside)
		return OUTCOME_OK;
	*equals = '\0';
	name = trim(line);
	cut_comment(equals + 1);
	value = trim(equals + 1);
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		if (strcasecmp(name, settings[i].name) != 0)
			continue;
		if (strlen(value) >= settings[i].size)
			return malformed(reader, "the value is too long");
		snprintf(member(reader->profile, i), settings[i].size, "%s",
			 value);
	}
	return OUTCOME_OK;
}

/* LINE without its newline. An indented line goes on with the setting before
 * it: sub-settings, which are none of ours. */
static enum outcome read_line(struct reader *reader, char *line)
{
	int indent = 0;

	reader->line++;
	while (is_blank(line[indent]))
		indent++;
	line = trim(line);
	if (line[0] == '\0' || line[0] == '#' || line[0] == ';')
		return OUTCOME_OK;
	if (line[0] == '[')
		return read_section(reader, line);
	if (reader->indent >= 0 && indent > reader->indent)
		return OUTCOME_OK;
	reader->indent = indent;
	return read_setting(reader, line);
}

static enum outcome read_text(struct reader *reader, char *text)
{
	enum outcome outcome = OUTCOME_OK;

	if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	while (text != NULL && outcome == OUTCOME_OK) {
		char *next = strchr(text, '\n');

		if (next != NULL)
			*next++ = '\0';
		outcome = read_line(reader, text);
		text = next;
	}
	return outcome;
}

/* --- Which files ---------------------------------------------------------- */

/* HOME, or what the user database says: services often have no HOME. OK;
 * ABSENT: neither knows one; FAILED: it may know one, but not now. */
static enum outcome home_directory(char *out, size_t size)
{
	const char *home = source_env("HOME");
	struct passwd entry, *found = NULL;
	char buffer[4096];
	int error = 0;

	if (home == NULL)
		error = getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer),
				   &found);
	if (error == ENOMEM || error == EMFILE || error == ENFILE)
		return OUTCOME_FAILED;
	if (found != NULL)
		home = found->pw_dir;
	if (home == NULL || strlen(home) >= size)
		return OUTCOME_ABSENT;
	snprintf(out, size, "%s", home);
	return OUTCOME_OK;
}

/* The path that VARIABLE gives, or FALLBACK below the home directory. Returns
 * as home_directory(). */
static enum outcome file_path(char out[PATH_SIZE], const char *variable,
			      const char *fallback)
{
	const char *value = source_env(variable);
	char home[PATH_SIZE / 2];
	enum outcome outcome;
	int len;

	if (value == NULL || strncmp(value, "~/", 2) == 0) {
		outcome = home_directory(home, sizeof(home));
		if (outcome != OUTCOME_OK)
			return outcome;
		len = snprintf(out, PATH_SIZE, "%s/%s", home,
			       value != NULL ? value + 2 : fallback);
	} else {
		len = snprintf(out, PATH_SIZE, "%s", value);
	}
	return len >= 0 && len < PATH_SIZE ? OUTCOME_OK : OUTCOME_ABSENT;
}

static enum outcome read_one(struct profile *profile, bool is_config,
			     struct reason *reason)
{
	char path[PATH_SIZE];
	struct source_text text = {NULL, 0};
	struct reader reader = {.path = path,
				.is_config = is_config,
				.indent = -1,
				.profile = profile,
				.reason = reason};
	enum outcome outcome;

	outcome = file_path(path,
			    is_config ? "AWS_CONFIG_FILE"
				      : "AWS_SHARED_CREDENTIALS_FILE",
			    is_config ? ".aws/config" : ".aws/credentials");
	if (outcome == OUTCOME_FAILED)
		return reason_set(reason, outcome,
				  "the user's home directory cannot be looked "
				  "up for now");
	if (outcome == OUTCOME_OK)
		outcome = source_read_file(&text, path, reason);
	if (outcome == OUTCOME_ABSENT)
		return OUTCOME_OK; /* nothing there, or nowhere to look */
	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = read_text(&reader, text.bytes);
	source_text_release(&text);
	return outcome;
}

/* Keys are taken as a set: those of one file never mix with the other's. */
static void forget_keys(struct profile *profile)
{
	explicit_bzero(profile->access_key, sizeof(profile->access_key));
	explicit_bzero(profile->secret_key, sizeof(profile->secret_key));
	explicit_bzero(profile->session_token, sizeof(profile->session_token));
}

static void merge(struct profile *profile, struct profile *over)
{
	if (over->access_key[0] != '\0' || over->secret_key[0] != '\0')
		forget_keys(profile);
	for (size_t i = 0; i < SETTING_COUNT; i++)
		if (member(over, i)[0] != '\0')
			memcpy(member(profile, i), member(over, i),
			       settings[i].size);
	profile->found = profile->found || over->found;
}

enum outcome profile_read(struct profile *profile, struct reason *reason)
{
	const char *name = source_env("AWS_PROFILE");
	struct profile over = {.found = false};
	enum outcome outcome;

	*profile = (struct profile){.found = false};
	if (snprintf(profile->name, sizeof(profile->name), "%s",
		     name != NULL ? name : "default") >=
	    (int)sizeof(profile->name))
		return reason_set(reason, OUTCOME_INVALID,
				  "AWS_PROFILE is too long");
	memcpy(over.name, profile->name, sizeof(over.name));
	outcome = read_one(profile, true, reason);
	if (outcome == OUTCOME_OK)
		outcome = read_one(&over, false, reason);
	merge(profile, &over);
	profile_wipe(&over);
	if (outcome == OUTCOME_OK && name != NULL && !profile->found)
		outcome = reason_set(reason, OUTCOME_INVALID,
				     "AWS_PROFILE names the profile '%s', "
				     "which is in neither of AWS's files",
				     name);
	return outcome;
}

void profile_wipe(struct profile *profile)
{
	explicit_bzero(profile, sizeof(*profile));
}
