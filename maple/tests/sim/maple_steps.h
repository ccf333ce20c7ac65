/* SPDX-License-Identifier: MIT */
/*
 * The public header as the maple tree's sources include it in the simulator: the loads of the
 * inlined step are also steps of the simulator; see maple_words.h.
 */
#ifndef SHEAF_TESTS_SIM_MAPLE_STEPS_H
#define SHEAF_TESTS_SIM_MAPLE_STEPS_H

#include <limits.h>
#include <sheaf/slab.h>
#include <stdbool.h>
#include <stdint.h>

void word_look(const void *at);

#define __atomic_load_n(p, order) (word_look(p), __atomic_load_n((p), (order)))
#include <sheaf/maple_tree.h>
#undef __atomic_load_n

#endif
