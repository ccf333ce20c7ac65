/* SPDX-License-Identifier: MIT */
/* Stocks of each CPU; see stock.h. */
#include "group/stock.h"

#include "os/machine.h"
#include "os/probe.h"
#include "percpu/rows.h"

struct section_slots stocks;

static struct os_lock stock_drain_lock = OS_LOCK_INIT(OS_RANK_STOCKS);

bool stock_begin(void)
{
	if (!stocks.handle)
		stocks.handle = rows_take();
	return stocks.handle;
}

static uint32_t stock_number(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static void give_back_stock(uint64_t word)
{
	if ((uint32_t)word)
		group_uncharge(group_of_number(stock_number(word)), (uint32_t)word);
}

/* Put bytes that the group is charged with into this CPU's stock. */
static void put(uint32_t number, uint32_t bytes)
{
	uint64_t old = stock_word(number, bytes);

	if (!section_stock_swap(&stocks, stock_of(number), old, &old) &&
	    rows_open_here(stocks.handle))
		section_stock_swap(&stocks, stock_of(number), old, &old);
	give_back_stock(old);
}

struct kmem_group *stock_charge(uint32_t number, uint64_t bytes, enum group_force force)
{
	struct kmem_group *g;

	if (bytes < STOCK_BATCH &&
	    section_stock(&stocks, stock_of(number), stock_word(number, 0), (uint64_t)0 - bytes))
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
	else if (!section_stock(&stocks, stock_of(number), stock_word(number, 0), bytes))
		put(number, (uint32_t)bytes);
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

static uint64_t *words_of(unsigned int row)
{
	return (uint64_t *)slot_of_row(stocks.handle, row)->cells;
}

static bool stock_is_of(const struct kmem_group *g, uint64_t word)
{
	return (uint32_t)word && is_below(g, stock_number(word));
}

uint64_t stock_bytes(const struct kmem_group *g)
{
	uint64_t bytes = 0;

	if (!stocks.handle)
		return 0;
	rows_for_each (stocks.handle, row)
		for (unsigned int i = 0; i < STOCKS; i++) {
			uint64_t word = os_load_relaxed(&words_of(row)[i]);

			if (stock_is_of(g, word))
				bytes += (uint32_t)word;
		}
	return bytes;
}

/* Words that a drain has exchanged for 0. */
#define MOST_TAKEN 64
#define TRIES	   16

struct taken {
	unsigned int n;
	struct {
		uint64_t *word, old;
	} at[MOST_TAKEN];
};

/* The group of a word is checked before it is taken, and may be another one afterwards: then more
 * goes back, which does no harm. */
static void take_row(const struct kmem_group *g, unsigned int row, struct taken *taken)
{
	for (unsigned int i = 0; i < STOCKS && taken->n < MOST_TAKEN; i++) {
		uint64_t *word = &words_of(row)[i];

		if (!stock_is_of(g, os_load_relaxed(word)))
			continue;
		taken->at[taken->n].word = word;
		taken->at[taken->n++].old = os_exchange(word, 0);
	}
}

/* The sections have ended. A word that is not 0 was in a section, whose store undid the
 * exchange. */
static void settle_stock(const struct taken *taken)
{
	for (unsigned int i = 0; i < taken->n; i++)
		if (!os_load_acquire(taken->at[i].word))
			give_back_stock(taken->at[i].old);
}

/* They may not have ended: undo what no section has undone. */
static void undo(struct taken *taken)
{
	for (unsigned int i = 0; i < taken->n; i++) {
		uint64_t none = 0;

		os_cmpxchg(taken->at[i].word, &none, taken->at[i].old);
	}
}

static bool drain_some(const struct kmem_group *g)
{
	struct taken taken = {.n = 0};

	rows_for_each (stocks.handle, row)
		take_row(g, row, &taken);
	if (!taken.n)
		return false;
	if (os_membarrier())
		settle_stock(&taken);
	else
		undo(&taken);
	return true;
}

static void drain_locked_row(const struct kmem_group *g, unsigned int row)
{
	struct slot *slot = slot_of_row(stocks.handle, row);
	struct taken taken = {.n = 0};

	while (os_exchange(&slot->lock, 1))
		os_sleep_briefly();
	take_row(g, row, &taken);
	os_store_release(&slot->lock, 0);
	for (unsigned int i = 0; i < taken.n; i++)
		give_back_stock(taken.at[i].old);
}

static bool has_stock(const struct kmem_group *g, unsigned int row)
{
	for (unsigned int i = 0; i < STOCKS; i++)
		if (stock_is_of(g, os_load_relaxed(&words_of(row)[i])))
			return true;
	return false;
}

void stock_drain(const struct kmem_group *g)
{
	if (!stock_bytes(g))
		return;
	os_lock(&stock_drain_lock);
	os_store_release(&stocks.stop, 1);
	os_fence();
	if (os.backend == OS_BACKEND_TRYLOCK) {
		rows_for_each (stocks.handle, row)
			if (has_stock(g, row))
				drain_locked_row(g, row);
	} else if (os_membarrier()) {
		for (int i = 0; i < TRIES && drain_some(g); i++)
			;
	}
	os_store_release(&stocks.stop, 0);
	os_unlock(&stock_drain_lock);
}

void stock_lock(void)
{
	os_lock(&stock_drain_lock);
}

void stock_unlock(void)
{
	os_unlock(&stock_drain_lock);
}

void stock_forget(void)
{
	stocks.stop = 0;
	if (!stocks.handle)
		return;
	rows_for_each (stocks.handle, row) {
		struct slot *slot = slot_of_row(stocks.handle, row);

		if (slot->lock)
			os_store_relaxed(&slot->lock, 0);
		for (unsigned int i = 0; i < STOCKS; i++)
			if (words_of(row)[i])
				os_store_relaxed(&words_of(row)[i], 0);
	}
}
