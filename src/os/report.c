/* SPDX-License-Identifier: MIT */
/* Lines for people; see report.h. */
#include "os/report.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/lock.h"
#include "os/machine.h"

#define PREFIX	"libsheaf: "
#define KEPT	16
#define ANYBODY 0

struct line {
	size_t length;
	char text[512];
};

enum {
	FREE,
	CLAIMED, /* to be filled, or to be written */
	READY
};

static struct {
	struct {
		uint32_t state;
		uintptr_t by; /* a thread, or ANYBODY */
		struct line line;
	} places[KEPT];
	uint32_t left_out;
} kept;

uint32_t os_reports, os_reports_kept;

#ifdef __SANITIZE_THREAD__
unsigned int os_fence_word;
#endif

static __attribute__((format(printf, 2, 0))) void make_line(struct line *line, const char *format,
							    va_list arguments)
{
	const size_t room = sizeof(line->text) - sizeof(PREFIX) - 1;
	int length = vsnprintf(line->text + sizeof(PREFIX) - 1, room, format, arguments);

	memcpy(line->text, PREFIX, sizeof(PREFIX) - 1);
	line->length = length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1;
	line->length += sizeof(PREFIX) - 1;
	line->text[line->length++] = '\n';
	os_fetch_add_relaxed(&os_reports, 1);
}

void os_print(const char *text)
{
	int saved = errno;
	ssize_t written;

	os_holds_nothing("reports");
	written = syscall(SYS_write, STDERR_FILENO, text, strlen(text));
	(void)written;
	errno = saved;
}

static void write_line(const struct line *line)
{
	ssize_t written = syscall(SYS_write, STDERR_FILENO, line->text, line->length);

	(void)written;
}

static __attribute__((format(printf, 1, 0))) void write_now(const char *format, va_list arguments)
{
	int saved = errno;
	struct line line;

	make_line(&line, format, arguments);
	write_line(&line);
	errno = saved;
}

void os_report(const char *format, ...)
{
	va_list arguments;

	os_holds_nothing("reports");
	va_start(arguments, format);
	write_now(format, arguments);
	va_end(arguments);
}

void os_report_later(const char *format, ...)
{
	int saved = errno;
	va_list arguments;

	for (int i = 0; i < KEPT; i++) {
		uint32_t expected = FREE;

		if (!os_cmpxchg(&kept.places[i].state, &expected, CLAIMED))
			continue;
		os_store_relaxed(&kept.places[i].by, os_self());
		va_start(arguments, format);
		make_line(&kept.places[i].line, format, arguments);
		va_end(arguments);
		os_store_release(&kept.places[i].state, READY);
		os_fetch_add(&os_reports_kept, 1);
		errno = saved;
		return;
	}
	os_fetch_add(&kept.left_out, 1);
}

static bool is_by(int i, uintptr_t thread)
{
	return os_load_acquire(&kept.places[i].state) == READY &&
	       os_load_relaxed(&kept.places[i].by) == thread;
}

static bool may_take(int i)
{
	return is_by(i, os_self()) || is_by(i, ANYBODY);
}

/* The thread may end, or make no other call. */
static void leave_line(int i)
{
	if (is_by(i, os_self()))
		os_store_relaxed(&kept.places[i].by, ANYBODY);
}

/* Copied, so that its place is free however long the writing takes. Claimed first: a handler that comes
 * between takes this thread's lines, too. */
static bool take_line(int i, struct line *line)
{
	uint32_t ready = READY;

	if (!may_take(i) || !os_cmpxchg(&kept.places[i].state, &ready, CLAIMED))
		return false;
	*line = kept.places[i].line;
	os_store_release(&kept.places[i].state, FREE);
	os_fetch_sub(&os_reports_kept, 1);
	return true;
}

/* With any room there is room for a line. A terminal may have it for a byte only, and the write waits. */
static bool room_is_for_lines(void)
{
	struct stat error;

	return fstat(STDERR_FILENO, &error) == 0 &&
	       (S_ISFIFO(error.st_mode) || S_ISSOCK(error.st_mode) || S_ISREG(error.st_mode));
}

/*
 * What others write meanwhile is not looked for. So a call that must not wait still may, if a pipe has
 * room for one line more, two threads see it at the same time, and nobody reads.
 */
static bool takes_a_line(bool may_wait)
{
	struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
	const struct timespec at_once = {0, 0};

	return (may_wait || room_is_for_lines()) &&
	       syscall(SYS_ppoll, &error, 1, &at_once, NULL, 0) == 1;
}

/* A line that another thread has left, and how many there were, are written if there is room at all. */
static void write_all(bool may_wait)
{
	int saved = errno;
	struct line line;
	uint32_t left_out = 0;

	for (int i = 0; i < KEPT; i++)
		if (!may_take(i))
			continue;
		else if (!(may_wait && is_by(i, os_self())) && !takes_a_line(may_wait))
			leave_line(i);
		else if (take_line(i, &line))
			write_line(&line);
	if (os_load_relaxed(&kept.left_out) && takes_a_line(may_wait))
		left_out = os_exchange(&kept.left_out, 0);
	if (left_out) {
		line.length = (size_t)snprintf(
			line.text, sizeof(line.text),
			PREFIX "%u more lines like the last ones are left out\n", left_out);
		write_line(&line);
	}
	errno = saved;
}

void os_write_kept(void)
{
	os_holds_nothing("reports");
	write_all(true);
}

void os_write_kept_nowait(void)
{
	write_all(false);
}

void os_reports_after_fork(void)
{
	os_reports_kept = kept.left_out = 0;
	for (int i = 0; i < KEPT; i++)
		if (is_by(i, os_self()))
			os_reports_kept++;
		else
			kept.places[i].state = FREE;
}

void os_fatal(const char *format, ...)
{
	va_list arguments;

	write_all(true);
	va_start(arguments, format);
	write_now(format, arguments);
	va_end(arguments);
	abort();
}
