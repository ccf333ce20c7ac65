/* SPDX-License-Identifier: MIT */
/*
 * The memory that the process has from the library, in words that other processes can read. They
 * are at the end of the head of the counters' file. Each layer updates its own words; all are in
 * bytes.
 *
 * Callers: src/page/, src/cache/, src/stats/.
 */
#ifndef SHEAF_OS_PROCESS_WORDS_H
#define SHEAF_OS_PROCESS_WORDS_H

#include "os/counters.h"
#include "os/section.h"

#define OS_PROCESS_AT (((size_t)1 << ROW_SHIFT) - 512)

/* X(name): as in struct sheaf_stats. */
#define OS_PROCESS_WORDS(X)                                                                        \
	X(committed_bytes)                                                                         \
	X(used_bytes)                                                                              \
	X(free_bytes)                                                                              \
	X(large_bytes)                                                                             \
	X(mapped_bytes)                                                                            \
	X(peak_bytes)

#define OS_PROCESS_WORD(name) OS_PROCESS_##name,
enum os_process_word {
	OS_PROCESS_WORDS(OS_PROCESS_WORD) OS_NR_PROCESS_WORDS,
};
#undef OS_PROCESS_WORD

/* NULL if nothing is counted, or if there are no counters yet. */
static inline uint64_t *os_process_word(enum os_process_word word)
{
	char *head = os_counters_head();

	return head ? (uint64_t *)(head + OS_PROCESS_AT) + word : NULL;
}

#endif
