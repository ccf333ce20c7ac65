/* SPDX-License-Identifier: MIT */
/*
 * Loads: of a random address in a random range, independent of each other; each as soon as the
 * result of the one before is known (chain); of the same address 64 times (same, same-chain); and
 * of free addresses.
 */
#ifndef BENCH_MAPLE_LOAD_HPP
#define BENCH_MAPLE_LOAD_HPP

#include "common.hpp"

constexpr size_t SAME = 64;

using addresses = std::vector<unsigned long>;

/* Enough that the CPU cannot learn the branches, and that loads reach all of a large tree. */
inline size_t addresses_for(size_t ranges)
{
	return std::min<size_t>(std::max<size_t>(1 << 16, ranges), 1 << 18);
}

inline addresses random_addresses(const std::vector<place> &places,
				  const std::vector<uint32_t> &order, size_t present, bool hit)
{
	addresses found(addresses_for(present));
	numbers random(present + hit);

	for (unsigned long &one : found) {
		const place &at = places[order[random.below(present)]];

		one = hit ? at.first + random.below(at.last - at.first + 1)
			  : at.first - 1 - random.below(PAGE);
	}
	return found;
}

template <class S> uint64_t load_all(const S &structure, const addresses &where)
{
	uint64_t sum = 0;

	for (const unsigned long index : where)
		sum += reinterpret_cast<uintptr_t>(structure.load(index));
	return sum;
}

/* The lowest bit of an entry is 0, but the CPU knows that only from the structure's answer. */
template <class S> uint64_t load_chain(const S &structure, const addresses &where)
{
	uint64_t sum = 0, bit = 0;

	for (const unsigned long index : where) {
		const auto found = reinterpret_cast<uintptr_t>(structure.load(index + bit));

		sum += found;
		bit = found & 1;
	}
	return sum;
}

template <class S, bool CHAIN> uint64_t load_same(const S &structure, const addresses &where)
{
	uint64_t sum = 0, bit = 0;

	for (size_t i = 0; i < where.size() / SAME; i++) {
		for (size_t j = 0; j < SAME; j++) {
			const auto found = reinterpret_cast<uintptr_t>(
				structure.load(where[i] + (CHAIN ? bit : 0)));

			sum += found;
			bit = found & 1;
		}
	}
	return sum;
}

template <class S>
void time_loads(const std::string &workload, const S &structure, const addresses &where,
		uint64_t (*loads)(const S &, const addresses &))
{
	const addresses few(where.begin(), where.begin() + (1 << 14));
	uint64_t sum = loads(structure, few);
	const double start = bench_thread_time();

	sum += loads(structure, where);
	print_time(workload, bench_thread_time() - start, where.size());
	print_sum(workload, sum);
}

#endif
