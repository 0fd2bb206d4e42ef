#include "holder.h"

#include "clock.h"
#include "family.h"
#include "leash.h"
#include "view.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define AGAIN_MS      20  /* between two kills of what does not die, */
#define AGAIN_MOST_MS 640 /* after some */

enum order_kind { ORDER_GUARD, ORDER_RELEASE };

struct order {
	enum order_kind kind;
	pid_t group;
};

/* The holder's own side. */
struct tender {
	int fd; /* to main; each thread sends whole messages */
	_Atomic int64_t
		*until_ms;	/* shared with main; `tend` alone writes it */
	_Atomic bool has_terms; /* then terms are there */
	struct leash_terms terms;
	int release_fd; /* eventfd: the cell is to be given up */
	int nudge_fd;	/* eventfd: until_ms came nearer, or terms are there */
	bool wait;
	struct view view; /* `tend` alone touches it */
};

static void send_news(struct tender *tender, const struct news *news)
{
	/* Main may be gone, or stopped with a full queue: nobody to tell. */
	ssize_t sent = send(tender->fd, news, sizeof(*news),
			    MSG_NOSIGNAL | MSG_DONTWAIT);

	(void)sent;
}

static void ring(int event_fd)
{
	uint64_t one = 1;
	ssize_t written = write(event_fd, &one, sizeof(one));

	(void)written; /* full: it has been rung already */
}

/* Reads a timerfd or an eventfd empty. */
static void drain(int fd)
{
	uint64_t count;
	ssize_t got = read(fd, &count, sizeof(count));

	(void)got;
}

/* ---- the thread that touches the mount, and may hang there ---- */

static void __attribute__((noreturn))
end_failed(struct tender *tender, struct news *news)
{
	news->kind = NEWS_FAILED;
	send_news(tender, news);
	_exit(0);
}

static void take_cell(struct tender *tender, struct news *news)
{
	enum view_lock lock;

	lock = view_lock(&tender->view, false, &news->trouble);
	if (lock == VIEW_BUSY) {
		news->kind = NEWS_BUSY;
		send_news(tender, news);
		if (!tender->wait)
			_exit(0);
		lock = view_lock(&tender->view, true, &news->trouble);
	}
	if (lock != VIEW_LOCKED ||
	    !view_epoch(&tender->view, &news->epoch, &news->trouble))
		end_failed(tender, news);
}

/* Sleeps until it is time to ask again. False: the cell is to be given up. */
static bool pause_tending(struct tender *tender)
{
	struct pollfd release = {.fd = tender->release_fd, .events = POLLIN};

	return poll(&release, 1, (int)tender->terms.poll_ms) <= 0;
}

/* The command is not to be started with little authority. */
static void await_authority(struct tender *tender, struct news *news)
{
	enum view_authority authority;
	int64_t until_ms = 0;

	for (;;) {
		authority = view_authority(&tender->view, &until_ms,
					   &news->trouble);
		if (authority == VIEW_FENCED || authority == VIEW_GONE)
			end_failed(tender, news);
		if (authority == VIEW_HAS &&
		    until_ms >= clock_boot_ms() + tender->terms.start_ms)
			break;
		pause_tending(tender);
	}
	*tender->until_ms = until_ms;
}

/* The authority is no more. The time that is left for the command is made what
 * the other thread and main go by. */
static void tell_lost(struct tender *tender, struct news *news,
		      enum view_authority authority)
{
	int64_t end_ms;

	news->kind = NEWS_LOST;
	news->grace_ms = authority == VIEW_FENCED
				 ? tender->terms.fenced_grace_ms
				 : tender->terms.grace_ms;
	end_ms = clock_boot_ms() + news->grace_ms + tender->terms.kill_ms;
	if (*tender->until_ms > end_ms)
		*tender->until_ms = end_ms;
	send_news(tender, news);
	ring(tender->nudge_fd);
}

/* Until the cell is to be given up. */
static void follow_authority(struct tender *tender, struct news *news)
{
	bool lost = false;

	while (pause_tending(tender)) {
		enum view_authority authority;
		int64_t until_ms = 0;

		if (lost)
			continue;
		authority = view_authority(&tender->view, &until_ms,
					   &news->trouble);
		/* each answer is a lower bound */
		if (authority == VIEW_HAS && until_ms > *tender->until_ms)
			*tender->until_ms = until_ms;
		if (authority != VIEW_FENCED && authority != VIEW_GONE)
			continue;
		tell_lost(tender, news, authority);
		lost = true;
	}
}

static void *tend(void *arg)
{
	struct tender *tender = arg;
	struct view *view = &tender->view;
	struct news news = {.kind = NEWS_MOUNT};

	if (!view_open(view, &news.trouble))
		end_failed(tender, &news);
	if (!leash_terms(&tender->terms, view->ttl_ms)) {
		explain(&news.trouble, RUN_FAILED,
			"%s: a lease of %lld ms is too short to end a command "
			"in time: mount it with -o ttl-ms=%d or more",
			view->mount, (long long)view->ttl_ms,
			LEASH_TTL_LEAST_MS);
		end_failed(tender, &news);
	}
	tender->has_terms = true;
	memcpy(news.node, view->node, sizeof(news.node));
	news.ttl_ms = view->ttl_ms;
	news.deadline_ms = view->deadline_ms;
	send_news(tender, &news);

	take_cell(tender, &news);
	await_authority(tender, &news);
	news.kind = NEWS_HELD;
	send_news(tender, &news);
	follow_authority(tender, &news);

	news.kind = NEWS_RELEASED;
	if (view_unlock(view, &news.trouble))
		news.trouble.text[0] = '\0';
	view_close(view);
	send_news(tender, &news);
	_exit(0);
}

/* ---- the thread that watches ---- */

struct watcher {
	struct tender *tender;
	int timer_fd;
	pid_t group; /* 0: there is none yet, or none any more */
	bool told;   /* that it is killed */
};

static int64_t kill_at_ms(const struct watcher *watcher)
{
	const struct tender *tender = watcher->tender;

	return tender->has_terms ? *tender->until_ms - tender->terms.kill_ms
				 : INT64_MAX;
}

/* The clock goes on while the machine is suspended, as poll()'s does not. */
static void arm(const struct watcher *watcher)
{
	int64_t at_ms = watcher->group ? kill_at_ms(watcher) : INT64_MAX;
	struct itimerspec when = {
		.it_value = {.tv_sec = at_ms / 1000,
			     .tv_nsec = at_ms % 1000 * 1000000},
	};

	/* after the first kill poll()'s own time is good enough */
	if (watcher->told)
		memset(&when, 0, sizeof(when));
	timerfd_settime(watcher->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Kills the group if its time has come, and goes on until main says that it is
 * gone: there is no way back. Main is told first, or it could take the
 * command's end for an end like any other. */
static void kill_in_time(struct watcher *watcher)
{
	struct news news = {.kind = NEWS_LOST};

	if (!watcher->group ||
	    (!watcher->told && clock_boot_ms() < kill_at_ms(watcher)))
		return;
	if (!watcher->told) {
		explain(&news.trouble, RUN_LOST,
			"the lease was not seen to be renewed");
		send_news(watcher->tender, &news);
	}
	watcher->told = true;
	kill(-watcher->group, SIGKILL);
}

/* Main has died. Nothing acts for the cell when it is given up. */
static void __attribute__((noreturn)) end_orphaned(struct watcher *watcher)
{
	struct family family = {.group = watcher->group};
	int pause_ms = AGAIN_MS;

	while (watcher->group) {
		kill(-watcher->group, SIGKILL);
		if (family_alive(&family) == 0)
			break;
		poll(NULL, 0, pause_ms);
		if (pause_ms < AGAIN_MOST_MS)
			pause_ms *= 2;
	}
	_exit(0);
}

static void take_order(struct watcher *watcher, const struct order *order)
{
	if (order->kind == ORDER_GUARD) {
		watcher->group = order->group;
		return;
	}
	ring(watcher->tender->release_fd);
	/* what follows is up to the other thread */
	for (;;)
		pause();
}

/* All that have come. False: main has died. */
static bool take_orders(struct watcher *watcher)
{
	struct order order;
	ssize_t got;

	for (;;) {
		got = recv(watcher->tender->fd, &order, sizeof(order),
			   MSG_DONTWAIT);
		if (got == (ssize_t)sizeof(order))
			take_order(watcher, &order);
		/* RESET: it died with something unread; what it sent follows */
		else if (got >= 0 || (errno != ECONNRESET && errno != EINTR))
			return got < 0 && errno == EAGAIN;
	}
}

static void __attribute__((noreturn)) watch(struct watcher *watcher)
{
	struct tender *tender = watcher->tender;

	for (;;) {
		struct pollfd fds[] = {
			{.fd = tender->fd, .events = POLLIN},
			{.fd = watcher->timer_fd, .events = POLLIN},
			{.fd = tender->nudge_fd, .events = POLLIN},
		};

		arm(watcher);
		poll(fds, 3, watcher->told ? AGAIN_MS : -1);
		/* orders first: the group may be gone */
		if (fds[0].revents && !take_orders(watcher))
			end_orphaned(watcher);
		if (fds[1].revents)
			drain(watcher->timer_fd);
		if (fds[2].revents)
			drain(tender->nudge_fd);
		kill_in_time(watcher);
	}
}

/* ---- start ---- */

/* A session of its own: no terminal, no signal that is meant for the command.
 * Nothing of what main was given stays open; it may be held up here for ever.
 */
static void leave_main(int *fd)
{
	sigset_t all;
	int null_fd;

	prctl(PR_SET_NAME, "celldfs-holder");
	setsid();
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	*fd = fcntl(*fd, F_DUPFD_CLOEXEC, 3);
	if (*fd > 3)
		*fd = dup3(*fd, 3, O_CLOEXEC);
	closefrom(4);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int standard = 0; standard < 3; standard++)
		if (null_fd < 0 || dup2(null_fd, standard) < 0)
			close(standard);
}

static void __attribute__((noreturn)) hold(struct tender *tender)
{
	struct watcher watcher = {.tender = tender};
	struct news news = {.kind = NEWS_FAILED};
	pthread_t thread;

	leave_main(&tender->fd);
	tender->release_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	tender->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watcher.timer_fd =
		timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (tender->release_fd < 0 || tender->nudge_fd < 0 ||
	    watcher.timer_fd < 0 ||
	    pthread_create(&thread, NULL, tend, tender) != 0) {
		explain(&news.trouble, RUN_NOT_HELD, "cannot start: %s",
			strerror(errno));
		end_failed(tender, &news);
	}
	watch(&watcher);
}

bool holder_start(struct holder *holder, const char *mount, const char *cell,
		  bool wait, struct trouble *trouble)
{
	struct tender tender = {.wait = wait};
	int fds[2];
	void *shared =
		mmap(NULL, sizeof(*holder->until_ms), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		goto failed;
	holder->until_ms = tender.until_ms = shared;
	holder->fd = fds[0];
	tender.fd = fds[1];
	view_init(&tender.view, mount, cell);
	holder->pid = fork();
	if (holder->pid < 0)
		goto failed;
	if (holder->pid == 0)
		hold(&tender);
	close(fds[1]);
	return true;
failed:
	explain(trouble, RUN_NOT_HELD, "cannot start: %s", strerror(errno));
	return false;
}

/* ---- main's side ---- */

void holder_news(struct holder *holder, struct news *news)
{
	ssize_t got;

	news->kind = NEWS_NONE;
	if (holder->fd < 0)
		return;
	got = recv(holder->fd, news, sizeof(*news), MSG_DONTWAIT);
	if (got == (ssize_t)sizeof(*news))
		return;
	/* RESET: it died with something unread; what it sent follows */
	if (got < 0 &&
	    (errno == EAGAIN || errno == EINTR || errno == ECONNRESET)) {
		news->kind = NEWS_NONE;
		return;
	}
	news->kind = NEWS_END;
	close(holder->fd);
	holder->fd = -1;
}

static void give(struct holder *holder, struct order order)
{
	/* a holder that is dead is noticed elsewhere */
	ssize_t sent = send(holder->fd, &order, sizeof(order),
			    MSG_NOSIGNAL | MSG_DONTWAIT);

	(void)sent;
}

void holder_guard(struct holder *holder, pid_t group)
{
	give(holder, (struct order){.kind = ORDER_GUARD, .group = group});
}

void holder_release(struct holder *holder)
{
	give(holder, (struct order){.kind = ORDER_RELEASE});
}

void holder_kill(struct holder *holder)
{
	kill(holder->pid, SIGKILL);
}
