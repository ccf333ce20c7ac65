/* SPDX-License-Identifier: MIT */
/*
 * Prefilled sheaves: promised objects are there in every case, and the remaining ones are returned.
 */
#include <errno.h>
#include <sched.h>
#include <sheaf/kmalloc.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <sheaf/trim.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/needs.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"

enum {
	SIZE = 64,
	MOST = 4000,
	HANDLED = 1000
};

static struct kmem_cache *s;
static void *held[MOST];
static struct capture captured;

/* The change of a counter; `should` if nothing is counted, or there are no sheaves. */
#define MOVED(before, name, should)                                                                \
	(library().counted && look(s).sheaf_capacity ? look(s).name - (before).name : (should))

static void all_is_there(void)
{
	struct kmem_cache_stats stats = look(s);

	assert_int_equal(kmem_cache_verify(s), 0);
	if (library().counted)
		assert_int_equal(stats.sheaf_refill - stats.sheaf_flush + stats.free_fastpath -
					 stats.alloc_fastpath,
				 stats.objects_in_sheaves);
	assert_int_equal(stats.objects_in_use, 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
}

static int set_up(void **state)
{
	(void)state;
	pin((unsigned int)sched_getcpu());
	s = kmem_cache_create("prefill", SIZE, NULL, SLAB_NO_MERGE);
	return s ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	kmem_cache_destroy(s);
	return 0;
}

static struct slab_sheaf *prefilled(unsigned int n)
{
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, n);

	assert_non_null(sheaf);
	assert_true(kmem_cache_sheaf_size(sheaf) >= n);
	return sheaf;
}

static void pop(struct slab_sheaf *sheaf, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		unsigned int left = kmem_cache_sheaf_size(sheaf);

		held[i] = kmem_cache_alloc_from_sheaf(s, GFP_NOWAIT, sheaf);
		assert_non_null(held[i]);
		assert_int_equal(kmem_cache_sheaf_size(sheaf), left - 1);
		memset(held[i], 0x77, SIZE);
	}
}

static void give(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		kmem_cache_free(s, held[i]);
}

/* The common case: the spare is lent, and becomes the spare again. */
static void spare_and_back(void **state)
{
	struct kmem_cache_stats before;
	struct slab_sheaf *sheaf;

	(void)state;
	/* PREFILL-F2, PREFILL-F4 */
	/* The first frees find the bootstrap sheaf, and leave it as the spare. */
	for (int round = 0; round < 2; round++) {
		sheaf = prefilled(8);
		pop(sheaf, 1);
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
		give(1);
	}
	before = look(s);
	for (int round = 0; round < 10; round++) {
		sheaf = prefilled(8);
		pop(sheaf, 2);
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
		give(2);
	}
	assert_int_equal(MOVED(before, sheaf_prefill_fast, 10), 10);
	assert_int_equal(MOVED(before, sheaf_prefill_slow, 0), 0);
	assert_int_equal(MOVED(before, sheaf_return_fast, 10), 10);
	assert_int_equal(MOVED(before, sheaf_return_slow, 0), 0);
	assert_int_equal(MOVED(before, sheaf_alloc, 0), 0);
	all_is_there();
}

/* No spare: a full sheaf of the barn is lent; if the barn has none, an empty or a new one is
 * filled. */
static void from_the_barn(void **state)
{
	struct kmem_cache_stats before = look(s);
	struct slab_sheaf *one, *two;

	(void)state;
	needs(NEED_SHEAVES);
	one = prefilled(1);
	assert_int_equal(MOVED(before, sheaf_prefill_slow, 1), 1);
	assert_int_equal(MOVED(before, barn_get, 0), 0);
	assert_int_equal(kmem_cache_sheaf_size(one), look(s).sheaf_capacity);
	two = prefilled(1);
	kmem_cache_return_sheaf(s, GFP_KERNEL, one);
	kmem_cache_return_sheaf(s, GFP_KERNEL, two);
	assert_int_equal(MOVED(before, barn_put, 1), 1);
	before = look(s);
	one = prefilled(3);
	two = prefilled(3);
	assert_int_equal(MOVED(before, barn_get, 1), 1);
	assert_int_equal(MOVED(before, sheaf_refill, 0), 0);
	kmem_cache_return_sheaf(s, GFP_KERNEL, one);
	kmem_cache_return_sheaf(s, GFP_KERNEL, two);
	all_is_there();
}

static void take(struct slab_sheaf *sheaf, void **objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		assert_non_null(objects[i] = kmem_cache_alloc_from_sheaf(s, GFP_NOWAIT, sheaf));
}

/* There is a spare already: the sheaf stays in the barn as it is, and the next one is merged with
 * it. No object passes through slabs, whatever the flags are. */
static void returned_beside_a_spare(void **state)
{
	unsigned int capacity = look(s).sheaf_capacity;
	struct kmem_cache_stats before = look(s);
	struct slab_sheaf *sheaves[3];

	(void)state;
	needs(NEED_SHEAVES);
	for (int i = 0; i < 3; i++)
		sheaves[i] = prefilled(1);
	assert_int_equal(MOVED(before, prefill_slab, 3 * capacity), 3 * capacity);
	take(sheaves[1], held, 5);
	take(sheaves[2], held + 5, 7);
	before = look(s);
	/* BARN-N3 */
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaves[0]);
	kmem_cache_return_sheaf(s, 0, sheaves[1]);
	assert_int_equal(MOVED(before, sheaf_return_slow, 1), 1);
	assert_int_equal(look(s).barn_full, 0);
	assert_int_equal(look(s).barn_partial, 1);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaves[2]);
	assert_int_equal(look(s).barn_full, 1);
	assert_int_equal(look(s).barn_partial, 1);
	assert_int_equal(look(s).objects_in_sheaves, 3 * capacity - 12);
	assert_int_equal(kmem_cache_verify(s), 0);
	/* The spare; the partial sheaf and some of the full one; the rest of that. */
	sheaves[0] = prefilled(capacity);
	assert_int_equal(MOVED(before, prefill_slot, capacity), capacity);
	sheaves[1] = prefilled(capacity);
	assert_int_equal(look(s).barn_full, 0);
	assert_int_equal(look(s).barn_partial, 1);
	assert_int_equal(MOVED(before, prefill_barn, capacity), capacity);
	sheaves[2] = prefilled(capacity - 12);
	assert_int_equal(MOVED(before, prefill_barn, 2 * capacity - 12), 2 * capacity - 12);
	assert_int_equal(look(s).barn_partial, 0);
	assert_int_equal(MOVED(before, prefill_slab, 0), 0);
	assert_int_equal(MOVED(before, sheaf_flush, 0), 0);
	assert_int_equal(MOVED(before, sheaf_refill, 0), 0);
	for (int i = 0; i < 3; i++)
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaves[i]);
	give(12);
	all_is_there();
}

/* An allocation takes the partial sheaf before objects of slabs. */
static void allocated_from_a_partial_sheaf(void **state)
{
	unsigned int capacity = look(s).sheaf_capacity;
	struct slab_sheaf *one, *two;

	(void)state;
	needs(NEED_SHEAVES);
	one = prefilled(1);
	two = prefilled(1);
	take(two, held, 5);
	kmem_cache_return_sheaf(s, GFP_KERNEL, one);
	kmem_cache_return_sheaf(s, GFP_KERNEL, two);
	for (unsigned int i = 5; i < 2 * capacity; i++)
		assert_non_null(held[i] = kmem_cache_alloc(s, GFP_KERNEL));
	assert_int_equal(look(s).objects_in_sheaves, 0);
	assert_int_equal(look(s).barn_partial, 0);
	give(2 * capacity);
	all_is_there();
}

/* The first calls in a cache are these: the sheaf becomes the spare nevertheless. */
static void first_calls(void **state)
{
	struct kmem_cache_stats before = look(s);

	(void)state;
	needs(NEED_SHEAVES);
	for (int i = 0; i < 3; i++)
		kmem_cache_return_sheaf(s, GFP_KERNEL, prefilled(8));
	assert_int_equal(MOVED(before, sheaf_return_fast, 3), 3);
	assert_int_equal(MOVED(before, sheaf_prefill_fast, 2), 2);
	all_is_there();
}

static void oversize(void **state)
{
	struct kmem_cache_stats before = look(s);
	struct slab_sheaf *sheaf = prefilled(1000);

	(void)state;
	assert_int_equal(kmem_cache_sheaf_size(sheaf), 1000);
	assert_int_equal(MOVED(before, sheaf_prefill_oversize, 1), 1);
	assert_int_equal(MOVED(before, sheaf_prefill_slow, 0), 0);
	pop(sheaf, 1000);
	assert_null(kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf));
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 700), 0);
	assert_int_equal(kmem_cache_sheaf_size(sheaf), 700);
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 2000), 0);
	assert_int_equal(kmem_cache_sheaf_size(sheaf), 2000);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	give(1000);
	/* Larger than a sheaf in a slot can ever be. */
	kmem_cache_return_sheaf(s, GFP_KERNEL, prefilled(9000));
	all_is_there();
	capture_begin(&captured);
	assert_null(kmem_cache_prefill_sheaf(s, GFP_KERNEL, 1u << 31));
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "at most 2147483647"));
	sheaf = prefilled(10);
	capture_begin(&captured);
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 1u << 31), -EINVAL);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "kmem_cache_refill_sheaf(prefill"));
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
}

static size_t used_bytes(void)
{
	struct sheaf_stats stats;

	sheaf_stats(&stats);
	return stats.used_bytes + stats.mapped_bytes;
}

/* The largest one that is a block of 2 MiB, and one that is a mapping. */
static void an_oversize_sheaf_gives_its_pages_back(void **state)
{
	static const unsigned int sizes[] = {262140, 262141};
	size_t before;

	(void)state;
	needs(NEED_SHEAVES);
	sheaf_trim(0);
	before = used_bytes();
	for (int i = 0; i < 2; i++) {
		struct slab_sheaf *sheaf = prefilled(sizes[i]);

		assert_int_equal(kmem_cache_sheaf_size(sheaf), sizes[i]);
		pop(sheaf, 1000);
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
		give(1000);
		sheaf_trim(0);
		assert_true(used_bytes() < before + (1 << 20));
	}
}

/* Its memory is the library's: no call of the program frees it. */
static void a_vast_sheaf_is_no_block(void **state)
{
	struct slab_sheaf *sheaf = prefilled(262141);

	(void)state;
	capture_begin(&captured);
	kfree(sheaf);
	assert_int_equal(capture_end(&captured), 1);
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 270000), 0);
	assert_int_equal(kmem_cache_sheaf_size(sheaf), 270000);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	all_is_there();
}

static void without_sheaves(void **state)
{
	struct kmem_cache *mine = s;
	struct slab_sheaf *sheaf;

	(void)state;
	s = kmem_cache_create("bare", SIZE, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	sheaf = prefilled(3);
	assert_int_equal(kmem_cache_sheaf_size(sheaf), 3);
	pop(sheaf, 3);
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 2), 0);
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 30), 0);
	assert_int_equal(kmem_cache_sheaf_size(sheaf), 30);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	give(3);
	all_is_there();
	kmem_cache_destroy(s);
	s = mine;
}

static void refill(void **state)
{
	struct slab_sheaf *sheaf = prefilled(10), *same = sheaf;
	unsigned int capacity = look(s).sheaf_capacity;

	(void)state;
	needs(NEED_SHEAVES);
	pop(sheaf, 20);
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, capacity - 20), 0);
	assert_int_equal(kmem_cache_sheaf_size(sheaf), capacity - 20);
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, capacity - 10), 0);
	assert_int_equal(kmem_cache_sheaf_size(sheaf), capacity);
	assert_ptr_equal(sheaf, same);
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, capacity + 1), 0);
	assert_int_equal(kmem_cache_sheaf_size(sheaf), capacity + 1);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	give(20);
	all_is_there();
}

/* Objects are zeroed when that is requested: their earlier contents are not visible. */
static void zeroed(void **state)
{
	static const char zero[SIZE];
	struct slab_sheaf *sheaf;

	(void)state;
	for (int i = 0; i < 100; i++)
		held[i] = memset(kmem_cache_alloc(s, GFP_KERNEL), 0xff, SIZE);
	give(100);
	sheaf = prefilled(40);
	for (int i = 0; i < 40; i++) {
		held[i] = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL | __GFP_ZERO, sheaf);
		assert_memory_equal(held[i], zero, SIZE);
	}
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	give(40);
	all_is_there();
}

/* Nothing fits into a full sheaf, also where it cannot become the spare and main has objects. */
static void full_sheaves_return(void **state)
{
	unsigned int capacity = look(s).sheaf_capacity;
	struct slab_sheaf *sheaves[4];

	(void)state;
	needs(NEED_SHEAVES);
	for (int i = 0; i < 4; i++)
		sheaves[i] = prefilled(capacity);
	held[0] = kmem_cache_alloc(s, GFP_KERNEL);
	give(1);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(kmem_cache_sheaf_size(sheaves[i]), capacity);
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaves[i]);
	}
	assert_int_equal(kmem_cache_verify(s), 0);
	all_is_there();
}

/* A spare that a return left partly filled is neither full nor empty to main (kernel-made
 * mistake). */
static void partly_filled_spare(void **state)
{
	unsigned int capacity = look(s).sheaf_capacity;

	(void)state;
	needs(NEED_SHEAVES);
	for (unsigned int used = 0; used <= capacity; used += 5) {
		struct slab_sheaf *sheaf = prefilled(capacity);

		pop(sheaf, used);
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
		give(used);
		for (unsigned int i = 0; i < 5 * capacity; i++)
			assert_non_null(held[i] = kmem_cache_alloc(s, GFP_KERNEL));
		assert_int_equal(kmem_cache_verify(s), 0);
		give(5 * capacity);
		assert_int_equal(kmem_cache_verify(s), 0);
	}
	all_is_there();
}

/* Objects of sheaves that are too small now come with the one that is made. */
static void from_a_barn_of_smaller_sheaves(void **state)
{
	struct kmem_cache_stats before;
	struct slab_sheaf *sheaf;
	size_t moved;

	(void)state;
	needs(NEED_SHEAVES);
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, 10), 0);
	for (unsigned int i = 0; i < 300; i++)
		assert_non_null(held[i] = kmem_cache_alloc(s, GFP_KERNEL));
	give(300);
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, 60), 0);
	before = look(s);
	sheaf = prefilled(40);
	moved = MOVED(before, prefill_slot, 0) + MOVED(before, prefill_barn, 0) +
		MOVED(before, prefill_slab, kmem_cache_sheaf_size(sheaf));
	assert_int_equal(moved, kmem_cache_sheaf_size(sheaf));
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	all_is_there();
}

/* The sheaf is lent while sheaves become smaller or larger, or while every CPU is drained. */
static void changes_while_it_is_out(void **state)
{
	static const unsigned int capacities[] = {7, 300, 60, 4096, 1};

	(void)state;
	needs(NEED_SHEAVES);
	for (int i = 0; i < 5; i++) {
		struct slab_sheaf *sheaf = prefilled(30);

		assert_int_equal(kmem_cache_set_sheaf_capacity(s, capacities[i]), 0);
		pop(sheaf, 4);
		assert_int_equal(kmem_cache_shrink(s), 1);
		assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 30), 0);
		assert_true(kmem_cache_sheaf_size(sheaf) >= 30);
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
		assert_int_equal(kmem_cache_verify(s), 0);
		kmem_cache_return_sheaf(s, GFP_KERNEL, prefilled(capacities[i]));
		give(4);
		all_is_there();
	}
}

static void misuse(void **state)
{
	struct kmem_cache *other = kmem_cache_create("other", SIZE, NULL, SLAB_NO_MERGE);
	struct slab_sheaf *sheaf = prefilled(5), *none = NULL;
	void *p;

	(void)state;
	capture_begin(&captured);
	assert_null(kmem_cache_prefill_sheaf(s, GFP_KERNEL, 0));
	kmem_cache_return_sheaf(s, GFP_KERNEL, NULL);
	assert_int_equal(kmem_cache_sheaf_size(NULL), 0);
	assert_null(kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, NULL));
	assert_int_equal(capture_end(&captured), 0);

	capture_begin(&captured);
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, &none, 5), -EINVAL);
	assert_int_equal(kmem_cache_refill_sheaf(s, GFP_KERNEL, NULL, 5), -EINVAL);
	kmem_cache_return_sheaf(other, GFP_KERNEL, sheaf);
	assert_null(kmem_cache_alloc_from_sheaf(other, GFP_KERNEL, sheaf));
	assert_int_equal(kmem_cache_refill_sheaf(other, GFP_KERNEL, &sheaf, 500), -EINVAL);
	assert_int_equal(capture_end(&captured), 5);
	assert_non_null(strstr(captured.text, "kmem_cache_return_sheaf(other, sheaf 0x"));

	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	capture_begin(&captured);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	p = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf);
	assert_null(p);
	assert_int_equal(kmem_cache_sheaf_size(sheaf), 0);
	assert_int_equal(capture_end(&captured), 3);
	kmem_cache_destroy(other);
	all_is_there();
}

static struct slab_sheaf *lent[MOST];
static unsigned int nr_lent;

/* Promised objects are there even without any other memory. */
static void no_memory(void)
{
	unsigned int n = 0, got = 0;
	struct slab_sheaf *sheaf;

	no_more_memory();
	if (mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	    MAP_FAILED)
		_exit(SKIPPED);
	while (nr_lent < MOST &&
	       (sheaf = kmem_cache_prefill_sheaf(s, nr_lent % 2 ? GFP_KERNEL : GFP_NOWAIT,
						 nr_lent % 100 + 1)) != NULL) {
		n += nr_lent % 100 + 1;
		lent[nr_lent++] = sheaf;
	}
	CHECK(nr_lent > 5 && nr_lent < MOST);
	/* Only these objects are left, and those above the requested number. */
	for (unsigned int i = 0; i < nr_lent; i++) {
		for (unsigned int j = 0; j <= i % 100; j++, got++) {
			uint64_t *object = kmem_cache_alloc_from_sheaf(s, GFP_NOWAIT, lent[i]);

			CHECK(object && *object != 0x900d);
			*object = 0x900d;
		}
		/* Sheaves that have memory of their own may find some for this. */
		CHECK(kmem_cache_refill_sheaf(s, GFP_NOWAIT, &lent[i], 200) == -ENOMEM ||
		      (has_option("hardened") || has_option("slab_guard_pools")));
		kmem_cache_return_sheaf(s, GFP_NOWAIT, lent[i]);
	}
	CHECK(got == n);
	CHECK(kmem_cache_verify(s) <= 0);
}

static void guaranteed_without_memory(void **state)
{
	int status = in_child(no_memory);

	(void)state;
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
		print_message("skipped: valgrind grants memory beyond the limit\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static struct slab_sheaf *of_handler;
static unsigned int nr_handled;

static void on_timer(int number)
{
	uint64_t *object;

	(void)number;
	/* The thread may still be busy when the last object is taken: later signals do nothing. */
	if (__atomic_load_n(&nr_handled, __ATOMIC_RELAXED) == HANDLED)
		return;
	object = kmem_cache_alloc_from_sheaf(s, GFP_NOWAIT, of_handler);
	CHECK(object);
	CHECK(__atomic_exchange_n(object, 0x51617a1, __ATOMIC_RELAXED) != 0x51617a1);
	__atomic_fetch_add(&nr_handled, 1, __ATOMIC_RELAXED);
}

/* A handler takes objects of the sheaf, wherever it interrupts the thread in the library, without
 * memory. */
static void in_a_handler(void)
{
	struct itimerval every = {{0, 200}, {0, 200}};
	unsigned int n = 0;

	of_handler = kmem_cache_prefill_sheaf(s, GFP_KERNEL, HANDLED);
	CHECK(of_handler);
	no_more_memory();
	signal(SIGALRM, on_timer);
	setitimer(ITIMER_REAL, &every, NULL);
	while (__atomic_load_n(&nr_handled, __ATOMIC_RELAXED) < HANDLED) {
		uint64_t *object = n < MOST ? kmem_cache_alloc(s, GFP_NOWAIT) : NULL;

		keep_signals_unblocked();
		if (object) {
			CHECK(*object != 0x51617a1);
			*object = 0;
			held[n++] = object;
			continue;
		}
		while (n)
			kmem_cache_free(s, held[--n]);
		kmem_cache_shrink(s);
	}
	_exit(0);
}

static void guaranteed_in_a_handler_without_memory(void **state)
{
	(void)state;
	assert_int_equal(in_child(in_a_handler), 0);
}

/* A thread that prefills a few at a time, and retires them: the spare never has enough for long. */
static void what_has_passed_comes_first(void **state)
{
	uint64_t slabs = 0, refilled = 0;

	(void)state;
	needs(NEED_SHEAVES);
	assert_int_equal(sheaf_rcu_register(&by_hand_ops), 0);
	for (unsigned int i = 0; i < MOST; i++) {
		struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 3);

		assert_non_null(sheaf);
		for (unsigned int j = 0; j < 3; j++)
			kmem_cache_free_rcu(s, kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf));
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
		by_hand_pass();
		if (i == MOST / 4) {
			slabs = look(s).slabs;
			refilled = look(s).sheaf_refill;
		}
	}
	assert_true(look(s).slabs == slabs);
	if (library().counted) {
		assert_true(look(s).sheaf_refill <= refilled + 64);
		assert_true(look(s).rcu_reuse > 0);
	}
	kvfree_rcu_barrier();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(spare_and_back),
		TEST(from_the_barn),
		TEST(returned_beside_a_spare),
		TEST(allocated_from_a_partial_sheaf),
		TEST(first_calls),
		TEST(oversize),
		TEST(without_sheaves),
		TEST(refill),
		TEST(zeroed),
		TEST(full_sheaves_return),
		TEST(partly_filled_spare),
		TEST(from_a_barn_of_smaller_sheaves),
		TEST(changes_while_it_is_out),
		TEST(misuse),
		TEST(guaranteed_without_memory),
		TEST(guaranteed_in_a_handler_without_memory),
		TEST(what_has_passed_comes_first),
		/* The last one: it leaves much free memory. */
		TEST(an_oversize_sheaf_gives_its_pages_back),
		TEST(a_vast_sheaf_is_no_block),
	};

	return cmocka_run_group_tests_name("prefill", tests, NULL, NULL);
}
