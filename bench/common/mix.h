/* SPDX-License-Identifier: MIT */
/*
 * What a recorded program does to an allocator, as a list of steps that can be replayed: objects of
 * the recorded sizes, each freed after as many allocations as the recorded ones were; what is still
 * live at the end is freed there. The same for the same mix.
 */
#ifndef BENCH_MIX_H
#define BENCH_MIX_H

#include <stddef.h>
#include <stdint.h>

/* Allocate `size` bytes into a slot; size 0: free what is in it. */
struct mix_step {
	uint32_t slot, size;
};

struct mix {
	struct mix_step *steps;
	size_t nr_steps;
	size_t slots; /* objects live at the same time, at most */
};

/*
 * Read a mix (lines of a size, how many such objects were kept, and how many were freed at an age
 * of 0, 1, 2-3, 4-7, ... allocations) and draw this many objects of it. What is wrong ends the
 * program.
 */
void mix_read(struct mix *mix, const char *path, size_t objects);

#endif
