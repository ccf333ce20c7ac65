/* SPDX-License-Identifier: MIT */
/*
 * Drain: reach the sheaves of every CPU (docs/design.md, R4).
 *
 *  1. set stop: slot-changing sections fail from now on;
 *  2. membarrier: those that had tested it before are aborted or have committed;
 *  3. put the bootstrap sheaf into the slots;
 *  4. membarrier: no pop or push still works on an old main;
 *  5. the sheaves are ours; wait for those in other hands; take those in the barn; clear stop.
 *
 * stop stays set until then; otherwise a sheaf that moves from the barn into a slot already emptied
 * would be missed. A thread that takes a full sheaf from a cell reads stop again after it has put
 * the cell in transit, and leaves the sheaf there if stop is set. An empty one may leave: with it a
 * drain misses no object.
 *
 * A drain of rcu_free sheaves, and of remote sheaves with retired objects, has its own stop word,
 * so that allocations and frees go on as usual. It drains all caches that are due, so that they
 * share two membarriers.
 *
 * The trylock backend takes each slot's lock for step 3 and needs no barrier.
 *
 * If membarrier is refused, a drain reaches this CPU only. If it is refused at step 4, the drain
 * puts the sheaves of step 3 back: stop is set, so the slots are unchanged. A quiet cache needs no
 * membarrier: its last user says that no thread uses it, so all its sections have ended, and the
 * synchronization by which that user knows this also made their stores visible. Only the library
 * itself may still free retired objects, in a provider's callback: kmem_cache_destroy() waits for
 * those before it drains.
 */
#include "percpu/drain.h"
#include "os/assert.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/probe.h"
#include "os/view.h"
#include "percpu/barn/barn.h"
#include "percpu/in_hand.h"
#include "percpu/remote.h"
#include "percpu/rows.h"
#include "percpu/stat.h"
#include "slab/drain_marks.h"

struct os_lock sheaf_drains = OS_LOCK_INIT(OS_RANK_DRAIN);

/* Without `wait`, a slot that is locked now is left alone. */
static void take_locked(struct slot *slot, unsigned int row, struct sheaf **list, bool retired,
			bool wait)
{
	/* A slot that was never used is not written: its page may be shared with other CPUs. */
	if (!os_load_acquire(&slot->lock) && os_load_relaxed(&slot->main) == &sheaf_bootstrap &&
	    os_load_relaxed(&slot->pair) == (uintptr_t)&sheaf_bootstrap &&
	    os_load_relaxed(&slot->rcu_free) == &sheaf_bootstrap && !slot_has_remote(slot, false) &&
	    !slot_has_remote(slot, true))
		return;
	while (os_exchange(&slot->lock, 1)) {
		if (!wait)
			return;
		os_sleep_briefly();
	}
	taken_take(slot, row, list, retired);
	os_store_release(&slot->lock, 0);
}

/* Return after every section that began before this call has ended. Returns false if the kernel
 * refuses membarrier. */
static bool end_sections(void)
{
	return os.backend != OS_BACKEND_RSEQ || os_membarrier();
}

static void put_back(struct drain *drain, bool retired)
{
	struct sheaf *sheaf;

	while ((sheaf = drain->taken) != NULL) {
		drain->taken = sheaf->next;
		taken_put_back(slot_of_row(drain->cache->at.handle, taken_row(sheaf)), sheaf,
			       retired);
	}
}

static bool is_in(const uint64_t *rows, unsigned int row)
{
	return !rows || rows[row / 64] >> row % 64 & 1;
}

static void take_rows(struct drain *drain, bool retired)
{
	unsigned int end = drain->end ? drain->end : os.nr_rows;
	char *handle = drain->cache->at.handle;

	for (unsigned int row = drain->first; (row = rows_from(handle, row)) < end; row++) {
		struct slot *slot = slot_of_row(handle, row);

		if (!is_in(drain->rows, row))
			continue;
		if (os.backend == OS_BACKEND_RSEQ)
			taken_take(slot, row, &drain->taken, retired);
		else
			take_locked(slot, row, &drain->taken, retired, !drain->end);
	}
}

/* Take from every slot of these caches; leaves stop set. Returns false, with nothing taken of a
 * cache that is not quiet, if other CPUs' slots cannot be reached. */
static bool take_slots(struct drain *first, bool retired)
{
	bool reached = true, ended;

	for (struct drain *drain = first; drain; drain = drain->next)
		os_store_release(retired ? &drain->cache->at.rcu_stop : &drain->cache->at.stop, 1);
	/* Pairs with in_hand_sees_drain(), and on the trylock backend with c_section_see_stop(): a
	 * thread that shows a sheaf in hand, or opens a slot or takes its lock, after this sees
	 * stop. */
	os_fence();
	ended = end_sections();
	for (struct drain *drain = first; drain; drain = drain->next)
		if (ended || drain->cache->quiet)
			take_rows(drain, retired);
		else
			reached = false;
	if (!reached || end_sections())
		return reached;
	for (struct drain *drain = first; drain; drain = drain->next)
		if (!drain->cache->quiet) {
			put_back(drain, retired);
			reached = false;
		}
	return reached;
}

/* Take from this CPU's slot, when other CPUs cannot be reached. */
static void drain_here(struct sheaf_cache *cache)
{
	uint32_t *in_hand, *rcu_in_hand;
	void *objects[32];
	unsigned int n;

	do {
		while ((n = section_pop_bulk(&cache->at, objects, 32)) != 0) {
			stat_add(&cache->slab, STAT_free_fastpath, n);
			stat_add(&cache->slab, STAT_sheaf_flush, n);
			slab_give(&cache->slab, objects, n, EARLIER_FREE);
		}
	} while (section_swap_empty(&cache->at));
	in_hand = in_hand_begin(cache);
	rcu_in_hand = in_hand_begin_rcu(cache);
	for (unsigned int i = 0; i < slot_remotes(); i++) {
		struct sheaf *sheaf = NULL;

		if (section_replace_remote(&cache->at, i, NULL, &sheaf))
			sheaf_give_remote(cache, sheaf);
	}
	in_hand_end(rcu_in_hand);
	in_hand_end(in_hand);
}

/* Return when every sheaf that was in hand at the time of the call has been handed over. Sleeps. */
static void wait_in_hand(struct sheaf_cache *cache)
{
	for (int turn = 0; turn < 2; turn++) {
		uint32_t old = os_fetch_add(&cache->phase, 1) & 1;

		in_hand_wait_phase(cache, offsetof(struct slot, in_hand), old);
		if (cache->barns)
			barn_wait(cache, old);
	}
}

static void flush_one(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	sheaf_harvest(cache, sheaf);
	sheaf_flush_and_release(cache, sheaf);
}

static void flush_list(struct sheaf_cache *cache, struct sheaf *list)
{
	for (struct sheaf *next; list; list = next) {
		next = list->next;
		flush_one(cache, list);
	}
}

/* A row is idle, but other CPUs of the node may use the cache: one of its sheaves that is neither
 * full nor empty becomes the partial sheaf of this CPU. */
static void hand_on_or_flush(struct drain *drain, struct sheaf *taken)
{
	struct sheaf_cache *cache = drain->cache;

	if (drain->rows && taken_place_of(taken) < TAKEN_REMOTE &&
	    os.node_of_row[taken_row(taken)] == os_node() && !barn_has_partial(cache) &&
	    sheaf_size(taken) && sheaf_size(taken) < taken->capacity) {
		sheaf_check_newest(cache, taken, EARLIER_FREE);
		sheaf_hand_over(cache, taken);
	} else {
		flush_one(cache, taken);
	}
}

/* The counts that their slots show will shortly be in the sums; those of remote sheaves are. */
static void count_taken(struct drain *drain)
{
	struct sheaf *taken = drain->taken;

	for (; os.counting && taken; taken = taken->next) {
		if (taken_place_of(taken) >= TAKEN_REMOTE)
			sheaf_remote_taken(taken);
		view_clear(slot_of_row(drain->cache->at.handle, taken_row(taken)));
	}
}

/* SECTION-S4: while stop is set, only the drain changes main and spare. */
static __attribute__((unused)) bool taken_slots_stay_empty(const struct drain *drain)
{
	for (const struct sheaf *taken = drain->taken; taken; taken = taken->next) {
		const struct slot *slot = slot_of_row(drain->cache->at.handle, taken_row(taken));

		if (os_peek(&slot->main) != &sheaf_bootstrap ||
		    os_peek(&slot->pair) != (uintptr_t)&sheaf_bootstrap)
			return false;
	}
	return true;
}

/* Returns false if a slot was not reached. */
static bool empty_slots_and_barns(struct sheaf_cache *cache)
{
	struct drain drain = {.cache = cache};
	bool reached = take_slots(&drain, false);

	wait_in_hand(cache);
	/* SECTION-S4, REMOTE-M3 */
	os_assert(taken_slots_stay_empty(&drain));
	count_taken(&drain);
	flush_list(cache, drain.taken);
	flush_list(cache, barn_take_all(cache));
	os_store_release(&cache->at.stop, 0);
	return reached;
}

static bool flush_passed(struct sheaf_cache *cache)
{
	struct sheaf_rcu *rcu = os_load_acquire(&cache->rcu);
	struct sheaf *passed;

	if (!rcu)
		return false;
	if (slab_marks(&cache->slab) & MARK_RETIRED)
		slab_clear(&cache->slab, MARK_RETIRED);
	passed = rcu_take_all(rcu);
	flush_list(cache, passed);
	return passed;
}

/* With the lock held, which is released. */
static bool drain_and_unlock(struct sheaf_cache *cache)
{
	bool reached = true;

	probe(drain, cache->slab.name);
	/* The slabs that this drain itself empties are no news (PREFILL-F4). */
	os_fetch_or(&cache->slab.marks, MARK_EMPTY);
	slab_clear(&cache->slab, MARK_SHEAVES);
	slab_list_deferred(&cache->slab);
	if (cache->barns)
		reached = empty_slots_and_barns(cache);
	else
		wait_in_hand(cache);
	flush_passed(cache);
	if (!reached)
		slab_mark(&cache->slab, MARK_SHEAVES);
	slab_shrink(&cache->slab);
	os_unlock(&sheaf_drains);
	if (!reached)
		drain_here(cache);
	return reached;
}

bool sheaf_drain(struct sheaf_cache *cache)
{
	os_lock(&sheaf_drains);
	return drain_and_unlock(cache);
}

bool sheaf_drain_marked(struct sheaf_cache *cache)
{
	unsigned int marks;
	bool passed;

	os_lock(&sheaf_drains);
	passed = flush_passed(cache);
	marks = slab_marks(&cache->slab);
	if (marks & (MARK_SHEAVES | MARK_DEFERRED)) {
		drain_and_unlock(cache);
		return true;
	}
	if (marks & MARK_EMPTY)
		slab_shrink(&cache->slab);
	os_unlock(&sheaf_drains);
	return passed || marks & MARK_EMPTY;
}

bool sheaf_flush_passed(struct sheaf_cache *cache)
{
	bool passed;

	os_lock(&sheaf_drains);
	passed = flush_passed(cache);
	os_unlock(&sheaf_drains);
	return passed;
}

void sheaf_wait_for_drain(void)
{
	os_lock(&sheaf_drains);
	os_unlock(&sheaf_drains);
}

void sheaf_drain_rows(struct drain *first)
{
	take_slots(first, false);
	for (struct drain *drain = first; drain; drain = drain->next) {
		/* SECTION-S4 */
		os_assert(taken_slots_stay_empty(drain));
		os_store_release(&drain->cache->at.stop, 0);
	}
	for (struct drain *drain = first; drain; drain = drain->next) {
		count_taken(drain);
		for (struct sheaf *next; drain->taken; drain->taken = next) {
			next = drain->taken->next;
			hand_on_or_flush(drain, drain->taken);
		}
	}
}

void drain_queue_taken(struct drain *drain)
{
	struct sheaf *sheaf;

	while ((sheaf = drain->taken) != NULL) {
		drain->taken = sheaf->next;
		rcu_queue_sheaf(drain->cache->rcu, sheaf, taken_row(sheaf));
	}
}

bool drain_rcu(struct drain *first)
{
	bool reached;

	os_lock(&sheaf_drains);
	reached = take_slots(first, true);
	/* From now on they retire as usual: the sheaves are ours. */
	for (struct drain *drain = first; drain; drain = drain->next)
		os_store_release(&drain->cache->at.rcu_stop, 0);
	for (struct drain *drain = first; drain; drain = drain->next)
		drain_queue_taken(drain);
	os_unlock(&sheaf_drains);
	return reached;
}
