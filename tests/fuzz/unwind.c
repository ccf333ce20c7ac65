/* SPDX-License-Identifier: MIT */
/*
 * The unwind tables of a module, and a stack for its code. No table and no stack leads to a read of
 * what is not there.
 *
 *   | nothing | tables, up to the page's end | nothing | code | two pages of stack | nothing |
 *
 * The first byte of an input says what the rest is: a table as it is, or a program, in tables that
 * linkers would write around it. The second one says where on the stack the frame begins.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <sys/mman.h>

#include "fuzz/target.h"
#include "os/unwind/unwind.h"
#include "os/unwind/unwind_program.h"

#ifdef UNWIND_TABLES

enum {
	PAGE = 4096,
	MOST = PAGE - 256, /* bytes of tables */
	CALL = 64,	   /* the offset of a call in the code */
};

/* Without the address sanitizer, these do not exist. */
void __asan_poison_memory_region(void const volatile *address, size_t size) __attribute__((weak));
void __asan_unpoison_memory_region(void const volatile *address, size_t size) __attribute__((weak));

static struct {
	struct {
		ElfW(Ehdr) header;
		ElfW(Phdr) parts[2];
	} module;
	struct link_map map;
	char *arena, *code, *stack;
	uint8_t *tables;
	uint64_t runs;
} fuzzed;

/* The library asks it for the module of an address. Hidden, so that nobody else does. */
__attribute__((visibility("hidden"))) int _dl_find_object(void *address,
							  struct dl_find_object *found)
{
	if ((uintptr_t)address - (uintptr_t)fuzzed.code >= PAGE)
		return -1;
	*found = (struct dl_find_object){.dlfo_map_start = &fuzzed.module,
					 .dlfo_map_end = fuzzed.code + PAGE,
					 .dlfo_link_map = &fuzzed.map,
					 .dlfo_eh_frame = fuzzed.tables};
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	fuzzed.arena = mmap(NULL, 7 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FUZZ_CHECK(fuzzed.arena != MAP_FAILED);
	fuzzed.code = fuzzed.arena + 3 * PAGE;
	fuzzed.stack = fuzzed.arena + 4 * PAGE;
	FUZZ_CHECK(!mprotect(fuzzed.arena + PAGE, PAGE, PROT_READ | PROT_WRITE));
	FUZZ_CHECK(!mprotect(fuzzed.code, 3 * PAGE, PROT_READ | PROT_WRITE));
	memcpy(fuzzed.module.header.e_ident, ELFMAG, SELFMAG);
	fuzzed.module.header.e_phoff = sizeof(fuzzed.module.header);
	fuzzed.module.header.e_phnum = 2;
	fuzzed.map.l_name = (char *)"fuzzed";
	return 0;
}

/* --- tables ----------------------------------------------------------------------------------- */

static uint8_t *put32(uint8_t *at, uintptr_t value)
{
	uint32_t word = (uint32_t)value;

	memcpy(at, &word, sizeof(word));
	return at + sizeof(word);
}

/* An index of one function, its description, and the part that functions share, which has the first
 * half of the program. */
static size_t wrap(uint8_t *tables, struct fuzz_bytes program)
{
	static const uint8_t head[] = {1, 0x1b, 3, 0x3b},
			     common[] = {1, 'z', 'R', 0, 1, 0x78, UNWIND_REG_RA, 1, 0x1b};
	size_t first = program.left / 2, rest = program.left - first;
	uint8_t *at = tables, *shared = tables + 20, *function;

	memcpy(at, head, sizeof(head));
	at = put32(put32(at + 4, 0), 1);
	at = put32(at, (uintptr_t)(fuzzed.code - (char *)tables));
	function = shared + 8 + sizeof(common) + first;
	put32(at, (uintptr_t)(function - tables));
	memcpy(put32(put32(shared, 4 + sizeof(common) + first), 0), common, sizeof(common));
	memcpy(shared + 8 + sizeof(common), program.at, first);
	at = put32(function, 13 + rest);
	at = put32(at, (uintptr_t)(at - shared));
	at = put32(at, (uintptr_t)(fuzzed.code - (char *)at));
	at = put32(at, PAGE);
	*at++ = 0;
	memcpy(at, program.at + first, rest);
	return (size_t)(at + rest - tables);
}

/* The tables end where their page does. */
static void place(const uint8_t *tables, size_t size)
{
	char *page = fuzzed.arena + PAGE;

	fuzzed.tables = (uint8_t *)page + PAGE - size;
	if (__asan_unpoison_memory_region)
		__asan_unpoison_memory_region(page, PAGE);
	memcpy(fuzzed.tables, tables, size);
	if (__asan_poison_memory_region)
		__asan_poison_memory_region(page, PAGE - size);
	fuzzed.module.parts[0] = (ElfW(Phdr)){.p_type = PT_LOAD,
					      .p_flags = PF_R,
					      .p_vaddr = (uintptr_t)fuzzed.tables,
					      .p_memsz = size};
	fuzzed.module.parts[1] = (ElfW(Phdr)){.p_type = PT_LOAD,
					      .p_flags = PF_R | PF_X,
					      .p_vaddr = (uintptr_t)fuzzed.code,
					      .p_memsz = PAGE};
}

/* --- the walk --------------------------------------------------------------------------------- */

/* Return addresses on it lead to the code. Rows that were read for other code are not used. */
static void walk(unsigned int where)
{
	uintptr_t *word = (uintptr_t *)fuzzed.stack;
	struct unwind_frame frame = {.pc = (uintptr_t)fuzzed.code + CALL,
				     .sp = (uintptr_t)fuzzed.stack + where * 32,
				     .fp = (uintptr_t)fuzzed.stack + where * 40};

	fuzzed.runs++;
	for (size_t i = 0; i < 2 * PAGE / sizeof(*word); i++)
		word[i] = i % 3 ? (uintptr_t)&word[i + i % 64]
				: (uintptr_t)fuzzed.code + CALL + i % 64;
	for (size_t i = 0; i < PAGE; i += sizeof(fuzzed.runs))
		memcpy(fuzzed.code + i, &fuzzed.runs, sizeof(fuzzed.runs));
	for (unsigned int steps = 0; steps < 64; steps++) {
		uintptr_t sp = frame.sp;

		if (!unwind_step(&frame))
			break;
		FUZZ_CHECK(frame.sp > sp);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes in = {data, size};
	uint8_t tables[PAGE], what = fuzz_byte(&in), where = fuzz_byte(&in);
	struct unwind_state state;

	if (in.left > MOST)
		in.left = MOST;
	if (what & 1)
		place(tables, wrap(tables, in));
	else
		place(in.at, in.left);
	unwind_state_at((uintptr_t)fuzzed.code + CALL, &state);
	walk(where);
	return 0;
}

#else

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)data, (void)size;
	return 0;
}

#endif
