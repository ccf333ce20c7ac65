/* SPDX-License-Identifier: MIT */
/*
 * A custom provider of grace periods, for programs that have their own kind of RCU, or want one
 * that starts no thread.
 *
 *     rcu-provider [REPLACEMENTS]
 *     cc -O2 rcu-provider.c -o rcu-provider $(pkg-config --cflags --libs libsheaf) -pthread
 *
 * The scheme: there is a global epoch, and for each reader a word with the epoch at which it
 * entered its section, or 0. A grace period that began at epoch E has passed when every word is 0
 * or above E: all readers that were inside then have left. The program must poll for this. It calls
 * poll_readers() wherever it likes, as a server would do once in its event loop; a barrier polls
 * until nothing is left.
 *
 * What struct sheaf_rcu_ops requires, and how it is done here:
 *   call()        must not wait or run func: it notes the epoch and links the head
 *   barrier()     returns when every earlier func has returned, also one that another thread runs
 *   start_poll(), poll()   let objects be used again before func is called
 */
#include <pthread.h>
#include <sched.h>
#include <sheaf/rcu.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_READERS 16

/* --- readers ---------------------------------------------------------------------------------- */

static _Atomic uint64_t epoch = 1;
static struct {
	_Alignas(64) _Atomic uint64_t since; /* 0: outside */
} readers[MOST_READERS];

/* Sequentially consistent: what a reader loads after this cannot have been loaded before. */
static void read_lock(unsigned int reader)
{
	atomic_store(&readers[reader].since, atomic_load(&epoch));
}

static void read_unlock(unsigned int reader)
{
	atomic_store_explicit(&readers[reader].since, 0, memory_order_release);
}

/* A reader that enters from now on gets a larger number than this: it cannot see what was unlinked
 * before. */
static uint64_t begin_grace_period(void)
{
	return atomic_fetch_add(&epoch, 1);
}

static int has_passed(uint64_t begun)
{
	for (int i = 0; i < MOST_READERS; i++) {
		uint64_t since = atomic_load(&readers[i].since);

		if (since && since <= begun)
			return 0;
	}
	return 1;
}

/* --- the provider ----------------------------------------------------------------------------- */

/* Heads are handled in batches: one batch waits for readers, or its functions run, while the next
 * is gathered. */
static struct {
	pthread_mutex_t lock; /* held briefly: no thread waits for readers while it holds this */
	struct sheaf_rcu_head *gathered;
	struct sheaf_rcu_head *waits;
	uint64_t begun;	   /* epoch of those that wait */
	int running;	   /* a thread is running the functions of those that waited */
	uint64_t finished; /* batches */
} batches = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void call(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	head->func = func;
	pthread_mutex_lock(&batches.lock);
	head->next = batches.gathered;
	batches.gathered = head;
	pthread_mutex_unlock(&batches.lock);
}

/* Return the heads whose grace period has passed, or NULL. The caller holds the lock. */
static struct sheaf_rcu_head *take_passed(void)
{
	struct sheaf_rcu_head *passed = NULL;

	if (batches.running)
		return NULL;
	if (!batches.waits && batches.gathered) {
		batches.waits = batches.gathered;
		batches.gathered = NULL;
		batches.begun = begin_grace_period();
	}
	if (batches.waits && has_passed(batches.begun)) {
		passed = batches.waits;
		batches.waits = NULL;
		batches.running = 1;
	}
	return passed;
}

/* Run the functions whose grace period has passed. Must not be called inside a section, or with a
 * lock held that readers wait for. */
static void poll_readers(void)
{
	struct sheaf_rcu_head *head, *next;

	pthread_mutex_lock(&batches.lock);
	head = take_passed();
	pthread_mutex_unlock(&batches.lock);
	if (!head)
		return;
	for (; head; head = next) {
		next = head->next; /* the function may use the head again */
		head->func(head);
	}
	pthread_mutex_lock(&batches.lock);
	batches.running = 0;
	batches.finished++;
	pthread_mutex_unlock(&batches.lock);
}

static uint64_t batches_to_finish(void)
{
	return (batches.waits || batches.running) + (batches.gathered != NULL);
}

static void barrier(void)
{
	uint64_t last, finished;

	pthread_mutex_lock(&batches.lock);
	last = batches.finished + batches_to_finish();
	finished = batches.finished;
	pthread_mutex_unlock(&batches.lock);
	while (finished < last) {
		poll_readers();
		sched_yield();
		pthread_mutex_lock(&batches.lock);
		finished = batches.finished;
		pthread_mutex_unlock(&batches.lock);
	}
}

static void start_poll(struct sheaf_rcu_poll *state)
{
	state->words[0] = begin_grace_period();
}

static int poll(const struct sheaf_rcu_poll *state)
{
	return has_passed(state->words[0]);
}

static const struct sheaf_rcu_ops ops = {.size = sizeof(struct sheaf_rcu_ops),
					 .name = "epochs",
					 .call = call,
					 .barrier = barrier,
					 .start_poll = start_poll,
					 .poll = poll};

/* --- a program that uses it ------------------------------------------------------------------- */

enum {
	READERS = 2,
	ENTRIES = 64
};

struct entry {
	_Atomic long value, same; /* equal for as long as a reader may look */
};

static struct entry *_Atomic table[ENTRIES];
static atomic_int stop;
static atomic_long looks, faults;

static void *reader(void *argument)
{
	unsigned int me = (unsigned int)(uintptr_t)argument, at = me;

	while (!atomic_load(&stop)) {
		read_lock(me);
		for (int i = 0; i < 16; i++) {
			struct entry *entry = atomic_load(&table[at++ % ENTRIES]);
			long value = atomic_load(&entry->value);

			atomic_fetch_add(&faults, value == 0 || value != atomic_load(&entry->same));
		}
		read_unlock(me);
		atomic_fetch_add(&looks, 16);
	}
	return NULL;
}

static struct entry *new_entry(struct kmem_cache *cache, long value)
{
	struct entry *entry = kmem_cache_alloc(cache, GFP_KERNEL);

	if (!entry)
		abort();
	atomic_store(&entry->same, value);
	atomic_store(&entry->value, value);
	return entry;
}

/* The old entries are freed when no reader can see them any more. */
static void replace_entries(struct kmem_cache *cache, long times)
{
	for (long value = 1; value <= times; value++) {
		struct entry *old =
			atomic_exchange(&table[value % ENTRIES], new_entry(cache, value));

		kmem_cache_free_rcu(cache, old);
		if (value % 256 == 0)
			poll_readers();
	}
}

int main(int argc, char **argv)
{
	/* The provider of this cache only; sheaf_rcu_register(&ops) would make it the provider of
	 * the process. */
	struct kmem_cache_args args = {.rcu = &ops};
	struct kmem_cache *cache = kmem_cache_create("entries", sizeof(struct entry), &args, 0);
	long replacements = argc > 1 ? atol(argv[1]) : 2000000;
	pthread_t threads[READERS];

	if (!cache)
		return 1;
	for (int i = 0; i < ENTRIES; i++)
		atomic_store(&table[i], new_entry(cache, -1));
	for (uintptr_t i = 0; i < READERS; i++)
		if (pthread_create(&threads[i], NULL, reader, (void *)i))
			return 1;
	replace_entries(cache, replacements);
	atomic_store(&stop, 1);
	for (int i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < ENTRIES; i++)
		kmem_cache_free_rcu(cache, table[i]);
	kmem_cache_destroy(cache); /* waits for what is retired */
	printf("%ld entries were replaced under %ld looks of %d readers; %ld of these saw a freed "
	       "one\n",
	       replacements, atomic_load(&looks), READERS, atomic_load(&faults));
	return atomic_load(&faults) != 0;
}
