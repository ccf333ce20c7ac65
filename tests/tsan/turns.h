/* SPDX-License-Identifier: MIT */
/* Threads that take turns, always in the same order, with a relaxed word, so that the thread
 * sanitizer sees no order. */
#ifndef TSAN_TURNS_H
#define TSAN_TURNS_H

#include <sched.h>

static int turn;

static void next_turn(void)
{
	__atomic_add_fetch(&turn, 1, __ATOMIC_RELAXED);
}

static void wait_for(int wanted)
{
	while (__atomic_load_n(&turn, __ATOMIC_RELAXED) != wanted)
		sched_yield();
}

#endif
