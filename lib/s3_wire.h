/* s3_wire: one signed request to a bucket, and what its answer means for the
 * next one. For store_s3.c alone.
 */
#ifndef CELLDFS_S3_WIRE_H
#define CELLDFS_S3_WIRE_H

#include "credentials.h"
#include "fleet.h"
#include "s3_xml.h"
#include "sigv4.h"

#include <pthread.h>

/* A bucket and how to talk to it. */
struct s3_wire {
	struct http_pool *pool;
	struct credentials *credentials;
	char *bucket;
	char *endpoint; /* "http://127.0.0.1:7480"; NULL: AWS itself */

	pthread_mutex_t lock; /* guards the rest */
	struct fleet fleet;
	char region[64];
	bool redirected; /* to that region, which has not answered yet */
	bool by_wall;	 /* signed by this machine's clock, not by the store's */
	bool doubted;	 /* the clock was corrected, and that has not helped yet */
	unsigned clock_turn; /* how often it was corrected */
	struct sigv4_derived derived; /* from the keys of derived_from */
	unsigned derived_from;
};

/* One request. */
struct s3_call {
	const char *method;
	const char *key; /* NULL: the bucket itself */
	const struct sigv4_pair *query;
	size_t query_count;
	const struct sigv4_pair *headers; /* signed and sent */
	size_t header_count;
	const char *body; /* PUT */
	size_t len;
};

/* With what a request was signed. */
struct s3_signed {
	unsigned generation; /* of the keys */
	int64_t time_ms;     /* as of that time */
	unsigned clock_turn;
	char region[64];
};

/* The bounds of one call with several requests: each thing is corrected once.
 */
struct s3_corrections {
	bool clock, keys, region;
};

/* Signs and sends CALL once. RESPONSE is initialised. ANSWER gets the status,
 * the request id, and what the store or the network says; ERROR what an error
 * document says. HTTP_NOT_SENT also when there are no keys: then *OUTCOME is
 * why (else OUTCOME_OK). */
enum http_result s3_send(struct s3_wire *wire, const struct limits *limits,
			 const struct s3_call *call,
			 struct http_response *response, struct answer *answer,
			 struct s3_error *error, struct s3_signed *by,
			 enum outcome *outcome) MUST_CHECK;

/* Are these keys expired or unknown, in the store's words? */
bool s3_keys_refused(int status, const struct s3_error *error);

/* Can the refusal in RESPONSE, to a request that was signed BY that, be mended
 * for the next one? The clock by the answer's Date, or if it was signed by that,
 * by this machine's clock, and the other way round, if they differ; expired keys
 * by reading them again, if others come; another region by the store's word. Each
 * at most once by DONE, and clock and region not if they were corrected before and
 * have not been of use since, over all calls: the next call begins with the last
 * one, and REASON tells both regions. */
bool s3_correct(struct s3_wire *wire, const struct limits *limits,
		const struct http_response *response,
		const struct s3_error *error, const struct s3_signed *by,
		struct s3_corrections *done, struct reason *reason);

#endif
