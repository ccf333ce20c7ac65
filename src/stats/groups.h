/* SPDX-License-Identifier: MIT */
/*
 * Groups for the printers: a copy of all numbers, the tree, and the bytes and objects of each group
 * by cache.
 *
 *   groups[0]: the root, then from the oldest to the youngest     parts[]: a hash of (group, cache)
 *
 * Locks: OS_RANK_GROUPS while numbers are copied. Callers: src/stats/, src/control/.
 */
#ifndef SHEAF_STATS_GROUPS_H
#define SHEAF_STATS_GROUPS_H

#include <sheaf/group.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/out.h"

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
	uint32_t n, nr_parts; /* nr_parts: a power of two */
	uint64_t left_out;    /* objects for which there was no room */
	size_t room;
	char *memory;
};

/* Read all. False: there is no memory. With no group, n is 0. */
bool groups_read(struct group_table *table);
void groups_release(struct group_table *table);

/* In group_print.c: */
void groups_print_text(struct out *out, const struct group_table *table);
/* An array of objects. */
void groups_print_json(struct out *out, const struct group_table *table);
void groups_print_prometheus(struct out *out, const struct group_table *table);

#endif
