/* SPDX-License-Identifier: MIT */
/* The queue of reports; see record.h. */
#include "os/report/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/assert.h"
#include "os/atomic.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/memory_tools.h"
#include "os/options/options.h"
#include "os/report/callback.h"
#include "os/report/report.h"
#include "os/report/sink.h"
#include "os/unwind/stack.h"

#define PREFIX	  "libsheaf: "
#define LINE_TEXT 510  /* of a line, without the stack */
#define PIECE	  4000 /* below PIPE_BUF */
#define PLACES	  (OS_RECORDS + 1)

/* The state of a place that is claimed: the thread that fills it, or writes it out. Is the report
 * ready, this bit as well; the bit alone: any thread may write it. */
#define FREE  ((uintptr_t)0)
#define READY ((uintptr_t)1)

static struct {
	struct os_record places[PLACES];
	uint32_t lost;
} queue OS_LARGE;

uint32_t os_reports, os_reports_kept;

/* --- making ----------------------------------------------------------------------------------- */

struct os_record *os_record_claim(bool last)
{
	for (int i = 0; i < (last ? PLACES : OS_RECORDS); i++) {
		struct os_record *record = &queue.places[i];
		uintptr_t expected = FREE;

		if (!os_cmpxchg(&record->state, &expected, os_self()))
			continue;
		record->length = record->written = 0;
		record->last = last;
		return record;
	}
	os_fetch_add(&queue.lost, 1);
	return NULL;
}

struct os_record *os_record_begin(const char *about, const char *kind)
{
	struct os_record *record = os_misuse_count(about, kind) ? os_record_claim(false) : NULL;

	if (record)
		record->last = os_options.panic_on_warn || os_wrong_pointer_ends;
	return record;
}

/* A byte stays for the line feed. */
static void append(struct os_record *record, size_t end, const char *format, va_list arguments)
{
	size_t room = end - record->length;
	int length = vsnprintf(record->text + record->length, room, format, arguments);

	os_assert(os_peek(&record->state) == os_self()); /* RECORD-Q1 */
	if (length > 0)
		record->length += (uint32_t)((size_t)length < room ? (size_t)length : room - 1);
}

void os_record_add(struct os_record *record, const char *format, ...)
{
	va_list arguments;

	if (!record)
		return;
	va_start(arguments, format);
	append(record, sizeof(record->text), format, arguments);
	va_end(arguments);
}

/* One line, whatever is in the names, options and paths that it tells. */
void os_record_line(struct os_record *record, const char *format, va_list arguments)
{
	if (!record)
		return;
	os_options_need();
	os_record_add(record, PREFIX);
	append(record, LINE_TEXT, format, arguments);
	os_make_plain(record->text, record->length);
}

void os_record_stack(struct os_record *record, const uintptr_t *ip, unsigned int n)
{
	char frame[160];

	for (unsigned int i = 0; record && i < n; i++) {
		os_stack_frame(frame, sizeof(frame), ip[i]);
		os_record_add(record, " %s\n", frame);
	}
}

/* Does the same text of this thread wait already? */
static bool waits(const struct os_record *record)
{
	for (const struct os_record *other = queue.places; other < queue.places + PLACES; other++)
		if (os_load_acquire(&other->state) == (os_self() | READY) &&
		    other->length == record->length &&
		    !memcmp(other->text, record->text, record->length))
			return true;
	return false;
}

static void make_ready(struct os_record *record, uintptr_t state)
{
	os_assert(os_peek(&record->state) == os_self()); /* RECORD-Q1, REPORT-T2 */
	os_store_release(&record->state, state);
	os_fetch_add(&os_reports_kept, 1);
}

void os_record_end(struct os_record *record, bool once)
{
	if (!record)
		return;
	os_assert(os_peek(&record->state) == os_self()); /* RECORD-Q1 */
	/* The text may contain bytes without a value. */
	tools_open(record->text, sizeof(record->text));
	if (!record->length || record->text[record->length - 1] != '\n')
		record->text[record->length++] = '\n';
	os_fetch_add_relaxed(&os_reports, 1);
	if (once && waits(record))
		os_store_release(&record->state, FREE);
	else
		make_ready(record, os_self() | READY);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* What the call that writes allows, and what it has found. */
struct writing {
	bool may_wait;
	bool may_call; /* the program's callback */
	bool full;     /* the descriptor accepts nothing now */
};

static bool has_room(struct writing *writing)
{
	writing->full = writing->full || !os_sink_has_room(writing->may_wait);
	return !writing->full;
}

/* The length of the next piece: whole lines, unless one is longer than a piece. */
static size_t next_piece(const struct os_record *record)
{
	const char *from = record->text + record->written;
	size_t left = record->length - record->written;
	const char *end = left > PIECE ? memrchr(from, '\n', PIECE) : NULL;

	return left <= PIECE ? left : end ? (size_t)(end - from) + 1 : PIECE;
}

/* Only for a report of its own, a call waits. False: nothing accepts more now. */
static bool write_pieces(struct os_record *record, struct writing *writing, bool own)
{
	while (record->written < record->length) {
		size_t written;

		if (!(writing->may_wait && own) && !has_room(writing))
			return false;
		written = os_sink_write(record->text + record->written, next_piece(record));
		if (!written)
			return false;
		record->written += (uint32_t)written;
		os_assert(record->written <= record->length); /* RECORD-Q2 */
	}
	return true;
}

/* False: it cannot be written now. The callback may leave without a return; then its place is free
 * when callback.c finds that. */
static bool write_out(struct os_record *record, struct writing *writing, bool own)
{
	if (writing->may_call && !record->written &&
	    os_callback_call(record->text, record->length, &record->state))
		return true;
	if (!write_pieces(record, writing, own))
		return false;
	os_store_release(&record->state, FREE);
	return true;
}

/* What nothing accepts, any thread may write: this one may end, or make no other call. */
static void write_record(struct os_record *record, struct writing *writing)
{
	uintptr_t state = os_load_relaxed(&record->state), self = os_self();
	bool own = state == (self | READY), last;

	if (!(own || (state == READY && !writing->full)) ||
	    !os_cmpxchg(&record->state, &state, self))
		return;
	/* Counted before it is written: the callback may fork. */
	os_fetch_sub(&os_reports_kept, 1);
	last = record->last;
	if (!write_out(record, writing, own)) {
		if (!last || !writing->may_wait) {
			make_ready(record, READY);
			return;
		}
		os_sink_write_last(record->text + record->written,
				   record->length - record->written);
	}
	if (last)
		abort();
}

static void write_lost(struct writing *writing)
{
	uint32_t lost = os_exchange(&queue.lost, 0);
	char line[80];
	size_t length = (size_t)snprintf(
		line, sizeof(line), PREFIX "%u more lines like the last ones are left out\n", lost);

	if (lost && !(writing->may_call && os_callback_call(line, length, NULL)) &&
	    !os_sink_write(line, length))
		os_fetch_add(&queue.lost, lost);
}

/* The reports of others, and the number of lost ones, are written only if the descriptor has
 * room. */
static void write_all(bool may_wait, bool may_call)
{
	OS_KEEP_ERRNO;
	struct writing writing = {may_wait, may_call, os_sink_was_full(may_wait)};

	for (int i = 0; i < PLACES; i++)
		write_record(&queue.places[i], &writing);
	if (os_load_relaxed(&queue.lost) && has_room(&writing))
		write_lost(&writing);
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

/* This thread continues with the places that it has claimed when fork() has returned. */
void os_records_after_fork(void)
{
	os_reports_kept = queue.lost = 0;
	for (int i = 0; i < PLACES; i++)
		if ((queue.places[i].state & ~READY) != os_self())
			queue.places[i].state = FREE;
		else if (queue.places[i].state & READY)
			os_reports_kept++;
}
