/* SPDX-License-Identifier: MIT */
/*
 * Cases of misuse: `misuse NAME` runs one, `misuse` lists them with their options. check-misuse
 * runs each in a process of its own, and compares what it reports with reports.txt.
 *
 * Those of the kernel's slub_kunit have its names, and test_ before them.
 */
#include <sheaf/debug.h>
#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kit/by_hand.h"

#define SIZE 64

static struct kmem_cache *s, *other;
static volatile size_t size = SIZE; /* compilers would see what is wrong */

static unsigned char *take(void)
{
	unsigned char *object = kmem_cache_alloc(s, GFP_KERNEL);

	if (!object)
		abort();
	memset(object, 0x11, SIZE);
	return object;
}

static void give(void *object)
{
	kmem_cache_free(s, object);
}

static void set(void *object, long at, size_t n)
{
	volatile unsigned char *bytes = object;

	for (size_t i = 0; i < n; i++)
		bytes[at + (long)i] = 0x78;
}

/* A block of kmalloc() of this many bytes. */
static unsigned char *block(size_t bytes)
{
	unsigned char *found = kmalloc(bytes, GFP_KERNEL);

	if (!found)
		abort();
	memset(found, 0x22, bytes);
	return found;
}

static void construct(void *object)
{
	memset(object, 0xc0, SIZE);
}

/* clang-format off */
#define CASES(CASE)                                                                                \
	/* slub_kunit */                                                                           \
	CASE(test_clobber_zone, "FZPU", void *p = take(); set(p, SIZE, 1); give(p))                \
	CASE(test_next_pointer, "FZPU", void *p = take(); give(p); set(p, SIZE / 2, 8); take())    \
	CASE(test_first_word, "FZPU", void *p = take(); give(p); set(p, 0, 1); take())             \
	CASE(test_clobber_50th_byte, "FZPU", void *p = take(); give(p); set(p, 50, 1); take())     \
	CASE(test_clobber_redzone_free, "FZPU", void *p = take(); give(p); set(p, SIZE, 1); take()) \
	CASE(test_kmalloc_redzone_access, "FZPU",                                                  \
		void *p = kmalloc_node(size - 46, GFP_KERNEL, NUMA_NO_NODE); memset(p, 0, 18);     \
		set(p, 18, 2); kfree(p))                                                           \
	CASE(test_kfree_rcu, "FZPU", kmem_cache_free_rcu(s, take()); kvfree_rcu_barrier())         \
	CASE(test_kfree_rcu_wq_destroy, "FZPU", kmem_cache_free_rcu(s, take()))                    \
	CASE(test_leak_destroy, "FZPU", take())                                                    \
	CASE(test_krealloc_redzone_zeroing, "FZPU",                                                \
		unsigned char *p = kzalloc(size - 16, GFP_KERNEL);                                 \
		p = krealloc(p, size - 24, GFP_KERNEL | __GFP_ZERO);                               \
		p = krealloc(p, size - 8, GFP_KERNEL | __GFP_ZERO);                                \
		for (size_t i = 0; i < 56; i++) if (p[i]) abort();                                 \
		p = krealloc(p, size + 48, GFP_KERNEL | __GFP_ZERO);                               \
		for (size_t i = 0; i < 112; i++) if (p[i]) abort();                                \
		kfree(p))                                                                          \
	/* frees */                                                                                \
	CASE(free_twice, "FZPU", void *p = take(); give(p); give(p))                               \
	CASE(free_twice_f, "F", void *p = take(); give(p); give(p))                                \
	CASE(free_twice_u, "U", void *p = take(); give(p); give(p))                                \
	CASE(free_twice_bulk, "FZPU",                                                              \
		void *p[3] = {take(), take()}; p[2] = p[0]; kmem_cache_free_bulk(s, 3, p))         \
	CASE(free_twice_nolock, "FZPU", void *p = take(); give(p); kmem_cache_free_nolock(s, p))   \
	CASE(free_twice_reused, "FZPU",                                                            \
		void *p = take(); give(p); void *q = take(); give(p); if (p == q) give(q))         \
	CASE(free_interior, "FZPU", unsigned char *p = take(); give(p + 8); give(p))               \
	CASE(free_interior_nolock, "FZPU",                                                         \
		unsigned char *p = take(); kmem_cache_free_nolock(s, p + 8); give(p))              \
	CASE(free_interior_rcu, "FZPU",                                                            \
		unsigned char *p = take(); kmem_cache_free_rcu(s, p + 8); give(p))                 \
	CASE(free_stack, "FZPU", _Alignas(64) char p[128]; memset(p, 0, 128); give(p))             \
	CASE(free_foreign, "FZPU", give(mmap(NULL, 4096, PROT_READ | PROT_WRITE,                   \
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)))                 \
	CASE(free_no_cache, "FZPU", void *p = take(); kmem_cache_free(NULL, p); give(p))           \
	CASE(free_wrong_cache, "FZPU", void *p = take(); kmem_cache_free(other, p); give(p))       \
	CASE(free_wrong_cache_bulk, "FZPU",                                                        \
		void *p = take(); kmem_cache_free_bulk(other, 1, &p); give(p))                     \
	CASE(free_wrong_cache_nolock, "FZPU",                                                      \
		void *p = take(); kmem_cache_free_nolock(other, p); give(p))                       \
	CASE(free_wrong_cache_rcu, "FZPU",                                                         \
		void *p = take(); kmem_cache_free_rcu(other, p); give(p))                          \
	CASE(free_kmalloc, "FZPU", void *p = block(16); give(p); kfree(p))                         \
	CASE(free_kmalloc_large, "FZPU", void *p = block(1200000); give(p); kfree(p))               \
	CASE(kfree_twice, "FZPU", void *p = block(40); kfree(p); kfree(p))                         \
	CASE(kfree_interior, "FZPU",                                                               \
		kfree(block(1)); unsigned char *p = block(40); kfree(p + 8); kfree(p))             \
	CASE(kfree_stack, "FZPU", _Alignas(64) char p[128]; memset(p, 0, 128); kfree(p + (size - 64))) \
	CASE(kfree_large_interior, "FZPU",                                                         \
		unsigned char *p = block(1200000); kfree(p + 64); kfree(p))                         \
	CASE(krealloc_freed, "FZPU", void *p = block(40); kfree(p); p = krealloc(p, 90, GFP_KERNEL)) \
	CASE(sensitive_freed, "FZPU",                                                              \
		void *p = block(40); kfree(p); kfree_sensitive(p); kfree(block(40)))               \
	/* RCU */                                                                                  \
	CASE(free_retired, "FZPU", void *p = take(); kmem_cache_free_rcu(s, p); give(p))           \
	CASE(retire_twice, "FZPU",                                                                 \
		void *p = take(); kmem_cache_free_rcu(s, p); kmem_cache_free_rcu(s, p))            \
	CASE(retire_freed, "FZPU", void *p = take(); give(p); kmem_cache_free_rcu(s, p))           \
	CASE(write_after_grace, "FZPU",                                                            \
		void *p = take(); kmem_cache_free_rcu(s, p); kvfree_rcu_barrier(); set(p, 8, 1); take()) \
	CASE(overflow_retired, "FZPU",                                                             \
		void *p = take(); kmem_cache_free_rcu(s, p); set(p, SIZE, 1); kvfree_rcu_barrier()) \
	/* bytes */                                                                                \
	CASE(overflow_eight, "FZPU", void *p = take(); set(p, SIZE, 8); give(p))                   \
	CASE(overflow_z, "Z", void *p = take(); set(p, SIZE, 1); give(p))                          \
	/* The first call of all makes the caches, and knows only which one it wants. */           \
	CASE(overflow_kmalloc, "FZPU",                                                             \
		kfree(block(1)); void *p = block(18); set(p, 18, 1); kfree(p))                     \
	CASE(underflow_one, "FZPU", void *p = take(); set(p, -1, 1); give(p))                      \
	CASE(underflow_sixteen, "FZPU", void *p = take(); set(p, -16, 16); give(p))                \
	CASE(underflow_far, "FZPU", void *p = take(); set(p, -24, 4); give(p))                     \
	CASE(write_end, "FZPU", void *p = take(); give(p); set(p, SIZE - 1, 1); take())            \
	CASE(write_p, "P", void *p = take(); give(p); set(p, 3, 2); take())                        \
	CASE(write_verified, "FZPU", void *p = take(); give(p); set(p, 3, 2); kmem_cache_verify(s)) \
	CASE(write_constructed, "FZPU",                                                            \
		struct kmem_cache *c = kmem_cache_create("made", SIZE, 8, SLAB_NO_MERGE, construct); \
		void *p = kmem_cache_alloc(c, GFP_KERNEL); kmem_cache_free(c, p); set(p, SIZE, 1); \
		if (!kmem_cache_alloc(c, GFP_KERNEL)) abort())                                     \
	/* in quarantine */                                                                        \
	CASE(free_twice_resting, "FZPUQ",                                                          \
		void *p = take(); give(p); for (size_t i = 0; i < size; i++) give(take()); give(p)) \
	CASE(free_twice_q, "Q", void *p = take(); give(p); give(take()); give(p))                        \
	CASE(retire_resting, "FZPUQ", void *p = take(); give(p); give(take()); kmem_cache_free_rcu(s, p)) \
	CASE(write_resting, "FZPUQ",                                                               \
		void *p = take(); give(p); void *q = take(); set(p, 3, 1); kmem_cache_shrink(s); give(q)) \
	CASE(write_until_destroyed, "PQ", void *p = take(); give(p); set(p, 60, 4))                \
	CASE(write_validated, "FZPUQ",                                                             \
		void *p = take(); give(p); set(p, SIZE, 1); kmem_cache_validate(s))                \
	CASE(reader_late, "FZPUQ",                                                                 \
		unsigned char *p = take(); kmem_cache_free_rcu(s, p); kvfree_rcu_barrier(); \
		give(take()); set(p, 40, 1))                                                                     \
	CASE(kfree_resting, "FZPUQ",                                                               \
		void *p = block(40); kfree(p); kfree(block(40)); kfree(p))                         \
	/* leaks */                                                                                \
	CASE(leak_two, "FZPU", for (size_t i = 0; i < size / 32; i++) take())                      \
	CASE(leak_without_u, "F", take())
/* clang-format on */

#define FUNCTION(name, options, ...)                                                               \
	static void name(void)                                                                     \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}
CASES(FUNCTION)

static const struct {
	const char *name, *options;
	void (*run)(void);
} cases[] = {
#define ROW(name, options, ...) {#name, options, name},
	CASES(ROW)};

int main(int argc, char **argv)
{
	size_t n = sizeof(cases) / sizeof(cases[0]);

	if (argc < 2)
		for (size_t i = 0; i < n; i++)
			printf("%s %s\n", cases[i].name, cases[i].options);
	for (size_t i = 0; argc == 2 && i < n; i++) {
		if (strcmp(cases[i].name, argv[1]) != 0)
			continue;
		sheaf_rcu_register(&by_hand_ops);
		s = kmem_cache_create("conn", SIZE, NULL, SLAB_NO_MERGE);
		other = kmem_cache_create("task", SIZE, NULL, SLAB_NO_MERGE);
		cases[i].run();
		kmem_cache_destroy(s);
		kmem_cache_destroy(other);
		return 0;
	}
	return argc == 2 ? 2 : 0;
}
