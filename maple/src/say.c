/* SPDX-License-Identifier: MIT */
/*
 * Writes lines about misuse to standard error, and trees; see tree.h. The system call is no
 * cancellation point, and raises neither SIGPIPE nor SIGXFSZ, so it ends no program.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tree.h"

/* Consume the signal that the write raised, but not one that was pending before. */
static void drop_raised(const sigset_t *before, int number)
{
	const struct timespec at_once = {0, 0};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	if (!sigismember(before, number))
		sigtimedwait(&set, NULL, &at_once);
}

ssize_t write_quietly(int fd, const char *text, size_t length)
{
	sigset_t deadly, mask, pending;
	ssize_t written;
	int error;

	sigemptyset(&deadly);
	sigaddset(&deadly, SIGPIPE);
	sigaddset(&deadly, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &deadly, &mask);
	sigpending(&pending);
	written = syscall(SYS_write, fd, text, length);
	error = errno;
	if (written < 0 && error == EPIPE)
		drop_raised(&pending, SIGPIPE);
	if (written < 0 && error == EFBIG)
		drop_raised(&pending, SIGXFSZ);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	errno = error;
	return written;
}

void say(const char *format, ...)
{
	int saved = errno, length;
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text) - 1, format, arguments);
	va_end(arguments);
	if (length > (int)sizeof(text) - 2)
		length = (int)sizeof(text) - 2;
	if (length >= 0) {
		text[length++] = '\n';
		write_quietly(STDERR_FILENO, text, (size_t)length);
	}
	errno = saved;
}
