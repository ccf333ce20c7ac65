/* SPDX-License-Identifier: MIT */
/*
 * Large blocks that wait for a grace period: only readers may look at them. Every other call
 * reports that it got one and does nothing, with any options.
 */
#include <pthread.h>
#include <sheaf/group.h>
#include <sheaf/kmalloc.h>
#include <sheaf/mempool.h>
#include <sheaf/rcu.h>
#include <sheaf/stats.h>
#include <sheaf/trim.h>
#include <string.h>

#include "kit/by_hand.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/hooks.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/unit.h"

#define MiB ((size_t)1 << 20)

enum {
	ROUNDS = 300,
	BEFORE = 4
};

struct block {
	struct sheaf_rcu_head rcu;
};

static const size_t sizes[] = {MiB + 70000,
			       3 * MiB}; /* with a mapping of 2 MiB of addresses, and of more */
static struct capture captured;
static size_t size; /* of the block under test */

static char *new_block(gfp_t flags)
{
	char *block = kmalloc(size, flags);

	if (block)
		memset(block, 0x11, size);
	return block;
}

static uint64_t bytes_used(void)
{
	struct sheaf_stats stats;

	sheaf_stats(&stats);
	return stats.mapped_bytes;
}

static uint64_t bytes_retired(void)
{
	struct sheaf_stats stats;

	sheaf_stats(&stats);
	return stats.rcu_bytes;
}

static void all_pass(void)
{
	by_hand_pass();
	kvfree_rcu_barrier();
}

/* --- calls ------------------------------------------------------------------------------------ */

static void retire(void *block)
{
	kvfree_rcu((struct block *)block, rcu);
}

static void free_one_of_many(void *block)
{
	kfree_bulk(1, &block);
}

static void free_many(void *block)
{
	void *blocks[] = {NULL, block, block, ZERO_SIZE_PTR};

	kmem_cache_free_bulk(NULL, 4, blocks);
}

static void stay(void *block)
{
	CHECK(!krealloc(block, size - 8, GFP_KERNEL));
}

static void shrink(void *block)
{
	CHECK(!krealloc(block, size / 3, GFP_KERNEL | __GFP_ZERO));
}

static void grow(void *block)
{
	CHECK(!kvrealloc(block, 2 * size, GFP_KERNEL));
}

static void resize_to_nothing(void *block)
{
	CHECK(krealloc(block, 0, GFP_KERNEL) == ZERO_SIZE_PTR);
}

static void wipe(void *block)
{
	kvfree_sensitive(block, size);
}

static const struct {
	void (*call)(void *block);
	const char *name;
	int lines;
} calls[] = {
	{(void (*)(void *))kfree, "kfree(", 1},
	{(void (*)(void *))kvfree, "kfree(", 1},
	{free_one_of_many, "kmem_cache_free_bulk(", 1},
	{retire, "kfree_rcu(", 1},
	{(void (*)(void *))kvfree_rcu_mightsleep, "kfree_rcu_mightsleep(", 1},
	{free_many, "kmem_cache_free_bulk(", 2},
	{stay, "krealloc(", 1},
	{shrink, "krealloc(", 1},
	{grow, "kvrealloc(", 1},
	{resize_to_nothing, "krealloc(", 1},
	{(void (*)(void *))kfree_sensitive, "kfree_sensitive(", 1},
	{wipe, "kvfree_sensitive(", 1},
};

#define NR_CALLS (sizeof(calls) / sizeof(calls[0]))
#define NR_ONCE	 5 /* the first ones free one block */

/* The first way to retire a block, or the second. */
static void retire_by(unsigned int way, void *block)
{
	if (way)
		kvfree_rcu_mightsleep(block);
	else
		retire(block);
}

/* --- one thread ------------------------------------------------------------------------------- */

static void is_ignored(unsigned int i, char *block)
{
	uint64_t used = bytes_used(), waits = bytes_retired();

	capture_begin(&captured);
	calls[i].call(block);
	if (capture_end(&captured) != calls[i].lines || !strstr(captured.text, calls[i].name) ||
	    !strstr(captured.text, "freed or retired before"))
		fail_msg("call %u: \"%s\"", i, captured.text);
	assert_int_equal(bytes_used(), used);
	assert_int_equal(bytes_retired(), waits);
	assert_int_equal(block[sizeof(struct block)], 0x11);
	assert_int_equal(block[size - 1], 0x11);
}

static void a_block_that_waits(void **state)
{
	uint64_t before = bytes_used();

	(void)state;
	for (unsigned int kind = 0; kind < 2; kind++)
		for (unsigned int i = 0; i < 2 * NR_CALLS; i++) {
			char *block;

			size = sizes[kind];
			block = new_block(GFP_KERNEL);
			assert_non_null(block);
			retire_by(i % 2, block);
			is_ignored(i / 2, block);
			/* Readers may call it. */
			assert_int_equal(ksize(block), kmalloc_size_roundup(size));
			all_pass();
			assert_int_equal(bytes_used(), before);
			assert_int_equal(bytes_retired(), 0);
		}
}

static void its_charge(void **state)
{
	struct kmem_group *g = kmem_group_create("tenant", NULL, NULL);
	struct kmem_group_stats stats;

	(void)state;
	assert_non_null(g);
	kmem_group_restore_current(kmem_group_get(g));
	for (unsigned int kind = 0; kind < 2; kind++)
		for (unsigned int i = 0; i < NR_CALLS; i++) {
			char *block;

			size = sizes[kind];
			block = new_block(GFP_KERNEL_ACCOUNT);
			assert_non_null(block);
			retire_by(i % 2, block);
			is_ignored(i, block);
			assert_int_equal(kmem_group_stats(g, &stats), 0);
			assert_int_equal(stats.bytes, kmalloc_size_roundup(size));
			assert_int_equal(kmem_group_verify(), 0);
			all_pass();
			assert_int_equal(kmem_group_stats(g, &stats), 0);
			assert_int_equal(stats.bytes, 0);
			assert_int_equal(kmem_group_verify(), 0);
		}
	kmem_group_restore_current(NULL);
	kmem_group_put(g);
}

/* The pages of a block that was freed after its grace period are those of the next one. */
static void the_next_block_there(void **state)
{
	(void)state;
	for (unsigned int kind = 0; kind < 2; kind++)
		for (int i = 0; i < 20; i++) {
			char *block;

			size = sizes[kind];
			retire_by(i % 2, new_block(GFP_KERNEL));
			all_pass();
			block = new_block(GFP_KERNEL);
			capture_begin(&captured);
			block = kvrealloc(block, 2 * size, GFP_KERNEL);
			assert_non_null(block);
			kfree_sensitive(block);
			assert_int_equal(capture_end(&captured), 0);
		}
}

static void not_its_beginning(void **state)
{
	uint64_t before = bytes_used();

	(void)state;
	for (unsigned int kind = 0; kind < 2; kind++)
		for (unsigned int way = 0; way < 2; way++) {
			char *block;

			size = sizes[kind];
			block = new_block(GFP_KERNEL);
			capture_begin(&captured);
			retire_by(way, block + 4096);
			assert_int_equal(capture_end(&captured), 1);
			assert_non_null(strstr(captured.text, "points 4096 bytes into a block"));
			assert_int_equal(bytes_retired(), 0);
			kfree(block);
			assert_int_equal(bytes_used(), before);
		}
}

static void it_enters_no_reserve(void **state)
{
	(void)state;
	if (!checks_free()) {
		print_message("skipped: with these options mempool_free() checks no element\n");
		skip();
	}
	for (unsigned int kind = 0; kind < 2; kind++) {
		mempool_t *pool = mempool_create_kmalloc_pool(1, sizes[kind]);
		char *block = mempool_alloc_preallocated(pool);

		assert_non_null(block);
		capture_begin(&captured);
		mempool_free(block + 4096, pool);
		retire(block);
		mempool_free(block, pool);
		assert_int_equal(capture_end(&captured), 2);
		assert_non_null(strstr(captured.text, "mempool_free("));
		assert_non_null(strstr(captured.text, "freed or retired before"));
		assert_null(mempool_alloc_preallocated(pool));
		mempool_destroy(pool);
		all_pass();
	}
}

/* Without sheaves and checks, nothing distinguishes an object that waits from others: it is freed
 * immediately, and then nothing is at its address. */
static void an_object_that_was_freed_meanwhile(void **state)
{
	struct kmem_cache *s =
		kmem_cache_create("meanwhile", 3000, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	void *object = kmem_cache_alloc(s, GFP_KERNEL);

	(void)state;
	assert_non_null(object);
	capture_begin(&captured);
	retire(object);
	kmem_cache_free(s, object);
	kmem_cache_shrink(s);
	all_pass();
	assert_true(capture_end(&captured) >= 1);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

/* --- children --------------------------------------------------------------------------------- */

static char *inherited;

static void free_inherited(void)
{
	uint64_t used = bytes_used(), retired = bytes_retired();

	capture_begin(&captured);
	kfree(inherited);
	retire(inherited);
	CHECK(!krealloc(inherited, size, GFP_KERNEL));
	CHECK(capture_end(&captured) == 3);
	CHECK(bytes_used() == used && bytes_retired() == retired);
	all_pass();
	CHECK(bytes_used() == used - kmalloc_size_roundup(size) && bytes_retired() == 0);
}

static void in_a_forked_child(void **state)
{
	(void)state;
	for (unsigned int kind = 0; kind < 2; kind++) {
		size = sizes[kind];
		sheaf_trim(0); /* A freed block that waits may be larger. */
		inherited = new_block(GFP_KERNEL);
		retire(inherited);
		assert_int_equal(in_child(free_inherited), 0);
		all_pass();
		assert_int_equal(bytes_retired(), 0);
	}
}

/* A block for whose pointer there is no memory: those before took the library's last sheaves. */
static char *no_memory_for_its_pointer(void)
{
	char *blocks[BEFORE + 1];

	pin(0);
	for (int i = 0; i <= BEFORE; i++) {
		blocks[i] = new_block(GFP_KERNEL);
		CHECK(blocks[i]);
	}
	no_more_memory();
	hook_use_up_pool(2048);
	for (int i = 0; i < BEFORE; i++)
		retire(blocks[i]);
	return blocks[BEFORE];
}

static void all_are_freed(uint64_t used)
{
	all_pass();
	CHECK(bytes_retired() == 0);
	CHECK(bytes_used() == used - (BEFORE + 1) * kmalloc_size_roundup(size));
}

static void sleep_without_memory(void)
{
	char *block = no_memory_for_its_pointer();
	uint64_t used = bytes_used();

	kvfree_rcu_mightsleep(block);
	CHECK(bytes_used() <= used - kmalloc_size_roundup(size));
	all_are_freed(used);
}

static void wait_by_its_head(void)
{
	char *block = no_memory_for_its_pointer();
	uint64_t used = bytes_used(), others = bytes_retired(), waits;

	retire(block);
	waits = bytes_retired();
	CHECK(waits >= others + size);
	capture_begin(&captured);
	kfree(block);
	retire(block);
	CHECK(capture_end(&captured) == 2);
	CHECK(bytes_used() == used && bytes_retired() == waits);
	all_are_freed(used);
}

static void without_memory(void **state)
{
	(void)state;
	for (unsigned int kind = 0; kind < 2; kind++) {
		size = sizes[kind];
		sheaf_trim(0);
		assert_int_equal(in_child(sleep_without_memory), 0);
		assert_int_equal(in_child(wait_by_its_head), 0);
	}
}

/* --- threads ---------------------------------------------------------------------------------- */

static pthread_barrier_t turn;
static char *shared;

static void *free_with_another(void *unused)
{
	(void)unused;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&turn);
		calls[i % NR_ONCE].call(shared);
		pthread_barrier_wait(&turn);
	}
	return NULL;
}

/* Two threads free one block at the same time: one of them gets a report, and it is freed once. */
static void two_threads(void **state)
{
	uint64_t before = bytes_used();
	pthread_t other;

	(void)state;
	assert_int_equal(pthread_barrier_init(&turn, NULL, 2), 0);
	assert_int_equal(pthread_create(&other, NULL, free_with_another, NULL), 0);
	capture_begin(&captured);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int reports = hook_reports();

		size = sizes[i / (2 * NR_ONCE) % 2];
		shared = kmalloc(size, GFP_KERNEL);
		CHECK(shared);
		pthread_barrier_wait(&turn);
		retire_by(i / NR_ONCE % 2, shared);
		pthread_barrier_wait(&turn);
		all_pass();
		CHECK(hook_reports() - reports == 1);
		CHECK(bytes_used() == before && bytes_retired() == 0);
	}
	capture_end(&captured);
	pthread_join(other, NULL);
	pthread_barrier_destroy(&turn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_block_that_waits),
		cmocka_unit_test(its_charge),
		cmocka_unit_test(the_next_block_there),
		cmocka_unit_test(not_its_beginning),
		cmocka_unit_test(it_enters_no_reserve),
		cmocka_unit_test(an_object_that_was_freed_meanwhile),
		cmocka_unit_test(in_a_forked_child),
		cmocka_unit_test(without_memory),
		cmocka_unit_test(two_threads),
	};

	if (sheaf_rcu_register(&by_hand_ops))
		return 1;
	/* A sanitizer would end the program at the first misuse. */
	hook_leave_tools();
	return cmocka_run_group_tests_name("freed-large", tests, NULL, NULL);
}
