/* SPDX-License-Identifier: MIT */
/* Chains of links by hash; see index.h. */
#include "cache/index.h"

#include "page/pool.h"

static void insert(struct index *index, struct index_link *link)
{
	struct index_link **chain = &index->chains[link->hash & (index->nr_chains - 1)];

	link->next = *chain;
	link->from = chain;
	if (*chain)
		(*chain)->from = &link->next;
	*chain = link;
}

static void grow_index(struct index *index)
{
	struct index_link **old = index->chains, *link, *next;
	uint32_t nr_old = index->nr_chains, n = nr_old ? nr_old * 2 : INDEX_FIRST_CHAINS;

	index->chains = old ? pool_alloc(n * sizeof(*old)) : index->first_chains;
	if (!index->chains) {
		index->chains = old;
		return;
	}
	index->nr_chains = n;
	for (uint32_t i = 0; i < nr_old; i++)
		for (link = old[i]; link; link = next) {
			next = link->next;
			insert(index, link);
		}
	if (old && old != index->first_chains)
		pool_free(old, nr_old * sizeof(*old));
}

void index_add(struct index *index, struct index_link *link, uint32_t hash)
{
	if (index->nr_links++ >= index->nr_chains)
		grow_index(index);
	link->hash = hash;
	insert(index, link);
}

void index_remove(struct index *index, struct index_link *link)
{
	if (!link->from)
		return;
	*link->from = link->next;
	if (link->next)
		link->next->from = link->from;
	link->from = NULL;
	index->nr_links--;
}

static struct index_link *with_hash(struct index_link *link, uint32_t hash)
{
	while (link && link->hash != hash)
		link = link->next;
	return link;
}

struct index_link *index_find(const struct index *index, uint32_t hash)
{
	return index->nr_chains ? with_hash(index->chains[hash & (index->nr_chains - 1)], hash)
				: NULL;
}

struct index_link *index_next(const struct index_link *link)
{
	return with_hash(link->next, link->hash);
}

/* FNV-1a; its low bits select a chain. */
uint32_t index_hash(uint32_t hash, const void *bytes, size_t size)
{
	for (const unsigned char *byte = bytes; size > 0; byte++, size--)
		hash = (hash ^ *byte) * 0x01000193u;
	return hash;
}
