#include "xattr.h"

#include "arm.h"
#include "clock.h"
#include "fetch.h"
#include "handle.h"
#include "keeper.h"
#include "mount.h"
#include "ops.h"
#include "swap.h"
#include "why.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* One attribute of one record being read. */
struct reading {
	struct mount *mount;
	const struct node *node;
	struct handle *handle; /* NULL: by path */
	uid_t uid;
	size_t size;		     /* 0: only the size is asked for */
	struct glimpse glimpse;	     /* SOURCE_RECORD: filled */
	const struct limits *limits; /* SOURCE_STORE */
	struct answer *answer;
	struct buf *value;
};

enum source {
	SOURCE_NAME,   /* needs no record: answered from memory */
	SOURCE_RECORD, /* the record as the open file shows it; by path as it
			* was within the last second */
	SOURCE_STORE,  /* sends requests of its own on every read */
};

static enum outcome read_etag(struct reading *reading)
{
	if (!reading->glimpse.etag[0])
		return OUTCOME_ABSENT;
	return buf_printf(reading->value, "%s", reading->glimpse.etag);
}

static enum outcome read_node(struct reading *reading)
{
	if (reading->node->kind == NODE_LEASE)
		return buf_printf(reading->value, "%s", reading->node->name);
	if (reading->glimpse.form != GUARDED_OWN)
		return OUTCOME_ABSENT;
	return buf_printf(reading->value, "%s", reading->glimpse.own.node);
}

static enum outcome read_epoch(struct reading *reading)
{
	if (reading->glimpse.form != GUARDED_OWN)
		return OUTCOME_ABSENT;
	return buf_printf(reading->value, "%llu",
			  (unsigned long long)reading->glimpse.own.epoch);
}

static enum outcome read_key(struct reading *reading)
{
	return buf_printf(reading->value, "%s", reading->node->key);
}

static enum outcome read_outcome(struct reading *reading)
{
	char text[PUT_TEXT_SIZE];

	if (!seen_note(reading->mount->seen, reading->node->key, SEEN_OUTCOME,
		       0, text, sizeof(text)))
		return OUTCOME_ABSENT;
	return buf_printf(reading->value, "%s", text);
}

static enum outcome read_if_match(struct reading *reading)
{
	struct guard guard;

	if (!(reading->handle && handle_guard(reading->handle, &guard)) &&
	    arms_peek(reading->mount->arms, reading->node->key, reading->uid,
		      clock_boot_ms(), &guard) != ARMS_GUARD)
		return OUTCOME_ABSENT;
	return buf_printf(reading->value, "\"%s\"", guard.etag);
}

/* getfattr asks for the size and then for the value, which must fit: what it is
 * told first serves both. */
static enum outcome read_why(struct reading *reading)
{
	struct seen *seen = reading->mount->seen;
	const char *key = reading->node->key;
	char text[PUT_TEXT_SIZE];
	enum outcome outcome;

	if (reading->size > 0 &&
	    seen_note(seen, key, SEEN_WHY, clock_boot_ms() - SEEN_FRESH_MS,
		      text, sizeof(text)))
		return buf_printf(reading->value, "%s", text);
	outcome = why_claim(reading->mount, reading->limits, reading->node,
			    reading->value, reading->answer);
	if (outcome == OUTCOME_OK) {
		snprintf(text, sizeof(text), "%.*s", (int)reading->value->len,
			 reading->value->bytes);
		seen_set_note(seen, key, SEEN_WHY, text);
	}
	return outcome;
}

static enum outcome read_authority(struct reading *reading)
{
	const struct mount *mount = reading->mount;
	struct keeper_status status;

	if (!mount->keeper ||
	    strcmp(reading->node->name, mount->rules.node) != 0)
		return OUTCOME_ABSENT;
	keeper_status(mount->keeper, &status);
	return buf_printf(reading->value, "%lld",
			  (long long)status.authority_ms);
}

static const struct attribute {
	const char *name;
	bool listed, of_own, of_lease;
	enum source source;
	enum outcome (*read)(struct reading *reading);
} attributes[] = {
	{XATTR_PREFIX "etag", true, true, true, SOURCE_RECORD, read_etag},
	{XATTR_PREFIX "node", true, true, true, SOURCE_RECORD, read_node},
	{XATTR_PREFIX "epoch", true, true, false, SOURCE_RECORD, read_epoch},
	{XATTR_PREFIX "key", true, true, true, SOURCE_NAME, read_key},
	{XATTR_PREFIX "outcome", false, true, true, SOURCE_NAME, read_outcome},
	{XATTR_IF_MATCH, false, true, true, SOURCE_NAME, read_if_match},
	{XATTR_PREFIX "why", false, true, false, SOURCE_STORE, read_why},
	{XATTR_PREFIX "authority-ms", false, false, true, SOURCE_NAME,
	 read_authority},
};
#define ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))
#define VALUE_MAX  4096

static bool applies(const struct attribute *attribute, const struct node *node)
{
	return node->kind == NODE_OWN
		       ? attribute->of_own
		       : node->kind == NODE_LEASE && attribute->of_lease;
}

static const struct attribute *find(const struct node *node, const char *name)
{
	for (size_t i = 0; i < ATTRIBUTES; i++)
		if (applies(&attributes[i], node) &&
		    strcmp(attributes[i].name, name) == 0)
			return &attributes[i];
	return NULL;
}

static void reply_value(fuse_req_t req, const struct buf *value, size_t size)
{
	if (size == 0)
		fuse_reply_xattr(req, value->len);
	else if (value->len > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, value->bytes, value->len);
}

/* ABSENT is a missing attribute here, not a missing record. */
static void reply_reading(fuse_req_t req, enum outcome outcome,
			  const struct buf *value, size_t size)
{
	if (outcome == OUTCOME_OK)
		reply_value(req, value, size);
	else
		fuse_reply_err(req, outcome == OUTCOME_ABSENT
					    ? ENODATA
					    : outcome_errno(outcome));
}

/* The record behind a SOURCE_RECORD attribute, without a request. An open file
 * shows one version. */
static bool record_known(struct reading *reading)
{
	if (reading->handle &&
	    handle_glimpse(reading->handle, &reading->glimpse))
		return true;
	if (reading->handle && reading->handle->access != O_WRONLY)
		return false;
	return fetch_glimpse_known(reading->mount, reading->node,
				   &reading->glimpse);
}

static enum outcome fetch_record(struct reading *reading)
{
	enum outcome outcome;

	if (!reading->handle || reading->handle->access == O_WRONLY)
		return fetch_glimpse(reading->mount, reading->limits,
				     reading->node, &reading->glimpse,
				     reading->answer);
	outcome = handle_fetch(reading->mount, reading->handle, reading->limits,
			       reading->answer);
	/* shows nothing: created, and not written yet */
	if (outcome == OUTCOME_OK &&
	    !handle_glimpse(reading->handle, &reading->glimpse))
		reading->glimpse = (struct glimpse){.form = GUARDED_MALFORMED};
	return outcome;
}

static void run_get(struct work *work)
{
	const struct attribute *attribute = find(work->node, work->name);
	struct answer answer = {0};
	struct buf value;
	struct reading reading = {
		.mount = work->mount,
		.node = work->node,
		.handle = tree_handle(work->mount->tree, work->node),
		.uid = work->uid,
		.size = work->size,
		.limits = &work->limits,
		.answer = &answer,
		.value = &value,
	};
	enum outcome outcome = OUTCOME_OK;

	buf_init(&value, VALUE_MAX);
	if (attribute->source == SOURCE_RECORD)
		outcome = fetch_record(&reading);
	if (outcome == OUTCOME_OK) {
		outcome = attribute->read(&reading);
		if (outcome == OUTCOME_OK || outcome == OUTCOME_ABSENT) {
			work_done(work);
			reply_reading(work->req, outcome, &value, work->size);
		} else {
			ops_fail(work, "getxattr", work->node, outcome,
				 &answer);
		}
	} else {
		ops_fail(work, "getxattr", work->node, outcome, &answer);
	}
	if (reading.handle)
		handle_unref(reading.handle);
	buf_release(&value);
}

/* True: REQ has been answered from memory. */
static bool answer_known(struct mount *mount, fuse_req_t req, struct node *node,
			 const struct attribute *attribute, size_t size)
{
	struct buf value;
	struct reading reading = {
		.mount = mount,
		.node = node,
		.handle = tree_handle(mount->tree, node),
		.uid = fuse_req_ctx(req)->uid,
		.size = size,
		.value = &value,
	};
	bool known =
		attribute->source == SOURCE_NAME ||
		(attribute->source == SOURCE_RECORD && record_known(&reading));

	buf_init(&value, VALUE_MAX);
	if (known)
		reply_reading(req, attribute->read(&reading), &value, size);
	if (reading.handle)
		handle_unref(reading.handle);
	buf_release(&value);
	return known;
}

void xattr_get(struct mount *mount, fuse_req_t req, struct node *node,
	       const char *name, size_t size)
{
	const struct attribute *attribute = find(node, name);
	struct work *work;

	if (!attribute) {
		fuse_reply_err(req, ENODATA);
		return;
	}
	if (answer_known(mount, req, node, attribute, size))
		return;
	work = work_new(mount, req, run_get, mount->deadline_ms);
	if (!work)
		return;
	work->node = node;
	work->size = size;
	snprintf(work->name, sizeof(work->name), "%s", name);
	gate_submit(mount->gate, work);
}

void xattr_list(fuse_req_t req, struct node *node, size_t size)
{
	enum outcome outcome = OUTCOME_OK;
	struct buf names;

	buf_init(&names, VALUE_MAX);
	for (size_t i = 0; i < ATTRIBUTES && outcome == OUTCOME_OK; i++)
		if (attributes[i].listed && applies(&attributes[i], node))
			outcome = buf_append(&names, attributes[i].name,
					     strlen(attributes[i].name) + 1);
	reply_reading(req, outcome, &names, size);
	buf_release(&names);
}

/* What setting or removing any attribute but the guard is. */
static int refusal(const struct node *node, const char *name)
{
	if (node_is_record(node) &&
	    strncmp(name, XATTR_PREFIX, strlen(XATTR_PREFIX)) == 0)
		return EPERM;
	return ENOTSUP;
}

void xattr_set(struct mount *mount, fuse_req_t req, struct node *node,
	       const char *name, const char *value, size_t size)
{
	struct reason reason = {""};
	struct handle *handle;
	struct guard guard;
	enum outcome outcome;

	if (!node_is_record(node) || strcmp(name, XATTR_IF_MATCH) != 0) {
		fuse_reply_err(req, refusal(node, name));
		return;
	}
	handle = tree_handle(mount->tree, node);
	outcome = guard_parse(&guard, value, size, &reason);
	if (outcome == OUTCOME_OK && handle)
		handle_set_guard(handle, &guard);
	else if (outcome == OUTCOME_OK)
		outcome =
			arms_add(mount->arms, node->key, fuse_req_ctx(req)->uid,
				 &guard, clock_boot_ms());
	if (handle)
		handle_unref(handle);
	if (outcome != OUTCOME_OK)
		ops_log_failure(mount, "setxattr " XATTR_IF_MATCH, node,
				outcome, reason.text);
	fuse_reply_err(req, outcome_errno(outcome));
}

void xattr_remove(struct mount *mount, fuse_req_t req, struct node *node,
		  const char *name)
{
	struct handle *handle;
	bool found;

	if (!node_is_record(node) || strcmp(name, XATTR_IF_MATCH) != 0) {
		fuse_reply_err(req, find(node, name) ? EPERM : ENODATA);
		return;
	}
	handle = tree_handle(mount->tree, node);
	if (handle) {
		found = handle_drop_guard(handle);
		handle_unref(handle);
	} else {
		found = arms_drop(mount->arms, node->key,
				  fuse_req_ctx(req)->uid,
				  clock_boot_ms()) != ARMS_NONE;
	}
	fuse_reply_err(req, found ? 0 : ENODATA);
}
