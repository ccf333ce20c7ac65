/* SPDX-License-Identifier: MIT */
/*
 * One step up the stack, by the row of the unwind tables that belongs to an address of code. Rows
 * are kept, so that a step that was made before costs a few loads.
 *
 *   kept[hash of address and code] = | address and code, xor row | row |
 *
 * Invariants
 *  U1. A row that is read belongs to its address: of two halves written by two threads, or by a
 *      signal handler between the two stores, the xor is another address's.
 *  U2. Part of what an address is found by are the bytes of code in front of it: a module that was
 *      loaded where another one was unloaded does not get that one's rows.
 *  U3. Nothing is guessed: what these rows cannot say (signal frames, expressions, signed return
 *      addresses, code without tables) is left to the system's unwinder.
 *
 * Takes no lock, allocates nothing, and needs less than a kilobyte of stack. Locks: none.
 * Callers: src/os/linux/stack.c.
 */
#ifndef SHEAF_OS_LINUX_UNWIND_H
#define SHEAF_OS_LINUX_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/* The registers of a function that is about to be returned to. */
struct unwind_frame {
	uintptr_t pc; /* a return address */
	uintptr_t sp, fp;
};

enum unwind_result {
	UNWIND_UNKNOWN, /* ask the system's unwinder */
	UNWIND_END,	/* nobody called this function */
	UNWIND_STEP,	/* the frame is that of its caller now */
};

/* Those of the calling function, with the address behind this line. */
#if defined(__x86_64__)
#define UNWIND_HERE(frame)                                                                         \
	__asm__ volatile("lea 0(%%rip), %0; mov %%rsp, %1; mov %%rbp, %2"                          \
			 : "=&r"((frame).pc), "=&r"((frame).sp), "=&r"((frame).fp))
#elif defined(__aarch64__)
#define UNWIND_HERE(frame)                                                                         \
	__asm__ volatile("adr %0, . + 4; mov %1, sp; mov %2, x29"                                  \
			 : "=&r"((frame).pc), "=&r"((frame).sp), "=&r"((frame).fp))
#endif

enum unwind_result unwind_step(struct unwind_frame *frame);

#endif
