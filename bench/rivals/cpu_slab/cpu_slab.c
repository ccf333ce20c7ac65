/* SPDX-License-Identifier: MIT */
/*
 * SLUB before sheaves: the baseline for libsheaf, in one run and on the same slabs.
 *
 *   CPU      HEAD --> object --> object --> slab | 1         its slab's freelist: pop and push
 *   CPU      LIST --> slab --> slab --> 1                    its partial slabs, held by nobody else
 *   node     first <-> slab <-> slab                         under the node's lock
 *   pages                                                    new slabs, and where empty ones go
 *
 * Allocation pops off HEAD. If HEAD is empty, the objects that others freed onto the slab's own
 * freelist become HEAD; otherwise this CPU takes the next slab of LIST, or one of the node's (with
 * half a LIST more), or a new one. A free pushes onto HEAD if the object is in this CPU's slab,
 * else onto its slab's own freelist. A slab that was full goes to LIST; if LIST is full, all of it
 * goes to the node.
 *
 * This is as fast as the design can be: the value of HEAD shows its slab (section.h), so each fast
 * path is one section with one store, and comparing addresses tests which slab an object is in.
 * Links are pointers in the objects' first words, also on the slabs' own freelists, so a CPU takes
 * over such a list as it is, by one exchange and without a walk.
 *
 * Invariants
 *  T1. A slab in a slot (HEAD or LIST) is HELD by that slot, and is in no other. The thread that
 *      takes it out holds it.
 *  T2. In a slab's state, objects on a CPU's freelist are in use: while a CPU has the slab, only
 *      frees through the state word change it, and they add to the freelist there (SLAB-B1).
 *  T3. The head in a state is an object's index, as SLAB-B1 to SLAB-B4 require, but links are ours:
 *      a chain ends with its slab's address | 1. slab_take() and slab_give() never see them.
 *  T4. Slabs have the preferred order and no other: SPAN is one number. Without pages of that order
 *      there is no memory.
 *
 * Locks: the node's only. Progress: a section that cannot run (aborted, no rseq, the slot locked)
 *   sends an allocation to the node and a free to the slab's state word.
 * Callers: the benchmarks.
 */
#include "cpu_slab.h"

#include <string.h>

#include "cache/process.h"
#include "internal.h"
#include "page/pool.h"
#include "section.h"

#define LOOK_AHEAD 3 /* objects of other slabs passed over while a chain is collected */

static __attribute__((noinline)) void *alloc_slow(struct cpu_slab *cache)
{
	void *object;

	return tiers_alloc(cache_of(cache), &object, 1) ? object : NULL;
}

#define DEFINE_CALLS(suffix, POP, PUSH)                                                            \
	static void *alloc_##suffix(struct cpu_slab *cache)                                        \
	{                                                                                          \
		void *object;                                                                      \
                                                                                                   \
		if (__builtin_expect(POP((char *)cache, &object), 1))                              \
			return object;                                                             \
		return alloc_slow(cache);                                                          \
	}                                                                                          \
                                                                                                   \
	static void free_##suffix(struct cpu_slab *cache, void *object)                            \
	{                                                                                          \
		if (!__builtin_expect(PUSH((char *)cache, object, object), 1))                     \
			tiers_free_one(cache, object);                                             \
	}

DEFINE_CALLS(trylock, c_pop_head, c_push_head)
#ifdef HAVE_RSEQ
DEFINE_CALLS(rseq, rseq_pop_head, rseq_push_head)
#endif

static void *alloc_counted(struct cpu_slab *cache)
{
	void *object;

	if (!pop_head((char *)cache, &object))
		return alloc_slow(cache);
	count(cache_of(cache), CPU_SLAB_alloc_fastpath, 1);
	return object;
}

static void free_counted(struct cpu_slab *cache, void *object)
{
	if (push_head((char *)cache, object, object))
		count(cache_of(cache), CPU_SLAB_free_fastpath, 1);
	else
		tiers_free(cache_of(cache), object, object, 1);
}

static struct cpu_slab calls(bool counted)
{
	if (counted)
		return (struct cpu_slab){alloc_counted, free_counted};
#ifdef HAVE_RSEQ
	if (os.backend == OS_BACKEND_RSEQ)
		return (struct cpu_slab){alloc_rseq, free_rseq};
#endif
	return (struct cpu_slab){alloc_trylock, free_trylock};
}

/* Kernel: set_cpu_partial(), which assumes that half of the objects of these slabs are free. */
static uint32_t cpu_partial_slabs(const struct slab_cache *slab)
{
	uint32_t size = slab->size, objects;

	objects = size >= OS_PAGE ? 6 : size >= 1024 ? 24 : size >= 256 ? 52 : 120;
	return (objects * 2 + slab->oo.objects - 1) / slab->oo.objects;
}

/* The cache's handle and slots: separate rows, so that the template can hold its SPAN. */
static struct cpu_slab_cache *map_handle(const struct slab_cache *slab)
{
	const struct slot template = {
		.pair = EMPTY, .home = EMPTY, .home_size = OS_PAGE << slab->oo.order};
	bool copied;
	struct cpu_slab_cache *c = (struct cpu_slab_cache *)os_map_rows(1, &template, &copied);

	for (unsigned int row = 0; c && !copied && row < os.nr_rows; row++)
		*slot_of_row((char *)c, row) = template;
	/* Its row is a copy of the template, too. */
	return c ? memset(c, 0, sizeof(struct slot)) : NULL;
}

struct cpu_slab *cpu_slab_create(size_t size, unsigned int flags)
{
	const struct slab_request request = {
		.name = "cpu-slab", .object_size = (uint32_t)size, .align = sizeof(void *)};
	struct slab_cache slab;
	struct cpu_slab_cache *c;

	if (!size || size > KMEM_CACHE_MAX_SIZE || !caches_ready() ||
	    !slab_cache_init(&slab, &request))
		return NULL;
	c = map_handle(&slab);
	if (!c) {
		slab_cache_exit(&slab);
		return NULL;
	}
	c->slab = slab;
	c->mask = (OS_PAGE << slab.oo.order) - 1;
	c->slabs = (uintptr_t)pages.slabs -
		   ((uintptr_t)pages.base >> OS_PAGE_SHIFT) * sizeof(struct slab);
	c->cpu_partial_slabs = cpu_partial_slabs(&slab);
	c->deferred = flags & CPU_SLAB_DEFERRED;
	c->calls = calls(flags & CPU_SLAB_COUNTED);
	if (flags & CPU_SLAB_COUNTED) {
		c->counts = pool_alloc(os.nr_rows * sizeof(*c->counts));
		if (!c->counts)
			return NULL;
	}
	return &c->calls;
}

bool cpu_slab_alloc_bulk(struct cpu_slab *cache, void **objects, unsigned int n)
{
	struct cpu_slab_cache *c = cache_of(cache);
	unsigned int done = 0, got;

	while (done < n) {
		if (pop_head_bulk((char *)c, objects + done, n - done, &got))
			count(c, CPU_SLAB_alloc_fastpath, got);
		else
			got = tiers_alloc(c, objects + done, n - done);
		if (!got) {
			cpu_slab_free_bulk(cache, objects, done);
			return false;
		}
		done += got;
	}
	return true;
}

/* Free the array's last object and those near it that are in the same slab, as one chain. Returns
 * the number of objects left in front. */
static unsigned int free_chain(struct cpu_slab_cache *c, void **objects, unsigned int n)
{
	void *tail = objects[--n], *head = tail;
	unsigned int length = 1, passed = 0;

	for (unsigned int i = n; i-- > 0 && passed <= LOOK_AHEAD;) {
		if (((uintptr_t)objects[i] ^ (uintptr_t)tail) > c->mask) {
			passed++;
			continue;
		}
		*link_of(objects[i]) = (uintptr_t)head;
		head = objects[i];
		length++;
		objects[i] = objects[--n];
	}
	if (push_head((char *)c, head, tail))
		count(c, CPU_SLAB_free_fastpath, length);
	else
		tiers_free(c, head, tail, length);
	return n;
}

void cpu_slab_free_bulk(struct cpu_slab *cache, void **objects, unsigned int n)
{
	while (n)
		n = free_chain(cache_of(cache), objects, n);
}

unsigned int cpu_slab_trim(struct cpu_slab *cache)
{
	struct cpu_slab_cache *c = cache_of(cache);
	unsigned int left;

	for (uint32_t row = 0; row < os.nr_rows; row++) {
		struct slot *slot = slot_of_row((char *)c, row);
		uintptr_t head = slot->pair;

		slot->pair = EMPTY;
		if (head != EMPTY)
			tiers_let_go(c, slab_of(c, (void *)head), head);
	}
	/* Releasing slabs filled the list of this CPU, which may be any. */
	for (uint32_t row = 0; row < os.nr_rows; row++) {
		struct slot *slot = slot_of_row((char *)c, row);
		struct slab *list = (struct slab *)slot->home;

		slot->home = EMPTY;
		tiers_free_list(c, list);
	}
	left = slab_shrink(&c->slab);
	page_trim();
	return left;
}

uint64_t cpu_slab_counter(struct cpu_slab *cache, enum cpu_slab_counter counter)
{
	struct cpu_slab_cache *c = cache_of(cache);
	uint64_t sum = 0;

	for (uint32_t row = 0; c->counts && row < os.nr_rows; row++)
		sum += os_load_relaxed(&c->counts[row].of[counter]);
	return sum;
}
