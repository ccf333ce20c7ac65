/* SPDX-License-Identifier: MIT */
/*
 * One step up the stack, by the row of the unwind tables that belongs to an address of code. Rows
 * are kept, so that a step that was made before costs a few loads.
 *
 *   kept[hash of address and code] = | address and code, xor row | row |
 *
 * Invariants
 *  UNWIND-U1. A row that is read belongs to its address. Argued: if two threads, or a thread and a
 *      signal handler, wrote a half each, the xor yields another address.
 *  UNWIND-U2. A module that is loaded where another one was unloaded does not get the old rows.
 *      Argued: the key contains the bytes of code in front of the address.
 *  UNWIND-U3. Nothing is read that may not be there. The outermost return address of a coroutine
 *      may be any number: code is read only where a loaded module has it, and a page of a stack
 *      that the program made only after the kernel has read it. A table that is damaged or cut
 *      off is read only in the part of the module where it begins.
 *  UNWIND-U4. Nothing is guessed: a walk ends at the first frame that tables do not describe.
 *
 * Takes no lock, allocates nothing, and needs less than a kilobyte of stack. Locks: none.
 * Callers: src/os/unwind/stack.c.
 */
#ifndef SHEAF_OS_UNWIND_H
#define SHEAF_OS_UNWIND_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

/* The registers of a function after a return to it. A walk begins with zeros and UNWIND_HERE. */
struct unwind_frame {
	/* A return address; or, if a signal interrupted the function, what is next. */
	uintptr_t pc;
	uintptr_t sp, fp;
	/* The register with the return address of an interrupted function, if there is one. */
	uintptr_t link;
	bool interrupted;
	uintptr_t code, code_end;   /* of the module of the step before */
	uintptr_t stack, stack_end; /* pages that can be read */
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

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* Absent before glibc 2.35. */
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

/* The loaded module that an address is in. Takes no lock. */
static inline bool unwind_find_module(uintptr_t address, struct dl_find_object *found)
{
	return _dl_find_object && !_dl_find_object((void *)address, found);
}
#endif

/* Make the frame its caller's. False: nobody called this function, or nobody knows who did. */
bool unwind_step(struct unwind_frame *frame);

#endif
