/* SPDX-License-Identifier: MIT */
/* bench_make_countable() for allocators whose sections are restartable sequences. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RSEQ_UNREGISTER	 1
#define RSEQ_SIGNATURE	 0x53053053
#define RSEQ_CPU_IDS	 0  /* cpu_id_start and cpu_id */
#define RSEQ_NODE_AND_ID 20 /* node_id and mm_cid */
#define RSEQ_LENGTH_MAX	 256

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* Unregister this thread's rseq area from the kernel and fill it in by hand, as CPU 0: the sections
 * then run unaborted under single-stepping. Correct only while no other thread uses row 0. */
static inline bool bench_make_countable(void)
{
	char *area;
	unsigned int length = 32;

	if (!&__rseq_size || !&__rseq_offset || __rseq_size == 0)
		return true; /* the trylock backend runs, which can be single-stepped */
	area = (char *)__builtin_thread_pointer() + __rseq_offset;
	while (syscall(SYS_rseq, area, length, RSEQ_UNREGISTER, RSEQ_SIGNATURE)) {
		/* The code that registered the area chose its length, and nothing reports that
		 * length. */
		length += 4;
		if (length > RSEQ_LENGTH_MAX) {
			fprintf(stderr, "count: the rseq area cannot be unregistered\n");
			return false;
		}
	}
	*(volatile uint64_t *)(area + RSEQ_CPU_IDS) = 0;
	for (unsigned int field = 0; field < 2; field++)
		*(volatile uint32_t *)(area + RSEQ_NODE_AND_ID + 4 * field) = 0;
	return true;
}
