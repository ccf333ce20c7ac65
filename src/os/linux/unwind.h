/* SPDX-License-Identifier: MIT */
/*
 * One step up the stack, by the row of the unwind tables that belongs to an address of code. Rows
 * are kept, so that a step that was made before costs a few loads.
 *
 *   kept[hash of address and code] = | address and code, xor row | row |
 *
 * Invariants
 *  U1. A row that is read belongs to its address: if two threads, or a thread and a signal handler,
 *      wrote a half each, the xor yields another address.
 *  U2. The key contains the bytes of code in front of the address, so a module that is loaded where
 *      another one was unloaded does not get the old rows.
 *  U3. Nothing is guessed: frames that these rows cannot describe (signal frames, expressions,
 *      signed return addresses, code without tables) are left to the system's unwinder.
 *
 * Takes no lock, allocates nothing, and needs less than a kilobyte of stack. Locks: none.
 * Callers: src/os/linux/stack.c.
 */
#ifndef SHEAF_OS_LINUX_UNWIND_H
#define SHEAF_OS_LINUX_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/* The registers of a function after a return to it. */
struct unwind_frame {
	uintptr_t pc; /* a return address */
	uintptr_t sp, fp;
};

enum unwind_result {
	UNWIND_UNKNOWN, /* ask the system's unwinder */
	UNWIND_END,	/* nobody called this function */
	UNWIND_STEP,	/* the frame is the caller's now */
};

/* The registers of the calling function, with the address behind this line. */
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
