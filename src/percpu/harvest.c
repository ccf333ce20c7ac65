/* SPDX-License-Identifier: MIT */
/*
 * What is counted in sheaves themselves: pops ride in the word that a pop commits (os/section.h), and
 * are harvested when the sheaf leaves its slot. Until then others see copies of the two words.
 */
#include "os/atomic.h"
#include "os/machine.h"
#include "percpu/rows.h"
#include "percpu/sheaf.h"
#include "percpu/stat.h"

#define LOOKS 64 /* until what is shown is what is there */

struct sheaf_traffic sheaf_traffic_of(uint64_t word, uint32_t base)
{
	uint64_t pops = word >> SHEAF_SIZE_BITS;

	return (struct sheaf_traffic){pops, (word & SHEAF_SIZE) + pops - base};
}

void sheaf_harvest(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	struct sheaf_traffic traffic = sheaf_traffic_of(sheaf->word, sheaf->base);

	if (!os.counting)
		return;
	stat_add(&cache->slab, STAT_alloc_fastpath, traffic.pops);
	stat_add(&cache->slab, STAT_free_fastpath, traffic.pushes);
	sheaf_set_size(sheaf, (uint32_t)sheaf->word & SHEAF_SIZE);
}

static bool peek(const struct slot *slot, const struct sheaf **m, const struct sheaf **spare)
{
	uintptr_t pair;

	*m = os_load_acquire(&slot->main);
	pair = os_load_acquire(&slot->pair);
	*spare = (const struct sheaf *)(pair ^ (uintptr_t)*m);
	/* Two words that change one by one: of two moments they would name a sheaf that never was. */
	return os_load_acquire(&slot->main) == *m && os_load_acquire(&slot->pair) == pair;
}

/* What it reads may be freed meanwhile, or another sheaf by now: then the slot has changed, too. */
__attribute__((no_sanitize("thread"))) bool sheaf_look(const struct slot *slot,
						       struct sheaf_view *view)
{
	const struct sheaf *m, *spare, *m_after, *spare_after;

	if (!peek(slot, &m, &spare))
		return false;
	view->main = os_load_relaxed(&m->word);
	view->main_base = os_load_relaxed(&m->base);
	view->spare = spare ? os_load_relaxed(&spare->word) : 0;
	view->spare_base = spare ? os_load_acquire(&spare->base) : 0;
	return peek(slot, &m_after, &spare_after) && m == m_after && spare == spare_after;
}

static bool same_view(const struct sheaf_view *one, const struct sheaf_view *other)
{
	return one->main == other->main && one->main_base == other->main_base &&
	       one->spare == other->spare && one->spare_base == other->spare_base;
}

static void store_view(uint64_t *shown, const struct sheaf_view *view)
{
	os_store_relaxed(&shown[STAT_MAIN], view->main);
	os_store_relaxed(&shown[STAT_SPARE], view->spare);
	os_store_relaxed(&shown[STAT_BASES], view->main_base | (uint64_t)view->spare_base << 32);
	/* Pairs with this same fence of another thread: who stored last has looked after both. */
	os_fence();
}

/*
 * Whoever was put aside between look and store may have stored old words over newer ones: so it looks
 * again. Not for ever, if others use the slot all the while: each of their pushes shows main.
 */
static void show_slot(struct slot *slot)
{
	struct sheaf_view view, after;

	if (!rows_is_open(slot))
		return;
	for (int i = 0; i < LOOKS; i++) {
		if (!sheaf_look(slot, &view))
			continue;
		store_view((uint64_t *)os_counter(slot, STAT_MAIN), &view);
		if (sheaf_look(slot, &after) && same_view(&view, &after))
			return;
	}
}

/* Whichever of the slots a section had to do with. */
void sheaf_show(struct sheaf_cache *cache)
{
	unsigned int row;

	if (!os.counting)
		return;
	row = os_row();
	show_slot(slot_of_row(cache->at.handle, row));
	for (unsigned int i = 0; i < os.nr_stand_ins; i++)
		show_slot(slot_of_row(cache->at.handle, os_stand_in(os.node_of_row[row], i)));
}

void sheaf_show_nothing(struct slot *slot)
{
	uint64_t *shown = (uint64_t *)os_counter(slot, STAT_MAIN);

	if (!os.counting || !rows_is_open(slot))
		return;
	os_store_relaxed(&shown[STAT_MAIN], 0);
	os_store_relaxed(&shown[STAT_SPARE], 0);
	os_store_relaxed(&shown[STAT_BASES], 0);
}

unsigned int sheaf_push_bulk(struct sheaf_cache *cache, void **objects, unsigned int n)
{
	n = section_push_bulk(&cache->at, objects, n);
	if (n)
		sheaf_show(cache);
	return n;
}

unsigned int sheaf_pop_bulk(struct sheaf_cache *cache, void **objects, unsigned int n)
{
	n = section_pop_bulk(&cache->at, objects, n);
	/* The word tells no pops, but fewer objects than its pushes brought. */
	stat_add(&cache->slab, STAT_alloc_fastpath, n);
	stat_add(&cache->slab, STAT_free_fastpath, n);
	if (n)
		sheaf_show(cache);
	return n;
}
