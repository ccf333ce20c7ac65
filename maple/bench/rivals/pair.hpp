/* SPDX-License-Identifier: MIT */
/*
 * Unmap and map: removes one of N stored ranges, and stores one of the others.
 *
 * The pairs are chosen beforehand, so that the choice is not measured. Run backwards, with both
 * halves exchanged, they restore the first state.
 */
#ifndef BENCH_MAPLE_PAIR_HPP
#define BENCH_MAPLE_PAIR_HPP

#include "common.hpp"

constexpr size_t PLACES_PER_8 = 9; /* places per 8 ranges */
constexpr size_t AGAIN = 256;	   /* repetitions at the same place */

struct pair_of_places {
	place out, in;
};

inline size_t pairs_for(size_t ranges)
{
	return ranges <= 10000 ? 40000 : ranges <= 100000 ? 100000 : 200000;
}

/* At random places. `order` changes like the structure. */
inline std::vector<pair_of_places> random_pairs(const std::vector<place> &places,
						std::vector<uint32_t> order, size_t present,
						size_t n)
{
	std::vector<pair_of_places> pairs(n);
	numbers random(n + present);

	/* The topmost place stays stored. */
	std::swap(order[0], *std::find(order.begin(), order.end(), places.size() - 1));
	for (pair_of_places &one : pairs) {
		uint32_t &out = order[1 + random.below(present - 1)];
		uint32_t &in = order[present + random.below(order.size() - present)];

		one = {places[out], places[in]};
		std::swap(out, in);
	}
	return pairs;
}

/* One place many times, then another. */
inline std::vector<place> same_places(const std::vector<place> &places,
				      const std::vector<uint32_t> &order, size_t present)
{
	std::vector<place> found(160);
	numbers random(present);

	for (place &one : found)
		do
			one = places[order[random.below(present)]];
		while (one.last == TOP);
	return found;
}

template <class S>
uint64_t run_pairs(S &structure, const pair_of_places *begin, const pair_of_places *end)
{
	uint64_t sum = 0;

	for (; begin < end; begin++) {
		sum += reinterpret_cast<uintptr_t>(structure.unmap(begin->out.first + PAGE / 2));
		structure.map(begin->in);
	}
	return sum;
}

template <class S> uint64_t run_backwards(S &structure, const std::vector<pair_of_places> &pairs)
{
	uint64_t sum = 0;

	for (size_t i = pairs.size(); i-- > 0;) {
		sum += reinterpret_cast<uintptr_t>(structure.unmap(pairs[i].in.first + PAGE / 2));
		structure.map(pairs[i].out);
	}
	return sum;
}

/* The gaps that a structure finds after its change, as a checksum. */
template <class S> uint64_t sum_of_gaps(const S &structure)
{
	uint64_t sum = 0;

	for (unsigned long pages = 1; pages <= 20; pages++)
		sum += structure.gap_from_top(pages * PAGE);
	return sum;
}

template <class S>
void time_random_pairs(S &structure, const std::vector<place> &places,
		       const std::vector<uint32_t> &order, size_t present)
{
	const auto pairs = random_pairs(places, order, present, pairs_for(present) * 5 / 4);
	const pair_of_places *const begin = pairs.data() + pairs.size() / 5;
	const pair_of_places *const end = pairs.data() + pairs.size();
	uint64_t sum = run_pairs(structure, pairs.data(), begin);
	const double start = bench_thread_time();

	sum += run_pairs(structure, begin, end);
	print_time("pair-random", bench_thread_time() - start, static_cast<size_t>(end - begin));
	print_sum("pair-random", sum + sum_of(structure) + sum_of_gaps(structure));
	run_backwards(structure, pairs);
}

template <class S>
void time_same_pairs(S &structure, const std::vector<place> &places,
		     const std::vector<uint32_t> &order, size_t present)
{
	const std::vector<place> where = same_places(places, order, present);
	uint64_t sum = 0;
	const double start = bench_thread_time();

	for (const place &one : where) {
		for (size_t i = 0; i < AGAIN; i++) {
			sum += reinterpret_cast<uintptr_t>(structure.unmap(one.first + PAGE / 2));
			structure.map(one);
		}
	}
	print_time("pair-same", bench_thread_time() - start, where.size() * AGAIN);
	print_sum("pair-same", sum + sum_of(structure));
}

#endif
