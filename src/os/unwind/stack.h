/* SPDX-License-Identifier: MIT */
/*
 * The callers: the program's functions on this thread's stack, for reports of misuse.
 *
 * A walk follows unwind tables, which every usual build has. Rows that were read once are kept
 * (os/unwind/unwind.h).
 *
 * Invariants
 *  STACK-B1. A walk takes no lock, allocates nothing, waits for nothing, and reads nothing that may
 *      not be there, so it may be made with any lock held, in signal handlers, and on any stack.
 *      That needs glibc 2.35, whose loader finds tables without a lock. With an older one, reports
 *      have no stacks.
 *  STACK-B2. Functions of the library are left out where its code is one range: in the shared and
 *      in the installed static library (packaging/make-static), and in the single file
 *      (packaging/make-single-file). Inline functions of the headers have no frame in any build.
 *
 * Locks: none. Callers: os/report/misuse.c, src/debug/.
 */
#ifndef SHEAF_OS_STACK_H
#define SHEAF_OS_STACK_H

#include <stddef.h>
#include <stdint.h>

#include "os/compiler.h"

#define OS_STACK_DEPTH 8

/* Write "module(symbol+offset) ...", innermost first, as backtrace_symbols() does; addr2line takes
 * the module and the offset. Returns its length; 0: unknown. */
size_t os_stack(char *text, size_t size) OS_COLD;

/* os_stack() in two steps: the return addresses, at most n, and later the text of one of them,
 * which may be longer than `size`. The module may be gone by then: the text is then the address. */
unsigned int os_stack_walk(uintptr_t *ip, unsigned int n) OS_NOINLINE;
size_t os_stack_frame(char *text, size_t size, uintptr_t ip) OS_COLD;
/* The path of the address's module, and the address within that file; NULL: unknown. */
const char *os_stack_module(uintptr_t ip, size_t *offset) OS_COLD;

#endif
