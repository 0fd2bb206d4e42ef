/* load OPERATION SECONDS WHAT...: one client for each WHAT does an operation
 *again and again, for so long. Prints how many operations all of them did in a
 *second, and how many microseconds one of them took in the median.
 *
 *	read PATH	open, read, close
 *	write PATH	pwrite of the next epoch on a descriptor that stays open
 *	get URL		over a keep-alive connection of libcurl's
 *	put URL		the same, with If-Match and the ETag of the last one
 *	multi URL	get, by one process with one libcurl multi handle
 *	sqlite FILE	a swap of one row of a table, in one transaction
 *
 * A client is a process; multi has one in all, and no median.
 */
#include <curl/curl.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RECORD(epoch) "{\"node\":\"bench\",\"epoch\":" epoch "}\n"
#define MOST_SAMPLES  1000000

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fail(const char *what)
{
	fprintf(stderr, "load: %s\n", what);
	exit(1);
}

/* ---- what a client does once ---- */

struct client {
	const char *what;
	int fd;
	unsigned long epoch;
	CURL *curl;
	char etag[128];
	sqlite3 *db;
	sqlite3_stmt *select, *update;
};

static void read_begin(struct client *c)
{
	(void)c;
}

static void read_once(struct client *c)
{
	char bytes[4096];
	int fd = open(c->what, O_RDONLY);

	if (fd < 0 || read(fd, bytes, sizeof(bytes)) <= 0)
		fail(c->what);
	close(fd);
}

static void write_begin(struct client *c)
{
	char bytes[4096] = {0};

	c->fd = open(c->what, O_RDWR);
	if (c->fd < 0 || read(c->fd, bytes, sizeof(bytes) - 1) <= 0 ||
	    sscanf(bytes, RECORD("%lu"), &c->epoch) != 1)
		fail(c->what);
}

static void write_once(struct client *c)
{
	char bytes[64];
	int length = snprintf(bytes, sizeof(bytes), RECORD("%lu"), ++c->epoch);

	if (pwrite(c->fd, bytes, (size_t)length, 0) != length)
		fail(c->what);
}

static size_t drop(char *bytes, size_t size, size_t count, void *arg)
{
	(void)bytes;
	(void)arg;
	return size * count;
}

/* Keeps the ETag, without the quotes that the gateway refuses in If-Match. */
static size_t header(char *bytes, size_t size, size_t count, void *arg)
{
	struct client *c = arg;

	if (count > 6 && strncasecmp(bytes, "ETag: ", 6) == 0)
		sscanf(bytes + 6, " \"%127[^\"\r]", c->etag);
	return size * count;
}

static void get_begin(struct client *c)
{
	c->curl = curl_easy_init();
	curl_easy_setopt(c->curl, CURLOPT_URL, c->what);
	curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, drop);
	curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, header);
	curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, c);
}

static void get_once(struct client *c)
{
	long status = 0;

	if (curl_easy_perform(c->curl) != CURLE_OK)
		fail(c->what);
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200)
		fail("the status is not 200");
}

static void put_begin(struct client *c)
{
	get_begin(c);
	curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, "PUT");
	curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, RECORD("1"));
	get_once(c); /* without a guard: what follows has its ETag */
}

static void put_once(struct client *c)
{
	char line[160];
	struct curl_slist *headers;

	snprintf(line, sizeof(line), "If-Match: %s", c->etag);
	headers = curl_slist_append(NULL, line);
	headers = curl_slist_append(headers, "Content-Type:");
	curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
	get_once(c);
	curl_slist_free_all(headers);
}

static void sqlite_begin(struct client *c)
{
	if (sqlite3_open(c->what, &c->db) != SQLITE_OK)
		fail(c->what);
	sqlite3_busy_timeout(c->db, 60000);
	if (sqlite3_exec(c->db,
			 "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
			 "CREATE TABLE IF NOT EXISTS bench"
			 "(key TEXT PRIMARY KEY, body BLOB, etag INTEGER) "
			 "WITHOUT ROWID;"
			 "INSERT OR IGNORE INTO bench VALUES('own', '', 0)",
			 NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(c->db,
			       "SELECT etag FROM bench WHERE key = 'own'", -1,
			       &c->select, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(c->db,
			       "UPDATE bench SET body = ?1, etag = etag + 1 "
			       "WHERE key = 'own'",
			       -1, &c->update, NULL) != SQLITE_OK)
		fail(sqlite3_errmsg(c->db));
}

static void sqlite_once(struct client *c)
{
	sqlite3_bind_text(c->update, 1, RECORD("1"), -1, SQLITE_STATIC);
	if (sqlite3_exec(c->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) !=
		    SQLITE_OK ||
	    sqlite3_step(c->select) != SQLITE_ROW ||
	    sqlite3_reset(c->select) != SQLITE_OK ||
	    sqlite3_step(c->update) != SQLITE_DONE ||
	    sqlite3_reset(c->update) != SQLITE_OK ||
	    sqlite3_exec(c->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
		fail(sqlite3_errmsg(c->db));
}

static const struct operation {
	const char *name;
	void (*begin)(struct client *c);
	void (*once)(struct client *c);
} operations[] = {
	{"read", read_begin, read_once},
	{"write", write_begin, write_once},
	{"get", get_begin, get_once},
	{"put", put_begin, put_once},
	{"sqlite", sqlite_begin, sqlite_once},
};

/* ---- all of them for a while ---- */

struct figures {
	unsigned long count;
	double median_us;
};

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static struct figures repeat(const struct operation *op, const char *what,
			     double seconds)
{
	struct client client = {.what = what};
	float *took = malloc(MOST_SAMPLES * sizeof(*took));
	unsigned long count = 0;
	double until, before, after;

	if (!took)
		fail("no memory");
	op->begin(&client);
	after = now_s();
	until = after + seconds;
	while (after < until && count < MOST_SAMPLES) {
		before = after;
		op->once(&client);
		after = now_s();
		took[count++] = (float)((after - before) * 1e6);
	}
	qsort(took, count, sizeof(*took), compare);
	return (struct figures){count, took[count / 2]};
}

static double multi(double seconds, char **urls, int count)
{
	CURLM *multi = curl_multi_init();
	unsigned long total = 0;
	double began = now_s(), until = began + seconds;
	int running, left;
	CURLMsg *message;

	curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)count);
	for (int i = 0; i < count; i++) {
		struct client client = {.what = urls[i]};

		get_begin(&client);
		curl_easy_setopt(client.curl, CURLOPT_HEADERFUNCTION, NULL);
		curl_easy_setopt(client.curl, CURLOPT_HEADERDATA, NULL);
		curl_multi_add_handle(multi, client.curl);
	}
	while (now_s() < until) {
		curl_multi_perform(multi, &running);
		while ((message = curl_multi_info_read(multi, &left))) {
			CURL *curl = message->easy_handle;
			long status = 0;

			curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE,
					  &status);
			if (message->data.result != CURLE_OK || status != 200)
				fail("a request of the multi handle failed");
			total++;
			curl_multi_remove_handle(multi, curl);
			curl_multi_add_handle(multi, curl);
		}
		curl_multi_perform(multi, &running);
		curl_multi_poll(multi, NULL, 0, 100, NULL);
	}
	return (double)total / (now_s() - began);
}

int main(int argc, char **argv)
{
	const struct operation *op = NULL;
	struct figures all = {0}, one;
	float medians[1024];
	double began, seconds;
	int clients = argc - 3, pipes[2];

	if (clients < 1 || clients > 1024) {
		fprintf(stderr, "usage: load OPERATION SECONDS WHAT...\n");
		return 2;
	}
	seconds = strtod(argv[2], NULL);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	if (strcmp(argv[1], "multi") == 0) {
		printf("%.1f 0\n", multi(seconds, argv + 3, clients));
		return 0;
	}
	for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++)
		if (strcmp(argv[1], operations[i].name) == 0)
			op = &operations[i];
	if (!op || pipe(pipes) != 0) {
		fprintf(stderr, "load: no operation %s\n", argv[1]);
		return 2;
	}
	began = now_s();
	for (int i = 0; i < clients; i++) {
		if (fork() != 0)
			continue;
		one = repeat(op, argv[3 + i], seconds);
		if (write(pipes[1], &one, sizeof(one)) != sizeof(one))
			fail("pipe");
		_exit(0);
	}
	close(pipes[1]);
	for (int i = 0; i < clients; i++) {
		if (read(pipes[0], &one, sizeof(one)) != sizeof(one))
			fail("a client failed");
		all.count += one.count;
		medians[i] = (float)one.median_us;
	}
	qsort(medians, (size_t)clients, sizeof(*medians), compare);
	printf("%.1f %.1f\n", (double)all.count / (now_s() - began),
	       (double)medians[clients / 2]);
	while (wait(NULL) > 0)
		;
	return 0;
}
