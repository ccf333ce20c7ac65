/* SPDX-License-Identifier: MIT */
/*
 * Threads whose rseq area the kernel does not update: they read no valid CPU number, so sections
 * must send them to the slow path, while other threads have valid numbers.
 */
#include <pthread.h>
#include <sheaf/debug.h>
#include <sheaf/slab.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kit/check.h"
#include "kit/hooks.h"
#include "kit/provider.h"
#include "kit/unit.h"

#define OBJECTS 500
#ifdef __aarch64__
#define SIGNATURE 0xd428bc00
#else
#define SIGNATURE 0x53053053
#endif
#define NONE   (-1) /* the kernel leaves this in cpu_id when an area is unregistered */
#define FAILED (-2) /* glibc writes this there when the registration was refused */

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static struct kmem_cache *s;
static int stop;

/* Returns false if there is no rseq. */
static bool unregister(int32_t cpu_id)
{
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;

	if (!&__rseq_size || __rseq_size == 0)
		return false;
	CHECK(!syscall(SYS_rseq, area, 32, 1, SIGNATURE) ||
	      !syscall(SYS_rseq, area, __rseq_size, 1, SIGNATURE));
	*(volatile int32_t *)(area + 4) = cpu_id;
	return true;
}

static void use_cache(void)
{
	void *objects[OBJECTS];

	for (int i = 0; i < OBJECTS; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		CHECK(objects[i]);
		memset(objects[i], 0x5a, 64);
	}
	for (int i = 0; i < OBJECTS; i++)
		kmem_cache_free(s, objects[i]);
	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, OBJECTS, objects) == OBJECTS);
	kmem_cache_free_bulk(s, OBJECTS, objects);
	for (int i = 0; i < OBJECTS; i++)
		objects[i] = kmem_cache_alloc_nolock(s, 0);
	for (int i = 0; i < OBJECTS; i++)
		kmem_cache_free_nolock(s, objects[i]);
}

static void *without(void *cpu_id)
{
	if (unregister((int32_t)(intptr_t)cpu_id))
		CHECK(!hook_is_registered());
	for (int round = 0; round < 200; round++)
		use_cache();
	return NULL;
}

static void *with(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		use_cache();
	return NULL;
}

static void threads_without_a_cpu(void **state)
{
	pthread_t beside, threads[2];

	(void)state;
	s = kmem_cache_create("without", 64, NULL, SLAB_NO_MERGE);
	assert_non_null(s);
	assert_int_equal(pthread_create(&beside, NULL, with, NULL), 0);
	assert_int_equal(pthread_create(&threads[0], NULL, without, (void *)(intptr_t)NONE), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, without, (void *)(intptr_t)FAILED), 0);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(beside, NULL);
	assert_true(hook_closed_rows_are_empty());
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

static void *retire(void *unused)
{
	(void)unused;
	unregister(NONE);
	for (int i = 0; i < OBJECTS; i++) {
		void *object = kmem_cache_alloc(s, GFP_KERNEL);

		CHECK(object);
		kmem_cache_free_rcu(s, object);
	}
	return NULL;
}

static void retired_without_a_cpu(void **state)
{
	pthread_t thread;

	(void)state;
	provider_register();
	s = kmem_cache_create("retired", 64, NULL, SLAB_NO_MERGE);
	assert_non_null(s);
	assert_int_equal(pthread_create(&thread, NULL, retire, NULL), 0);
	pthread_join(thread, NULL);
	kvfree_rcu_barrier();
	assert_true(hook_closed_rows_are_empty());
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_without_a_cpu),
		cmocka_unit_test(retired_without_a_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
