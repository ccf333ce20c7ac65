/* SPDX-License-Identifier: MIT */
/*
 * Freeing after a grace period, in whole sheaves: kfree_rcu() and related calls.
 *
 *     #include <sheaf/rcu.h>
 *     #include <urcu.h>              // or <urcu-qsbr.h>, <urcu-bp.h>: the program's flavour
 *
 *     sheaf_urcu_register(0);        // once, from a registered thread
 *     ...
 *     kfree_rcu(node, rcu);          // unlinked before; readers may still look at it
 *
 * Link with the flavour, too: cc program.c $(pkg-config --cflags --libs libsheaf-urcu liburcu-memb)
 *
 * The program brings its own RCU; the library links none. A provider (struct sheaf_rcu_ops), for
 * the process or for one cache, reports when a grace period has passed. sheaf_urcu_register() of
 * <sheaf/urcu.h>, which this file includes, registers a liburcu flavour.
 *
 * A retired object goes into a sheaf of the current CPU. A full sheaf waits for a grace period as a
 * whole, and allocations then use it as it is: in steady use no object returns to its slab. A
 * partly filled sheaf waits at most SHEAF_OPTIONS=rcu_delay=MS (50).
 *
 * kfree_rcu() may start a grace period by the provider's call(), in the caller's thread. So may any
 * other call, after an empty slab of a SLAB_TYPESAFE_BY_RCU cache was freed.
 */
#ifndef SHEAF_RCU_H
#define SHEAF_RCU_H

#include <sheaf/slab.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The link by which a provider queues callbacks. liburcu's struct rcu_head has the same size. */
struct sheaf_rcu_head {
	struct sheaf_rcu_head *next;
	void (*func)(struct sheaf_rcu_head *head);
};

/* A moment, as a provider that can be polled records it. */
struct sheaf_rcu_poll {
	uint64_t words[2];
};

/*
 * A provider. It must outlive every cache that uses it, and must not change. It contains its own
 * size, because parts of a program that were built with different headers may share one provider.
 *
 * call: must arrange for func(head) to be called once, after a grace period, by a thread that is
 *   not a reader then. Must not wait, nor call func itself, because its caller may be a reader. The
 *   library holds no lock. func may allocate and free, but not retire.
 * barrier: must return when every func of an earlier call() has returned. May wait; no reader calls
 *   it. A func may call() again, and does so while partly filled sheaves wait. A barrier that also
 *   waited for these later calls would take several rcu_delay.
 * start_poll, poll: optional, both or none. start_poll marks a moment; poll returns whether a grace
 *   period has passed since. Neither may wait. If given, objects are reused as soon as poll()
 *   allows it, before func is called.
 *
 * All of them must return normally, not by longjmp() or an exception. The thread is not cancelled
 * in them.
 */
struct sheaf_rcu_ops {
	size_t size;	  /* sizeof(struct sheaf_rcu_ops): it may grow */
	const char *name; /* for reports */
	void (*call)(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head));
	void (*barrier)(void);
	void (*start_poll)(struct sheaf_rcu_poll *state);
	int (*poll)(const struct sheaf_rcu_poll *state);
};

/*
 * Make `ops` the provider of every cache without its own provider (kmem_cache_args.rcu), and of
 * every other pointer. Returns 0, or after a report -EINVAL if `ops` lacks a function or its size,
 * or has a function that this version does not know; -EBUSY if another provider is already in use,
 * or sheaf_rcu_none() was called; -ENOMEM. Takes a lock.
 */
int sheaf_rcu_register(const struct sheaf_rcu_ops *ops) SHEAF_SYMBOL(sheaf_rcu_register);

/*
 * Declare that the program has no readers: no thread looks at an object after another one retired
 * it. From then on the calls below free objects immediately; without a provider and without this
 * call they end the program. Caches with their own provider still wait for it. For ported code that
 * calls kfree_rcu() in a program without RCU. Returns 0; -EBUSY after a report if the process has a
 * provider; or -ENOMEM. It cannot be undone: sheaf_rcu_register() fails afterwards. Takes a lock.
 */
int sheaf_rcu_none(void) SHEAF_SYMBOL(sheaf_rcu_none);

/*
 * Free an object of this cache after a grace period. Needs no head in the object, and does not
 * write to the object until then. NULL is allowed. Never waits, so readers may call it. Kernel:
 * kfree_rcu() of an object, which needs its head only if memory is short.
 *
 * With rseq, the common case takes one restartable section: no lock, no atomic instruction, no
 * allocation. If there is no memory to store the pointer, the object is leaked and reported.
 * Without a provider, and unless sheaf_rcu_none() was called, the program ends with a report. O(1).
 */
void kmem_cache_free_rcu(struct kmem_cache *s, void *object) SHEAF_SYMBOL(kmem_cache_free_rcu);

/* Like kmem_cache_free_rcu(), for each of p[0] ... p[n-1]. O(n). The kernel has no such call. */
void kmem_cache_free_bulk_rcu(struct kmem_cache *s, size_t n, void **p)
	SHEAF_SYMBOL(kmem_cache_free_bulk_rcu);

/* What kfree_rcu() needs in an object: one word. A struct rcu_head, which has two, will do. */
struct kvfree_rcu_head {
	uint64_t link;
};

/* The functions behind kfree_rcu() and kfree_rcu_nolock(). offset: of the head in the object,
 * below 4096. */
void __kvfree_rcu(const void *object, size_t offset) SHEAF_SYMBOL(__kvfree_rcu);
void __kfree_rcu_nolock(const void *object, size_t offset) SHEAF_SYMBOL(__kfree_rcu_nolock);

#define SHEAF_RCU_HEAD_OFFSET(pointer, field)                                                      \
	(offsetof(__typeof__(*(pointer)), field) +                                                 \
	 0 * sizeof(char[sizeof((pointer)->field) >= sizeof(struct kvfree_rcu_head) ? 1 : -1]) +   \
	 0 * sizeof(char[offsetof(__typeof__(*(pointer)), field) < 4096 ? 1 : -1]))

/*
 * Free any pointer of the library after a grace period: an object of any cache, or memory from
 * kmalloc() or kvmalloc(). `field` is a struct kvfree_rcu_head (or rcu_head) in the object, which
 * is used only if there is no memory. So this call never fails. It never waits, so readers may call
 * it. NULL is allowed. O(1).
 *
 * Above SHEAF_OPTIONS=rcu_limit=MIB (64) of retired memory the call starts a grace period
 * immediately, counts that (rcu_over_limit), and reports it once.
 */
#define kfree_rcu(pointer, field)  __kvfree_rcu((pointer), SHEAF_RCU_HEAD_OFFSET(pointer, field))
#define kvfree_rcu(pointer, field) kfree_rcu(pointer, field)

/*
 * Retire in any context. These two calls never wait or spin, and only try locks. They are
 * async-signal-safe, even in a handler that interrupted this library at any point. They start no
 * grace period: the next ordinary call that takes a slow path does, unless one has begun.
 *
 * kfree_rcu_nolock() takes an object of any cache, or a block of kmalloc() up to
 * KMALLOC_MAX_CACHE_SIZE; larger ones are reported and not freed. `field` is as for kfree_rcu();
 * the call writes to it if this CPU's sheaf has no room, so readers must not look at it. It never
 * fails.
 *
 * kmem_cache_free_rcu_nolock() needs no head. Returns 0; -EAGAIN if there is no room for the
 * pointer now: the object is still in use, and the caller may retire it later; or -EINVAL after a
 * report. After a barrier, if there was memory, it takes at least 250 objects before it needs a
 * call that makes room: a callback, a barrier, or an ordinary call that retires. NULL is allowed.
 * O(1).
 *
 * Without a provider the program ends, as with kfree_rcu(). After sheaf_rcu_none() both are
 * kmem_cache_free_nolock(), and the result is 0. Kernel: kfree_rcu_nolock() alone.
 */
#define kfree_rcu_nolock(pointer, field)                                                           \
	__kfree_rcu_nolock((pointer), SHEAF_RCU_HEAD_OFFSET(pointer, field))
SHEAF_CHECK_RESULT int kmem_cache_free_rcu_nolock(struct kmem_cache *s, void *object)
	SHEAF_SYMBOL(kmem_cache_free_rcu_nolock);

/*
 * Like kvfree_rcu(), without a head. It waits for a grace period if more than rcu_limit of memory
 * is retired, or if there is no memory; so readers must not call it. A program that uses only this
 * call has at most rcu_limit of retired memory, plus one sheaf for each CPU and cache.
 */
void kvfree_rcu_mightsleep(const void *object) SHEAF_SYMBOL(kvfree_rcu_mightsleep);
#define kfree_rcu_mightsleep(pointer) kvfree_rcu_mightsleep(pointer)

/*
 * Return when everything that any thread retired before the call is free; the second call waits
 * only for the objects of one cache. Some may be left where the next allocations find them first;
 * they count in rcu_bytes until then. They may sleep; readers and a provider's callbacks must not
 * call them. kmem_cache_destroy() waits by itself. O(CPUs + retired objects).
 */
void kvfree_rcu_barrier(void) SHEAF_SYMBOL(kvfree_rcu_barrier);
void kvfree_rcu_barrier_on_cache(struct kmem_cache *s) SHEAF_SYMBOL(kvfree_rcu_barrier_on_cache);

#ifdef __cplusplus
}
#endif

#include <sheaf/urcu.h>

#endif
