/* SPDX-License-Identifier: MIT */
/*
 * Statistics: a copy of the state of the process and its caches, one list of fields, and a printer
 * for each format that goes through the list.
 *
 *   read.c -> struct stats (copies in their own memory) -> text.c | json.c | prometheus.c -> out.c
 *
 * Invariants
 *  T1. No lock is held while pages are read, or while anything is written: the reader of a pipe may
 *      be slow.
 *  T2. stats_fields names every number of struct kmem_cache_stats once.
 *
 * Locks: OS_RANK_CACHES briefly, none for node lists. Callers: src/stats/.
 */
#ifndef SHEAF_STATS_STATS_H
#define SHEAF_STATS_STATS_H

#include <sheaf/debug.h>
#include <sheaf/stats.h>

#include "cache/cache.h"
#include "cache/past.h"
#include "stats/groups.h"
#include "stats/out.h"

enum stats_kind {
	STATS_SETTING,
	STATS_GAUGE,
	STATS_COUNTER, /* there are none unless events are counted */
};

struct stats_field {
	const char *name;
	size_t offset; /* in struct kmem_cache_stats */
	enum stats_kind kind;
	const char *help;
};

extern const struct stats_field stats_fields[];
extern const unsigned int stats_nr_fields;

static inline uint64_t stats_value(const struct kmem_cache_stats *of,
				   const struct stats_field *field)
{
	return *(const uint64_t *)((const char *)of + field->offset);
}

/* Not on the stack: a thread may have little. */
struct stats {
	struct sheaf_stats process;
	const char *backend, *index;
	char options[512];
	struct group_table groups;
	struct kmem_cache_stats past;	  /* for a printer: those of a destroyed cache */
	size_t room;			  /* bytes allocated */
	struct kmem_cache_stats caches[]; /* process.caches of them, oldest first */
};

/* Read everything. Returns NULL if there is no memory for it. */
struct stats *stats_read(void);
void stats_release(struct stats *stats);

/* Add up the words of every CPU, and the counts that are still in sheaves. The cache is pinned. */
void stats_read_cache(struct kmem_cache *s, struct kmem_cache_stats *out);

/* The counts of destroyed caches; returns the number of these caches. */
uint64_t stats_read_past(const struct past *past, struct kmem_cache_stats *out);

void stats_print_text(struct out *out, struct stats *stats);
void stats_print_json(struct out *out, struct stats *stats);
void stats_print_prometheus(struct out *out, const struct stats *stats);

/* In traces.c: those of one cache, or of all (NULL). Returns 0, or a negative error number. */
int traces_print(struct out *out, struct kmem_cache *s, enum sheaf_traces which,
		 enum sheaf_stats_format format);

#endif
