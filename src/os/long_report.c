/* SPDX-License-Identifier: MIT */
/* Reports of many lines; see long_report.h. */
#include "os/long_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/assert.h"
#include "os/atomic.h"
#include "os/callback.h"
#include "os/kept.h"
#include "os/machine.h"
#include "os/misuse.h"
#include "os/options.h"
#include "os/report.h"
#include "os/sink.h"
#include "os/stack.h"
#include "os/tools.h"

#define LONG_PLACES 4
#define LONG_BYTES  8192 /* stacks of 16 functions three times, and a dump */
#define PIECE	    4000 /* below PIPE_BUF */

enum long_state {
	LONG_FREE,
	LONG_CLAIMED,
	LONG_READY
};

struct os_long {
	uint32_t state;
	uint32_t length, written;
	uintptr_t by; /* the thread that made it; 0: any thread may write it */
	char text[LONG_BYTES];
};

static struct os_long long_reports[LONG_PLACES];

struct os_long *os_long_begin(const char *about, const char *kind)
{
	uint32_t n = os_misuse_count(about, kind);

	for (int i = 0; n && i < LONG_PLACES; i++) {
		struct os_long *report = &long_reports[i];
		uint32_t expected = LONG_FREE;

		if (!os_cmpxchg(&report->state, &expected, LONG_CLAIMED))
			continue;
		os_store_relaxed(&report->by, os_self());
		report->length = report->written = 0;
		return report;
	}
	if (n)
		os_kept_lost();
	return NULL;
}

void os_long_add(struct os_long *report, const char *format, ...)
{
	va_list arguments;
	size_t room;
	int length;

	if (!report)
		return;
	os_assert(os_peek(&report->state) == LONG_CLAIMED); /* LONG_REPORT-G1 */
	room = sizeof(report->text) - report->length;
	va_start(arguments, format);
	length = vsnprintf(report->text + report->length, room, format, arguments);
	va_end(arguments);
	if (length > 0)
		report->length += (uint32_t)((size_t)length < room ? (size_t)length : room - 1);
}

void os_long_stack(struct os_long *report, const uintptr_t *ip, unsigned int n)
{
	char frame[160];

	for (unsigned int i = 0; report && i < n; i++) {
		os_stack_frame(frame, sizeof(frame), ip[i]);
		os_long_add(report, " %s\n", frame);
	}
}

void os_long_end(struct os_long *report)
{
	if (!report)
		return;
	/* LONG_REPORT-G1 */
	os_assert(os_peek(&report->state) == LONG_CLAIMED && os_peek(&report->by) == os_self());
	/* The text may contain bytes without a value. */
	tools_open(report->text, sizeof(report->text));
	/* The text may have been cut off. */
	report->text[report->length - 1] = '\n';
	os_fetch_add_relaxed(&os_reports, 1);
	os_store_release(&report->state, LONG_READY);
	os_fetch_add(&os_reports_kept, 1);
}

/* The length of the next piece: whole lines, unless one is longer than a piece. */
static size_t next_piece(const struct os_long *report)
{
	const char *from = report->text + report->written;
	size_t left = report->length - report->written;
	const char *end = left > PIECE ? memrchr(from, '\n', PIECE) : NULL;

	return left <= PIECE ? left : end ? (size_t)(end - from) + 1 : PIECE;
}

/* False: nothing accepts more now. */
static bool write_pieces(struct os_long *report, bool may_wait, bool may_call, bool own)
{
	if (may_call && !report->written && os_callback_call(report->text, report->length))
		return true;
	while (report->written < report->length) {
		size_t length = next_piece(report), written;

		if (!(may_wait && own) && !os_sink_has_room(may_wait))
			return false;
		written = os_sink_write(report->text + report->written, length);
		if (!written)
			return false;
		report->written += (uint32_t)written;
		os_assert(report->written <= report->length); /* LONG_REPORT-G2 */
	}
	return true;
}

/* The program ends now: write the rest, even if that takes a wait. */
static void end_program(const struct os_long *report)
{
	os_sink_write_last(report->text + report->written, report->length - report->written);
	abort();
}

void os_long_write(bool may_wait, bool may_call, bool full)
{
	uintptr_t self = os_self();

	for (int i = 0; i < LONG_PLACES; i++) {
		struct os_long *report = &long_reports[i];
		uintptr_t by = os_load_relaxed(&report->by);
		uint32_t ready = LONG_READY;

		if ((by ? by != self : full) || !os_cmpxchg(&report->state, &ready, LONG_CLAIMED))
			continue;
		/* Counted before it is written: the callback may fork. */
		os_store_relaxed(&report->by, self);
		os_fetch_sub(&os_reports_kept, 1);
		if (!write_pieces(report, may_wait, may_call, by == self)) {
			if (may_wait && os_options.panic_on_warn)
				end_program(report);
			os_store_relaxed(&report->by, 0);
			os_store_release(&report->state, LONG_READY);
			os_fetch_add(&os_reports_kept, 1);
			continue;
		}
		os_store_release(&report->state, LONG_FREE);
		if (os_options.panic_on_warn)
			abort();
	}
}

/* This thread goes on with the places that it has claimed when fork() has returned. */
uint32_t os_long_after_fork(void)
{
	uint32_t n = 0;

	for (int i = 0; i < LONG_PLACES; i++)
		if (long_reports[i].by != os_self())
			long_reports[i].state = LONG_FREE;
		else if (long_reports[i].state == LONG_READY)
			n++;
	return n;
}
