/* SPDX-License-Identifier: MIT */
/* Arrays of owners; see owner.h. */
#include "slab/owner.h"

#include "os/lock.h"
#include "os/machine.h"
#include "page/pool.h"

static struct os_lock lock = OS_LOCK_INIT(OS_RANK_OWNERS);

static size_t bytes_of(const struct slab_cache *cache, uint64_t state)
{
	return slab_order_of(cache, state).objects * sizeof(uint32_t);
}

/* Others change other bits of the state meanwhile. */
static bool make(const struct slab_cache *cache, struct slab *slab, bool wait)
{
	uint64_t state = os_load_acquire(&slab->state);
	uint32_t *array;

	if (state & SLAB_OWNED)
		return true;
	array = (wait ? pool_alloc : pool_alloc_try)(bytes_of(cache, state));
	if (!array)
		return false;
	os_store_relaxed(owner_word(cache, slab), (uint64_t)(uintptr_t)array);
	os_fetch_or(&slab->state, SLAB_OWNED);
	return true;
}

bool owner_make(const struct slab_cache *cache, const void *object, bool wait)
{
	uint64_t state;
	struct slab *slab = owner_slab(cache, object, &state);
	bool made;

	if (!slab)
		return false;
	if (wait)
		os_lock(&lock);
	else if (!os_trylock(&lock))
		return false;
	made = make(cache, slab, wait);
	os_unlock(&lock);
	return made;
}

void owner_end(const struct slab_cache *cache, struct slab *slab)
{
	uint64_t state = os_load_relaxed(&slab->state);

	if (!(state & SLAB_OWNED))
		return;
	pool_free(owner_array(cache, slab), bytes_of(cache, state));
	os_fetch_and(&slab->state, ~SLAB_OWNED);
	/* The place is one of bits again, or of a link. */
	os_store_relaxed(owner_word(cache, slab), 0);
}

static void look_at(struct slab *slab, owner_look *look, void *data)
{
	struct slab_cache *cache = os_load_acquire(&slab->cache);
	uint64_t state = os_load_acquire(&slab->state);
	uint32_t *array;

	/* Page runs that are no slabs have no nodes. */
	if (!cache || state & SLAB_TAIL || !(state & SLAB_OWNED) || !cache->nodes)
		return;
	array = owner_array(cache, slab);
	/* The slab may have been given back meanwhile: then this was no array. */
	if (os_load_acquire(&slab->cache) != cache || !(os_load_acquire(&slab->state) & SLAB_OWNED))
		return;
	for (unsigned int i = 0; i < slab_order_of(cache, state).objects; i++) {
		uint32_t number = os_load_relaxed(&array[i]);

		if (number)
			look(data, cache, slab_object(cache, slab, i), number);
	}
}

void owner_for_each(owner_look *look, void *data)
{
	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct slab *slab;

		for (size_t n = page_slabs(node, &slab); n > 0; n--, slab++)
			look_at(slab, look, data);
	}
}

void owner_lock(void)
{
	os_lock(&lock);
}

void owner_unlock(void)
{
	os_unlock(&lock);
}
