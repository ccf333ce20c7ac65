/* SPDX-License-Identifier: MIT */
/*
 * Objects in every state that `sheaf object` of gdb tells apart, each in a variable of this file's;
 * then the program aborts. It has variables and types with names that the library has, too.
 */
#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Enough to fill sheaves and part of a barn. */
#define MANY 1000

struct slot {
	int nothing;
};
struct slot pool, maps, first, os;

struct connection {
	char name[40];
	char buffer[24];
};

struct kmem_cache *connections, *shrunk, *checked, *guarded, *retired;
struct connection *in_use, *in_main, *in_barn, *in_slab, *waiting, *queued, *overrun;
struct connection *checked_in_use, *checked_free, *checked_never_used, *other_retired,
	*guarded_in_use, *guarded_free;
char *block, *retired_block, nobodys;

/* Grace periods that never pass. */
static void call(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	head->func = func;
}

static void barrier(void)
{
}

static const struct sheaf_rcu_ops never = {
	.size = sizeof(never), .name = "never", .call = call, .barrier = barrier};

__attribute__((noinline)) struct connection *open_it(struct kmem_cache *cache)
{
	struct connection *connection = kmem_cache_alloc(cache, GFP_KERNEL);

	strcpy(connection->name, "scene");
	return connection;
}

__attribute__((noinline)) void close_it(struct kmem_cache *cache, struct connection *connection)
{
	kmem_cache_free(cache, connection);
	__asm__ volatile("");
}

/* Sheaves belong to a CPU, so stay on one. */
static void stay_here(void)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	sched_setaffinity(0, sizeof(here), &here);
}

static struct connection *many[MANY];

static void open_many(struct kmem_cache *cache)
{
	for (int i = 0; i < MANY; i++)
		many[i] = open_it(cache);
}

static void use_sheaves(void)
{
	in_use = open_it(connections);
	open_many(connections);
	for (int i = 0; i < MANY; i++)
		close_it(connections, many[i]);
	in_barn = many[0];
	in_main = many[MANY - 1];
	in_slab = open_it(shrunk);
	open_it(shrunk);
	close_it(shrunk, in_slab);
	kmem_cache_shrink(shrunk);
	open_many(retired);
	for (int i = 0; i < MANY; i++)
		kmem_cache_free_rcu(retired, many[i]);
	queued = many[0];
	waiting = many[MANY - 1];
	other_retired = open_it(checked);
	kmem_cache_free_rcu(checked, other_retired);
}

static void use_checked(void)
{
	checked_in_use = open_it(checked);
	checked_free = open_it(checked);
	checked_never_used =
		(struct connection *)((char *)checked_in_use +
				      10 * ((char *)checked_free - (char *)checked_in_use));
	overrun = open_it(checked);
	close_it(checked, checked_free);
	guarded_in_use = open_it(guarded);
	guarded_free = open_it(guarded);
	close_it(guarded, guarded_free);
}

int main(void)
{
	stay_here();
	if (sheaf_rcu_register(&never))
		return 1;
	connections =
		kmem_cache_create("connection", sizeof(struct connection), NULL, SLAB_NO_MERGE);
	shrunk = kmem_cache_create("shrunk", sizeof(struct connection), NULL, SLAB_NO_MERGE);
	retired = kmem_cache_create("retired", sizeof(struct connection), NULL, SLAB_NO_MERGE);
	checked = kmem_cache_create("checked", sizeof(struct connection), NULL,
				    SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON |
					    SLAB_STORE_USER);
	guarded = kmem_cache_create("guarded", sizeof(struct connection), NULL, 0);
	use_sheaves();
	use_checked();
	retired_block = kmalloc(1500000, GFP_KERNEL);
	kvfree_rcu_mightsleep(retired_block);
	block = vmalloc(3 << 20);
	abort();
}
