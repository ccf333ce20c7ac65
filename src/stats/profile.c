/* SPDX-License-Identifier: MIT */
/*
 * The heap profile (debug/profile.h) as JSON: raw samples, of which `sheaf profile` makes
 * estimates. tools/sheaf_tool/profile/raw.py describes the form. And SHEAF_OPTIONS=profile_leaks:
 * estimates of what is in use at exit.
 *
 * Stacks come first, and number their rows; what has no number yet when the rows follow is left
 * out, and what was sampled with another mean. One thread at a time prints.
 */
#include "debug/profile.h"

#include <inttypes.h>

#include "debug/guard_slot.h"
#include "os/report/record.h"
#include "os/report/report.h"
#include "stats/stats.h"

static void print_stacks(struct out *out, const struct profile_run *run)
{
	uint32_t n = 0;

	for (struct profile_row *row = profile_next(NULL); row; row = profile_next(row)) {
		row->number = 0;
		if (row->run != run)
			continue;
		out_print(out, n ? "],\n[" : "\n[");
		for (uint32_t i = 0; i < row->n; i++)
			out_print(out, "%s\"%zx\"", i ? "," : "", (size_t)row->ip[i]);
		row->number = ++n;
	}
	out_print(out, n ? "]" : "");
}

static void print_sum(struct out *out, const char *name, const struct profile_sum *sum)
{
	out_print(out, ",\"%s\":[%" PRIu64 ",%" PRIu64 "]", name, os_load_relaxed(&sum->samples),
		  os_load_relaxed(&sum->bytes));
}

static void print_profile_row(struct out *out, const struct profile_row *row)
{
	uint64_t elsewhere = os_load_relaxed(&row->elsewhere), freed = os_load_relaxed(&row->freed);

	out_print(out, "%s{\"stack\":%u,\"cache\":", row->number > 1 ? ",\n" : "\n",
		  row->number - 1);
	out_quoted(out, row->name);
	if (*row->group) {
		out_print(out, ",\"group\":");
		out_quoted(out, row->group);
	}
	out_print(out, ",\"size\":%zu", row->size);
	print_sum(out, "live", &row->live);
	print_sum(out, "all", &row->all);
	print_sum(out, "peak", profile_peak(row));
	/* Another thread may count a free just now. */
	out_print(out,
		  ",\"freed\":%" PRIu64 ",\"elsewhere\":%" PRIu64 ",\"lifetime_ms\":%" PRIu64 "}",
		  freed, elsewhere < freed ? elsewhere : freed, os_load_relaxed(&row->lifetimes));
}

/* The object may be freed at the same time: then it is listed all the same, or its successor. */
static OS_NO_TSAN TOOLS_LOOK bool print_sample(struct out *out, const char *between,
					       const volatile struct guard_notes *notes)
{
	const volatile struct debug_track *track = &notes->tracks[DEBUG_ALLOCATED];
	const struct profile_row *row = notes->row;

	if (!row || !row->number)
		return false;
	out_print(out, "%s[%zu,%u,%u,%u]", between, notes->asked, row->number - 1, track->thread,
		  track->when);
	return true;
}

static void print_samples(struct out *out)
{
	const char *between = "\n";

	guard_for_each (slot)
		if (guard_is_live(slot) && print_sample(out, between, guard_notes_of(slot)))
			between = ",\n";
}

void profile_print_json(struct out *out)
{
	const struct profile_run *run = profile_run();

	out_print(out,
		  "{\"profile\":1,\"on\":%s,\"mean\":%u,\"began_ms\":%u,\"now_ms\":%u,\"full\":"
		  "%" PRIu64 ",\"stacks\":[",
		  profile_is_on() ? "true" : "false", run->mean, run->began, os_now_ms(),
		  profile_left_out());
	print_stacks(out, run);
	out_print(out, "],\n\"rows\":[");
	for (struct profile_row *row = profile_next(NULL); row; row = profile_next(row))
		if (row->number)
			print_profile_row(out, row);
	out_print(out, "],\n\"samples\":[");
	print_samples(out);
	out_print(out, "]}\n");
}

/* --- at exit ---------------------------------------------------------------------------------- */

#define MOST_STACKS 32

static uint64_t estimate(const struct profile_row *row, uint64_t samples)
{
	return (uint64_t)((double)samples * (double)row->weight / (double)row->size);
}

static uint64_t bytes_in_use(const struct profile_row *row)
{
	return estimate(row, os_load_relaxed(&row->live.bytes));
}

static bool is_before(const struct profile_row *a, const struct profile_row *b)
{
	uint64_t x = bytes_in_use(a), y = bytes_in_use(b);

	return x > y || (x == y && a < b);
}

/* The row with the most bytes in use after this one, or, after NULL, of all. */
static const struct profile_row *next_in_use(const struct profile_row *last)
{
	const struct profile_row *found = NULL;

	for (struct profile_row *row = profile_next(NULL); row; row = profile_next(row))
		if (os_load_relaxed(&row->live.samples) && (!last || is_before(last, row)) &&
		    (!found || is_before(row, found)))
			found = row;
	return found;
}

static void report_in_use(const struct profile_row *row)
{
	unsigned long long samples = os_load_relaxed(&row->live.samples);
	struct os_record *report = os_record_claim(false);

	os_record_add(report,
		      "libsheaf: LEAK %s: about %llu bytes in %llu objects in use at exit, by %llu "
		      "sample%s of this stack:\n",
		      row->name, (unsigned long long)bytes_in_use(row),
		      (unsigned long long)estimate(row, samples), samples, os_plural(samples));
	os_record_stack(report, row->ip, row->n);
	os_record_end(report, false);
	os_report_kept();
}

void profile_leaks_at_exit(void)
{
	uint64_t bytes = 0, samples = 0;
	const struct profile_row *row;

	for (row = profile_next(NULL); row; row = profile_next(row)) {
		bytes += bytes_in_use(row);
		samples += os_load_relaxed(&row->live.samples);
	}
	os_report("LEAK: about %" PRIu64 " bytes in use at exit, by %" PRIu64 " sample%s; %" PRIu64
		  " more were left out",
		  bytes, samples, os_plural(samples), profile_left_out());
	for (int n = 0; n < MOST_STACKS && (row = next_in_use(row)) != NULL; n++)
		report_in_use(row);
}
