/* SPDX-License-Identifier: MIT */
/* Names from symbol tables in files; see symtab.h. */
#include "os/unwind/symtab.h"

#include <errno.h>
#include <string.h>

#include "os/atomic.h"
#include "os/file.h"

#define BLOCK	 128u /* symbols, read at once */
#define SAME	 1024u
#define SECTIONS 4096u

/* What is read: not on the stack, which may be that of a handler of signals. */
static union {
	char first[SAME];
	ElfW(Sym) symbols[BLOCK];
} scratch OS_LARGE;

/* SYMTAB-Y3. The process whose thread reads; 0: none. */
static uint32_t reader;

/* The part of a file that a section is. */
struct symtab_part {
	uint64_t offset, bytes;
};

static bool read_at(int file, uint64_t offset, void *to, size_t bytes)
{
	return syscall(SYS_pread64, file, to, bytes, offset) == (ssize_t)bytes;
}

static bool is_loaded_from(int file, const void *loaded) /* SYMTAB-Y2 */
{
	return read_at(file, 0, scratch.first, SAME) && !memcmp(scratch.first, loaded, SAME);
}

/* The symbol table, and the strings that it names. */
static bool find_tables(int file, const ElfW(Ehdr) * header, struct symtab_part *symbols,
			struct symtab_part *names)
{
	ElfW(Shdr) section, strings;

	for (uint64_t i = 0; i < header->e_shnum && i < SECTIONS; i++) {
		if (!read_at(file, header->e_shoff + i * sizeof(section), &section,
			     sizeof(section)))
			return false;
		if (section.sh_type != SHT_SYMTAB)
			continue;
		if (!read_at(file, header->e_shoff + section.sh_link * sizeof(section), &strings,
			     sizeof(strings)))
			return false;
		*symbols = (struct symtab_part){section.sh_offset, section.sh_size};
		*names = (struct symtab_part){strings.sh_offset, strings.sh_size};
		return section.sh_size / sizeof(ElfW(Sym)) <= SYMTAB_MOST;
	}
	return false;
}

static bool find_symbol(int file, const struct symtab_part *symbols, uintptr_t address,
			ElfW(Sym) * found)
{
	uint64_t n = symbols->bytes / sizeof(ElfW(Sym));
	ElfW(Sym) *block = scratch.symbols;

	for (uint64_t i = 0, some; i < n; i += some) {
		some = n - i < BLOCK ? n - i : BLOCK;
		if (!read_at(file, symbols->offset + i * sizeof(*block), block,
			     some * sizeof(*block)))
			return false;
		for (uint64_t k = 0; k < some; k++)
			if (symtab_contains(&block[k], address)) {
				*found = block[k];
				return true;
			}
	}
	return false;
}

static bool find_in(int file, const void *loaded, uintptr_t address, char *name, size_t size,
		    size_t *offset)
{
	struct symtab_part symbols, names;
	ElfW(Sym) symbol;
	ssize_t length;

	if (!is_loaded_from(file, loaded) || !find_tables(file, loaded, &symbols, &names) ||
	    !find_symbol(file, &symbols, address, &symbol) || symbol.st_name >= names.bytes)
		return false;
	length = syscall(SYS_pread64, file, name, size - 1, names.offset + symbol.st_name);
	if (length <= 0)
		return false;
	name[length] = '\0';
	*offset = address - symbol.st_value;
	return true;
}

bool symtab_find(const char *path, const void *loaded, uintptr_t address, char *name, size_t size,
		 size_t *offset)
{
	OS_KEEP_ERRNO;
	uint32_t self = (uint32_t)syscall(SYS_getpid), other = os_load_relaxed(&reader);
	bool found = false;
	int file;

	if (other == self || !os_cmpxchg(&reader, &other, self))
		return false;
	file = os_file_open(path, O_RDONLY);
	if (file >= 0) {
		found = find_in(file, loaded, address, name, size, offset);
		os_file_close(file);
	}
	os_store_release(&reader, 0);
	return found;
}
