#include "load.h"

#include "clock.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%*u %llu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t count = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count > 3 ? count - 3 : 0; /* ".", ".." and the one of DIR */
}

static uint64_t fd_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

static int64_t cpu_ms(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) != 0)
		return 0;
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

enum outcome load_sample(struct load *load, uint64_t resident_cells,
			 struct buf *text)
{
	int64_t now_ms = clock_boot_ms();
	int64_t used_ms = cpu_ms();
	int64_t passed_ms = now_ms - load->sampled_ms;
	int64_t share = 0;

	/* the first sample has nothing to count from */
	if (load->sampled_ms > 0 && passed_ms > 0 && used_ms > load->cpu_ms)
		share = (used_ms - load->cpu_ms) * 10000 / passed_ms;
	load->sampled_ms = now_ms;
	load->cpu_ms = used_ms;
	return buf_printf(text,
			  "{\"sampled_ms\":0,\"resident_cells\":%" PRIu64
			  ",\"host_websockets\":0,\"rss_bytes\":%" PRIu64
			  ",\"cpu_percent_x100\":%" PRId64
			  ",\"open_fds\":%" PRIu64 ",\"fd_limit\":%" PRIu64
			  ",\"pressured\":false,\"shed_cells\":0}",
			  resident_cells, resident_bytes(), share, open_fds(),
			  fd_limit());
}
