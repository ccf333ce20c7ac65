/* SPDX-License-Identifier: MIT */
/*
 * Two flavours in one program: memb for the process, bp for one cache. A reader of one does not
 * delay the other's grace periods.
 */
#include "flavours.h"

#include <errno.h>
#include <sheaf/rcu.h>
#include <sheaf/stats.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <urcu.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"

struct item {
	long numbers[4];
	struct rcu_head rcu;
};

static struct kmem_cache *memb, *bp;

static void retire(struct kmem_cache *s)
{
	struct item *item = kmem_cache_alloc(s, GFP_KERNEL);

	CHECK(item);
	if (s == memb)
		kfree_rcu((const struct item *)item, rcu);
	else
		kmem_cache_free_rcu(s, item);
}

static void retire_under_reader(struct kmem_cache *readers, void (*lock)(void),
				void (*unlock)(void), struct kmem_cache *others)
{
	lock();
	retire(readers);
	retire(others);
	kvfree_rcu_barrier_on_cache(others);
	CHECK(look(others).rcu_pending_objects == 0 && look(readers).rcu_pending_objects == 1);
	unlock();
	kvfree_rcu_barrier();
	CHECK(look(readers).rcu_pending_objects == 0);
}

static void memb_lock(void)
{
	rcu_read_lock();
}

static void memb_unlock(void)
{
	rcu_read_unlock();
}

static void use(void)
{
	retire_under_reader(bp, bp_lock, bp_unlock, memb);
	retire_under_reader(memb, memb_lock, memb_unlock, bp);
}

static void register_both(void)
{
	struct kmem_cache_args args = {.rcu = bp_provider()};
	static struct capture captured;

	CHECK(args.rcu && args.rcu == bp_provider());
	CHECK(sheaf_urcu_register(0) == 0 && sheaf_urcu_register(0) == 0);
	capture_begin(&captured);
	CHECK(bp_register() == -EBUSY);
	CHECK(capture_end(&captured) == 1 && strstr(captured.text, "another provider"));
	memb = kmem_cache_create("memb", sizeof(struct item), NULL, SLAB_NO_MERGE);
	bp = kmem_cache_create("bp", sizeof(struct item), &args, SLAB_NO_MERGE);
	CHECK(memb && bp);
}

int main(void)
{
	pid_t child;
	int status;

	rcu_register_thread();
	register_both();
	use();
	retire(memb);
	retire(bp);
	child = fork();
	if (child == 0) {
		kvfree_rcu_barrier();
		use();
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	kvfree_rcu_barrier();
	use();
	kmem_cache_destroy(memb);
	kmem_cache_destroy(bp);
	rcu_unregister_thread();
	return 0;
}
