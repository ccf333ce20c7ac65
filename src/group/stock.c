/* SPDX-License-Identifier: MIT */
/* Stocks of each CPU; see stock.h. */
#include "group/stock.h"

#include "os/assert.h"
#include "os/machine.h"
#include "os/probe.h"
#include "percpu/rows.h"

struct section_slots stocks[STOCK_SLOTS];

struct os_lock stock_drains = OS_LOCK_INIT(OS_RANK_STOCKS);

bool stock_begin(void)
{
	char *first = stocks[0].handle ? stocks[0].handle : rows_take_many(STOCK_SLOTS);

	for (unsigned int i = 0; first && i < STOCK_SLOTS; i++)
		stocks[i].handle = first + i * sizeof(struct slot);
	return first;
}

static uint32_t stock_number(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* The bytes of a word that the caller has. */
static __attribute__((unused)) bool is_charged(uint64_t word)
{
	uint32_t place = group_place(stock_number(word)), bytes = (uint32_t)word;
	const struct kmem_group *g;

	if (!bytes)
		return true;
	if (!place || place >= os_peek(&groups.nr_places))
		return false;
	g = os_peek(&group_chunks[place >> GROUP_CHUNK_BITS]) + place % GROUP_CHUNK;
	return g->number == stock_number(word) && os_peek(&g->usage) >= bytes;
}

static void give_back_stock(uint64_t word)
{
	os_assert((uint32_t)word < KMEM_GROUP_STOCK); /* STOCK-T1 */
	os_assert(is_charged(word));		      /* STOCK-T2, GROUP-G3 */
	if ((uint32_t)word)
		group_uncharge(group_of_number(stock_number(word)), (uint32_t)word);
}

/* Put bytes that the group is charged with into this CPU's stock. */
static void put(uint32_t number, uint32_t bytes)
{
	struct section_slots *s = stock_slots(number);
	uint64_t old = stock_word(number, bytes);

	if (!section_stock_swap(s, stock_cell(number), old, &old) && rows_open_here(s->handle))
		section_stock_swap(s, stock_cell(number), old, &old);
	give_back_stock(old);
}

/* False: the word has another group, or the sum is outside. */
static bool add_to_stock(uint32_t number, uint64_t bytes)
{
	return section_stock(stock_slots(number), stock_cell(number), stock_word(number, 0), bytes);
}

struct kmem_group *stock_charge(uint32_t number, uint64_t bytes, enum group_force force)
{
	struct kmem_group *g;

	if (bytes < STOCK_BATCH && add_to_stock(number, (uint64_t)0 - bytes))
		return NULL;
	g = group_of_number(number);
	probe(group_charge, g->name, bytes, os_load_relaxed(&g->usage));
	if (bytes < STOCK_BATCH && !group_charge(g, bytes + STOCK_BATCH, GROUP_TRY)) {
		put(number, STOCK_BATCH);
		return NULL;
	}
	return group_charge(g, bytes, force);
}

void stock_uncharge(uint32_t number, uint64_t bytes)
{
	if (bytes >= STOCK_BATCH)
		group_uncharge(group_of_number(number), bytes);
	else if (!add_to_stock(number, bytes))
		put(number, (uint32_t)bytes);
}

static uint64_t *words_of(const struct section_slots *s, unsigned int row)
{
	return (uint64_t *)slot_of_row(s->handle, row)->cells;
}

bool stock_refuses(uint32_t number, uint64_t bytes)
{
	uint64_t word =
		os_load_relaxed(&words_of(stock_slots(number), os_row())[stock_cell(number)]);

	if (stock_number(word) == number && bytes <= (uint32_t)word)
		return false;
	return group_find_full(group_of_number(number), bytes);
}

/* --- all CPUs --------------------------------------------------------------------------------- */

/* The word may be old, and its place used again meanwhile: that leads to the root, too. */
static bool is_below(const struct kmem_group *g, uint32_t number)
{
	const struct kmem_group *up = group_of_number(number);

	while (up && up != g)
		up = os_load_relaxed(&up->parent);
	return up;
}

#define slots_for_each(s) for (struct section_slots *s = stocks; s < stocks + STOCK_SLOTS; s++)

static uint32_t bytes_in(const struct kmem_group *g, uint64_t word)
{
	return (uint32_t)word && is_below(g, stock_number(word)) ? (uint32_t)word : 0;
}

/* Of a group without groups below it. */
static uint64_t own_stock_bytes(const struct kmem_group *g)
{
	const struct section_slots *s = stock_slots(g->number);
	uint64_t bytes = 0;

	rows_for_each (s->handle, row)
		bytes += bytes_in(g, os_load_relaxed(&words_of(s, row)[stock_cell(g->number)]));
	return bytes;
}

uint64_t stock_bytes(const struct kmem_group *g)
{
	uint64_t bytes = 0;

	if (!stocks[0].handle)
		return 0;
	if (g->parent && !os_load_relaxed(&g->children))
		return own_stock_bytes(g);
	slots_for_each(s)
		rows_for_each (s->handle, row) for (unsigned int i = 0; i < STOCK_CELLS; i++)
			bytes += bytes_in(g, os_load_relaxed(&words_of(s, row)[i]));
	return bytes;
}

/* Words that a drain has exchanged for 0. */
#define MOST_TAKEN 256
#define TRIES	   16

struct taken {
	unsigned int n;
	struct {
		uint64_t *word, old;
	} at[MOST_TAKEN];
};

/* The group of a word is checked before it is taken, and may be another one afterwards: then more
 * is returned, which does no harm. */
static void take_row(const struct kmem_group *g, const struct section_slots *s, unsigned int row,
		     struct taken *taken)
{
	for (unsigned int i = 0; i < STOCK_CELLS && taken->n < MOST_TAKEN; i++) {
		uint64_t *word = &words_of(s, row)[i];

		if (!bytes_in(g, os_load_relaxed(word)))
			continue;
		os_assert(os_peek(&s->stop)); /* STOCK-T4 */
		taken->at[taken->n].word = word;
		taken->at[taken->n++].old = os_exchange(word, 0);
	}
}

/* The sections have ended. A word that is not 0 was in a section, whose store undid the
 * exchange. Returns whether others were not. */
static bool settle_stock(const struct taken *taken)
{
	bool any = false;

	for (unsigned int i = 0; i < taken->n; i++)
		if (!os_load_acquire(taken->at[i].word)) {
			give_back_stock(taken->at[i].old);
			any = true;
		}
	return any;
}

/* They may not have ended: undo what no section has undone. */
static bool undo(struct taken *taken)
{
	for (unsigned int i = 0; i < taken->n; i++) {
		uint64_t none = 0;

		os_cmpxchg(taken->at[i].word, &none, taken->at[i].old);
	}
	return false;
}

/* Until there are none; if sections undo all of it again and again, not for ever. */
static void drain_words(const struct kmem_group *g)
{
	struct taken taken;

	for (int tries = 0; tries < TRIES;) {
		taken.n = 0;
		slots_for_each(s) rows_for_each (s->handle, row) take_row(g, s, row, &taken);
		if (!taken.n)
			return;
		tries += !(os_membarrier() ? settle_stock(&taken) : undo(&taken));
	}
}

/* A row without any is left alone: its lock may be held. */
static bool has_stock(const struct kmem_group *g, const struct section_slots *s, unsigned int row)
{
	for (unsigned int i = 0; i < STOCK_CELLS; i++)
		if (bytes_in(g, os_load_relaxed(&words_of(s, row)[i])))
			return true;
	return false;
}

static void drain_locked_row(const struct kmem_group *g, const struct section_slots *s,
			     unsigned int row)
{
	struct slot *slot = slot_of_row(s->handle, row);
	struct taken taken = {.n = 0};

	if (!has_stock(g, s, row))
		return;
	while (os_exchange(&slot->lock, 1))
		os_sleep_briefly();
	take_row(g, s, row, &taken);
	os_store_release(&slot->lock, 0);
	for (unsigned int i = 0; i < taken.n; i++)
		give_back_stock(taken.at[i].old);
}

void stock_drain(const struct kmem_group *g)
{
	if (!stock_bytes(g))
		return;
	os_lock(&stock_drains);
	slots_for_each(s) os_store_release(&s->stop, 1);
	os_fence();
	if (os.backend == OS_BACKEND_TRYLOCK)
		slots_for_each(s) rows_for_each (s->handle, row) drain_locked_row(g, s, row);
	else if (os_membarrier())
		drain_words(g);
	slots_for_each(s) os_store_release(&s->stop, 0);
	os_unlock(&stock_drains);
}

static void forget_row(const struct section_slots *s, unsigned int row)
{
	struct slot *slot = slot_of_row(s->handle, row);

	if (slot->lock)
		os_store_relaxed(&slot->lock, 0);
	for (unsigned int i = 0; i < STOCK_CELLS; i++)
		if (words_of(s, row)[i])
			os_store_relaxed(&words_of(s, row)[i], 0);
}

void stock_forget(void)
{
	if (!stocks[0].handle)
		return;
	slots_for_each(s)
	{
		s->stop = 0;
		rows_for_each (s->handle, row)
			forget_row(s, row);
	}
}
