/* SPDX-License-Identifier: MIT */
/*
 * kfree_rcu() under real readers: writers replace entries of a table and retire the old ones with
 * every available call; readers hold entries during whole read-side sections and check their
 * stamps. If a stamp changes while a reader holds the entry, the entry was freed or allocated again
 * too early.
 *
 * Built for each flavour of liburcu: FLAVOUR names it. With NO_GRACE_PERIOD the provider calls its
 * callbacks immediately: the readers must detect that.
 *
 *   storm-rcu-FLAVOUR [--entries N]    replaced by each writer
 */
#include "flavour.h"

#include <pthread.h>
#include <sheaf/rcu.h>
#include <sheaf/stats.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ENTRIES = 256,
	WRITERS = 2,
	READERS = 2,
	LOOKS = 32, /* at each entry, in one read-side section */
	CACHES = 3
};

struct entry {
	_Atomic uint64_t stamp[6];
	struct rcu_head rcu;
};

static struct kmem_cache *caches[CACHES];
static struct entry *_Atomic table[ENTRIES];
static _Atomic uint64_t stamps;
static unsigned long to_replace = 300000;
static atomic_uint writers_left = WRITERS;
static atomic_bool stop;
static atomic_uint faults;

#ifdef NO_GRACE_PERIOD
static struct sheaf_rcu_head *_Atomic called;

static void call_soon(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	head->func = func;
	head->next = atomic_load(&called);
	while (!atomic_compare_exchange_weak(&called, &head->next, head))
		;
}

static void call_all(void)
{
	struct sheaf_rcu_head *head = atomic_exchange(&called, NULL), *next;

	for (; head; head = next) {
		next = head->next;
		head->func(head);
	}
}

static void *caller(void *argument)
{
	for (;;) {
		call_all();
		usleep(100);
	}
	return argument;
}

static const struct sheaf_rcu_ops wrong = {.size = sizeof(struct sheaf_rcu_ops),
					   .name = "none",
					   .call = call_soon,
					   .barrier = call_all};
#endif

static void fail(const char *what)
{
	if (!atomic_fetch_add(&faults, 1))
		fprintf(stderr, "storm-rcu: %s\n", what);
	atomic_store(&stop, true);
}

static struct entry *new_entry(unsigned int which)
{
	struct entry *entry = kmem_cache_alloc(caches[which % CACHES], GFP_KERNEL);
	uint64_t stamp = atomic_fetch_add(&stamps, 1) + 1;

	if (!entry)
		abort();
	for (int i = 0; i < 6; i++)
		atomic_store_explicit(&entry->stamp[i], stamp, memory_order_relaxed);
	return entry;
}

static void retire(struct entry *old, unsigned int which, unsigned int how)
{
	if (how % 16 == 0)
		kfree_rcu_mightsleep(old);
	else if (how % 2)
		kfree_rcu(old, rcu);
	else
		kmem_cache_free_rcu(caches[which % CACHES], old);
}

static void *writer(void *argument)
{
	unsigned int seed = (unsigned int)(uintptr_t)argument + 1;

	rcu_register_thread();
	online(false);
	for (unsigned long i = 0; i < to_replace && !atomic_load(&stop); i++) {
		unsigned int at = (unsigned int)rand_r(&seed) % ENTRIES;
		struct entry *old = atomic_exchange(&table[at], new_entry(at));

		if (old)
			retire(old, at, (unsigned int)rand_r(&seed));
	}
	online(true);
	rcu_unregister_thread();
	if (atomic_fetch_sub(&writers_left, 1) == 1)
		atomic_store(&stop, true);
	return NULL;
}

static void look(struct entry *entry)
{
	uint64_t first = atomic_load_explicit(&entry->stamp[0], memory_order_relaxed);

	for (int i = 0; i < LOOKS; i++)
		if (atomic_load_explicit(&entry->stamp[i % 6], memory_order_relaxed) != first)
			fail("an entry changed while a reader held it");
}

static void *reader(void *argument)
{
	unsigned int seed = (unsigned int)(uintptr_t)argument + 100;

	rcu_register_thread();
	while (!atomic_load(&stop)) {
		rcu_read_lock();
		for (int i = 0; i < 16; i++) {
			unsigned int at = (unsigned int)rand_r(&seed) % ENTRIES;
			struct entry *entry = atomic_load(&table[at]);

			if (entry)
				look(entry);
		}
		rcu_read_unlock();
		rcu_quiescent_state();
	}
	rcu_unregister_thread();
	return NULL;
}

/* Caches are shrunk and barriers wait during the storm. */
static void disturb(void)
{
	unsigned int seed = 7;

	while (!atomic_load(&stop)) {
		unsigned int what = (unsigned int)rand_r(&seed) % 4;

		if (what == 0)
			kmem_cache_shrink(caches[0]);
		else if (what == 1)
			kvfree_rcu_barrier_on_cache(caches[1]);
		else if (what == 2)
			kvfree_rcu_barrier();
		usleep(1000);
	}
}

static int forked_child(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct entry *entry = new_entry(0);

		kfree_rcu(entry, rcu);
		kvfree_rcu_barrier();
		_exit(0);
	}
	return child < 0 || waitpid(child, &status, 0) != child || status;
}

static __attribute__((unused)) int check(void)
{
	int faulty = 0;

	for (int i = 0; i < ENTRIES; i++)
		if (table[i])
			kfree_rcu(table[i], rcu);
	faulty |= forked_child();
	if (faulty)
		fprintf(stderr, "storm-rcu: a forked child did not end well\n");
	kvfree_rcu_barrier();
	for (int i = 0; i < CACHES; i++) {
		struct kmem_cache_stats stats;

		kmem_cache_stats(caches[i], &stats);
		if (stats.objects_in_use || stats.rcu_pending_objects ||
		    kmem_cache_verify(caches[i])) {
			fprintf(stderr, "storm-rcu: %s: %llu in use, %llu pending\n", stats.name,
				(unsigned long long)stats.objects_in_use,
				(unsigned long long)stats.rcu_pending_objects);
			faulty = 1;
		}
		kmem_cache_destroy(caches[i]);
	}
	return faulty;
}

int main(int argc, char **argv)
{
	pthread_t threads[WRITERS + READERS];
	int faulty;

	if (argc > 2 && !strcmp(argv[1], "--entries"))
		to_replace = strtoul(argv[2], NULL, 10);
	rcu_register_thread();
#ifdef NO_GRACE_PERIOD
	sheaf_rcu_register(&wrong);
	pthread_create(&threads[0], NULL, caller, NULL);
#else
	if (sheaf_urcu_register(0))
		return 1;
#endif
	caches[0] = kmem_cache_create("storm-rcu-a", sizeof(struct entry), NULL, SLAB_NO_MERGE);
	caches[1] = kmem_cache_create("storm-rcu-b", sizeof(struct entry), NULL, SLAB_NO_MERGE);
	caches[2] = kmem_cache_create("storm-rcu-c", sizeof(struct entry), NULL,
				      SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	online(false);
	for (uintptr_t i = 0; i < WRITERS + READERS; i++)
		pthread_create(&threads[i], NULL, i < WRITERS ? writer : reader, (void *)i);
	disturb();
	for (int i = 0; i < WRITERS + READERS; i++)
		pthread_join(threads[i], NULL);
#ifdef NO_GRACE_PERIOD
	faulty = !atomic_load(&faults);
#else
	faulty = atomic_load(&faults) ? 1 : check();
#endif
	online(true);
	printf("%llu entries, %u faults\n", (unsigned long long)stamps, atomic_load(&faults));
	rcu_unregister_thread();
	return faulty;
}
