/* SPDX-License-Identifier: MIT */
/*
 * The interface of a structure of the maple benchmark. Each structure is a class in its own header,
 * named by BENCH_STRUCTURE, and overrides the parts that differ. Beyond this it has:
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
	static constexpr bool searches = false; /* gaps are found without visiting all ranges */
	static constexpr bool copies = false;
	static constexpr bool stores_copies = false;
	static constexpr bool lockless = false; /* for readers, concurrent with a writer */

	/* Before all calls; and around each further thread. */
	static void begin()
	{
	}
	static void thread_begin()
	{
	}
	static void thread_end()
	{
	}

	/* Bytes of heap in use, for structures that allocate with malloc. */
	static size_t bytes();

	/* The part of them that is needed, if it is known. */
	static size_t bytes_of_nodes()
	{
		return 0;
	}

	/* Called before a measured round: what was freed before can be used again in it. */
	static void reclaim()
	{
	}

	/* Nothing more will be stored. */
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
