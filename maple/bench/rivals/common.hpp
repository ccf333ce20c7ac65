/* SPDX-License-Identifier: MIT */
/*
 * Common parts of the workloads of the maple benchmark: ranges, random numbers, and lines for the
 * `sheaf` command.
 *
 * A place is a range that may be stored: of 1 to 16 pages, places in the order of their addresses,
 * packed against the top of 47 bits, with 1 to 16 free pages below each, or none (adjacent). One
 * has BIG_GAP free pages below it. The topmost place is always stored. Its entry encodes the number
 * of the place, and is never dereferenced.
 *
 * The program prints lines of two kinds: WORKLOAD NANOSECONDS (or another unit), and `sum WORKLOAD
 * NUMBER`, which must be the same for all structures.
 */
#ifndef BENCH_MAPLE_COMMON_HPP
#define BENCH_MAPLE_COMMON_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

extern "C" {
#include "common/common.h"
}

constexpr unsigned long PAGE = 4096;
constexpr unsigned long TOP = (1UL << 47) - 1; /* the last index of the space */
constexpr unsigned long FLOOR = 16 * PAGE;     /* the first index that may be allocated */
constexpr unsigned long BIG_GAP = 4096;	       /* pages */
constexpr size_t SOME = 20000;		       /* minimum of operations per measurement */
constexpr size_t MANY = 400000;		       /* the minimum if each takes nanoseconds */

struct place {
	unsigned long first, last;
	void *entry;
};

inline void *entry_of(size_t number)
{
	return reinterpret_cast<void *>((number + 1) << 4);
}

inline size_t number_of(const void *entry)
{
	return (reinterpret_cast<uintptr_t>(entry) >> 4) - 1;
}

/* A different entry for the same place, as a fork would store it. */
inline void *replaced(void *entry)
{
	return reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(entry) | 1UL << 40);
}

class numbers
{
      public:
	explicit numbers(uint64_t seed) : state_(seed * UINT64_C(0x9e3779b97f4a7c15) + 1)
	{
	}

	uint64_t next()
	{
		state_ ^= state_ << 13;
		state_ ^= state_ >> 7;
		state_ ^= state_ << 17;
		return state_ * UINT64_C(0x2545f4914f6cdd1d);
	}

	size_t below(size_t n)
	{
		return static_cast<size_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
	}

	double fraction() /* above 0, at most 1 */
	{
		return static_cast<double>((next() >> 11) + 1) / static_cast<double>(1UL << 53);
	}

	template <class T> void shuffle(std::vector<T> &what)
	{
		for (size_t i = what.size(); i > 1; i--)
			std::swap(what[i - 1], what[below(i)]);
	}

      private:
	uint64_t state_;
};

/* The free space below a place, in pages. */
enum class gaps {
	some, /* 1 ... 16 */
	none,
	varied /* x or more with probability 1 / x */
};

inline unsigned long gap_pages(gaps kind, size_t n, numbers &random)
{
	if (kind == gaps::none)
		return 0;
	if (kind == gaps::some)
		return 1 + random.below(16);
	return std::min<unsigned long>(16 * n, static_cast<unsigned long>(1 / random.fraction()));
}

inline std::vector<place> make_places(size_t n, gaps kind)
{
	std::vector<place> places(n);
	numbers random(n);
	unsigned long end = TOP + 1;

	for (size_t i = n; i-- > 0;) {
		const unsigned long bytes = (1 + random.below(16)) * PAGE;

		places[i] = {end - bytes, end - 1, entry_of(i)};
		end -= bytes +
		       (kind == gaps::some && i == n / 2 ? BIG_GAP : gap_pages(kind, n, random)) *
			       PAGE;
	}
	return places;
}

/* The order in which places are stored: the first `present` are stored at first, and include the
 * topmost. */
inline std::vector<uint32_t> make_order(size_t n, size_t present, uint64_t seed)
{
	std::vector<uint32_t> order(n);
	numbers random(seed);

	std::iota(order.begin(), order.end(), 0);
	random.shuffle(order);
	const auto top = std::find(order.begin(), order.end(), n - 1);
	if (static_cast<size_t>(top - order.begin()) >= present)
		std::swap(*top, order[random.below(present)]);
	return order;
}

inline void print_time(const std::string &workload, double ns, size_t operations)
{
	std::printf("%s %.4f\n", workload.c_str(), ns / static_cast<double>(operations));
}

inline void print_sum(const std::string &workload, uint64_t sum)
{
	std::printf("sum %s %llu\n", workload.c_str(), static_cast<unsigned long long>(sum));
}

/* A checksum of all ranges in order. */
template <class S> uint64_t sum_of(const S &structure)
{
	uint64_t sum = 0;

	structure.each([&](unsigned long first, unsigned long last, void *entry) {
		sum = sum * 31 + first + 3 * last + reinterpret_cast<uintptr_t>(entry);
	});
	return sum;
}

/* Trees that are built or copied in one measurement, so that it takes long enough to measure. */
inline size_t trees_for(size_t ranges)
{
	return std::max<size_t>(1, SOME / ranges);
}

#endif
