/* SPDX-License-Identifier: MIT */
/* The benchmark's own memory, in huge pages if the system has them. */
#ifndef BENCH_HUGE_H
#define BENCH_HUGE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BENCH_HUGE ((size_t)2 << 20)

/* Aligned to a huge page, not touched; ends the program if there is no memory. */
static inline void *bench_huge(size_t bytes)
{
	char *memory = mmap(NULL, bytes + 2 * BENCH_HUGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	memory += -(uintptr_t)memory & (BENCH_HUGE - 1);
	/* Fails if there are no huge pages: then the memory consists of small ones. */
	madvise(memory, (bytes + BENCH_HUGE - 1) & ~(BENCH_HUGE - 1), MADV_HUGEPAGE);
	return memory;
}

#endif
