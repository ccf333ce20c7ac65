/* SPDX-License-Identifier: MIT */
/*
 * Freed runs that each CPU stores for the next request of the same order.
 *
 * Each CPU has cells for freed runs. Except for the first one, the descriptors of a stored run stay
 * as its owner left them. So taking the run again costs one exchange, and its new owner one store.
 * The cells of one order hold at most KEPT_BYTES together, but there is at least one cell for each
 * order up to KEEP_ORDER. So a CPU stores at most 3 MiB. page_trim() returns them, and so does the
 * second of two visits in which nobody took a run: the first one marks it. Both look only at the
 * cells of CPUs that have stored a run since page_trim() last did:
 *
 *   a CPU: store the run, then read its bit, and set it if it is clear
 *   trim:  clear the bit, then read the cells
 *
 * A forked child sets all bits: a vanished thread may have stored a run without its bit.
 *
 * Locks: none. Callers: as page.h.
 */
#include "os/atomic.h"
#include "os/machine.h"
#include "page/page.h"

/*
 * A kept run costs kvmalloc() and kvfree() 24 to 28 ns instead of 110 to 520 (4 to 256 pages). What
 * it balances is memory: 3 MiB a CPU at most. Half as many cells serve programs that free a few
 * blocks before they allocate the next ones; double is 6 MiB for the few that free more.
 */
#define KEEP_ORDER 8
#define KEPT_BYTES ((size_t)512 << 10)
#define CELLS	   8 /* of an order at most */
#define STEAL_MAX  8 /* other CPUs that are searched: a failed search reads 72 cells at most */

#define OLD ((uintptr_t)1) /* in a cell: marked by a visit */

/* By row. Shared, because a thread may be on another CPU by the time it looks. */
static struct {
	struct slab *kept[KEEP_ORDER + 1][CELLS];
	uint64_t unused[8]; /* CPUs do not share a line */
} cells[OS_MAX_ROWS];

static uint64_t used[OS_MAX_ROWS / 64]; /* rows whose cells may hold a run */

static unsigned int nr_cells(unsigned int order)
{
	size_t n = KEPT_BYTES >> OS_PAGE_SHIFT >> order;

	return n > CELLS ? CELLS : n ? (unsigned int)n : 1;
}

static void mark_row(unsigned int row)
{
	uint64_t bit = UINT64_C(1) << row % 64;

	/* Pairs with the same order in free_kept(). */
	os_order_rmw();
	if (!(os_load_relaxed(&used[row / 64]) & bit))
		os_fetch_or(&used[row / 64], bit);
}

static bool store_run(unsigned int row, struct slab *run, unsigned int order)
{
	struct slab **kept = cells[row].kept[order];

	for (unsigned int i = 0; i < nr_cells(order); i++) {
		struct slab *none = NULL;

		if (!os_load_relaxed(&kept[i]) && os_cmpxchg(&kept[i], &none, run)) {
			mark_row(row);
			return true;
		}
	}
	return false;
}

void page_keep(struct slab *run, unsigned int order)
{
	if (order > KEEP_ORDER || page_node(page_address(run)) != os_node() ||
	    !store_run(os_row(), run, order))
		page_free(run, order);
}

static struct slab *unmarked(struct slab *run)
{
	return (struct slab *)((uintptr_t)run & ~OLD);
}

static struct slab *take_kept(unsigned int row, unsigned int order)
{
	struct slab **kept = cells[row].kept[order], *run = NULL;

	for (unsigned int i = nr_cells(order); i-- > 0 && !run;)
		if (os_load_relaxed(&kept[i]))
			run = unmarked(os_exchange(&kept[i], NULL));
	return run;
}

/* From this CPU, or from another CPU of the node, which may free what this CPU allocates. */
struct slab *page_take_kept(unsigned int node, unsigned int order)
{
	unsigned int mine = os_row(),
		     others = os.nr_cpus - 1 < STEAL_MAX ? os.nr_cpus - 1 : STEAL_MAX;
	struct slab *run = NULL;

	if (order > KEEP_ORDER || os.node_of_row[mine] != node)
		return NULL;
	for (unsigned int i = 0; i <= others && !run; i++) {
		unsigned int row = (mine + i) % os.nr_cpus;

		if (os.node_of_row[row] == node)
			run = take_kept(row, order);
	}
	return run;
}

static void free_kept(unsigned int row)
{
	struct slab *run;

	os_fetch_and(&used[row / 64], ~(UINT64_C(1) << row % 64));
	os_order_rmw();
	for (unsigned int order = 0; order <= KEEP_ORDER; order++)
		/* At most as often as there are cells: others may fill them meanwhile, and then set
		 * the bit again. */
		for (unsigned int i = nr_cells(order); i > 0; i--) {
			run = take_kept(row, order);
			if (!run)
				break;
			page_free(run, order);
		}
}

void page_free_kept(void)
{
	for (unsigned int word = 0; word < (os.nr_cpus + 63) / 64; word++)
		for (uint64_t bits = os_load_relaxed(&used[word]); bits; bits &= bits - 1)
			free_kept(word * 64 + (unsigned int)__builtin_ctzll(bits));
}

static void age_cell(struct slab **cell, unsigned int order)
{
	struct slab *run = os_load_relaxed(cell), *marked;

	if (!run)
		return;
	marked = (struct slab *)((uintptr_t)run | OLD);
	if (!os_cmpxchg(cell, &run, run == marked ? NULL : marked) || run != marked)
		return;
	page_free(unmarked(run), order);
}

void page_age_kept(unsigned int row)
{
	if (!(os_load_relaxed(&used[row / 64]) >> row % 64 & 1))
		return;
	for (unsigned int order = 0; order <= KEEP_ORDER; order++)
		for (unsigned int i = 0; i < nr_cells(order); i++)
			age_cell(&cells[row].kept[order][i], order);
}

void page_kept_after_fork(void)
{
	for (unsigned int row = 0; row < os.nr_cpus; row++)
		used[row / 64] |= UINT64_C(1) << row % 64;
}
