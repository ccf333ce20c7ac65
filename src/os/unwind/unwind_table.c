/* SPDX-License-Identifier: MIT */
/* Finds programs in unwind tables, as the Linux Standard Base defines them; see
 * unwind_program.h. */
#include "os/unwind/unwind_program.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#ifdef UNWIND_TABLES

/* The only forms that linkers write: relative addresses of four bytes. */
#define FORM_RELATIVE 0x1b
#define FORM_COUNT    0x03
#define FORM_TABLE    0x3b

/* The unwinder of the C compiler, which knows the tables of programs that are linked without an
 * index: static ones. */
extern const void *_Unwind_Find_FDE(void *pc, void *bases[3]);

/* The description of the function that an address is in; NULL: there is none, or none that is
 * understood. */
static const uint8_t *find_description(uintptr_t pc)
{
	struct dl_find_object found;
	const uint8_t *header, *table;
	uint32_t low = 0, high;
	void *bases[3];

	if (!unwind_find_module(pc, &found))
		return NULL;
	header = found.dlfo_eh_frame;
	if (!header)
		return _Unwind_Find_FDE((void *)pc, bases);
	if (header[0] != 1 || header[1] != FORM_RELATIVE || header[2] != FORM_COUNT ||
	    header[3] != FORM_TABLE)
		return NULL;
	high = unwind_u32(header + 8);
	table = header + 12;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if ((uintptr_t)header + (uintptr_t)unwind_s32(table + middle * 8) <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? header + unwind_s32(table + (low - 1) * 8 + 4) : NULL;
}

/* Bytes of a pointer of this form; 0: not known. */
static unsigned int bytes_of_form(uint8_t form)
{
	switch (form & 0x0f) {
	case 0x00:
		return form == 0x50 ? 0 : sizeof(uintptr_t);
	case 0x02:
	case 0x0a:
		return 2;
	case 0x03:
	case 0x0b:
		return 4;
	case 0x04:
	case 0x0c:
		return 8;
	default:
		return 0;
	}
}

/* The part that functions share: alignments, and the beginning of their programs. */
static bool read_common(struct unwind_program *p, const uint8_t *common)
{
	const char *letters = (const char *)common + 9, *letter = letters;
	const uint8_t *at = common + 9 + strlen(letters) + 1, *end;
	uint64_t length;

	if (common[8] != 1 && common[8] != 3)
		return false;
	p->code_align = unwind_uleb(&at);
	p->data_align = unwind_sleb(&at);
	if ((common[8] == 1 ? *at++ : unwind_uleb(&at)) != UNWIND_REG_RA || *letter++ != 'z')
		return false;
	length = unwind_uleb(&at);
	end = at + length;
	for (; *letter; letter++)
		if (*letter == 'P' && bytes_of_form(*at))
			at += 1 + bytes_of_form(*at);
		else if (*letter == 'L')
			at++;
		else if (*letter == 'R' ? *at++ != FORM_RELATIVE : *letter != 'B')
			return false; /* S, a signal's frame, too. B: which key signs return addresses */
	p->at = end;
	p->end = common + 4 + unwind_u32(common);
	return true;
}

/* The state at this address of the function. */
static bool read_state(struct unwind_program *p, const uint8_t *function)
{
	const uint8_t *common = function + 4 - unwind_u32(function + 4);
	const uint8_t *at = function + 16;
	uint64_t length;

	p->location = (uintptr_t)(function + 8) + (uintptr_t)unwind_s32(function + 8);
	if (unwind_u32(function) == UINT32_MAX || unwind_u32(common) == UINT32_MAX ||
	    p->target - p->location >= unwind_u32(function + 12) || !read_common(p, common))
		return false;
	unwind_run(p);
	p->first = p->now;
	length = unwind_uleb(&at);
	p->at = at + length;
	p->end = function + 4 + unwind_u32(function);
	unwind_run(p);
	return !p->strange;
}

bool unwind_state_at(uintptr_t pc, struct unwind_state *state)
{
	struct unwind_program program = {.target = pc, .now.cfa_register = UNWIND_CFA_OTHER};
	const uint8_t *function = find_description(pc);

	if (!function || !read_state(&program, function))
		return false;
	*state = program.now;
	return true;
}

/* The program headers of a module, if they are where linkers put them. */
static const ElfW(Phdr) * program_headers(const struct dl_find_object *module, size_t *n)
{
	const ElfW(Ehdr) *header = module->dlfo_map_start;

	*n = header->e_phnum;
	if (!memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_phoff <= UNWIND_PAGE &&
	    header->e_phoff + *n * sizeof(ElfW(Phdr)) <= UNWIND_PAGE)
		return (const void *)((const char *)header + header->e_phoff);
	if (*module->dlfo_link_map->l_name)
		return NULL;
	/* In a static program the loader does not count what is in front of the code. */
	*n = getauxval(AT_PHNUM);
	return (const ElfW(Phdr) *)getauxval(AT_PHDR);
}

bool unwind_code_at(uintptr_t pc, uintptr_t *from, uintptr_t *end)
{
	struct dl_find_object found;
	const ElfW(Phdr) * parts;
	size_t n;

	if (!unwind_find_module(pc, &found))
		return false;
	*from = pc;
	*end = pc + 1;
	parts = program_headers(&found, &n);
	for (size_t i = 0; parts && i < n; i++) {
		*from = found.dlfo_link_map->l_addr + parts[i].p_vaddr;
		*end = *from + parts[i].p_memsz;
		if (parts[i].p_type == PT_LOAD && pc - *from < parts[i].p_memsz)
			return (parts[i].p_flags & (PF_R | PF_X)) == (PF_R | PF_X);
	}
	return !parts;
}

#endif
