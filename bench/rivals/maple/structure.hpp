/* SPDX-License-Identifier: MIT */
/*
 * What a structure of the maple benchmark can do; each is a class of its own header that overrides
 * what is different, named by BENCH_STRUCTURE. Beyond this it has:
 *
 *   S(size_t places)                  empty, for so many places
 *   void *load(index) const           the entry of the range that contains the index, or NULL
 *   void store(place)                 into an empty place
 *   void map(place), void *unmap(i)   the same as mmap does it; the range that contains i removed
 *   each(visit) const                 visit(first, last, entry) of all ranges in order
 *   gap_from_top(bytes) const         the highest place of so many free bytes above FLOOR, or 0
 *   copy_from(S), copy_replaced(S)    become a copy; every entry replaced(); if it `copies`
 *   copy_and_store(S)                 the same by storing one by one; if it `stores_copies`
 *   clear()
 */
#ifndef BENCH_MAPLE_STRUCTURE_HPP
#define BENCH_MAPLE_STRUCTURE_HPP

#include <cstddef>

struct structure {
	static constexpr bool changes = true;	/* ranges can be stored one by one */
	static constexpr bool searches = false; /* gaps are found without looking at all ranges */
	static constexpr bool copies = false;
	static constexpr bool stores_copies = false;
	static constexpr bool lockless = false; /* for readers, beside a writer */

	/* Before all; and around each further thread. */
	static void begin()
	{
	}
	static void thread_begin()
	{
	}
	static void thread_end()
	{
	}

	/* Bytes of heap in use, for what is allocated by malloc. */
	static size_t bytes();

	/* Of those what is needed, if it is known. */
	static size_t bytes_of_nodes()
	{
		return 0;
	}

	/* What was stored so far is all there will be. */
	void settle()
	{
	}
};

#include <malloc.h>

inline size_t structure::bytes()
{
	const struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

#endif
