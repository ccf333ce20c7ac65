/* SPDX-License-Identifier: MIT */
/* Reports of one line; see report.h. */
#include "os/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/callback.h"
#include "os/lock.h"
#include "os/long_report.h"
#include "os/machine.h"
#include "os/options.h"
#include "os/sink.h"
#include "os/stack.h"

#define PREFIX	   "libsheaf: "
#define KEPT	   16
#define ANYBODY	   0
#define IN_FULL	   5	/* reports of a kind that are all written */
#define TEXT_MAX   512	/* of a line, without the stack */
#define REPORT_MAX 1024 /* below PIPE_BUF: threads' lines do not mix */

struct line {
	size_t length;
	bool last; /* abort the program when it is written */
	char text[REPORT_MAX];
};

enum {
	FREE,
	CLAIMED, /* a thread fills it, or writes it out */
	READY
};

struct place {
	uint32_t state;
	uintptr_t by; /* a thread, or ANYBODY */
	struct line line;
};

static struct {
	struct place places[KEPT];
	uint32_t left_out;
} kept;

/* How many reports of each kind there were. Kinds that find no place share the last one. */
#define KINDS 64
static struct {
	uint64_t kind; /* 0: free */
	uint32_t count;
} seen[KINDS];
static uint32_t misuse_left_out;

uint32_t os_reports, os_reports_kept;

#ifdef __SANITIZE_THREAD__
unsigned int os_fence_word;
#endif

static __attribute__((format(printf, 2, 0))) void make_line(struct line *line, const char *format,
							    va_list arguments)
{
	const size_t room = TEXT_MAX - sizeof(PREFIX) - 1;
	int length = vsnprintf(line->text + sizeof(PREFIX) - 1, room, format, arguments);

	memcpy(line->text, PREFIX, sizeof(PREFIX) - 1);
	line->length = length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1;
	line->length += sizeof(PREFIX) - 1;
	line->text[line->length++] = '\n';
	line->last = false;
	os_fetch_add_relaxed(&os_reports, 1);
}

/* Add text to a line, in front of its line feed. */
static __attribute__((format(printf, 2, 3))) void extend_line(struct line *line, const char *format,
							      ...)
{
	size_t room = REPORT_MAX - line->length;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line->text + line->length - 1, room, format, arguments);
	va_end(arguments);
	if (length > 0)
		line->length += (size_t)length < room ? (size_t)length : room - 1;
	line->text[line->length - 1] = '\n';
}

/* When the line is made, not when it is written: another call, of another thread, may write it. */
static void add_stack(struct line *line)
{
	char stack[REPORT_MAX - TEXT_MAX - 100];

	if (os_stack(stack, sizeof(stack)))
		extend_line(line, "; called from%s", stack);
}

static void make_misuse(struct line *line, uint32_t n, const char *format, va_list arguments)
	__attribute__((format(printf, 3, 0)));

static void make_misuse(struct line *line, uint32_t n, const char *format, va_list arguments)
{
	make_line(line, format, arguments);
	if (n > IN_FULL)
		extend_line(line, " (number %u of such reports; most are left out)", n);
	add_stack(line);
	line->last = os_options.panic_on_warn;
}

/* FNV-1a; never 0. */
static uint64_t kind_of(const char *about, const char *format)
{
	uint64_t hash = UINT64_C(14695981039346656037) ^ (uintptr_t)format;

	for (; about && *about; about++)
		hash = (hash ^ (uint8_t)*about) * UINT64_C(1099511628211);
	return hash ? hash : 1;
}

/* Count one more report of this kind, and return their number. */
static uint32_t count_kind(uint64_t kind)
{
	unsigned int i = 0;

	for (; i < KINDS - 1; i++) {
		uint64_t there = os_load_relaxed(&seen[i].kind);

		if (there == kind ||
		    (!there && (os_cmpxchg(&seen[i].kind, &there, kind) || there == kind)))
			break;
	}
	return os_fetch_add_relaxed(&seen[i].count, 1) + 1;
}

static bool is_power_of_ten(uint32_t n)
{
	while (n % 10 == 0)
		n /= 10;
	return n == 1;
}

/* The number of this report within its kind; 0: it is left out. */
uint32_t os_misuse_count(const char *about, const char *format)
{
	uint32_t n = count_kind(kind_of(about, format));

	if (n <= IN_FULL || is_power_of_ten(n))
		return n;
	os_fetch_add_relaxed(&os_reports, 1);
	os_fetch_add_relaxed(&misuse_left_out, 1);
	return 0;
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

/* False: nothing accepts the line now. */
static bool write_line(const struct line *line, bool may_call)
{
	bool done = may_call && os_callback_call(line->text, line->length);

	if (!done && line->last)
		os_sink_write_last(line->text, line->length);
	else if (!done)
		done = os_sink_write(line->text, line->length) != 0;
	if (line->last)
		abort();
	return done;
}

void os_report_lost(void)
{
	os_fetch_add(&kept.left_out, 1);
}

/* A place to keep a line; NULL: all are taken. */
static struct place *claim_place(void)
{
	for (int i = 0; i < KEPT; i++) {
		uint32_t expected = FREE;

		if (!os_cmpxchg(&kept.places[i].state, &expected, CLAIMED))
			continue;
		os_store_relaxed(&kept.places[i].by, os_self());
		return &kept.places[i];
	}
	os_report_lost();
	return NULL;
}

static void keep_line(struct place *place)
{
	os_store_release(&place->state, READY);
	os_fetch_add(&os_reports_kept, 1);
}

/* A later call writes it. */
static void keep_copy(const struct line *line)
{
	struct place *place = claim_place();

	if (!place)
		return;
	place->line = *line;
	os_store_relaxed(&place->by, ANYBODY);
	keep_line(place);
}

void os_report(const char *format, ...)
{
	int saved = errno;
	va_list arguments;
	struct line line;

	os_holds_nothing("reports");
	va_start(arguments, format);
	make_line(&line, format, arguments);
	va_end(arguments);
	if (!write_line(&line, true))
		keep_copy(&line);
	errno = saved;
}

void os_misuse(const char *about, const char *format, ...)
{
	uint32_t n = os_misuse_count(about, format);
	int saved = errno;
	va_list arguments;
	struct line line;

	os_holds_nothing("reports");
	if (!n)
		return;
	va_start(arguments, format);
	make_misuse(&line, n, format, arguments);
	va_end(arguments);
	if (!write_line(&line, true))
		keep_copy(&line);
	errno = saved;
}

void os_report_later(const char *format, ...)
{
	int saved = errno;
	struct place *place = claim_place();
	va_list arguments;

	if (place) {
		va_start(arguments, format);
		make_line(&place->line, format, arguments);
		va_end(arguments);
		keep_line(place);
	}
	errno = saved;
}

void os_misuse_later(const char *about, const char *format, ...)
{
	int saved = errno;
	uint32_t n = os_misuse_count(about, format);
	struct place *place = n ? claim_place() : NULL;
	va_list arguments;

	if (place) {
		va_start(arguments, format);
		make_misuse(&place->line, n, format, arguments);
		va_end(arguments);
		keep_line(place);
	}
	errno = saved;
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

/* Let any thread write the line: this one may end, or make no other call. */
static void leave_line(int i)
{
	if (is_by(i, os_self()))
		os_store_relaxed(&kept.places[i].by, ANYBODY);
}

/* Copy the line, so that its place is free however long the writing takes. Claim it first: a signal
 * handler may interrupt, and takes this thread's lines, too. */
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

/* Lines that other threads have left, and the number of lost lines, are written only if the
 * descriptor has room. */
static void write_all(bool may_wait, bool may_call)
{
	int saved = errno;
	struct line line;
	uint32_t left_out = 0;

	for (int i = 0; i < KEPT; i++)
		if (!may_take(i))
			continue;
		else if (!(may_wait && is_by(i, os_self())) && !os_sink_has_room(may_wait))
			leave_line(i);
		else if (take_line(i, &line) && !write_line(&line, may_call))
			keep_copy(&line);
	os_long_write(may_wait, may_call);
	if (os_load_relaxed(&kept.left_out) && os_sink_has_room(may_wait))
		left_out = os_exchange(&kept.left_out, 0);
	if (left_out) {
		line.length = (size_t)snprintf(
			line.text, sizeof(line.text),
			PREFIX "%u more lines like the last ones are left out\n", left_out);
		line.last = false;
		if (!write_line(&line, may_call))
			os_fetch_add(&kept.left_out, left_out);
	}
	errno = saved;
}

void os_write_kept(void)
{
	os_holds_nothing("reports");
	write_all(true, true);
}

void os_write_kept_nowait(void)
{
	write_all(false, false);
}

void os_write_kept_at_fault(void)
{
	write_all(true, false);
}

/* At exit, do not wait for a reader of standard error. */
void os_report_left_out(void)
{
	uint32_t n = os_load_relaxed(&misuse_left_out);

	if (n && os_sink_has_room(true))
		os_report("%u reports of misuse were left out: of each kind the first %d, the "
			  "10th, the 100th and so on were written",
			  n, IN_FULL);
}

void os_misuse_forget(void)
{
	for (int i = 0; i < KINDS; i++)
		os_store_relaxed(&seen[i].count, 0);
	os_store_relaxed(&misuse_left_out, 0);
}

void os_reports_after_fork(void)
{
	os_misuse_forget();
	os_sink_after_fork();
	os_callback_after_fork();
	os_reports_kept = os_long_after_fork();
	kept.left_out = 0;
	for (int i = 0; i < KEPT; i++)
		if (is_by(i, os_self()))
			os_reports_kept++;
		else
			kept.places[i].state = FREE;
}

/* The thread may hold locks of the library, so the callback does not run. */
void os_fatal(const char *format, ...)
{
	va_list arguments;
	struct line line;

	write_all(true, false);
	va_start(arguments, format);
	make_line(&line, format, arguments);
	va_end(arguments);
	line.last = true;
	write_line(&line, false);
	abort();
}
