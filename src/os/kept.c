/* SPDX-License-Identifier: MIT */
/* Lines that are kept; see kept.h. */
#include "os/kept.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "os/assert.h"
#include "os/atomic.h"
#include "os/lock.h"
#include "os/long_report.h"
#include "os/machine.h"
#include "os/report.h"
#include "os/sink.h"

#define ANYBODY 0

enum {
	FREE,
	CLAIMED, /* a thread fills it, or writes it out */
	READY
};

static struct {
	struct os_kept places[OS_KEPT];
	uint32_t left_out;
} kept;

uint32_t os_reports_kept;

void os_kept_lost(void)
{
	os_fetch_add(&kept.left_out, 1);
}

struct os_kept *os_kept_claim(void)
{
	for (int i = 0; i < OS_KEPT; i++) {
		uint32_t expected = FREE;

		if (!os_cmpxchg(&kept.places[i].state, &expected, CLAIMED))
			continue;
		os_store_relaxed(&kept.places[i].by, os_self());
		return &kept.places[i];
	}
	os_kept_lost();
	return NULL;
}

static bool is_by(int i, uintptr_t thread)
{
	return os_load_acquire(&kept.places[i].state) == READY &&
	       os_load_relaxed(&kept.places[i].by) == thread;
}

void os_kept_add(struct os_kept *place)
{
	os_assert(os_peek(&place->state) == CLAIMED); /* REPORT-T2 */
	os_store_release(&place->state, READY);
	os_fetch_add(&os_reports_kept, 1);
}

/* Does this line of the thread wait already? */
static bool has_line(const struct os_line *line, uintptr_t thread)
{
	for (int i = 0; i < OS_KEPT; i++)
		if (is_by(i, thread) && kept.places[i].line.length == line->length &&
		    !memcmp(kept.places[i].line.text, line->text, line->length))
			return true;
	return false;
}

void os_kept_add_once(struct os_kept *place)
{
	if (has_line(&place->line, place->by))
		os_store_release(&place->state, FREE);
	else
		os_kept_add(place);
}

void os_kept_copy(const struct os_line *line)
{
	struct os_kept *place = os_kept_claim();

	if (!place)
		return;
	place->line = *line;
	os_store_relaxed(&place->by, ANYBODY);
	os_kept_add(place);
}

/* Let any thread write the line: this one may end, or make no other call. */
static void leave_line(int i, uintptr_t self)
{
	if (is_by(i, self))
		os_store_relaxed(&kept.places[i].by, ANYBODY);
}

/* Copy the line, so that its place is free however long the writing takes. Claim it first: a signal
 * handler may interrupt, and takes this thread's lines, too. */
static bool take_line(int i, struct os_line *line)
{
	uint32_t ready = READY;

	if (!os_cmpxchg(&kept.places[i].state, &ready, CLAIMED))
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
	struct os_line line;
	uint32_t left_out = 0;
	uintptr_t self = os_self();
	bool full = os_sink_was_full(may_wait);

	for (int i = 0; i < OS_KEPT; i++) {
		bool own = is_by(i, self), asks = !(may_wait && own);

		if (!own && (full || !is_by(i, ANYBODY)))
			continue;
		if (asks)
			full = full || !os_sink_has_room(may_wait);
		if (asks && full)
			leave_line(i, self);
		else if (take_line(i, &line) && !os_line_write(&line, may_call))
			os_kept_copy(&line);
	}
	os_long_write(may_wait, may_call, full);
	if (os_load_relaxed(&kept.left_out) && !full && os_sink_has_room(may_wait))
		left_out = os_exchange(&kept.left_out, 0);
	if (left_out) {
		line.length = (size_t)snprintf(
			line.text, sizeof(line.text),
			OS_LINE_PREFIX "%u more lines like the last ones are left out\n", left_out);
		line.last = false;
		if (!os_line_write(&line, may_call))
			os_fetch_add(&kept.left_out, left_out);
	}
	errno = saved;
}

void os_write_kept(void)
{
	os_assert(os_holds_nothing("reports")); /* REPORT-T1 */
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

uint32_t os_kept_after_fork(void)
{
	uint32_t left = 0;

	kept.left_out = 0;
	for (int i = 0; i < OS_KEPT; i++)
		if (is_by(i, os_self()))
			left++;
		else
			kept.places[i].state = FREE;
	return left;
}
