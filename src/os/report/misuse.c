/* SPDX-License-Identifier: MIT */
/* Reports of misuse; see report.h. */
#include "os/report/report.h"

#include <stdarg.h>
#include <stdbool.h>

#include "os/options/options.h"
#include "os/report/record.h"
#include "os/report/sink.h"
#include "os/unwind/stack.h"

#define IN_FULL 5 /* reports of a kind that are all written */

/* How many reports of each kind there were, by hash. Pages that no kind uses are never touched. A
 * kind has one of the TRIES places from its hash on; those that find none share the last place. */
#define KINDS	  4096
#define MOST_USED (KINDS - 1)
#define TRIES	  64 /* the first 3000 kinds or so find a place, and a report is left out in 0.3 µs */
static struct {
	uint64_t kind; /* 0: free */
	uint32_t count;
} seen[KINDS] OS_LARGE;
static uint32_t used, reported_full, left_out;

/* FNV-1a; never 0. */
static uint64_t kind_of(const char *about, const char *format)
{
	uint64_t hash = UINT64_C(14695981039346656037) ^ (uintptr_t)format;

	for (; about && *about; about++)
		hash = (hash ^ (uint8_t)*about) * UINT64_C(1099511628211);
	return hash ? hash : 1;
}

/* The place of this kind, from its hash on. */
static unsigned int place_of_kind(uint64_t kind)
{
	for (unsigned int tried = 0; tried < TRIES; tried++) {
		unsigned int i = (unsigned int)((kind + tried) % MOST_USED);
		uint64_t there = os_load_relaxed(&seen[i].kind);

		if (!there && os_cmpxchg(&seen[i].kind, &there, kind)) {
			os_fetch_add_relaxed(&used, 1);
			return i;
		}
		if (there == kind)
			return i;
	}
	os_report_once_later(&reported_full,
			     "too many kinds of misuse, counted separately for each cache: further "
			     "ones are counted as one kind, most of whose reports are left out");
	return MOST_USED;
}

static bool is_power_of_ten(uint32_t n)
{
	while (n % 10 == 0)
		n /= 10;
	return n == 1;
}

uint32_t os_misuse_count(const char *about, const char *format)
{
	unsigned int place = place_of_kind(kind_of(about, format));
	uint32_t n = os_fetch_add_relaxed(&seen[place].count, 1) + 1;

	if (n <= IN_FULL || is_power_of_ten(n))
		return n;
	os_fetch_add_relaxed(&os_reports, 1);
	os_fetch_add_relaxed(&left_out, 1);
	return 0;
}

/* With the stack of this call: another one, of another thread, may write the line. */
static void keep_misuse(uint32_t n, bool ends, const char *format, va_list arguments)
{
	OS_KEEP_ERRNO;
	struct os_record *record = n ? os_record_claim(false) : NULL;
	char stack[412];

	if (record) {
		os_record_line(record, format, arguments);
		if (n > IN_FULL)
			os_record_add(record, " (number %u of such reports; most are left out)", n);
		if (os_stack(stack, sizeof(stack)))
			os_record_add(record, "; called from%s", stack);
		record->last = ends || os_options.panic_on_warn;
		os_record_end(record, false);
	}
}

void os_misuse(const char *about, const char *format, ...)
{
	uint32_t n = os_misuse_count(about, format);
	va_list arguments;

	os_report_kept();
	va_start(arguments, format);
	keep_misuse(n, false, format, arguments);
	va_end(arguments);
	os_write_kept();
}

void os_misuse_later(const char *about, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	keep_misuse(os_misuse_count(about, format), false, format, arguments);
	va_end(arguments);
}

uint32_t os_wrong_pointer_ends;

void os_misuse_pointer_later(const char *about, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	keep_misuse(os_misuse_count(about, format), os_wrong_pointer_ends, format, arguments);
	va_end(arguments);
}

/* At exit, do not wait for a reader of standard error. */
void os_misuse_left_out(void)
{
	uint32_t n = os_load_relaxed(&left_out);

	if (n && os_sink_has_room(true))
		os_report("%u reports of misuse were left out: for each kind, the first %d, the "
			  "10th, the 100th and so on were written",
			  n, IN_FULL);
}

void os_misuse_forget(void)
{
	for (int i = 0; i < KINDS && os_load_relaxed(&used); i++)
		if (os_load_relaxed(&seen[i].count))
			os_store_relaxed(&seen[i].count, 0);
	os_store_relaxed(&left_out, 0);
}
