#include "why.h"

#include "fetch.h"
#include "judge.h"
#include "mount.h"

#include <string.h>

static enum outcome describe_owner(struct mount *mount,
				   const struct limits *limits,
				   const struct own *own, struct buf *text)
{
	unsigned long long epoch = own->epoch;
	struct verdict verdict;
	enum outcome outcome = judge_node(mount, limits, own->node, &verdict);
	const char *word;

	if (mount->rules.takeover_any)
		word = "free (takeover=any)";
	else if (outcome != OUTCOME_OK || verdict.life == LIFE_UNKNOWN)
		word = "unknown";
	else
		word = verdict.life == LIFE_DEAD ? "free" : "busy";
	return buf_printf(text, "%s: owned by %s at epoch %llu; %s", word,
			  own->node, epoch, verdict.reason.text);
}

enum outcome why_claim(struct mount *mount, const struct limits *limits,
		       const struct node *node, struct buf *text,
		       struct answer *answer)
{
	const struct own *own;
	struct glimpse glimpse;
	struct object object;
	enum outcome outcome;

	object_init(&object);
	outcome = fetch_object(mount, limits, node->kind, node->key, &object,
			       &glimpse, answer);
	object_release(&object);
	own = &glimpse.own;
	if (outcome == OUTCOME_ABSENT)
		return buf_printf(text, "free: never owned; the first claim "
					"has epoch 1");
	if (outcome != OUTCOME_OK)
		return outcome;
	if (glimpse.form != GUARDED_OWN)
		return buf_printf(text,
				  "unknown: the record is malformed; nothing "
				  "can replace it through a mount");
	if (!own->node[0])
		return buf_printf(text,
				  "free: released at epoch %llu; the next "
				  "claim has a higher one",
				  (unsigned long long)own->epoch);
	if (mount->rules.node && strcmp(own->node, mount->rules.node) == 0)
		return buf_printf(text,
				  "yours: owned by this node at epoch %llu; a "
				  "new claim needs a higher epoch",
				  (unsigned long long)own->epoch);
	return describe_owner(mount, limits, own, text);
}
