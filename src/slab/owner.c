/* SPDX-License-Identifier: MIT */
/* Arrays of owners; see owner.h. */
#include "slab/owner.h"

#include <string.h>

#include "os/assert.h"
#include "os/lock.h"
#include "os/machine.h"
#include "page/pool.h"

struct os_lock owners_lock = OS_LOCK_INIT(OS_RANK_OWNERS);

/* Numbers of a page. */
static unsigned int per_page(const struct slab_cache *cache)
{
	return (unsigned int)OS_PAGE >> owner_shift(cache);
}

static size_t owners_size(const struct slab_cache *cache, unsigned int order)
{
	return (per_page(cache) * sizeof(uint32_t)) << order;
}

/* Others change other bits of the first page's state meanwhile. */
static bool make_owners(const struct slab_cache *cache, struct slab *slab, bool wait)
{
	unsigned int order = slab_order_of(cache, os_load_acquire(&slab->state)).order;
	uint32_t *array = (wait ? pool_alloc : pool_alloc_try)(owners_size(cache, order));

	os_assert(os_peek(&pages.words_usable)); /* since before the first group */
	if (!array)
		return false;
	memset(array, 0xff, owners_size(cache, order));
	for (unsigned int i = 0; i < 1u << order; i++) {
		os_store_relaxed(owner_word(cache, slab + i),
				 (uint64_t)(uintptr_t)(array + i * per_page(cache)));
		os_fetch_or(&slab[i].state, SLAB_OWNED);
	}
	return true;
}

bool owner_make(const struct slab_cache *cache, const void *object, bool wait)
{
	struct slab *slab;
	bool made;

	if (owner_at(cache, object))
		return true;
	slab = page_slab(object);
	if (!slab || os_load_relaxed(&slab->cache) != cache)
		return false;
	if (wait)
		os_lock(&owners_lock);
	else if (!os_trylock(&owners_lock))
		return false;
	made = owner_at(cache, object) || make_owners(cache, slab, wait);
	os_unlock(&owners_lock);
	return made;
}

void owner_end(const struct slab_cache *cache, struct slab *slab)
{
	uint64_t state = os_load_relaxed(&slab->state);
	unsigned int order = slab_order_of(cache, state).order;
	void *array;

	if (!(state & SLAB_OWNED))
		return;
	/* look_at() may be reading the array. */
	os_lock(&owners_lock);
	array = (void *)(uintptr_t)os_load_relaxed(owner_word(cache, slab));
	for (unsigned int i = 0; i < 1u << order; i++) {
		os_fetch_and(&slab[i].state, ~SLAB_OWNED);
		/* The place is one of bits again, or of a link. */
		os_store_relaxed(owner_word(cache, slab + i), 0);
	}
	os_unlock(&owners_lock);
	pool_free(array, owners_size(cache, order));
}

static void look_at(struct slab *page, owner_look *look, void *data)
{
	struct slab_cache *cache;
	uint32_t *numbers;

	if (!(os_load_relaxed(&page->state) & SLAB_OWNED))
		return;
	/* Its owners cannot end meanwhile, and the slab cannot be freed before. */
	os_lock(&owners_lock);
	if (os_load_acquire(&page->state) & SLAB_OWNED) {
		cache = os_load_relaxed(&page->cache);
		numbers = (uint32_t *)(uintptr_t)os_load_acquire(owner_word(cache, page));
		for (unsigned int i = 0; i < per_page(cache); i++)
			if (owner_number(&numbers[i]))
				look(data, cache, owner_number(&numbers[i]));
	}
	os_unlock(&owners_lock);
}

void owner_for_each(owner_look *look, void *data)
{
	struct slab *slab;

	page_for_each_slab (slab)
		look_at(slab, look, data);
}
