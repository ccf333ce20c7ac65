/* SPDX-License-Identifier: MIT */
/*
 * Freeing after a grace period: kfree_rcu() and its family, by whole sheaves.
 *
 *     #include <sheaf/rcu.h>
 *     #include <urcu.h>              // or <urcu-qsbr.h>, <urcu-bp.h>: the program's flavour
 *
 *     sheaf_urcu_register(0);        // once; link `pkg-config --libs libsheaf-urcu`
 *     ...
 *     kfree_rcu(node, rcu);          // unlinked before; readers may still look at it
 *
 * The RCU is the program's: the library links none. What tells it when a grace period has passed is
 * a provider (struct sheaf_rcu_ops), for the process or for one cache. sheaf_urcu_register() of
 * <sheaf/urcu.h>, which this file includes, makes one of a liburcu flavour.
 *
 * A retired object goes into a sheaf of its CPU. A full one waits for a grace period as a whole, and is
 * then allocated from as it is: in steady use no object goes back to its slab. A partly filled one
 * waits at most SHEAF_OPTIONS=rcu_delay=MS (50).
 *
 * Which thread: kfree_rcu() may start a grace period by the provider's call(), in the caller's thread.
 */
#ifndef SHEAF_RCU_H
#define SHEAF_RCU_H

#include <sheaf/slab.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a provider links callbacks by. liburcu's struct rcu_head has the same size. */
struct sheaf_rcu_head {
	struct sheaf_rcu_head *next;
	void (*func)(struct sheaf_rcu_head *head);
};

/* What a polling provider remembers of a moment. */
struct sheaf_rcu_poll {
	uint64_t words[2];
};

/*
 * A provider. It must outlive every cache that uses it, and must not change. It contains its own size: two
 * parts of a program that were built with different headers may share one.
 *
 * call: have func(head) called once a grace period after now has passed, by any thread that is no
 *   reader then. Must not wait, nor call func itself: its caller may be a reader. No lock of the
 *   library is held. It may allocate and free, not retire.
 * barrier: return when every func of an earlier call() has returned. May wait; called by no reader. A func
 *   may call() again, and does so while partly filled sheaves wait. A barrier that also waited for these
 *   later calls would take several rcu_delay.
 * start_poll, poll: optional, both or none. Note this moment; has a grace period passed since? Neither
 *   waits. Where given, objects are used again as soon as poll() says so, before func is called.
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
 * Make `ops` the provider of every cache that has none of its own (kmem_cache_args.rcu) and of every
 * other pointer. Returns 0; -1 if `ops` lacks a call or its size, if another provider is in use already, or if
 * memory is out. Takes a lock.
 */
int sheaf_rcu_register(const struct sheaf_rcu_ops *ops) SHEAF_SYMBOL(sheaf_rcu_register);

/*
 * Free an object of this cache after a grace period. Needs no head in the object, and leaves its
 * content alone until then. NULL is allowed. Never waits: a reader may call it. Kernel:
 * kfree_rcu() of an object, which needs its head only if memory is short.
 *
 * The common case takes one restartable section: no lock, no atomic instruction, no allocation. If
 * memory is so short that the pointer can be kept nowhere, the object is leaked and reported.
 */
void kmem_cache_free_rcu(struct kmem_cache *s, void *object) SHEAF_SYMBOL(kmem_cache_free_rcu);

/* What kfree_rcu() calls; offset: of the head in the object, below 4096. */
void __kvfree_rcu(const void *object, size_t offset) SHEAF_SYMBOL(__kvfree_rcu);

#define SHEAF_RCU_HEAD_OFFSET(pointer, field)                                                      \
	(offsetof(__typeof__(*(pointer)), field) +                                                 \
	 0 * sizeof(char[sizeof((pointer)->field) >= sizeof(struct sheaf_rcu_head) ? 1 : -1]) +    \
	 0 * sizeof(char[offsetof(__typeof__(*(pointer)), field) < 4096 ? 1 : -1]))

/*
 * Free any pointer of the library's after a grace period: an object of any cache, kmalloc() or
 * kvmalloc() memory. `field` is a struct rcu_head (or sheaf_rcu_head) in it, which is used only if
 * memory is out: so this never fails, and never waits: a reader may call it.
 *
 * Above SHEAF_OPTIONS=rcu_limit=MIB (64) of retired memory it starts a grace period at once, counts that
 * (rcu_over_limit) and reports it, but goes on.
 */
#define kfree_rcu(pointer, field)  __kvfree_rcu((pointer), SHEAF_RCU_HEAD_OFFSET(pointer, field))
#define kvfree_rcu(pointer, field) kfree_rcu(pointer, field)

/*
 * The same without a head. May wait for a grace period, so not for readers: it does when more than
 * rcu_limit of memory is retired, which is a hard bound for programs that only use this call, and when
 * memory is out.
 */
void kvfree_rcu_mightsleep(const void *object) SHEAF_SYMBOL(kvfree_rcu_mightsleep);
#define kfree_rcu_mightsleep(pointer) kvfree_rcu_mightsleep(pointer)

/*
 * Return when everything retired before, by any thread, has been freed: everything, or what went to
 * this cache. Not for readers, nor for a provider's callbacks. kmem_cache_destroy() does it itself.
 */
void kvfree_rcu_barrier(void) SHEAF_SYMBOL(kvfree_rcu_barrier);
void kvfree_rcu_barrier_on_cache(struct kmem_cache *s) SHEAF_SYMBOL(kvfree_rcu_barrier_on_cache);

#ifdef __cplusplus
}
#endif

#include <sheaf/urcu.h>

#endif
