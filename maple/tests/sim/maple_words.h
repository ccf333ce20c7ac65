/* SPDX-License-Identifier: MIT */
/*
 * The maple tree's shared words in the simulator: included by src/node.h in place of its own
 * loads and stores (MAPLE_WORDS). Every load of a reader and every store of the writer is a step at
 * which another fibre may continue (see nodes_learn()). A load by the writer is no step, because
 * only the writer changes these words. No fibre loads or stores a word of a freed node.
 */
#ifndef SHEAF_TESTS_SIM_MAPLE_WORDS_H
#define SHEAF_TESTS_SIM_MAPLE_WORDS_H

#include <stdint.h>

void word_look(const void *at);
void word_store(void *at, uint64_t value);

#define word_load(p, order)                                                                        \
	({                                                                                         \
		__typeof__(p) at_ = (p);                                                           \
		word_look(at_);                                                                    \
		__atomic_load_n(at_, order);                                                       \
	})
#define load_relaxed(p) word_load(p, __ATOMIC_RELAXED)
#define load_acquire(p) word_load(p, __ATOMIC_ACQUIRE)
#define store_relaxed(p, v)                                                                        \
	do {                                                                                       \
		_Static_assert(sizeof(*(p)) == sizeof(uint64_t), "a word");                        \
		word_store((p), (uint64_t)(uintptr_t)(v));                                         \
	} while (0)
#define store_release(p, v) store_relaxed(p, v)

#endif
