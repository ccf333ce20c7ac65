/* SPDX-License-Identifier: MIT */
/* JudyL: maps the start of a range to a record of its end and its entry. */
#ifndef BENCH_MAPLE_JUDY_HPP
#define BENCH_MAPLE_JUDY_HPP

#include <cstdlib>
#include <Judy.h>

#include "common.hpp"
#include "structure.hpp"

class judy : public structure
{
      public:
	explicit judy(size_t = 0)
	{
	}
	judy(const judy &) = delete;
	judy &operator=(const judy &) = delete;

	~judy()
	{
		clear();
	}

	void *load(unsigned long index) const
	{
		Word_t first = index;
		const record *const found = at_or_before(&first);

		return found && index <= found->last ? found->entry : nullptr;
	}

	void store(const place &at)
	{
		PPvoid_t slot = JudyLIns(&array_, at.first, PJE0);
		auto *const made = static_cast<record *>(std::malloc(sizeof(record)));

		if (slot == PPJERR || !made)
			std::abort();
		*made = {at.last, at.entry};
		*slot = made;
	}

	void map(const place &at)
	{
		store(at);
	}

	void *unmap(unsigned long index)
	{
		Word_t first = index;
		record *const found = at_or_before(&first);

		if (!found || index > found->last)
			return nullptr;
		void *const entry = found->entry;
		JudyLDel(&array_, first, PJE0);
		std::free(found);
		return entry;
	}

	template <class F> void each(F &&visit) const
	{
		Word_t first = 0;

		for (PPvoid_t slot = JudyLFirst(array_, &first, PJE0); slot;
		     slot = JudyLNext(array_, &first, PJE0)) {
			const auto *const one = static_cast<const record *>(*slot);

			visit(first, one->last, one->entry);
		}
	}

	unsigned long gap_from_top(unsigned long size) const
	{
		unsigned long end = TOP + 1;
		Word_t first = ~0UL;

		for (PPvoid_t slot = JudyLLast(array_, &first, PJE0); slot;
		     slot = JudyLPrev(array_, &first, PJE0)) {
			if (end - static_cast<const record *>(*slot)->last > size)
				return end - size;
			end = first;
		}
		return end - FLOOR >= size ? end - size : 0;
	}

	void clear()
	{
		Word_t first = 0;

		for (PPvoid_t slot = JudyLFirst(array_, &first, PJE0); slot;
		     slot = JudyLNext(array_, &first, PJE0))
			std::free(*slot);
		JudyLFreeArray(&array_, PJE0);
	}

      private:
	struct record {
		unsigned long last;
		void *entry;
	};

	record *at_or_before(Word_t *first) const
	{
		PPvoid_t slot = JudyLLast(array_, first, PJE0);

		return slot ? static_cast<record *>(*slot) : nullptr;
	}

	Pvoid_t array_ = nullptr;
};

#endif
