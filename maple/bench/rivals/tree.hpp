/* SPDX-License-Identifier: MIT */
/*
 * Whole trees: built range by range, walked from end to end, copied, and searched for gaps. Short
 * work is repeated with several trees, one after the other.
 */
#ifndef BENCH_MAPLE_TREE_HPP
#define BENCH_MAPLE_TREE_HPP

#include "common.hpp"

constexpr size_t SIZES = 1 << 14; /* of gaps, in a search of varied ones: no CPU learns them */
constexpr size_t SUMMED = 256;	  /* searches whose results must be the same */

template <class S> using trees = std::vector<std::unique_ptr<S>>;

template <class S> trees<S> make_trees(size_t n, size_t places)
{
	trees<S> made;

	for (size_t i = 0; i < n; i++)
		made.push_back(std::make_unique<S>(places));
	return made;
}

constexpr size_t WARM_MOST = 100000; /* ranges of a tree that is built twice */

/* Store the first `present` of an order, in a different order in each tree; returns the time in ns.
 * With `warm`, in memory that trees have used before. */
template <class S>
double fill(trees<S> &into, const std::vector<place> &places, std::vector<uint32_t> order,
	    size_t present, bool ascending, bool warm = false)
{
	std::vector<place> stored;
	numbers random(present);

	order.resize(present);
	if (ascending)
		std::sort(order.begin(), order.end());
	for (size_t i = 0; i < into.size(); i++) {
		for (const uint32_t number : order)
			stored.push_back(places[number]);
		if (!ascending)
			random.shuffle(order);
	}
	const place *next = stored.data();
	for (size_t i = 0; warm && i < into.size() * present; i++)
		into[i / present]->store(stored[i]);
	for (std::unique_ptr<S> &tree : into)
		tree->clear();
	S::reclaim();
	const double start = bench_thread_time();
	for (std::unique_ptr<S> &tree : into)
		for (size_t i = 0; i < present; i++)
			tree->store(*next++);
	const double taken = bench_thread_time() - start;
	for (std::unique_ptr<S> &tree : into)
		tree->settle();
	return taken;
}

template <class S> void time_each(const S &tree, size_t ranges)
{
	const size_t rounds = MANY / ranges + 1;
	uint64_t sum = 0;
	double start = 0;

	for (size_t i = 0; i <= rounds; i++) {
		if (i == 1)
			start = bench_thread_time();
		tree.each([&](unsigned long first, unsigned long last, void *entry) {
			sum += (first ^ last) + reinterpret_cast<uintptr_t>(entry);
		});
	}
	print_time("iterate", bench_thread_time() - start, rounds * ranges);
	print_sum("iterate", sum);
}

/* Copies that use the same `sum` must be equal. */
template <class S>
void time_copies(const std::string &workload, const std::string &sum, const S &tree, size_t ranges,
		 void (S::*copy)(const S &from))
{
	double taken = 0;

	for (int round = 0; round < 2; round++) { /* the first is not measured */
		trees<S> copies = make_trees<S>(trees_for(ranges), 0);

		S::reclaim();
		const double start = bench_thread_time();

		for (std::unique_ptr<S> &one : copies)
			(one.get()->*copy)(tree);
		taken = bench_thread_time() - start;
		if (round)
			print_sum(sum, sum_of(*copies.back()));
	}
	print_time(workload, taken, trees_for(ranges) * ranges);
}

/* These sizes, in bytes, in turn. */
template <class S>
void time_gaps(const std::string &workload, const S &tree, const std::vector<unsigned long> &sizes,
	       size_t searches)
{
	uint64_t sum = 0;
	double start;

	for (size_t i = 0; i < std::min(sizes.size(), SUMMED); i++)
		sum += tree.gap_from_top(sizes[i]);
	print_sum(workload, sum);
	start = bench_thread_time();
	for (size_t i = 0, at = 0; i < searches; i++) {
		sum += tree.gap_from_top(sizes[at]);
		at = at + 1 < sizes.size() ? at + 1 : 0;
	}
	print_time(workload, bench_thread_time() - start + (sum == 1), searches);
}

/* Log-uniform from a page to `most` pages. */
inline std::vector<unsigned long> varied_sizes(size_t most)
{
	std::vector<unsigned long> sizes(SIZES);
	numbers random(most);

	for (unsigned long &one : sizes)
		one = static_cast<unsigned long>(
			      std::exp(random.fraction() * std::log(static_cast<double>(most)))) *
		      PAGE;
	return sizes;
}

#endif
