/* SPDX-License-Identifier: MIT */
/*
 * What the library reports to tools that watch each of the program's memory accesses: the address
 * and memory sanitizers, in programs that are built with them, and valgrind's memcheck.
 *
 * To such a tool the library's memory is one large block that may always be used. The library
 * reports:
 *
 *   taken    the program owns these bytes; they are undefined, or have a value
 *   resized  it asked for more or fewer bytes of a block
 *   freed    nobody may use them
 *   close    nobody may use these bytes, which were no block: red zones, free pages
 *   open     the library uses these bytes, or any code may
 *
 * Only src/debug/ reports objects, so a tool knows only the objects of debug caches; under a tool,
 * every cache is a debug cache (src/debug/parse.c). Other caches report nothing, and their calls
 * pay nothing. Large blocks, and pages that come and go, are always reported.
 *
 * The thread sanitizer watches order, not memory: os/tsan.h.
 *
 * Invariants
 *  TOOLS-W1. Bytes that the library reads or writes are open at that time: memcpy() and similar
 *      calls of a program with a sanitizer check their bytes, and valgrind checks each access.
 *  TOOLS-W2. Addresses are opened before they are returned to the system. Argued: only
 *      page/map.c returns addresses that may be closed.
 *
 * Callers: every layer but os/.
 */
#ifndef SHEAF_OS_MEMORY_TOOLS_H
#define SHEAF_OS_MEMORY_TOOLS_H

#include <stdbool.h>
#include <stddef.h>

#include "os/compiler.h"
#include "os/machine.h"

/* In os.tools. */
enum {
	TOOL_ASAN = 1,
	TOOL_MSAN = 2,
	TOOL_MEMCHECK = 4,
	TOOLS_OF_MEMORY = TOOL_ASAN | TOOL_MSAN | TOOL_MEMCHECK,
	TOOL_TSAN = 8, /* os/tsan.h; the functions below report nothing to it */
};

/* For functions that read bytes which may be closed, to report about them. */
#define TOOLS_LOOK __attribute__((no_sanitize_address))

/* The tools that this process runs under. */
uint32_t tools_find(void);

/* Let this function explain the address of each error that the address sanitizer reports. */
void tools_explain_by(void (*explain)(const void *address));

/* Objects, or a large block, may lie here and hold the only pointers to memory of malloc(). So the
 * leak sanitizer searches this memory, too, except bytes that are unreadable or were reported as
 * free. */
void tools_hold(const void *at, size_t bytes);
void tools_hold_no_more(const void *at, size_t bytes);

/* The functions below call these if os.tools != 0. */
void tools_do_open(const void *at, size_t bytes);
void tools_do_close(const void *at, size_t bytes);
void tools_do_taken(const void *block, size_t bytes, bool defined);
void tools_do_resized(const void *block, size_t old, size_t bytes);
void tools_do_freed(const void *block, size_t bytes);
void tools_do_wrote(const void *at, size_t bytes);
void tools_do_look(bool begin);

static inline void tools_open(const void *at, size_t bytes)
{
	if (os_unlikely(os.tools))
		tools_do_open(at, bytes);
}

static inline void tools_close(const void *at, size_t bytes)
{
	if (os_unlikely(os.tools))
		tools_do_close(at, bytes);
}

/* defined: the bytes have a value. Otherwise reading them is an error until they are written. */
static inline void tools_taken(const void *block, size_t bytes, bool defined)
{
	if (os_unlikely(os.tools))
		tools_do_taken(block, bytes, defined);
}

static inline void tools_resized(const void *block, size_t old, size_t bytes)
{
	if (os_unlikely(os.tools))
		tools_do_resized(block, old, bytes);
}

static inline void tools_freed(const void *block, size_t bytes)
{
	if (os_unlikely(os.tools))
		tools_do_freed(block, bytes);
}

/* The library stored into a variable of the program. */
static inline void tools_wrote(const void *at, size_t bytes)
{
	if (os_unlikely(os.tools))
		tools_do_wrote(at, bytes);
}

/* Between tools_look(true) and tools_look(false), functions with TOOLS_LOOK may read anything in
 * this thread. */
static inline void tools_look(bool begin)
{
	if (os_unlikely(os.tools))
		tools_do_look(begin);
}

#endif
