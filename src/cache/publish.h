/* SPDX-License-Identifier: MIT */
/*
 * The description of this process for other processes, in the file of counters (os/counters.h).
 *
 *   head | area: descriptions of its caches, unregistered threads' counters, CPU 0's, ... | ...
 *
 * The head ends with the words about the process's memory (os/counters.h). An area has
 * nr_planes planes, one after the other, with nr_rows + 2 rows of 1 << row_shift bytes each. Place
 * i of every row, of 1 << slot_shift bytes, belongs to one cache. Each plane continues the words of
 * the previous one. Descriptions are in the first plane; in the same place of the second are the
 * names that share the cache, one per line, cut off at the end of the place. Rows of CPUs that
 * never ran are holes in the file. Readers must use read(), because an access to a hole through a
 * mapping fills it.
 *
 * Invariants
 *  PUBLISH-D1. version is stored last in the head, and all of it but nr_areas and those words never
 *      changes.
 *  PUBLISH-D2. A description's generation is odd while the description is written, and grows with
 *      each change.
 *  PUBLISH-D3. A cache's counters are zero before `id` says that the place belongs to it.
 *
 * Locks: OS_RANK_CACHES, held by the callers. Callers: src/cache/. tools/sheaf_tool/process.py
 * reads the same layout, identified by version.
 */
#ifndef SHEAF_CACHE_PUBLISH_H
#define SHEAF_CACHE_PUBLISH_H

#include <stdint.h>

#include "cache/events.h"
#include "cache/sizes.h"

#define PUBLISH_MAGIC	0x6665616873ULL /* "sheaf" */
#define PUBLISH_VERSION 10u
#define PUBLISH_NAME	128
#define PUBLISH_ALIASES (OS_PLANE_WORDS * sizeof(uint64_t)) /* bytes */

struct publish_head {
	uint64_t magic;
	uint32_t version;
	int32_t pid;
	uint32_t nr_rows, nr_areas, nr_nodes, nr_planes;
	uint32_t row_shift, slot_shift;
	uint32_t text_size; /* of the JSON text: backend, index, options, CPUs, names of numbers */
	uint16_t node_of_row[OS_MAX_ROWS];
	char text[1 << 14];
};

/* Values of STAT_SETTINGS. */
struct publish_settings {
#define PUBLISH_SETTING(name, help) uint32_t name;
	STAT_SETTINGS(PUBLISH_SETTING)
};

struct publish_cache {
	uint32_t generation;
	uint32_t id;	/* 0: no owner */
	uint32_t flags; /* see debug/flags.h */
	uint32_t unused;
	uint64_t limit; /* bytes */
	char name[PUBLISH_NAME];
	struct publish_settings now;
};

_Static_assert(sizeof(struct publish_head) <= OS_PROCESS_AT, "the words of the process follow");
_Static_assert(sizeof(struct publish_cache) <= OS_PLANE_WORDS * sizeof(uint64_t),
	       "a description fits its place");

/* Describe the process, when the first area is mapped. */
void publish_process(void);
/* The option `decay` has this value now, and was set by whom. */
void publish_decay(enum size_setter by);
/* Read the settings of a cache. */
void publish_read(struct publish_settings *to, const struct kmem_cache *s);
/* Describe a cache in its current state. */
void publish_cache(struct kmem_cache *s);
/* The cache is now also shared under this name. All names have the same handle, so it is unknown
 * which one is dropped later. */
void publish_alias(struct kmem_cache *s, const char *name);
/* Its sheaf capacity, or the limit of its barns, changed automatically. */
void publish_capacity(struct kmem_cache *s);
/* Its place no longer has an owner. */
void publish_end(struct kmem_cache *s);

const char *publish_backend(void);
const char *publish_index(void);

#endif
