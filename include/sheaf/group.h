/* SPDX-License-Identifier: MIT */
/*
 * Groups: which part of the program has how much memory, and how much it may have.
 *
 *     struct kmem_group_args limits = {.hard_limit = 64 << 20};
 *     struct kmem_group *query = kmem_group_create("query 7", NULL, &limits);
 *     struct kmem_group *before = kmem_group_set_current(query);
 *
 *     row = kmalloc(size, GFP_KERNEL_ACCOUNT);        NULL when the query has 64 MiB
 *     kmem_group_restore_current(before);
 *     kmem_group_put(query);                          its rows may live on
 *
 * The objects of caches with SLAB_ACCOUNT, objects allocated with __GFP_ACCOUNT, and those of
 * caches with kmem_cache_args.group are charged: to the group of the cache, or else to the current
 * group of the thread, and to each group above it. Without groups, nothing is charged and nothing
 * costs more. The charge for an object is the distance between objects in its slab (slab_size of
 * kmem_cache_stats()); for a larger block, its ksize(). It does not matter which thread frees it,
 * or when: the group that was charged is uncharged. A retired object (<sheaf/rcu.h>) stays charged
 * until its grace period has passed, and an element of a memory pool while it is in the reserve.
 *
 * Each CPU keeps a stock of bytes that a group was charged with in advance, at most
 * KMEM_GROUP_STOCK for each group. Limits are exact: before a limit makes an allocation that may
 * reclaim fail, the stocks of all CPUs are returned. An allocation that may not reclaim
 * (GFP_NOWAIT) can fail early by the size of these stocks, and marks may be reported early by as
 * much. Kernel: memcg, obj_cgroup.
 *
 * Any thread may make these calls, even in a forked child, but a signal handler may not: objects
 * that it allocates with the nolock calls are charged to the current group of its thread. errno is
 * preserved.
 */
#ifndef SHEAF_GROUP_H
#define SHEAF_GROUP_H

#include <sheaf/slab.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the longest name of a group, with the zero byte at its end. */
#define KMEM_GROUP_NAME 64
/* Bytes that a CPU stores for a group, at most. */
#define KMEM_GROUP_STOCK 65536

struct kmem_group;

/* What happened to a group. */
enum kmem_group_event {
	KMEM_GROUP_HIGH, /* it has `high` bytes or more, and had less */
	KMEM_GROUP_LOW,	 /* it has `low` bytes or less, and has reported KMEM_GROUP_HIGH */
	KMEM_GROUP_HARD, /* hard_limit made an allocation fail */
};

/*
 * Limits and callbacks of a group. All sizes are bytes; 0: none. The structure may grow: the calls
 * pass its size.
 *
 * A callback runs in the thread that caused it, with no lock held, at the end of its allocation or
 * free. It may call the library: allocate, even in its own group, and put the group. While it runs,
 * it is not called again for that group, by any thread; what happens meanwhile is reported after it
 * has returned. Calls that replace or end callbacks wait until the running one has returned, unless
 * they are made from a function that the library calls. So their callers must not hold a lock that
 * the callback takes.
 *
 * A callback must return: to leave it by longjmp(), an exception or pthread_exit() is an error,
 * which the library reports when that thread next calls a callback of the group, changes its
 * limits or puts it. Until then no callback of that group is called, and other threads wait in
 * those calls. The thread is not cancelled in it.
 */
struct kmem_group_args {
	size_t hard_limit; /* an allocation beyond it fails */
	size_t high, low;  /* marks: low < high, unless one is 0 */
	/*
	 * An allocation that may reclaim would exceed the hard limit of the group by this many
	 * bytes: free what is not needed. Returns whether anything was freed. NULL: nothing can be.
	 */
	bool (*reclaim)(struct kmem_group *group, size_t bytes, void *data);
	/* An event, and the bytes that the group has now. */
	void (*event)(struct kmem_group *group, enum kmem_group_event event, uint64_t bytes,
		      void *data);
	void *data; /* for all three functions */
	/*
	 * The group has new data, or has ended, and no callback uses `data` any more: the program
	 * may free it. Called once, in the thread that caused this or in the one whose callback was
	 * the last. NULL: the program need not know.
	 */
	void (*end)(void *data);
};

/* The numbers of a group. It may grow at its end: kmem_group_stats() passes its size. */
struct kmem_group_stats {
	char name[KMEM_GROUP_NAME];
	uint64_t id;	 /* 1, 2, ... in the order of creation; 0: the root */
	uint64_t parent; /* the id of the group above */
	uint64_t bytes;	 /* charged to it and the groups below it */
	uint64_t peak;	 /* the most bytes so far, with stocks of CPUs; the root's: as read */
	uint64_t stocks; /* in the stocks of CPUs, for it and the groups below it; not in bytes */
	uint64_t hard_limit, high, low; /* 0: none */
	uint64_t failed;		/* allocations that the hard limit made fail */
	uint64_t reclaims;		/* calls of the reclaim callback */
	uint64_t high_events;		/* times that it passed the high mark */
	uint64_t low_events;		/* times that it fell to the low mark after that */
	uint64_t forced;     /* bytes charged beyond the hard limit, because the call cannot fail */
	uint64_t references; /* to it, by callers, threads, caches and groups below it */
};

/* The call behind kmem_group_create(). */
struct kmem_group *__kmem_group_create(const char *name, struct kmem_group *parent,
				       const struct kmem_group_args *args, size_t args_size)
	SHEAF_SYMBOL(__kmem_group_create);

/*
 * Create a group below `parent`, or below the root for NULL. The first 63 bytes of the name are
 * copied, with control characters replaced by `?`; NULL works with a warning. `args` may be NULL.
 * Returns one reference; NULL if an argument is wrong, which is reported in one line, or if there
 * is no memory or there are a million groups: then end() is not called. O(1); the first call visits
 * each cache.
 */
static __always_inline SHEAF_CHECK_RESULT struct kmem_group *
kmem_group_create(const char *name, struct kmem_group *parent, const struct kmem_group_args *args)
{
	return __kmem_group_create(name, parent, args, args ? sizeof(struct kmem_group_args) : 0);
}

/* Take one more reference; returns the group. NULL is allowed. O(1). */
struct kmem_group *kmem_group_get(struct kmem_group *g) SHEAF_SYMBOL(kmem_group_get);

/*
 * Drop a reference; NULL is allowed. With the last one the group ends: its objects move to the
 * group above, whose bytes already include them, its limits and callbacks no longer apply, and
 * end() has been called for its data. Waits for a callback of the group if only that still holds
 * it. O(1).
 */
void kmem_group_put(struct kmem_group *g) SHEAF_SYMBOL(kmem_group_put);

/*
 * Make this the current group of the thread, or none with NULL. The thread takes a reference, which
 * it holds until it sets another group or ends. Returns the previous group, or NULL, with the
 * thread's reference to it: pass that to kmem_group_restore_current(), or put it. A wrong group is
 * reported, and nothing changes. O(1). Kernel: set_active_memcg().
 */
SHEAF_CHECK_RESULT struct kmem_group *kmem_group_set_current(struct kmem_group *g)
	SHEAF_SYMBOL(kmem_group_set_current);

/*
 * Make this the current group of the thread, or none with NULL, with the caller's reference to it:
 * the one that kmem_group_set_current() returned, or any other. The thread's reference to its
 * current group is dropped; that may end the group, so the call counts as kmem_group_put(). O(1).
 */
void kmem_group_restore_current(struct kmem_group *g) SHEAF_SYMBOL(kmem_group_restore_current);

/* The call behind kmem_group_set_limits(). */
int __kmem_group_set_limits(struct kmem_group *g, const struct kmem_group_args *args,
			    size_t args_size) SHEAF_SYMBOL(__kmem_group_set_limits);

/*
 * Replace limits, marks and callbacks. Returns 0; -EINVAL after a report if one is wrong; -EBUSY,
 * with nothing changed, if the group still exceeds the new hard limit after the stocks of CPUs were
 * returned and the new reclaim callback was called. If it returns 0, no earlier callback is
 * running, and end() has been called for the earlier data, unless `data` is the same. May sleep.
 * O(CPUs).
 */
static __always_inline int kmem_group_set_limits(struct kmem_group *g,
						 const struct kmem_group_args *args)
{
	return __kmem_group_set_limits(g, args, args ? sizeof(struct kmem_group_args) : 0);
}

/*
 * The group that an object is charged to, from any address in it: a counted reference, which the
 * caller puts. NULL: it is not charged, or its groups have ended, or it is not an object. O(1).
 */
struct kmem_group *kmem_group_of(const void *object) SHEAF_SYMBOL(kmem_group_of);

/* A structure and a call share a name; C++ compilers may warn that this hides a constructor. */
#if defined(__cplusplus) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/* The call behind kmem_group_stats(). */
int __kmem_group_stats(struct kmem_group *g, struct kmem_group_stats *out, size_t size)
	SHEAF_SYMBOL(__kmem_group_stats);

/*
 * Read a group's numbers; NULL: those of the root, above all groups. Exact if no other thread
 * allocates or frees charged objects meanwhile. Returns 0, or -EINVAL after a report. O(CPUs); of
 * the root, O(CPUs + groups).
 */
static __always_inline int kmem_group_stats(struct kmem_group *g, struct kmem_group_stats *out)
{
	return __kmem_group_stats(g, out, sizeof(*out));
}

#if defined(__cplusplus) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/*
 * Count the objects that a group owns itself, without those of the groups below it, and their
 * bytes; either pointer may be NULL. NULL for the group: the root, which owns what ended groups
 * have left. As exact as kmem_group_stats(). Returns 0, or -EINVAL after a report. May sleep.
 * O(pages used by the library).
 */
int kmem_group_count_objects(struct kmem_group *g, uint64_t *objects, uint64_t *bytes)
	SHEAF_SYMBOL(kmem_group_count_objects);

/*
 * Return the stocks of all CPUs, and check all groups: the bytes of a group must be those of its
 * objects and of the objects of groups below it. In caches with SLAB_ACCOUNT or a group, no object
 * in use may have been uncharged, as by an unchecked free of an address inside it; a forked child
 * cannot check this. Returns the number of faults, each of which is reported. No other thread may
 * use such caches or charged objects meanwhile. May sleep. O(CPUs + groups + pages used by the
 * library + objects in sheaves).
 */
int kmem_group_verify(void) SHEAF_SYMBOL(kmem_group_verify);

/*
 * kmem_cache_alloc() and kmalloc(), charged to this group whatever the current one is; NULL: not
 * charged, unless the cache has a group. Costs as much as three calls.
 */
SHEAF_OBJECT void *kmem_cache_alloc_charged(struct kmem_cache *s, gfp_t flags, struct kmem_group *g)
	SHEAF_SYMBOL(kmem_cache_alloc_charged);
SHEAF_FRESH SHEAF_SIZED(1) void *kmalloc_charged(size_t size, gfp_t flags, struct kmem_group *g)
	SHEAF_SYMBOL(kmalloc_charged);

#ifdef __cplusplus
}

namespace sheaf
{

/* A reference to a group: `sheaf::group_ref query(kmem_group_create(...));` puts it when it is
 * destroyed. */
class group_ref
{
	struct kmem_group *group_;

      public:
	explicit group_ref(struct kmem_group *group = nullptr) noexcept : group_(group)
	{
	}
	group_ref(const group_ref &other) noexcept : group_(kmem_group_get(other.group_))
	{
	}
	group_ref(group_ref &&other) noexcept : group_(other.group_)
	{
		other.group_ = nullptr;
	}
	group_ref &operator=(group_ref other) noexcept
	{
		struct kmem_group *mine = group_;

		group_ = other.group_;
		other.group_ = mine;
		return *this;
	}
	~group_ref()
	{
		kmem_group_put(group_);
	}
	struct kmem_group *get() const noexcept
	{
		return group_;
	}
	explicit operator bool() const noexcept
	{
		return group_ != nullptr;
	}
};

/* The current group of the thread while this object lives; then the previous one, to which it holds
 * a reference. */
class group_scope
{
	struct kmem_group *before_;

      public:
	explicit group_scope(struct kmem_group *group) noexcept
	    : before_(kmem_group_set_current(group))
	{
	}
	explicit group_scope(const group_ref &group) noexcept : group_scope(group.get())
	{
	}
	group_scope(const group_scope &) = delete;
	group_scope &operator=(const group_scope &) = delete;
	~group_scope()
	{
		kmem_group_restore_current(before_);
	}
};

} /* namespace sheaf */
#endif

#endif
