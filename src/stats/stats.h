/* SPDX-License-Identifier: MIT */
/*
 * Statistics: a copy of the state of the process and its caches, one list of fields, and a printer
 * for each format that goes through the list.
 *
 *   process_stats.c, read.c, slabs.c, groups.c -> struct stats (copies in their own memory)
 *       -> text.c | json.c | prometheus.c, by the tables of fields.c -> out.c
 *
 * Invariants
 *  STATS-T1. No lock is held while pages are read, or while anything is written: the reader of a
 *      pipe may be slow.
 *  STATS-T2. A table names every number of a public structure once. Argued: assertions in fields.c
 *      count both.
 *
 * Locks: OS_RANK_CACHES briefly, OS_RANK_GROUPS while numbers of groups are copied; none for node
 * lists. Callers: src/stats/, src/control/.
 */
#ifndef SHEAF_STATS_STATS_H
#define SHEAF_STATS_STATS_H

#include <sheaf/debug.h>
#include <sheaf/group.h>
#include <sheaf/stats.h>

#include "cache/destroyed_stats.h"
#include "cache/paths.h"
#include "stats/out.h"

enum stats_kind {
	STATS_SETTING = 1,
	STATS_GAUGE = 2,
	STATS_COUNTER = 4, /* there are none unless events are counted */
};

struct stats_field {
	char name[24]; /* empty: the table ends */
	uint16_t offset;
	uint8_t kind;		   /* enum stats_kind */
	char metric[48], help[80]; /* for Prometheus */
	bool bytes;		   /* for text: a size, of a table of the process */
};

/* Of struct sheaf_stats, struct kmem_cache_stats and struct group_row. Without pointers: the loader
 * need not relocate them. */
extern const struct stats_field stats_of_process[];
extern const struct stats_field stats_of_cache[];
extern const struct stats_field stats_of_group[];

static inline uint64_t stats_value(const void *of, const struct stats_field *field)
{
	return *(const uint64_t *)(const void *)((const char *)of + field->offset);
}

/*
 * Groups for the printers: a copy of all numbers, the tree, and the bytes and objects of each group
 * by cache.
 *
 *   groups[0]: the root, then from the oldest to the youngest     parts[]: a hash of (group, cache)
 */
#define GROUPS_CACHE_NAME 48

/* The objects of one group in one cache. */
struct group_part {
	const void *cache; /* its slab_cache; that of kmalloc_large for large blocks */
	uint64_t bytes, objects;
	uint32_t group; /* its place in groups[], plus one; 0: unused */
	uint32_t next;	/* of the same group, plus one */
	char name[GROUPS_CACHE_NAME];
};

struct group_row {
	struct kmem_group_stats stats;
	uint64_t own_bytes, own_objects; /* of objects that it owns itself */
	const void *group;
	uint32_t parts; /* the first one, plus one */
	uint32_t child, next,
		from; /* in the tree, plus one: first child, next of its parent, parent */
};

struct group_table {
	struct group_row *groups;
	struct group_part *parts;
	uint32_t n, most;  /* groups, and how many there is room for */
	uint32_t nr_parts; /* a power of two */
	uint64_t left_out; /* objects for which there was no room */
	size_t room;
	char *memory;
};

/* Read all. False: there is no memory. With no group, n is 0. */
bool groups_read(struct group_table *table);
void groups_release(struct group_table *table);

/* Not on the stack: a thread may have little. */
struct stats {
	struct sheaf_stats process;
	const char *backend, *index;
	char options[512];
	struct group_table groups;
	struct kmem_cache_stats destroyed; /* for a printer: those of a destroyed cache */
	size_t room;			   /* bytes allocated */
	struct kmem_cache_stats caches[];  /* process.caches of them, oldest first */
};

/* Read everything. Returns NULL if there is no memory for it. */
struct stats *stats_read(void);
void stats_release(struct stats *stats);

/* In process_stats.c: the figures of the process; and a copy for a program that may have been built
 * with another version of the structure, of `size` bytes. */
void stats_read_process(struct sheaf_stats *out);
void stats_copy(void *out, size_t size, const void *all, size_t known);

/* Add up the words of every CPU, and the counts that are still in sheaves. The cache is pinned. */
void stats_read_cache(struct kmem_cache *s, struct kmem_cache_stats *out);

/* The counts of destroyed caches; returns the number of these caches. */
uint64_t stats_read_destroyed(const struct destroyed_stats *entry, struct kmem_cache_stats *out);

/*
 * The slabs of many caches, in one pass over the descriptors of all pages: in a heap of 10 TiB
 * these are 80 GiB, and a pass takes seconds, so there must not be one for each cache.
 */
/* A cache, as long as it was pinned; it may be gone when its slabs are counted. */
struct stats_slabs {
	const struct slab_cache *cache; /* compared, not read */
	struct slab_order oo, min;
	uint64_t resting; /* objects in quarantine, which are not in use */
	struct kmem_cache_stats *out;
};

/* Add the slabs of these caches to what `out` has. Sorts the array. */
void stats_add_slabs(struct stats_slabs *of, size_t n);

void stats_print_text(struct out *out, struct stats *stats);
void stats_print_json(struct out *out, struct stats *stats);
void stats_print_prometheus(struct out *out, const struct stats *stats);
/* In json.c: an array of objects. */
void groups_print_json(struct out *out, const struct group_table *table);

/* In profile.c: the raw samples of the heap profile. */
void profile_print_json(struct out *out);

/* In traces.c: those of the caches that know users and that pass the filter, unless it is NULL.
 * Returns how many these are, or a negative error number. */
typedef bool traces_filter(const void *data, const struct kmem_cache *s);
int traces_print(struct out *out, traces_filter *filter, const void *data, enum sheaf_traces which,
		 enum sheaf_stats_format format);

#endif
