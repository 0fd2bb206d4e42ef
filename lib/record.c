#include "record.h"

#include "json.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_KEY_LEN 64
#define EXCERPT_MAX   40
#define EXCERPT_SIZE  (EXCERPT_MAX + sizeof("..."))

enum { OWN_NODE, OWN_EPOCH, OWN_FIELDS };

static const char *const own_keys[OWN_FIELDS] = {
	[OWN_NODE] = "node",
	[OWN_EPOCH] = "epoch",
};

enum {
	LEASE_NODE,
	LEASE_EXPIRES_MS,
	LEASE_ADDR,
	LEASE_PROBE_PUBLIC_KEY,
	LEASE_PEER_PROTOCOL,
	LEASE_GENERATION,
	LEASE_LOG,
	LEASE_LOAD,
	LEASE_FIELDS
};

static const char *const lease_keys[LEASE_FIELDS] = {
	[LEASE_NODE] = "node",
	[LEASE_EXPIRES_MS] = "expires_ms",
	[LEASE_ADDR] = "addr",
	[LEASE_PROBE_PUBLIC_KEY] = "probe_public_key",
	[LEASE_PEER_PROTOCOL] = "peer_protocol",
	[LEASE_GENERATION] = "ownership_index_generation",
	[LEASE_LOG] = "log",
	[LEASE_LOAD] = "load",
};

enum { LOG_STATE, LOG_EPOCH, LOG_ENSEMBLE, LOG_TIERED, LOG_ACTIVE, LOG_FIELDS };

static const char *const log_keys[LOG_FIELDS] = {
	[LOG_STATE] = "state",	     [LOG_EPOCH] = "epoch",
	[LOG_ENSEMBLE] = "ensemble", [LOG_TIERED] = "tiered",
	[LOG_ACTIVE] = "active",
};

enum {
	LOAD_SAMPLED_MS,
	LOAD_RESIDENT_CELLS,
	LOAD_HOST_WEBSOCKETS,
	LOAD_RSS_BYTES,
	LOAD_CPU_PERCENT_X100,
	LOAD_OPEN_FDS,
	LOAD_FD_LIMIT,
	LOAD_PRESSURED,
	LOAD_SHED_CELLS,
	LOAD_REQUIRED, /* all above are; what follows is optional */
	LOAD_IN_USE_BYTES = LOAD_REQUIRED,
	LOAD_RESTORING,
	LOAD_FIELDS
};

static const char *const load_keys[LOAD_FIELDS] = {
	[LOAD_SAMPLED_MS] = "sampled_ms",
	[LOAD_RESIDENT_CELLS] = "resident_cells",
	[LOAD_HOST_WEBSOCKETS] = "host_websockets",
	[LOAD_RSS_BYTES] = "rss_bytes",
	[LOAD_CPU_PERCENT_X100] = "cpu_percent_x100",
	[LOAD_OPEN_FDS] = "open_fds",
	[LOAD_FD_LIMIT] = "fd_limit",
	[LOAD_PRESSURED] = "pressured",
	[LOAD_SHED_CELLS] = "shed_cells",
	[LOAD_IN_USE_BYTES] = "in_use_bytes",
	[LOAD_RESTORING] = "restoring",
};

/* One object that is being read, as far as a reason has to tell of it. */
struct source {
	const char *record; /* "own", "lease" */
	const char *path;   /* before a field's name: "", "log.", "load." */
	const char *start;  /* the record's first byte */
	struct reason *reason;
};

/* A known field and its value, which has length 0 if the field is missing. */
struct field {
	const char *key;
	struct json_text value;
};

static bool is_given(const struct field *field)
{
	return field->value.len > 0;
}

/* For people bytes are counted from 1, as cmp(1) does. */
static size_t place(const struct source *source, const char *at)
{
	return (size_t)(at - source->start) + 1;
}

/* The beginning of TEXT on one line, cut between characters. */
static const char *excerpt(struct json_text text, char out[EXCERPT_SIZE])
{
	size_t len = text.len;

	if (len > EXCERPT_MAX) {
		len = EXCERPT_MAX;
		while (((unsigned char)text.bytes[len] & 0xc0) == 0x80)
			len--;
	}
	for (size_t i = 0; i < len; i++)
		out[i] = json_is_space(text.bytes[i]) ? ' ' : text.bytes[i];
	if (len < text.len)
		memcpy(out + len, "...", sizeof("..."));
	else
		out[len] = '\0';
	return out;
}

static enum outcome refuse(const struct source *source,
			   const struct field *field, const char *expected)
{
	char found[EXCERPT_SIZE];

	return reason_set(source->reason, OUTCOME_INVALID,
			  "%s: \"%s%s\" is %s (byte %zu): expected %s",
			  source->record, source->path, field->key,
			  excerpt(field->value, found),
			  place(source, field->value.bytes), expected);
}

static enum outcome refuse_missing(const struct source *source,
				   const struct field *field)
{
	return reason_set(source->reason, OUTCOME_INVALID,
			  "%s: \"%s%s\" is missing", source->record,
			  source->path, field->key);
}

static enum outcome no_memory(const struct source *source)
{
	return reason_set(source->reason, OUTCOME_NO_MEMORY,
			  "%s: out of memory", source->record);
}

static void free_text(char **text)
{
	free(*text);
}

/* Decodes a string that json_check() has passed, which therefore holds no NUL.
 * *TEXT is malloced; NULL = out of memory. */
static char *decode(struct json_text string)
{
	cJSON *item = cJSON_ParseWithLength(string.bytes, string.len);
	const char *decoded = cJSON_GetStringValue(item);
	char *text = decoded ? strdup(decoded) : NULL;

	cJSON_Delete(item);
	return text;
}

/* Which of COUNT keys is it? *INDEX is set unless the answer is no. */
static enum json_match match_key(struct json_text key, const char *const *keys,
				 size_t count, size_t *index)
{
	for (*index = 0; *index < count; ++*index) {
		enum json_match match = json_match_key(key, keys[*index]);

		if (match != JSON_MATCH_NO)
			return match;
	}
	return JSON_MATCH_NO;
}

/* Fills FOUND, one per known key. Other members are somebody else's. */
static enum outcome find_fields(const struct source *source,
				struct json_text object,
				const char *const *keys, size_t count,
				struct field *found)
{
	struct json_cursor cursor = json_members(object);
	struct json_member member;
	char shown[EXCERPT_SIZE];
	size_t i;

	for (i = 0; i < count; i++)
		found[i] = (struct field){.key = keys[i]};
	while (json_next(&cursor, &member)) {
		switch (match_key(member.key, keys, count, &i)) {
		case JSON_MATCH_NO:
			continue;
		case JSON_MATCH_CASE:
			return reason_set(
				source->reason, OUTCOME_INVALID,
				"%s: field %s (byte %zu) is written "
				"\"%s\"",
				source->record, excerpt(member.key, shown),
				place(source, member.key.bytes), keys[i]);
		case JSON_MATCH_YES:
			break;
		}
		if (is_given(&found[i]))
			return reason_set(source->reason, OUTCOME_INVALID,
					  "%s: \"%s%s\" is given twice "
					  "(byte %zu)",
					  source->record, source->path, keys[i],
					  place(source, member.key.bytes));
		found[i].value = member.value;
	}
	return OUTCOME_OK;
}

/* From the text itself: a double holds 53 bits only. */
static bool to_u64(struct json_text value, uint64_t *number)
{
	*number = 0;
	for (size_t i = 0; i < value.len; i++) {
		unsigned digit = (unsigned char)value.bytes[i] - '0';

		if (digit > 9 || __builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, digit, number))
			return false;
	}
	return value.len > 0;
}

static enum outcome read_u64(const struct source *source,
			     const struct field *field, uint64_t *number)
{
	if (!is_given(field))
		return refuse_missing(source, field);
	if (!to_u64(field->value, number))
		return refuse(source, field, "an unsigned integer");
	return OUTCOME_OK;
}

/* *TEXT is malloced; it stays NULL if the field is missing. */
static enum outcome read_text(const struct source *source,
			      const struct field *field, char **text)
{
	if (!is_given(field))
		return OUTCOME_OK;
	if (json_kind(field->value) != JSON_STRING)
		return refuse(source, field, "a string");
	*text = decode(field->value);
	return *text ? OUTCOME_OK : no_memory(source);
}

static enum outcome read_node(const struct source *source,
			      const struct field *field, bool may_be_empty,
			      char node[NAME_NODE_MAX + 1])
{
	char *text __attribute__((cleanup(free_text))) = NULL;
	enum outcome outcome = read_text(source, field, &text);
	size_t len;

	if (outcome != OUTCOME_OK)
		return outcome;
	if (!text)
		return refuse_missing(source, field);
	len = strlen(text);
	if (name_node(text, len) != NAME_VALID && !(may_be_empty && len == 0))
		return refuse(source, field, "a node's name");
	memcpy(node, text, len + 1);
	return OUTCOME_OK;
}

/* An optional string, cut between characters to fit SIZE bytes. */
static enum outcome read_cut(const struct source *source,
			     const struct field *field, char *out, size_t size)
{
	char *text __attribute__((cleanup(free_text))) = NULL;
	enum outcome outcome = read_text(source, field, &text);
	size_t len;

	if (outcome != OUTCOME_OK || !text)
		return outcome;
	len = strlen(text);
	if (len >= size) {
		len = size - 1;
		while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
			len--;
	}
	memcpy(out, text, len);
	out[len] = '\0';
	return OUTCOME_OK;
}

static enum outcome check_probe_key(const struct source *source,
				    const struct field *field)
{
	char *text __attribute__((cleanup(free_text))) = NULL;
	enum outcome outcome = read_text(source, field, &text);
	size_t len;

	if (outcome != OUTCOME_OK || !text)
		return outcome;
	len = strlen(text);
	if (len > 0 && (len != PROBE_KEY_LEN ||
			strspn(text, "0123456789abcdef") != PROBE_KEY_LEN))
		return refuse(source, field, "64 lower-case hex digits");
	return OUTCOME_OK;
}

static enum outcome check_peer_protocol(const struct source *source,
					const struct field *field)
{
	uint64_t number;

	if (!is_given(field))
		return OUTCOME_OK;
	if (!to_u64(field->value, &number) || number > UINT16_MAX)
		return refuse(source, field, "an unsigned integer to 65535");
	return OUTCOME_OK;
}

static enum lease_log log_state(const char *state)
{
	if (strcmp(state, "sealed") == 0)
		return LEASE_LOG_SEALED;
	if (strcmp(state, "open") == 0)
		return LEASE_LOG_OPEN;
	if (strcmp(state, "recovering") == 0)
		return LEASE_LOG_RECOVERING;
	return LEASE_LOG_UNKNOWN;
}

/* What is not wholly understood is LEASE_LOG_UNKNOWN, which is never taken
 * over, and no error: the log is celld's own and may grow new states. */
static enum outcome read_log(const struct source *lease,
			     const struct field *field, enum lease_log *log)
{
	struct source source = *lease;
	char *state __attribute__((cleanup(free_text))) = NULL;
	struct field found[LOG_FIELDS];
	enum outcome outcome;
	uint64_t epoch;

	*log = LEASE_LOG_NONE;
	if (!is_given(field) || json_kind(field->value) == JSON_NULL)
		return OUTCOME_OK;
	*log = LEASE_LOG_UNKNOWN;
	if (json_kind(field->value) != JSON_OBJECT)
		return OUTCOME_OK;
	source.path = "log.";
	outcome =
		find_fields(&source, field->value, log_keys, LOG_FIELDS, found);
	if (outcome != OUTCOME_OK)
		return outcome;
	if (!to_u64(found[LOG_EPOCH].value, &epoch) ||
	    !is_given(&found[LOG_ENSEMBLE]) || !is_given(&found[LOG_TIERED]) ||
	    !is_given(&found[LOG_STATE]) ||
	    json_kind(found[LOG_STATE].value) != JSON_STRING)
		return OUTCOME_OK;
	outcome = read_text(&source, &found[LOG_STATE], &state);
	if (outcome == OUTCOME_OK)
		*log = log_state(state);
	return outcome;
}

static enum outcome read_load_field(const struct source *source,
				    const struct field *field, size_t i,
				    uint64_t *number)
{
	if (!is_given(field) && i >= LOAD_REQUIRED)
		return OUTCOME_OK;
	if (i == LOAD_IN_USE_BYTES && json_kind(field->value) == JSON_NULL)
		return OUTCOME_OK;
	if (i == LOAD_PRESSURED && is_given(field))
		return json_kind(field->value) == JSON_BOOL
			       ? OUTCOME_OK
			       : refuse(source, field, "true or false");
	return read_u64(source, field, number);
}

static enum outcome read_load(const struct source *lease,
			      const struct field *field, bool *given,
			      uint64_t *resident_cells)
{
	struct source source = *lease;
	struct field found[LOAD_FIELDS];
	uint64_t numbers[LOAD_FIELDS] = {0};
	enum outcome outcome;

	*given = is_given(field);
	if (!*given)
		return OUTCOME_OK;
	if (json_kind(field->value) != JSON_OBJECT)
		return refuse(lease, field, "an object");
	source.path = "load.";
	outcome = find_fields(&source, field->value, load_keys, LOAD_FIELDS,
			      found);
	for (size_t i = 0; outcome == OUTCOME_OK && i < LOAD_FIELDS; i++)
		outcome = read_load_field(&source, &found[i], i, &numbers[i]);
	*resident_cells = numbers[LOAD_RESIDENT_CELLS];
	return outcome;
}

/* Rule 1 as far as it is the same for both records. */
static enum outcome open_record(const struct source *source, size_t len,
				const char *const *keys, size_t count,
				struct field *found)
{
	struct json_text object, text = {source->start, len};
	struct json_error error = {0};

	if (len > RECORD_READ_MAX)
		return reason_set(source->reason, OUTCOME_INVALID,
				  "%s: %zu bytes, more than %d", source->record,
				  len, RECORD_READ_MAX);
	if (record_is_blank(source->start, len))
		return reason_set(source->reason, OUTCOME_INVALID, "%s: empty",
				  source->record);
	if (json_check(text, RECORD_DEPTH_MAX, &object, &error)) {
		if (json_kind(object) == JSON_OBJECT)
			return find_fields(source, object, keys, count, found);
		error.offset = (size_t)(object.bytes - text.bytes);
		error.what = "expected an object";
	}
	return reason_set(source->reason, OUTCOME_INVALID, "%s: byte %zu: %s",
			  source->record, error.offset + 1, error.what);
}

enum outcome record_parse_own(struct own *own, const char *bytes, size_t len,
			      struct reason *reason)
{
	struct source source = {"own", "", bytes, reason};
	struct field found[OWN_FIELDS];
	enum outcome outcome;

	memset(own, 0, sizeof(*own));
	outcome = open_record(&source, len, own_keys, OWN_FIELDS, found);
	if (outcome == OUTCOME_OK)
		outcome = read_node(&source, &found[OWN_NODE], true, own->node);
	if (outcome == OUTCOME_OK)
		outcome = read_u64(&source, &found[OWN_EPOCH], &own->epoch);
	if (outcome != OUTCOME_OK)
		memset(own, 0, sizeof(*own));
	return outcome;
}

static enum outcome read_lease(const struct source *source,
			       const struct field *found, struct lease *lease)
{
	enum outcome outcome;

	outcome = read_node(source, &found[LEASE_NODE], false, lease->node);
	if (outcome == OUTCOME_OK)
		outcome = read_u64(source, &found[LEASE_EXPIRES_MS],
				   &lease->expires_ms);
	if (outcome == OUTCOME_OK)
		outcome = read_cut(source, &found[LEASE_ADDR], lease->addr,
				   sizeof(lease->addr));
	if (outcome == OUTCOME_OK)
		outcome =
			check_probe_key(source, &found[LEASE_PROBE_PUBLIC_KEY]);
	if (outcome == OUTCOME_OK)
		outcome = check_peer_protocol(source,
					      &found[LEASE_PEER_PROTOCOL]);
	if (outcome == OUTCOME_OK)
		outcome =
			read_cut(source, &found[LEASE_GENERATION],
				 lease->generation, sizeof(lease->generation));
	if (outcome == OUTCOME_OK)
		outcome = read_log(source, &found[LEASE_LOG], &lease->log);
	return outcome;
}

enum outcome record_parse_lease(struct lease *lease, const char *bytes,
				size_t len, struct reason *reason)
{
	struct source source = {"lease", "", bytes, reason};
	struct field found[LEASE_FIELDS];
	enum outcome outcome;

	memset(lease, 0, sizeof(*lease));
	outcome = open_record(&source, len, lease_keys, LEASE_FIELDS, found);
	if (outcome == OUTCOME_OK)
		outcome = read_lease(&source, found, lease);
	if (outcome != OUTCOME_OK)
		memset(lease, 0, sizeof(*lease));
	return outcome;
}

enum outcome record_parse_load(struct lease *lease, const char *bytes,
			       size_t len, struct reason *reason)
{
	struct source source = {"lease", "", bytes, reason};
	struct field found[LEASE_FIELDS];
	enum outcome outcome;

	lease->has_load = false;
	lease->resident_cells = 0;
	outcome = open_record(&source, len, lease_keys, LEASE_FIELDS, found);
	if (outcome == OUTCOME_OK)
		outcome = read_load(&source, &found[LEASE_LOAD],
				    &lease->has_load, &lease->resident_cells);
	if (outcome != OUTCOME_OK) {
		lease->has_load = false;
		lease->resident_cells = 0;
	}
	return outcome;
}

/* Finds FIELD in OBJECT; VALUE has length 0 if it is not there. LAST is the
 * end of the last member, or of the opening brace. INVALID if it is there
 * twice: which one is meant? */
static enum outcome find_place(struct json_text object, const char *field,
			       struct json_text *value, const char **last)
{
	struct json_cursor cursor = json_members(object);
	struct json_member member;

	*value = (struct json_text){0};
	*last = object.bytes + 1;
	while (json_next(&cursor, &member)) {
		*last = member.value.bytes + member.value.len;
		if (json_match_key(member.key, field) != JSON_MATCH_YES)
			continue;
		if (value->len > 0)
			return OUTCOME_INVALID;
		*value = member.value;
	}
	return OUTCOME_OK;
}

/* Appends to EDITED the bytes of RECORD with the new value in its place. */
static enum outcome splice(struct buf *edited, const struct buf *record,
			   struct json_text object, const char *field,
			   const char *value)
{
	const char *head_end, *tail, *end = record->bytes + record->len;
	struct json_text old;
	enum outcome outcome = find_place(object, field, &old, &head_end);

	if (outcome != OUTCOME_OK)
		return outcome;
	tail = head_end;
	if (old.len > 0) {
		head_end = old.bytes;
		tail = old.bytes + old.len;
	}
	outcome = buf_append(edited, record->bytes,
			     (size_t)(head_end - record->bytes));
	if (outcome == OUTCOME_OK && old.len == 0)
		outcome = buf_printf(edited, "%s\"%s\":",
				     head_end == object.bytes + 1 ? "" : ",",
				     field);
	if (outcome == OUTCOME_OK)
		outcome = buf_append(edited, value, strlen(value));
	if (outcome == OUTCOME_OK)
		outcome = buf_append(edited, tail, (size_t)(end - tail));
	return outcome;
}

/* A name that is the same in JSON and in C. */
static bool is_plain(const char *field)
{
	for (; *field; field++)
		if (*field < 0x20 || *field > 0x7e || *field == '"' ||
		    *field == '\\')
			return false;
	return true;
}

enum outcome record_edit(struct buf *record, const char *field,
			 const char *value)
{
	struct json_text text = {record->bytes, record->len};
	struct json_text new_value = {value, strlen(value)};
	struct json_text object, ignored;
	struct json_error error;
	struct buf edited;
	enum outcome outcome;

	if (!is_plain(field) ||
	    !json_check(text, RECORD_DEPTH_MAX, &object, &error) ||
	    json_kind(object) != JSON_OBJECT ||
	    !json_check(new_value, RECORD_DEPTH_MAX - 1, &ignored, &error))
		return OUTCOME_INVALID;
	buf_init(&edited, record->cap);
	outcome = splice(&edited, record, object, field, value);
	if (outcome != OUTCOME_OK) {
		buf_release(&edited);
		return outcome;
	}
	buf_release(record);
	*record = edited;
	return OUTCOME_OK;
}
