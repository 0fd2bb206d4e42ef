/* slow_reply: preloaded into a daemon (LD_PRELOAD), a thread that has answered
 * a request is held up then, as on a machine with much else to do. Whoever
 * asked goes on meanwhile.
 */
#include <dlfcn.h>
#include <sys/uio.h>
#include <time.h>

typedef ssize_t writev_function(int, const struct iovec *, int);

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	/* a sanitizer's, if there is one: it must know what threads share */
	writev_function *next = (writev_function *)dlsym(RTLD_NEXT, "writev");
	ssize_t written = next(fd, parts, count);

	nanosleep(&pause, NULL);
	return written;
}
