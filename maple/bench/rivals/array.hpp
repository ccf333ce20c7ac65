/* SPDX-License-Identifier: MIT */
/*
 * A sorted array: not a structure for ranges that change, but the lower bound of the cost of loads.
 */
#ifndef BENCH_MAPLE_ARRAY_HPP
#define BENCH_MAPLE_ARRAY_HPP

#include <cstring>

#include "common.hpp"
#include "structure.hpp"

class sorted_array : public structure
{
      public:
	static constexpr bool changes = false;
	static constexpr bool copies = true;

	explicit sorted_array(size_t places = 0)
	{
		ranges_.reserve(places);
	}

	void store(const place &at)
	{
		ranges_.push_back(at);
	}

	void settle()
	{
		std::sort(ranges_.begin(), ranges_.end(),
			  [](const place &a, const place &b) { return a.first < b.first; });
	}

	/* Without a branch that depends on the data. */
	void *load(unsigned long index) const
	{
		const place *base = ranges_.data();

		for (size_t n = ranges_.size(); n > 1; n -= n / 2)
			base += base[n / 2].first <= index ? n / 2 : 0;
		return base->first <= index && index <= base->last ? base->entry : nullptr;
	}

	template <class F> void each(F &&visit) const
	{
		for (const place &one : ranges_)
			visit(one.first, one.last, one.entry);
	}

	unsigned long gap_from_top(unsigned long size) const
	{
		unsigned long end = TOP + 1;

		for (size_t i = ranges_.size(); i-- > 0; end = ranges_[i].first)
			if (end - ranges_[i].last > size)
				return end - size;
		return end - FLOOR >= size ? end - size : 0;
	}

	void copy_from(const sorted_array &from)
	{
		ranges_ = from.ranges_;
	}

	void copy_replaced(const sorted_array &from)
	{
		ranges_ = from.ranges_;
		for (place &one : ranges_)
			one.entry = replaced(one.entry);
	}

	void clear()
	{
		std::vector<place>().swap(ranges_);
	}

      private:
	std::vector<place> ranges_;
};

#endif
