/* SPDX-License-Identifier: MIT */
/*
 * Ranges in an ordered map (std::map, absl::btree_map), keyed by their start or by their end. A map
 * knows nothing of gaps: looking for one is a scan from the top.
 */
#ifndef BENCH_MAPLE_ORDERED_HPP
#define BENCH_MAPLE_ORDERED_HPP

#include "common.hpp"
#include "structure.hpp"

struct range_rest {
	unsigned long other; /* the end that is not the key */
	void *entry;
};

template <class Map, bool BY_END> class ordered : public structure
{
      public:
	static constexpr bool copies = true;

	explicit ordered(size_t = 0)
	{
	}

	void *load(unsigned long index) const
	{
		const auto found = find(index);

		return found == map_.end() ? nullptr : found->second.entry;
	}

	void store(const place &at)
	{
		if constexpr (BY_END)
			map_.emplace(at.last, range_rest{at.first, at.entry});
		else
			map_.emplace(at.first, range_rest{at.last, at.entry});
	}

	void map(const place &at)
	{
		store(at);
	}

	void *unmap(unsigned long index)
	{
		const auto found = find(index);

		if (found == map_.end())
			return nullptr;
		void *const entry = found->second.entry;
		map_.erase(found);
		return entry;
	}

	template <class F> void each(F &&visit) const
	{
		for (const auto &one : map_)
			visit(first_of(one), last_of(one), one.second.entry);
	}

	unsigned long gap_from_top(unsigned long size) const
	{
		unsigned long end = TOP + 1;

		for (auto one = map_.rbegin(); one != map_.rend(); ++one) {
			if (end - last_of(*one) > size)
				return end - size;
			end = first_of(*one);
		}
		return end - FLOOR >= size ? end - size : 0;
	}

	void copy_from(const ordered &from)
	{
		map_ = from.map_;
	}

	void copy_replaced(const ordered &from)
	{
		map_ = from.map_;
		for (auto &one : map_)
			one.second.entry = replaced(one.second.entry);
	}

	void clear()
	{
		map_.clear();
	}

      private:
	using item = typename Map::value_type;

	static unsigned long first_of(const item &one)
	{
		return BY_END ? one.second.other : one.first;
	}

	static unsigned long last_of(const item &one)
	{
		return BY_END ? one.first : one.second.other;
	}

	typename Map::const_iterator find(unsigned long index) const
	{
		auto found = BY_END ? map_.lower_bound(index) : map_.upper_bound(index);

		if constexpr (BY_END)
			return found != map_.end() && found->second.other <= index ? found
										   : map_.end();
		if (found == map_.begin())
			return map_.end();
		--found;
		return index <= found->second.other ? found : map_.end();
	}

	Map map_;
};

#endif
