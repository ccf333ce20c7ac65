/* SPDX-License-Identifier: MIT */
/*
 * What a slot's two sheaves carry, seen from outside: at one moment, without stopping anybody.
 *
 * Where events are counted the first words of a slot's counters (os/counters.h) are copies of it, for other
 * processes. Whatever changes a slot renews them: each push in its section, the other sections in
 * os/section.c when they have committed, a drain by view_clear().
 *
 * Callers: src/os/section.c, src/percpu/drain.c; src/stats/ to read.
 */
#ifndef SHEAF_OS_VIEW_H
#define SHEAF_OS_VIEW_H

#include "os/section.h"

/* The words of both sheaves; of the bootstrap sheaf, or none, they are 0. */
struct slot_view {
	uint64_t main, spare;
	uint32_t main_base, spare_base;
};

/* False: they were just changing. */
bool view_slot(const struct slot *slot, struct slot_view *view);

/* Only if os.counting. Show others the slots that a section of this thread may have changed. */
void view_show(char *handle) __attribute__((cold));
/* The slot was emptied by a drain: what its sheaves carried will be in the sums. */
void view_clear(struct slot *slot);

#endif
