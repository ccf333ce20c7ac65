/* SPDX-License-Identifier: MIT */
/*
 * Names of functions that a module does not export: from the symbol table (.symtab) in its file,
 * which the loader does not map, and which strip(1) removes.
 *
 * Invariants
 *  SYMTAB-Y1. The file is read by system calls, a block at a time, at most SYMTAB_MOST symbols: no
 *      lock, no memory, and no fault if the file is cut off meanwhile. So this is as safe as the
 *      stacks that it is for (stack.h). Argued: there is one file, and nothing else is called.
 *  SYMTAB-Y2. A file that replaced the loaded one is not used: its first bytes, with the ELF header
 *      and the build ID, must be those in memory.
 *  SYMTAB-Y3. One thread of a process reads at a time; another one, or a handler of signals in it,
 *      finds no name meanwhile. A child whose parent was reading reads as if nobody did. Argued:
 *      only the exchange of `reader` leads to what is read.
 *
 * Locks: none. Callers: src/os/unwind/stack.c.
 */
#ifndef SHEAF_OS_SYMTAB_H
#define SHEAF_OS_SYMTAB_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/compiler.h"

#define SYMTAB_MOST (1u << 20)

/* Is it a function from which a call returns to this address of its module? */
static inline bool symtab_contains(const ElfW(Sym) * symbol, uintptr_t address)
{
	return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx &&
	       address - symbol->st_value - 1 < symbol->st_size;
}

/* The function from which a call returns to this address of the module that was loaded from the
 * file, and begins there in memory. Writes its name, cut off, and how far into it the address is.
 * False: unknown. */
bool symtab_find(const char *path, const void *loaded, uintptr_t address, char *name, size_t size,
		 size_t *offset) OS_COLD;

#endif
