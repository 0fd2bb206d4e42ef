/* readers mount|curl SECONDS WHAT...
 *
 * A process for each WHAT reads it again and again: a file below a mount, by
 * open, read and close; or a URL, over a keep-alive connection of libcurl's of
 * its own. Prints how many reads there were in a second, all together.
 */
#include <curl/curl.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fail(const char *what)
{
	fprintf(stderr, "readers: %s\n", what);
	exit(1);
}

static unsigned long read_file(const char *path, double until)
{
	unsigned long count = 0;
	char bytes[4096];

	while (now_s() < until) {
		int fd = open(path, O_RDONLY);

		if (fd < 0 || read(fd, bytes, sizeof(bytes)) <= 0)
			fail(path);
		close(fd);
		count++;
	}
	return count;
}

static size_t drop(char *bytes, size_t size, size_t count, void *arg)
{
	(void)bytes;
	(void)arg;
	return size * count;
}

static unsigned long read_url(const char *url, double until)
{
	CURL *curl = curl_easy_init();
	unsigned long count = 0;
	long status = 0;

	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop);
	while (now_s() < until) {
		if (curl_easy_perform(curl) != CURLE_OK)
			fail(url);
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
		if (status != 200)
			fail("the status is not 200");
		count++;
	}
	curl_easy_cleanup(curl);
	return count;
}

int main(int argc, char **argv)
{
	unsigned long (*reader)(const char *, double) = NULL;
	unsigned long total = 0, count;
	double began, until;
	int pipes[2];

	if (argc > 3 && strcmp(argv[1], "mount") == 0)
		reader = read_file;
	else if (argc > 3 && strcmp(argv[1], "curl") == 0)
		reader = read_url;
	if (!reader || pipe(pipes) != 0) {
		fprintf(stderr, "usage: readers mount|curl SECONDS WHAT...\n");
		return 2;
	}
	curl_global_init(CURL_GLOBAL_DEFAULT);
	began = now_s();
	until = began + strtod(argv[2], NULL);
	for (int i = 3; i < argc; i++) {
		if (fork() != 0)
			continue;
		count = reader(argv[i], until);
		if (write(pipes[1], &count, sizeof(count)) != sizeof(count))
			fail("pipe");
		_exit(0);
	}
	close(pipes[1]);
	for (int i = 3; i < argc; i++) {
		if (read(pipes[0], &count, sizeof(count)) != sizeof(count))
			fail("a reader failed");
		total += count;
	}
	printf("%.0f\n", (double)total / (now_s() - began));
	while (wait(NULL) > 0)
		;
	return 0;
}
