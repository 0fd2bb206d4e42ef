/* slow_reply: preloaded into a daemon (LD_PRELOAD), a thread that has answered
 * a request is held up then, as on a machine with much else to do. Whoever
 * asked goes on meanwhile.
 */
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	ssize_t written = syscall(SYS_writev, fd, parts, count);

	nanosleep(&pause, NULL);
	return written;
}
