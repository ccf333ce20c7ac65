/* SPDX-License-Identifier: MIT */
/*
 * The requests of pairs of unmap and map to the cache of nodes: lines "count WHAT PER-PAIR", from
 * the library's own statistics (SHEAF_OPTIONS=stats) and from the reports of the stores. Uncounted
 * pairs run first, so that the counts are of the steady state.
 */
#ifndef BENCH_MAPLE_COUNTS_HPP
#define BENCH_MAPLE_COUNTS_HPP

#include "node_stats.hpp"
#include "pair.hpp"

static const char *const store_types[] = {
	"invalid",   "none",   "new_root",   "store_root", "exact_fit",	  "slot_store",	   "append",
	"run_store", "insert", "node_store", "rebalance",  "split_store", "spanning_store"};

class counted
{
      public:
	counted(const std::string &workload, size_t pairs)
	    : workload_(workload), pairs_(static_cast<double>(pairs)), before_(node_stats())
	{
		maple::maps = maple::unmaps = {};
		maple::counting = true;
	}

	void print()
	{
		maple::counting = false;
		const auto after = node_stats();
		for (const char *key :
		     {"alloc_fastpath", "alloc_slowpath", "free_fastpath", "free_slowpath",
		      "free_rcu_sheaf", "free_rcu_sheaf_fail", "rcu_reuse", "rcu_flush",
		      "sheaf_prefill_fast", "sheaf_prefill_slow", "sheaf_prefill_oversize",
		      "sheaf_return_fast", "sheaf_return_slow", "sheaf_refill", "sheaf_flush",
		      "alloc_slab", "free_slab"})
			if (after.count(key))
				line(key, static_cast<double>(after.at(key) - before_[key]));
		half("map", maple::maps);
		half("unmap", maple::unmaps);
	}

      private:
	void line(const std::string &what, double n) const
	{
		std::printf("count %s %s %.6f\n", workload_.c_str(), what.c_str(), n / pairs_);
	}

	void half(const std::string &name, const maple::counts &found) const
	{
		line(name + "_single", static_cast<double>(found.single));
		for (size_t i = 0; i < std::size(found.types); i++)
			if (found.types[i])
				line(name + "_type_" + store_types[i],
				     static_cast<double>(found.types[i]));
	}

	std::string workload_;
	double pairs_;
	std::map<std::string, uint64_t> before_;
};

inline void run_same(maple &tree, const std::vector<place> &same)
{
	for (const place &one : same) {
		for (size_t i = 0; i < AGAIN; i++) {
			tree.unmap(one.first);
			tree.map(one);
		}
	}
}

inline void do_counts(maple &tree, const std::vector<place> &places,
		      const std::vector<uint32_t> &order, size_t present)
{
	const auto pairs = random_pairs(places, order, present, pairs_for(present));
	const std::vector<place> same = same_places(places, order, present);

	for (int warm = 0; warm < 4; warm++) {
		run_pairs(tree, pairs.data(), pairs.data() + pairs.size());
		run_backwards(tree, pairs);
	}
	counted random("random", pairs.size());
	run_pairs(tree, pairs.data(), pairs.data() + pairs.size());
	random.print();
	run_backwards(tree, pairs);
	run_same(tree, same);
	counted again("same", same.size() * AGAIN);
	run_same(tree, same);
	again.print();
}

#endif
