/* SPDX-License-Identifier: MIT */
/*
 * An index: what has a hash is found in a time that does not depend on how many there are.
 *
 *   chains[hash % number] --> link --> link --> NULL      each link knows the pointer that leads to it
 *
 * The chains are doubled, and all links dealt anew, when there are more links than chains. If there is
 * no memory for that the chains just grow longer: adding never fails.
 *
 * Locks: none of its own. Callers: src/cache/.
 */
#ifndef SHEAF_CACHE_INDEX_H
#define SHEAF_CACHE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#define INDEX_FIRST_CHAINS 16u

/* In what is found. All zero: in no index. */
struct index_link {
	struct index_link *next, **from;
	uint32_t hash;
};

/* All zero: empty. */
struct index {
	struct index_link **chains; /* pool memory, or the first ones */
	uint32_t nr_chains, nr_links;
	struct index_link *first_chains[INDEX_FIRST_CHAINS];
};

void index_add(struct index *index, struct index_link *link, uint32_t hash);
/* Nothing is done if it is in none. */
void index_remove(struct index *index, struct index_link *link);
/* The first one of this hash, and the one after it; or NULL. The youngest mostly come first. */
struct index_link *index_find(const struct index *index, uint32_t hash);
struct index_link *index_next(const struct index_link *link);

/* Hash of some bytes, or of one that goes on with more. */
#define INDEX_HASH 0x811c9dc5u
uint32_t index_hash(uint32_t hash, const void *bytes, size_t size);

#endif
