/* SPDX-License-Identifier: MIT */
/* Rows of the heap profile; see profile.h. */
#include "debug/profile.h"

#include <stdio.h>
#include <string.h>

#include "debug/sample.h"
#include "os/assert.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/probe.h"
#include "os/report/report.h"

#define BUCKETS	   4096u
#define ROWS_BYTES ((size_t)16 << 20)

static struct {
	char *rows; /* ROWS_BYTES, one row after the other; touched as they are made */
	size_t used;
	uint64_t left_out;
	uint32_t reported;
	uint64_t live, peak; /* bytes that the samples in use stand for; the most of them */
	uint32_t began;	     /* in ms, with this mean */
	uint32_t mean;
	struct profile_row *buckets[BUCKETS];
} profile OS_LARGE;

PROBE_COUNTER(otel_memory, alloc);
PROBE_COUNTER(otel_memory, free);

bool profile_is_watched(void)
{
	return os_load_relaxed(&sheaf_otel_memory_alloc_semaphore) ||
	       os_load_relaxed(&sheaf_otel_memory_free_semaphore);
}

void profile_begin(void)
{
	if (profile.mean != os_options.sample)
		os_store_relaxed(&profile.began, os_now_ms() | 1);
	profile.mean = os_options.sample;
	if (!profile.rows)
		os_store_release(&profile.rows, os_map(ROWS_BYTES));
}

uint32_t profile_began(void)
{
	return os_load_relaxed(&profile.began);
}

void profile_leave_out(void)
{
	os_fetch_add_relaxed(&profile.left_out, 1);
}

uint64_t profile_left_out(void)
{
	return os_load_relaxed(&profile.left_out);
}

static uint64_t hash_of(const char *name, size_t size, const uintptr_t *ip, uint32_t n)
{
	const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t hash = (size * odd + n) ^ os_load_relaxed(&os_options.sample);

	for (uint32_t i = 0; i < n; i++)
		hash = ((hash ^ ip[i]) * odd) ^ hash >> 32;
	for (uint32_t i = 0; i < PROFILE_NAME && name[i]; i++)
		hash = (hash ^ (unsigned char)name[i]) * odd;
	return hash ^ hash >> 32;
}

static void tell_no_room(void)
{
	os_report_once_later(
		&profile.reported,
		"profile: %s; samples of further stacks are left out, so figures are too low. "
		"Start the program with a larger mean, profile=N: fewer samples have fewer stacks",
		profile.rows ? "the 16 MiB for stacks are full" : "no memory for stacks");
}

static bool is_row_of(const struct profile_row *row, uint64_t hash, const char *name, size_t size,
		      const uintptr_t *ip, uint32_t n)
{
	return row->hash == hash && row->size == size && row->n == n &&
	       row->mean == os_load_relaxed(&os_options.sample) &&
	       !strncmp(row->name, name, PROFILE_NAME - 1) && !memcmp(row->ip, ip, n * sizeof(*ip));
}

static struct profile_row *find_row(struct profile_row *from, const struct profile_row *end,
				    uint64_t hash, const char *name, size_t size,
				    const uintptr_t *ip, uint32_t n)
{
	for (struct profile_row *row = from; row != end; row = row->next)
		if (is_row_of(row, hash, name, size, ip, n))
			return row;
	return NULL;
}

/* The memory of a row that another thread made first is lost. */
static struct profile_row *make_row(const char *name, size_t size, const uintptr_t *ip, uint32_t n)
{
	size_t bytes = (sizeof(struct profile_row) + n * sizeof(*ip) + 63) & ~(size_t)63;
	size_t at = os_load_relaxed(&profile.used);
	struct profile_row *row;

	do {
		if (!os_load_acquire(&profile.rows) || at + bytes > ROWS_BYTES)
			return NULL;
	} while (!os_cmpxchg(&profile.used, &at, at + bytes));
	row = (struct profile_row *)(void *)(profile.rows + at);
	snprintf(row->name, sizeof(row->name), "%s", name);
	row->size = size;
	row->mean = os_load_relaxed(&os_options.sample);
	row->weight = sample_weight(size);
	row->n = n;
	memcpy(row->ip, ip, n * sizeof(*ip));
	return row;
}

static struct profile_row *row_of(const char *name, size_t size, const uintptr_t *ip, uint32_t n)
{
	uint64_t hash = hash_of(name, size, ip, n);
	struct profile_row **bucket = &profile.buckets[hash % BUCKETS], *made = NULL, *found;
	struct profile_row *first = os_load_acquire(bucket), *end = NULL;

	for (;;) {
		found = find_row(first, end, hash, name, size, ip, n);
		if (found)
			return found;
		if (!made && !(made = make_row(name, size, ip, n)))
			return NULL;
		made->hash = hash;
		made->next = end = first;
		if (os_cmpxchg(bucket, &first, made))
			return made;
	}
}

struct profile_row *profile_next(const struct profile_row *row)
{
	size_t i = row ? row->hash % BUCKETS + 1 : 0;

	if (row && row->next)
		return row->next;
	for (; i < BUCKETS; i++)
		if (os_load_acquire(&profile.buckets[i]))
			return profile.buckets[i];
	return NULL;
}

/* PROFILE-J3 */
static void note_peak(uint64_t live)
{
	uint64_t peak = os_load_relaxed(&profile.peak);

	do {
		if (live < peak + peak / 32)
			return;
	} while (!os_cmpxchg(&profile.peak, &peak, live));
	for (struct profile_row *row = profile_next(NULL); row; row = profile_next(row)) {
		os_store_relaxed(&row->peak.samples, os_load_relaxed(&row->live.samples));
		os_store_relaxed(&row->peak.bytes, os_load_relaxed(&row->live.bytes));
	}
}

static void add_to(struct profile_sum *sum, uint64_t samples, uint64_t bytes)
{
	os_fetch_add_relaxed(&sum->samples, samples);
	os_fetch_add_relaxed(&sum->bytes, bytes);
}

struct profile_row *profile_allocated(const void *object, const char *name, size_t size,
				      size_t asked, const uintptr_t *ip, uint32_t n)
{
	struct profile_row *row = row_of(name, size, ip, n);

	if (!row) {
		tell_no_room();
		profile_leave_out();
		return NULL;
	}
	add_to(&row->live, 1, asked);
	add_to(&row->all, 1, asked);
	probe_counted(otel_memory, alloc, object, size, row->weight);
	note_peak(os_fetch_add_relaxed(&profile.live, row->weight) + row->weight);
	return row;
}

void profile_resized(struct profile_row *row, size_t before, size_t asked)
{
	add_to(&row->live, 0, asked - before);
	add_to(&row->all, 0, asked - before);
}

void profile_freed(struct profile_row *row, const void *object, size_t asked, bool elsewhere,
		   uint32_t ms)
{
	os_assert(os_peek(&row->live.samples)); /* PROFILE-J2 */
	add_to(&row->live, -(uint64_t)1, -(uint64_t)asked);
	os_fetch_add_relaxed(&row->freed, 1);
	os_fetch_add_relaxed(&row->elsewhere, elsewhere);
	os_fetch_add_relaxed(&row->lifetimes, ms);
	os_fetch_add_relaxed(&profile.live, -row->weight);
	probe_counted(otel_memory, free, object);
}
