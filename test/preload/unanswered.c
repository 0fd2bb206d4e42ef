/* unanswered: preloaded into a daemon (LD_PRELOAD), statfs(2) gets no answer
 * for as long as the file $UNANSWERED is there.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef int reply_function(void *, const void *);

int fuse_reply_statfs(void *request, const void *answer);

int fuse_reply_statfs(void *request, const void *answer)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	const char *unanswered = getenv("UNANSWERED");
	reply_function *next =
		(reply_function *)dlsym(RTLD_NEXT, "fuse_reply_statfs");

	while (unanswered != NULL && access(unanswered, F_OK) == 0)
		nanosleep(&pause, NULL);
	return next(request, answer);
}
