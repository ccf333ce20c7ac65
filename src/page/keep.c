/* SPDX-License-Identifier: MIT */
/* How many free pages of a node may stay; see range.h. */
#include "page/range.h"

#include "os/atomic.h"
#include "os/options/options.h"

/*
 * A heap that is freed all together may stay whole for a moment: this multiple of decay_most, but
 * at most this part of memory, because other programs may need it. With half of the memory: heaps
 * of 2 GiB on a machine of 32 GiB; double: a quarter of a machine may be one program's free memory.
 */
#define LATELY_MOST 16
#define LATELY_PART 8

/* With slub_tiny, this part of the bytes that may otherwise stay: 64 KiB of whole chunks, 256 KiB
 * in all. */
#define TINY_PART 64

/* On the curve, unless the program says how much. */
#define MOST_MIB 256

/* Of memory, so much on the curve, and so much in parts of chunks: see LATELY_PART. By decay_most,
 * so much on the curve. And what may always stay, which is less than PAGE_KEEP_PARTS below 512
 * MiB. */
#define MOST_PART   8
#define GIVEN_PART  2
#define PARTS_PART  8
#define ALWAYS_PART 32

static size_t larger(size_t one, size_t other)
{
	return one > other ? one : other;
}

/* A part of memory, in pages, for each node: of the machine's, or of what the control group grants
 * now. */
static size_t of_memory(unsigned int part)
{
	return (os_load_relaxed(&os.memory) >> OS_PAGE_SHIFT) / part / os.nr_cpu_nodes;
}

/* Dirty pages that may always stay, by default this number of bytes. */
static size_t keep_pages(size_t bytes)
{
	if (page_is_above_soft())
		return 0;
	if (os_options.tiny || (!os_options.decay && !os_options.decay_never))
		bytes /= TINY_PART;
	return smaller(bytes >> OS_PAGE_SHIFT, of_memory(ALWAYS_PART));
}

size_t keep_most(void)
{
	bool given = os_options.decay_most != OS_DECAY_MOST;
	size_t mib = given ? os_options.decay_most : MOST_MIB;

	if (os_options.tiny)
		return 0;
	return smaller((mib << 20 >> OS_PAGE_SHIFT) / os.nr_cpu_nodes,
		       of_memory(given ? GIVEN_PART : MOST_PART));
}

/* The most that may stay because it was freed a moment ago. */
static size_t keep_most_lately(void)
{
	size_t hard = os_load_relaxed(&page_limit.hard) / LATELY_PART / os.nr_cpu_nodes;

	return smaller(keep_most() * LATELY_MOST, smaller(of_memory(LATELY_PART), hard));
}

size_t keep_for_return(struct range *range, uint32_t now, size_t freed)
{
	size_t used = range->used, kept, lately;

	decay_see_time(now);
	if (page_is_above_soft())
		return 0;
	if (os_options.decay_never)
		return SIZE_MAX / 2;
	kept = decay_kept(&range->decay, used, now, os_options.decay);
	lately = decay_lately(&range->decay, used + freed, used, now, os_options.decay);
	return larger(smaller(kept, keep_most()), smaller(lately, keep_most_lately()));
}

size_t keep_parts(const struct range *range, size_t always)
{
	if (page_is_above_soft())
		return 0;
	return larger(keep_pages(always), smaller(range->used / 4, of_memory(PARTS_PART)));
}

size_t keep_whole(const struct range *range, size_t kept, size_t parts)
{
	return kept + keep_pages(PAGE_KEEP_CHUNKS) + smaller(range->dirty - range->whole, parts);
}
