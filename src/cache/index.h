/* SPDX-License-Identifier: MIT */
/*
 * An index: finds entries by hash, in a time that does not depend on their number.
 *
 *   chains[hash % number] --> link --> link --> NULL      each link has the pointer's address
 *
 * When there are more links than chains, the number of chains doubles and all links are
 * redistributed. If there is no memory for that, the chains grow longer: adding never fails.
 *
 * Locks: none here. Callers: src/cache/.
 */
#ifndef SHEAF_CACHE_INDEX_H
#define SHEAF_CACHE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#define INDEX_FIRST_CHAINS 16u

/* Part of an indexed structure. All zero: not in an index. */
struct index_link {
	struct index_link *next, **from;
	uint32_t hash;
};

/* All zero: empty. */
struct index {
	struct index_link **chains; /* pool memory, or first_chains */
	uint32_t nr_chains, nr_links;
	struct index_link *first_chains[INDEX_FIRST_CHAINS];
};

void index_add(struct index *index, struct index_link *link, uint32_t hash);
/* Does nothing if the link is not in an index. */
void index_remove(struct index *index, struct index_link *link);
/*
 * Return the first link with this hash, the one after it, or NULL. Usually the youngest are first.
 */
struct index_link *index_find(const struct index *index, uint32_t hash);
struct index_link *index_next(const struct index_link *link);

/* Hash some bytes; `hash` is INDEX_HASH, or the result for the bytes before. */
#define INDEX_HASH 0x811c9dc5u
uint32_t index_hash(uint32_t hash, const void *bytes, size_t size);

#endif
