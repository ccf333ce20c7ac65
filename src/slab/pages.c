/* SPDX-License-Identifier: MIT */
/* Makes slabs of pages, and returns the pages; see partial.h. */

#include <string.h>

#include "os/assert.h"
#include "os/atomic.h"
#include "os/bytes.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/memory_tools.h"
#include "os/probe.h"
#include "os/report/report.h"
#include "os/tsan.h"
#include "page/object_marks.h"
#include "slab/owner.h"
#include "slab/partial.h"
#include "slab/rcu_free_slab.h"
#include "slab/stat.h"

/* Tell the thread sanitizer that the previous owner of the pages has finished with them, and other
 * tools whether each object will be reported. */
static void tell_made(const struct slab_cache *cache, const struct slab *slab)
{
	struct slab_order order = slab_order_of(cache, os_load_relaxed(&slab->state));

	tsan_acquire_pages(page_address(slab), OS_PAGE << order.order);
	for (unsigned int i = 0; tsan_is_on() && i < order.objects; i++)
		tsan_release(slab_object(cache, slab, i));
	if (cache->extra)
		tools_close(page_address(slab), OS_PAGE << order.order);
	else
		tools_open(page_address(slab), OS_PAGE << order.order);
}

/* The pages have marks of their previous use. */
static void mark_objects(const struct slab_cache *cache, const struct slab *slab)
{
	struct slab_order order = slab_order_of(cache, os_load_relaxed(&slab->state));

	os_assert(cache->size >= MARK_BYTES); /* MARK-K1 */
	/* Not memset() of them all: the thread sanitizer sees its stores, but no lock. */
	for (size_t at = 0; at < OS_PAGE << order.order; at += OS_PAGE)
		os_zero(mark_at(page_address(slab) + at), OS_PAGE >> MARK_SHIFT);
	for (unsigned int i = 0; i < order.objects; i++)
		mark(slab_object(cache, slab, i), MARK_FREE);
}

size_t slab_held_bytes(const struct slab_cache *cache)
{
	const struct slab_node *node;
	size_t bytes = 0;

	slab_for_each_node (cache, node)
		bytes += os_load_relaxed(&node->bytes);
	return bytes;
}

/* Nothing is added first and subtracted afterwards: of two threads, one gets what is left. So those
 * of all nodes use one lock, that of the first node. */
static bool hold_limited(struct slab_cache *cache, struct slab_node *part, size_t bytes,
			 size_t limit, bool wait)
{
	struct slab_node *first = wait ? partial_node(cache, 0) : os_load_acquire(&cache->nodes[0]);
	bool held;

	if (!first || !os_lock_if(&first->lock, wait))
		return false;
	held = slab_held_bytes(cache) + bytes <= limit;
	if (held)
		os_fetch_add(&part->bytes, bytes);
	os_unlock(&first->lock);
	return held;
}

/* False: with a slab of this order, the cache would have more than its limit. */
static bool hold_bytes(struct slab_cache *cache, struct slab_node *part, unsigned int order,
		       bool wait)
{
	size_t limit = os_load_relaxed(&slab_rest(cache)->limit);

	if (os_unlikely(limit))
		return hold_limited(cache, part, OS_PAGE << order, limit, wait);
	os_fetch_add(&part->bytes, OS_PAGE << order);
	return true;
}

/* The pages of a cache of secrets; false: they cannot be locked. */
static bool hide(const struct slab_cache *cache, const struct slab *slab, unsigned int order)
{
	if (!slab_rest(cache)->secret || os_hide(page_address(slab), OS_PAGE << order))
		return true;
	os_report_once_later(&slab_rest(cache)->reported,
			     "%s: the system refused to lock a slab of %zu bytes in memory, so an "
			     "allocation fails. Raise RLIMIT_MEMLOCK (ulimit -l), or "
			     "vm.max_map_count if the program has very many mappings",
			     cache->name, OS_PAGE << order);
	return false;
}

/* The reverse, as the pages go to another use. */
static void unhide(const struct slab_cache *cache, const struct slab *slab, unsigned int order)
{
	if (!slab_rest(cache)->secret)
		return;
	explicit_bzero(page_address(slab), OS_PAGE << order);
	os_unhide(page_address(slab), OS_PAGE << order);
}

/* One of the runs for slabs of the usual order; if there are none, take as many as are wanted. */
static struct slab *run_for_slab(const struct slab_cache *cache, unsigned int node,
				 struct slab_runs *runs)
{
	unsigned int n = runs->wanted < SLAB_RUNS ? runs->wanted : SLAB_RUNS;

	if (runs->next == runs->n) {
		/* Other threads may take objects of these slabs: then one more at a time. */
		runs->next = 0;
		runs->n = page_alloc_runs(node, cache->oo.order, runs->run, n ? n : 1);
		runs->wanted -= runs->n < n ? runs->n : n;
	}
	return runs->n ? runs->run[runs->next++] : NULL;
}

void slab_return_runs(const struct slab_cache *cache, struct slab_runs *runs)
{
	while (runs->n > runs->next)
		page_give_back(runs->run[--runs->n], cache->oo.order);
}

static struct slab *hold_pages(struct slab_cache *cache, struct slab_node *part, unsigned int node,
			       struct slab_runs *runs, bool small)
{
	unsigned int order = small ? cache->min.order : cache->oo.order;
	struct slab *slab;

	if (!hold_bytes(cache, part, order, !runs->nowait))
		return NULL;
	if (runs->nowait)
		slab = page_alloc_try(node, order);
	else
		slab = small ? page_alloc(node, order) : run_for_slab(cache, node, runs);
	if (slab && !hide(cache, slab, order)) {
		page_free(slab, order);
		slab = NULL;
	}
	if (!slab)
		os_fetch_sub(&part->bytes, OS_PAGE << order);
	return slab;
}

/* Pages for a slab, with its order's flag in the state; without a cache, so no thread finds it. */
static struct slab *slab_pages(struct slab_cache *cache, struct slab_node *part, unsigned int node,
			       struct slab_runs *runs)
{
	struct slab *slab = hold_pages(cache, part, node, runs, false);
	uint64_t small = 0;

	if (!slab && cache->min.order < cache->oo.order) {
		slab = hold_pages(cache, part, node, runs, true);
		small = SLAB_SMALL;
		stat_add(cache, STAT_order_fallback, slab != NULL);
	}
	/* Before its objects exist: a thread that returns one sees this. */
	if (slab && small)
		os_store_relaxed(&slab_rest(cache)->has_small, 1);
	if (slab)
		os_store_relaxed(&slab->state, SLAB_HELD | small);
	if (slab && os.tools)
		tell_made(cache, slab);
	if (slab && pages.marks)
		mark_objects(cache, slab);
	return slab;
}

struct slab *slab_make(struct slab_cache *cache, unsigned int node, struct slab_runs *runs)
{
	struct slab_node *part = partial_node(cache, node);
	struct slab *slab = part ? slab_pages(cache, part, node, runs) : NULL;
	struct slab_order order;
	uint64_t *words;

	if (!slab)
		return NULL;
	order = slab_order_of(cache, slab->state);
	words = slab_words(cache, slab);
	for (unsigned int left = order.objects; left; words++) {
		unsigned int n = left < 64 ? left : 64;

		os_store_relaxed(words, ~UINT64_C(0) >> (64 - n));
		left -= n;
	}
	page_own(slab, order.order, cache);
	os_fetch_add(&part->nr_slabs, 1);
	stat_add(cache, STAT_alloc_slab, 1);
	probe(slab_new, cache->name, page_address(slab), OS_PAGE << order.order);
	stat_add(cache, STAT_total_objects, order.objects);
	stat_slab_bytes(cache, (int64_t)(OS_PAGE << order.order));
	return slab;
}

/* Are all objects of a slab free? */
static __attribute__((unused)) bool has_all_bits(const struct slab_cache *cache, struct slab *slab)
{
	uint64_t state = os_peek(&slab->state);
	unsigned int left = slab_order_of(cache, state).objects;

	for (unsigned int i = 0; i < slab_nr_words(cache, state); i++)
		left -= (unsigned int)__builtin_popcountll(os_peek(slab_words(cache, slab) + i));
	return !slab_inuse(state) && !left;
}

void slab_discard(struct slab_cache *cache, struct slab *slab)
{
	os_assert((os_peek(&slab->state) & SLAB_FLAGS) == SLAB_HELD); /* SLAB-B6 */
	os_assert(has_all_bits(cache, slab));			      /* SLAB-B3, OWNER-O1 */
	owner_end(cache, slab);
	if (cache->late)
		late_discard(cache, slab);
	else
		slab_discard_now(cache, slab);
}

/* Tell the thread sanitizer that the objects' owners have finished with the pages, and other tools
 * that the pages are not in use. */
static void tell_gone(const struct slab_cache *cache, const struct slab *slab,
		      struct slab_order order)
{
	for (unsigned int i = 0; tsan_is_on() && i < order.objects; i++)
		tsan_acquire(slab_object(cache, slab, i));
	tsan_release_pages(page_address(slab), OS_PAGE << order.order);
	if (cache->extra)
		tools_close(page_address(slab), OS_PAGE << order.order);
}

void slab_discard_now(struct slab_cache *cache, struct slab *slab)
{
	struct slab_order order = slab_order_of(cache, os_load_relaxed(&slab->state));
	struct slab_node *node = partial_node_of(cache, slab);

	os_assert(os_peek(&node->nr_slabs) > 0 && os_peek(&node->bytes) >= OS_PAGE << order.order);
	os_fetch_sub(&node->nr_slabs, 1);
	os_fetch_sub(&node->bytes, OS_PAGE << order.order);
	stat_add(cache, STAT_free_slab, 1);
	probe(slab_free, cache->name, page_address(slab), OS_PAGE << order.order);
	stat_add(cache, STAT_total_objects, -(uint64_t)order.objects);
	stat_slab_bytes(cache, -(int64_t)(OS_PAGE << order.order));
	if (os.tools)
		tell_gone(cache, slab, order);
	unhide(cache, slab, order.order);
	if (os_load_relaxed(&slab_rest(cache)->shrinking))
		page_free_to_system(slab, order.order);
	else
		page_free(slab, order.order);
}
