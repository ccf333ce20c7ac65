/* SPDX-License-Identifier: MIT */
/*
 * libsheaf's maple tree, with liburcu. MAPLE_NO_RCU: without concurrent readers.
 *
 * The tree has no lock of its own (MT_FLAGS_LOCK_EXTERN), as an address space has none: there is
 * one writer. unmap is mas_find() and mas_store_gfp(NULL), map is mas_preallocate() and
 * mas_store_prealloc(), as mmap does it.
 */
#ifndef BENCH_MAPLE_MAPLE_HPP
#define BENCH_MAPLE_MAPLE_HPP

#define _LGPL_SOURCE /* inlines the readers' sections */
#include <urcu.h>

#include <cstdlib>
#include <sheaf/maple_tree.h>
#include <sheaf/rcu.h>

#include "../../src/store_type.h"
#include "common.hpp"
#include "node_stats.hpp"
#include "structure.hpp"

#ifdef MAPLE_NO_RCU
constexpr bool maple_rcu = false;
#else
constexpr bool maple_rcu = true;
#endif

class maple : public structure
{
      public:
	static constexpr bool searches = true;
	static constexpr bool copies = true;
	static constexpr bool stores_copies = true;
	static constexpr bool lockless = maple_rcu;

	explicit maple(size_t = 0)
	{
		mt_init_flags(&tree_, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_LOCK_EXTERN |
					      (maple_rcu ? MT_FLAGS_USE_RCU : 0));
	}
	maple(const maple &) = delete;
	maple &operator=(const maple &) = delete;

	~maple()
	{
		clear();
	}

	static void begin()
	{
		rcu_register_thread();
		if (sheaf_urcu_register(0))
			std::abort();
	}

	static void thread_begin()
	{
		rcu_register_thread();
	}

	static void thread_end()
	{
		rcu_unregister_thread();
	}

	/* Otherwise it would depend on the end of a grace period whether nodes come from sheaves or
	 * from pages that are new to the process. */
	static void reclaim()
	{
		kvfree_rcu_barrier();
	}

	/* Includes the slabs' empty places and the objects in sheaves, but no retired objects. */
	static size_t bytes()
	{
		kvfree_rcu_barrier();
		return node_stats()["slab_bytes"];
	}

	static size_t bytes_of_nodes()
	{
		auto stats = node_stats();

		return stats["objects_in_use"] * stats["slab_size"];
	}

	void *load(unsigned long index) const
	{
		if constexpr (!maple_rcu)
			return mtree_load(tree(), index);
		rcu_read_lock();
		void *const entry = mtree_load(tree(), index);
		rcu_read_unlock();
		return entry;
	}

	void store(const place &at)
	{
		MA_STATE(mas, &tree_, at.first, at.last);

		if (mas_store_gfp(&mas, at.entry, GFP_KERNEL))
			std::abort();
	}

	void map(const place &at)
	{
		MA_STATE(mas, &tree_, at.first, at.last);

		if (mas_preallocate(&mas, at.entry, GFP_KERNEL))
			std::abort();
		const unsigned long asked = mas.node_request; /* the store resets it */
		mas_store_prealloc(&mas, at.entry);
		note(maps, mas, asked);
	}

	void *unmap(unsigned long index)
	{
		MA_STATE(mas, &tree_, index, index);
		void *const entry = mas_find(&mas, index);

		if (!entry)
			return nullptr;
		if (mas_store_gfp(&mas, nullptr, GFP_KERNEL))
			std::abort();
		note(unmaps, mas, mas.node_request);
		return entry;
	}

	template <class F> void each(F &&visit) const
	{
		MA_STATE(mas, tree(), 0, 0);
		void *entry;

		if (maple_rcu)
			rcu_read_lock();
		mas_for_each(&mas, entry, ~0UL) visit(mas.index, mas.last, entry);
		if (maple_rcu)
			rcu_read_unlock();
	}

	unsigned long gap_from_top(unsigned long size) const
	{
		MA_STATE(mas, tree(), 0, 0);

		return mas_empty_area_rev(&mas, FLOOR, TOP, size) ? 0 : mas.index;
	}

	void copy_from(const maple &from)
	{
		if (__mt_dup(from.tree(), &tree_, GFP_KERNEL))
			std::abort();
	}

	/* As fork does. */
	void copy_replaced(const maple &from)
	{
		static const mt_dup_ops ops = {replace_leaf, [](void **, unsigned int, void *) {}};

		if (__mt_dup_each(from.tree(), &tree_, &ops, nullptr, GFP_KERNEL))
			std::abort();
	}

	/* The only way without __mt_dup_each(). */
	void copy_and_store(const maple &from)
	{
		MA_STATE(mas, &tree_, 0, 0);
		void *entry;

		copy_from(from);
		mas_for_each(&mas, entry, ~0UL) mas_store(&mas, replaced(entry));
	}

	void clear()
	{
		__mt_destroy(&tree_);
	}

	/* For a counting run: the number of stores of each kind, and of those that needed only one
	 * node. */
	struct counts {
		size_t types[wr_spanning_store + 1];
		size_t single;
	};
	static inline bool counting;
	static inline counts maps, unmaps;

      private:
	static int replace_leaf(void **entries, unsigned int n, void *)
	{
		for (unsigned int i = 0; i < n; i++)
			entries[i] = replaced(entries[i]);
		return 0;
	}

	static void note(counts &into, const ma_state &mas, unsigned long asked)
	{
		if (__builtin_expect(!counting, 1))
			return;
		into.types[mas.store_type]++;
		into.single += asked == 1;
	}

	maple_tree *tree() const
	{
		return const_cast<maple_tree *>(&tree_);
	}

	maple_tree tree_;
};

#endif
