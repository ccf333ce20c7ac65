/* SPDX-License-Identifier: MIT */
/*
 * A list of steps that replays the use of an allocator by a recorded program: objects of the
 * recorded sizes, each freed after the same number of allocations as a recorded one; objects that
 * are still live at the end are freed there. A mix always gives the same steps.
 */
#ifndef BENCH_MIX_H
#define BENCH_MIX_H

#include <stddef.h>
#include <stdint.h>

/* Allocate `size` bytes into a slot; size 0: free the object in it. */
struct mix_step {
	uint32_t slot, size;
};

struct mix {
	struct mix_step *steps;
	size_t nr_steps;
	size_t slots; /* most objects live at the same time */
};

/*
 * Read a mix (lines of a size, the number of objects of it that were never freed, and the numbers
 * freed at an age of 0, 1, 2-3, 4-7, ... allocations) and draw this many objects from it. Errors
 * end the program.
 */
void mix_read(struct mix *mix, const char *path, size_t objects);

#endif
