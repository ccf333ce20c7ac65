/* SPDX-License-Identifier: MIT */
/* The descriptor that reports are written to; see sink.h. */
#include "os/report/sink.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "os/atomic.h"
#include "os/file.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/report/report.h"

#define ASK_AGAIN_MS 10

static struct {
	char directory[PATH_MAX]; /* where the process was when the file was first opened */
	char path[2 * PATH_MAX];
} place OS_LARGE;

static struct {
	struct os_descriptor file;
	uint32_t opening; /* by some thread */
	uint32_t refused; /* reported, once */
	uint32_t full[2]; /* by may_wait: when it last had no room, in ms; 0: it had */
} sink = {.file.file = -1};

/* Consume a signal that this thread has raised and blocked. */
static void drop_signal(const sigset_t *pending, int number)
{
	const struct timespec at_once = {0, 0};
	sigset_t set;

	if (sigismember(pending, number))
		return;
	sigemptyset(&set);
	sigaddset(&set, number);
	syscall(SYS_rt_sigtimedwait, &set, NULL, &at_once, _NSIG / 8);
}

ssize_t os_write_quietly(int file, const char *text, size_t length)
{
	sigset_t deadly, before, pending;
	ssize_t written;
	int error;

	sigemptyset(&deadly);
	sigaddset(&deadly, SIGPIPE);
	sigaddset(&deadly, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &deadly, &before);
	sigpending(&pending);
	do
		written = syscall(SYS_write, file, text, length);
	while (written < 0 && errno == EINTR);
	error = errno;
	if (written < 0 && error == EPIPE)
		drop_signal(&pending, SIGPIPE);
	if (written < 0 && error == EFBIG)
		drop_signal(&pending, SIGXFSZ);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return written;
}

/* --- the file --------------------------------------------------------------------------------- */

/* The path with the PID in the place of %p. */
static void make_path(void)
{
	size_t used = 0;

	if (!*place.directory && !getcwd(place.directory, sizeof(place.directory)))
		*place.directory = '\0';
	if (*os_options.report != '/' && *place.directory)
		used = (size_t)snprintf(place.path, sizeof(place.path), "%s/", place.directory);
	for (const char *at = os_options.report; *at; at++)
		if (at[0] == '%' && at[1] == 'p') {
			used += (size_t)snprintf(place.path + used, sizeof(place.path) - used, "%d",
						 (int)getpid());
			at++;
		} else {
			place.path[used++] = *at;
		}
	place.path[used] = '\0';
}

/* Links at these paths lead to the process's own open files. Elsewhere, another user may have
 * placed one. */
static bool may_be_link(void)
{
	return !strncmp(place.path, "/dev/std", 8) || !strncmp(place.path, "/dev/fd/", 8) ||
	       !strncmp(place.path, "/proc/self/fd/", 14);
}

/* It would show another user what the process does. Devices such as /dev/tty are the system's. */
static bool is_of_another(const struct stat *made)
{
	bool of_system = S_ISCHR(made->st_mode) && made->st_uid == 0;

	return made->st_uid != geteuid() && !of_system && !may_be_link();
}

/* A named pipe without a reader is refused, without a wait. -1 with errno; 0: another user's. */
static int open_path(void)
{
	int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_NONBLOCK;
	int low = os_file_open(place.path, flags | (may_be_link() ? 0 : O_NOFOLLOW));
	struct stat made;

	if (low < 0)
		return -1;
	if (fstat(low, &made) == 0 && is_of_another(&made)) {
		os_file_close(low);
		errno = 0;
		return -1;
	}
	return low;
}

static const char *reason(int error)
{
	struct stat is = {.st_mode = 0};

	if (!error)
		return "it belongs to another user";
	fstatat(AT_FDCWD, place.path, &is, may_be_link() ? 0 : AT_SYMLINK_NOFOLLOW);
	if (error == ELOOP && S_ISLNK(is.st_mode))
		return "it is a symbolic link";
	if (error == ENXIO && S_ISFIFO(is.st_mode))
		return "nobody reads this pipe";
	if (error == ENXIO && S_ISSOCK(is.st_mode))
		return "it is a socket";
	if (error == ENXIO && S_ISCHR(is.st_mode))
		return "no terminal or other device is behind it";
	return strerror(error);
}

/* Reported on standard error, where the reports go from then on. */
static void refuse_file(const char *what)
{
	char line[512];
	int length = snprintf(line, sizeof(line),
			      "libsheaf: SHEAF_OPTIONS: report=%s cannot be %s (%s); reports go to "
			      "standard error\n",
			      place.path, what, reason(errno));
	size_t used = (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1;

	os_make_plain(line, used - 1); /* all but the line feed */
	if (!os_exchange(&sink.refused, 1))
		os_write_quietly(STDERR_FILENO, line, used);
}

/* One thread opens it; reports of others go to standard error meanwhile. */
static void open_report_file(void)
{
	if (os_exchange(&sink.opening, 1))
		return;
	make_path();
	if (!os_descriptor_keep(&sink.file, open_path()))
		refuse_file("opened");
	os_store_release(&sink.opening, 0);
}

/* The descriptor that lines are written to now. */
static int descriptor(void)
{
	if (!*os_options.report || os_load_relaxed(&sink.refused))
		return STDERR_FILENO;
	if (!os_descriptor_is_ours(&sink.file))
		open_report_file();
	return os_descriptor_is_ours(&sink.file) ? sink.file.file : STDERR_FILENO;
}

void os_sink_open(void)
{
	OS_KEEP_ERRNO;

	descriptor();
}

/* --- writing ---------------------------------------------------------------------------------- */

size_t os_sink_write(const char *text, size_t length)
{
	OS_KEEP_ERRNO;
	int file = descriptor();
	ssize_t written = os_write_quietly(file, text, length);

	if (written < 0 && errno != EAGAIN && file != STDERR_FILENO) {
		refuse_file("written to");
		written = os_write_quietly(STDERR_FILENO, text, length);
	}
	if (written < 0)
		written = errno == EAGAIN ? 0 : (ssize_t)length;
	return (size_t)written;
}

void os_sink_write_last(const char *text, size_t length)
{
	const struct timespec second = {1, 0};
	struct pollfd room;
	size_t written = os_sink_write(text, length);

	if (written == length)
		return;
	room = (struct pollfd){.fd = descriptor(), .events = POLLOUT};
	syscall(SYS_ppoll, &room, 1, &second, NULL, 0);
	os_sink_write(text + written, length - written);
}

/* If there is any room, there is room for a line. A terminal may have room for only a byte; then
 * the write waits. */
static bool room_is_for_lines(int file)
{
	struct stat to;

	return fstat(file, &to) == 0 &&
	       (S_ISFIFO(to.st_mode) || S_ISSOCK(to.st_mode) || S_ISREG(to.st_mode));
}

bool os_sink_has_room(bool may_wait)
{
	struct pollfd room = {.fd = descriptor(), .events = POLLOUT};
	const struct timespec at_once = {0, 0};
	bool has = (may_wait || room_is_for_lines(room.fd)) &&
		   syscall(SYS_ppoll, &room, 1, &at_once, NULL, 0) == 1;

	os_store_relaxed(&sink.full[may_wait], has ? 0 : os_now_ms() | 1);
	return has;
}

/* Where a call that may wait finds no room, others find none, too. */
bool os_sink_was_full(bool may_wait)
{
	uint32_t at = os_load_relaxed(&sink.full[true]);

	if (!at && !may_wait)
		at = os_load_relaxed(&sink.full[false]);
	return at && (os_now_ms() | 1) - at < ASK_AGAIN_MS;
}

/* --- fork ------------------------------------------------------------------------------------- */

void os_sink_after_fork(void)
{
	sink.opening = 0;
	if (strstr(os_options.report, "%p") && !sink.refused)
		os_descriptor_close(&sink.file);
}
