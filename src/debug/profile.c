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
	struct profile_run *run, *runs; /* that of samples now; all */
	struct profile_row *buckets[BUCKETS];
} profile OS_LARGE;

/* What a row is of. */
struct profile_key {
	const struct profile_run *run;
	const char *name, *group;
	size_t size;
	const uintptr_t *ip;
	uint32_t n;
};

PROBE_COUNTER(otel_memory, alloc);
PROBE_COUNTER(otel_memory, free);

bool profile_is_watched(void)
{
	return os_load_relaxed(&sheaf_otel_memory_alloc_semaphore) ||
	       os_load_relaxed(&sheaf_otel_memory_free_semaphore);
}

/* Zeros; NULL: the memory is full. */
static void *take_bytes(size_t bytes, size_t most)
{
	size_t at = os_load_relaxed(&profile.used);

	bytes = (bytes + 63) & ~(size_t)63;
	do {
		if (!os_load_acquire(&profile.rows) || at + bytes > most)
			return NULL;
	} while (!os_cmpxchg(&profile.used, &at, at + bytes));
	return profile.rows + at;
}

/* PROFILE-J4 */
bool profile_begin(uint32_t mean)
{
	struct profile_run *run = profile.runs;

	if (!profile.rows)
		os_store_release(&profile.rows, os_map(ROWS_BYTES));
	while (run && run->mean != mean)
		run = run->next;
	if (!run && (run = take_bytes(sizeof(*run), ROWS_BYTES)) != NULL) {
		*run = (struct profile_run){profile.runs, mean, os_now_ms(), 0, 0};
		profile.runs = run;
	}
	if (run)
		os_store_release(&profile.run, run);
	return run;
}

struct profile_run *profile_run(void)
{
	return os_load_acquire(&profile.run);
}

void profile_leave_out(void)
{
	os_fetch_add_relaxed(&profile.left_out, 1);
}

uint64_t profile_left_out(void)
{
	return os_load_relaxed(&profile.left_out);
}

static uint64_t hash_of(const struct profile_key *key)
{
	const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t hash = (key->size * odd + key->n) ^ key->run->mean;

	for (uint32_t i = 0; i < key->n; i++)
		hash = ((hash ^ key->ip[i]) * odd) ^ hash >> 32;
	for (uint32_t i = 0; i < PROFILE_NAME && key->name[i]; i++)
		hash = (hash ^ (unsigned char)key->name[i]) * odd;
	for (uint32_t i = 0; i < PROFILE_GROUP && key->group[i]; i++)
		hash = (hash ^ (unsigned char)key->group[i]) * odd;
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

static bool is_row_of(const struct profile_row *row, uint64_t hash, const struct profile_key *key)
{
	return row->hash == hash && row->run == key->run && row->size == key->size &&
	       row->n == key->n && !strncmp(row->name, key->name, PROFILE_NAME - 1) &&
	       !strncmp(row->group, key->group, PROFILE_GROUP - 1) &&
	       !memcmp(row->ip, key->ip, key->n * sizeof(*key->ip));
}

static struct profile_row *find_row(struct profile_row *from, const struct profile_row *end,
				    uint64_t hash, const struct profile_key *key)
{
	for (struct profile_row *row = from; row != end; row = row->next)
		if (is_row_of(row, hash, key))
			return row;
	return NULL;
}

/* The memory of a row that another thread made first is lost. Rows of groups leave one half for
 * others. */
static struct profile_row *make_row(const struct profile_key *key)
{
	struct profile_row *row = take_bytes(sizeof(*row) + key->n * sizeof(*key->ip),
					     *key->group ? ROWS_BYTES / 2 : ROWS_BYTES);

	if (!row)
		return NULL;
	snprintf(row->name, sizeof(row->name), "%s", key->name);
	snprintf(row->group, sizeof(row->group), "%s", key->group);
	row->run = (struct profile_run *)(uintptr_t)key->run;
	row->size = key->size;
	row->weight = sample_weight(key->size, key->run->mean);
	row->n = key->n;
	memcpy(row->ip, key->ip, key->n * sizeof(*key->ip));
	return row;
}

static struct profile_row *row_of(const struct profile_key *key)
{
	uint64_t hash = hash_of(key);
	struct profile_row **bucket = &profile.buckets[hash % BUCKETS], *made = NULL, *found;
	struct profile_row *first = os_load_acquire(bucket), *end = NULL;

	for (;;) {
		found = find_row(first, end, hash, key);
		if (found)
			return found;
		if (!made && !(made = make_row(key)))
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

/* PROFILE-J3. Before `live` changes. */
static void keep_peak(struct profile_row *row)
{
	uint64_t samples = os_load_relaxed(&row->live.samples),
		 bytes = os_load_relaxed(&row->live.bytes);
	uint64_t peak = os_load_relaxed(&row->run->peak), kept_at = os_load_relaxed(&row->kept_at);

	if (kept_at == peak || !os_cmpxchg(&row->kept_at, &kept_at, peak))
		return;
	os_store_relaxed(&row->kept.samples, samples);
	os_store_relaxed(&row->kept.bytes, bytes);
}

const struct profile_sum *profile_peak(const struct profile_row *row)
{
	bool changed = os_load_relaxed(&row->kept_at) == os_load_relaxed(&row->run->peak);

	return changed ? &row->kept : &row->live;
}

static void add_to(struct profile_sum *sum, uint64_t samples, uint64_t bytes)
{
	os_fetch_add_relaxed(&sum->samples, samples);
	os_fetch_add_relaxed(&sum->bytes, bytes);
}

struct profile_row *profile_allocated(const void *object, const char *name, const char *group,
				      size_t size, size_t asked, const uintptr_t *ip, uint32_t n)
{
	struct profile_key key = {profile_run(), name, group, size, ip, n};
	struct profile_row *row = key.run ? row_of(&key) : NULL;

	if (!row && key.run && *group) {
		key.group = "";
		row = row_of(&key);
	}
	if (!row) {
		tell_no_room();
		profile_leave_out();
		return NULL;
	}
	keep_peak(row);
	add_to(&row->live, 1, asked);
	add_to(&row->all, 1, asked);
	probe_counted(otel_memory, alloc, object, size, row->weight);
	os_raise(&row->run->peak, os_fetch_add_relaxed(&row->run->live, row->weight) + row->weight);
	return row;
}

void profile_resized(struct profile_row *row, size_t before, size_t asked)
{
	keep_peak(row);
	add_to(&row->live, 0, asked - before);
	add_to(&row->all, 0, asked - before);
}

void profile_freed(struct profile_row *row, const void *object, size_t asked, bool elsewhere,
		   uint32_t ms)
{
	os_assert(os_peek(&row->live.samples)); /* PROFILE-J2 */
	keep_peak(row);
	add_to(&row->live, -(uint64_t)1, -(uint64_t)asked);
	os_fetch_add_relaxed(&row->freed, 1);
	os_fetch_add_relaxed(&row->elsewhere, elsewhere);
	os_fetch_add_relaxed(&row->lifetimes, ms);
	os_fetch_add_relaxed(&row->run->live, -row->weight);
	probe_counted(otel_memory, free, object);
}
