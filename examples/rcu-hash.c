/* SPDX-License-Identifier: MIT */
/*
 * An RCU-protected hash table. Readers look up entries without a lock; writers insert and delete
 * under a lock for each bucket; kfree_rcu() frees a deleted entry once no reader can see it.
 *
 *     rcu-hash [UPDATES]                    of each writer
 *     cc -O2 rcu-hash.c -o rcu-hash $(pkg-config --cflags --libs libsheaf-urcu liburcu-memb) -pthread
 *
 *   bucket -> entry -> entry -> NULL      a writer unlinks an entry by one store; a reader that
 *                                         stands on it still finds its way to the end
 *
 * This example shows:
 *   - a flavour's header and <sheaf/rcu.h>; sheaf_urcu_register() once
 *   - each thread that reads or retires is registered with liburcu
 *   - kfree_rcu(entry, rcu) never waits: no call_rcu() callback, no list of objects to free
 *   - in steady use, deleted entries are allocated again, in whole sheaves
 */
#include <urcu.h>

#include <urcu/rculist.h>

#include <pthread.h>
#include <sheaf/rcu.h>
#include <sheaf/stats.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	BUCKETS = 64,
	KEYS = 512, /* about half of them are in the table */
	READERS = 2,
	WRITERS = 2
};

struct entry {
	struct cds_list_head link;
	uint64_t key;
	uint64_t value; /* value_of(key), for as long as a reader may look */
	struct rcu_head rcu;
};

static struct {
	pthread_mutex_t lock; /* of writers */
	struct cds_list_head entries;
} table[BUCKETS];

static struct kmem_cache *entries;
static unsigned long updates = 200000;
static atomic_bool stop; /* for readers */
static atomic_ulong lookups, hits, inserted, deleted, faults;

static uint64_t value_of(uint64_t key)
{
	return key * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static struct entry *find(uint64_t key)
{
	struct entry *entry;

	cds_list_for_each_entry_rcu(entry, &table[key % BUCKETS].entries,
				    link) if (entry->key == key) return entry;
	return NULL;
}

/* The value of a key, or 0. The entry itself may be used inside the section only. */
static uint64_t look_up(uint64_t key)
{
	struct entry *entry;
	uint64_t value = 0;

	rcu_read_lock();
	entry = find(key);
	if (entry)
		value = entry->value;
	rcu_read_unlock();
	return value;
}

/* False if it is there already, or there is no memory. */
static bool insert(uint64_t key)
{
	struct entry *entry = kmem_cache_alloc(entries, GFP_KERNEL);
	bool done;

	if (!entry)
		return false;
	entry->key = key;
	entry->value = value_of(key);
	pthread_mutex_lock(&table[key % BUCKETS].lock);
	done = !find(key);
	if (done)
		cds_list_add_rcu(&entry->link, &table[key % BUCKETS].entries);
	pthread_mutex_unlock(&table[key % BUCKETS].lock);
	if (!done)
		kmem_cache_free(entries, entry); /* no reader has seen it */
	return done;
}

static bool delete (uint64_t key)
{
	struct entry *entry;

	pthread_mutex_lock(&table[key % BUCKETS].lock);
	entry = find(key);
	if (entry)
		cds_list_del_rcu(&entry->link);
	pthread_mutex_unlock(&table[key % BUCKETS].lock);
	if (entry)
		kfree_rcu(entry, rcu);
	return entry != NULL;
}

static void *reader(void *argument)
{
	unsigned int seed = (unsigned int)(uintptr_t)argument;

	rcu_register_thread();
	while (!atomic_load(&stop)) {
		uint64_t key = (uint64_t)rand_r(&seed) % KEYS, value = look_up(key);

		atomic_fetch_add_explicit(&lookups, 1, memory_order_relaxed);
		if (value)
			atomic_fetch_add_explicit(&hits, 1, memory_order_relaxed);
		if (value && value != value_of(key))
			atomic_fetch_add(&faults, 1);
	}
	rcu_unregister_thread();
	return NULL;
}

static void *writer(void *argument)
{
	unsigned int seed = (unsigned int)(uintptr_t)argument;

	rcu_register_thread();
	for (unsigned long i = 0; i < updates; i++) {
		uint64_t key = (uint64_t)rand_r(&seed) % KEYS;

		if (rand_r(&seed) % 2)
			atomic_fetch_add(&inserted, insert(key));
		else
			atomic_fetch_add(&deleted, delete (key));
	}
	rcu_unregister_thread();
	return NULL;
}

static void run(void)
{
	pthread_t threads[READERS + WRITERS];

	for (uintptr_t i = 0; i < READERS + WRITERS; i++)
		if (pthread_create(&threads[i], NULL, i < READERS ? reader : writer,
				   (void *)(i + 1)))
			abort();
	for (int i = READERS; i < READERS + WRITERS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&stop, true);
	for (int i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	struct kmem_cache_stats stats;

	rcu_register_thread();
	entries = kmem_cache_create("entries", sizeof(struct entry), NULL, 0);
	if (!entries || sheaf_urcu_register(0))
		return 1;
	for (int i = 0; i < BUCKETS; i++) {
		pthread_mutex_init(&table[i].lock, NULL);
		CDS_INIT_LIST_HEAD(&table[i].entries);
	}
	if (argc > 1)
		updates = strtoul(argv[1], NULL, 10);
	run();
	for (uint64_t key = 0; key < KEYS; key++)
		atomic_fetch_add(&deleted, delete (key));
	kvfree_rcu_barrier(); /* only to show that nothing is left */
	kmem_cache_stats(entries, &stats);
	printf("%lu lookups, %lu of them found their key; %lu entries inserted, %lu deleted, in "
	       "%llu "
	       "KiB of slabs; %llu are left, %lu lookups saw a freed entry\n",
	       lookups, hits, inserted, deleted, (unsigned long long)stats.slab_bytes >> 10,
	       (unsigned long long)stats.objects_in_use, faults);
	kmem_cache_destroy(entries);
	rcu_unregister_thread();
	return faults || stats.objects_in_use || inserted != deleted;
}
