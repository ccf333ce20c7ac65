/* SPDX-License-Identifier: MIT */
/*
 * An address space: a maple tree of VMAs, each a run of pages, and readers that need no lock.
 *
 *     address-space
 *     cc -O2 address-space.c -o address-space $(pkg-config --cflags --libs libsheaf-maple libsheaf-urcu liburcu-memb) -pthread
 *
 *   tree:   NULL | stack | heap | NULL | heap | program |
 *           low       <- map() searches from the top     high
 *
 * This example shows:
 *   - the highest gap of a size, found and filled under one lock
 *   - unmapping the middle of a VMA replaces it by two
 *   - a VMA in the tree never changes: another one replaces it, and kmem_cache_free_rcu() frees it
 *     when no reader can see it. So a reader needs rcu_read_lock() alone, while another thread maps
 *
 * This program ends when it is out of memory. The sources have a whole address space, in
 * maple/bench/vma/space: it joins neighbours, forks, and changes nothing if it runs out of memory.
 */
#include <urcu.h>

#include <pthread.h>
#include <sheaf/maple_tree.h>
#include <sheaf/rcu.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define LOW  0x10000ul
#define HIGH 0x7ffffffff000ul
#define MIB  (1ul << 20)

struct vma {
	unsigned long start, end; /* end is the first address behind it */
	const char *what;
};

static struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);
static struct kmem_cache *vmas;
static atomic_bool stop; /* for the reader */
static atomic_ulong looks;

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "address-space: %s: error %d\n", what, error);
		exit(1);
	}
}

/* Store a new VMA; the lock is held. */
static void put(struct ma_state *mas, unsigned long start, unsigned long end, const char *what)
{
	struct vma *vma = kmem_cache_alloc(vmas, GFP_KERNEL);

	if (!vma)
		exit(1);
	*vma = (struct vma){start, end, what};
	mas_set_range(mas, start, end - 1);
	check(mas_store_gfp(mas, vma, GFP_KERNEL), "store");
}

/* Map the highest free addresses. */
static unsigned long map(unsigned long length, const char *what)
{
	MA_STATE(mas, &tree, 0, 0);
	unsigned long start;

	mas_lock(&mas);
	check(mas_empty_area_rev(&mas, LOW, HIGH - 1, length), "map");
	start = mas.index;
	put(&mas, start, start + length, what);
	mas_unlock(&mas);
	return start;
}

/* Unmap start ... end - 1. Where a VMA reaches beyond this range, the rest of it stays, as a VMA of
 * its own. */
static void unmap(unsigned long start, unsigned long end)
{
	MA_STATE(mas, &tree, 0, 0);
	unsigned long at = start;
	struct vma *vma;

	mas_lock(&mas);
	while ((vma = mt_find(&tree, &at, end - 1)) != NULL) {
		unsigned long from = vma->start > start ? vma->start : start;
		unsigned long to = vma->end < end ? vma->end : end;

		if (vma->start < start)
			put(&mas, vma->start, start, vma->what);
		if (vma->end > end)
			put(&mas, end, vma->end, vma->what);
		mas_set_range(&mas, from, to - 1);
		check(mas_store_gfp(&mas, NULL, GFP_KERNEL), "erase");
		kmem_cache_free_rcu(vmas, vma);
	}
	mas_unlock(&mas);
}

static void show(const char *title)
{
	unsigned long at = 0;
	struct vma *vma;

	printf("%s\n", title);
	rcu_read_lock();
	mt_for_each(&tree, vma, at, ULONG_MAX)
		printf("  %012lx-%012lx %s\n", vma->start, vma->end, vma->what);
	rcu_read_unlock();
}

/* Look up one address until `stop` is set; returns how often the lookup found another VMA. */
static void *read_while_mapping(void *program)
{
	unsigned long start = (unsigned long)(uintptr_t)program, wrong = 0;

	rcu_register_thread();
	while (!atomic_load(&stop)) {
		const struct vma *vma;

		rcu_read_lock();
		vma = mtree_load(&tree, start + 123);
		wrong += !vma || vma->start != start;
		rcu_read_unlock();
		atomic_fetch_add(&looks, 1);
	}
	rcu_unregister_thread();
	return (void *)(uintptr_t)wrong;
}

/* Map and unmap until the reader has done some lookups; returns how many of them were wrong. */
static void *map_beside_reader(unsigned long program)
{
	pthread_t reader;
	void *wrong;

	check(pthread_create(&reader, NULL, read_while_mapping, (void *)(uintptr_t)program),
	      "thread");
	while (atomic_load(&looks) < 1000) {
		unsigned long start = map(MIB, "buffer");

		unmap(start, start + MIB);
	}
	atomic_store(&stop, true);
	pthread_join(reader, &wrong);
	printf("a reader looked while another thread mapped, and found %s\n",
	       wrong ? "WRONG VMAs" : "the right VMA each time");
	return wrong;
}

int main(void)
{
	unsigned long program, heap;
	void *wrong;

	rcu_register_thread();
	vmas = KMEM_CACHE(vma, 0);
	if (!vmas || sheaf_urcu_register(0))
		return 1;
	program = map(2 * MIB, "program");
	heap = map(4 * MIB, "heap");
	map(8 * MIB, "stack");
	show("mapped, from the top downwards:");
	unmap(heap + MIB, heap + 3 * MIB);
	show("2 MiB in the middle of the heap unmapped:");
	wrong = map_beside_reader(program);
	unmap(LOW, HIGH);
	mtree_destroy(&tree);
	kmem_cache_destroy(vmas);
	rcu_unregister_thread();
	return wrong != NULL;
}
