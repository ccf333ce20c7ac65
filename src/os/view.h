/* SPDX-License-Identifier: MIT */
/*
 * The words of a slot's two sheaves as other threads see them: a consistent copy, without stopping
 * a thread.
 *
 * Where events are counted, the first words of a slot's counters (os/counters.h) are copies of it
 * for other processes. Every change of a slot updates them: a push in its section, the other
 * sections in os/section.c after their commit, a drain with view_clear().
 *
 * Callers: src/os/section.c, src/percpu/drain.c; src/stats/ to read.
 */
#ifndef SHEAF_OS_VIEW_H
#define SHEAF_OS_VIEW_H

#include "os/compiler.h"
#include "os/section.h"

/* The words of both sheaves; 0 for the bootstrap sheaf, or for none. */
struct slot_view {
	uint64_t main, spare;
	uint32_t main_base, spare_base;
};

/* Returns false if they are changing now. */
bool view_slot(const struct slot *slot, struct slot_view *view);

/* Only if os.counting. Show others the slots that a section of this thread may have changed. */
void view_show(char *handle) OS_COLD;
/* A drain emptied the slot: the counts of its sheaves will be in the sums. */
void view_clear(struct slot *slot);

#endif
