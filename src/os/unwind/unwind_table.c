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
 * index: static ones, which contain it. Weak, so that libsheaf.so does not load it. */
extern const void *_Unwind_Find_FDE(void *pc, void *bases[3]) __attribute__((weak));

struct bytes {
	const uint8_t *from, *end;
};

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

/* The loaded part of a module that contains an address. False: none with these flags. If the parts
 * are not known, a table is trusted to be anywhere in the module; of code, one byte is there. */
static bool find_part(const struct dl_find_object *module, uintptr_t address, ElfW(Word) flags,
		      struct bytes *part)
{
	size_t n;
	const ElfW(Phdr) *parts = program_headers(module, &n);

	for (size_t i = 0; parts && i < n; i++) {
		uintptr_t from = module->dlfo_link_map->l_addr + parts[i].p_vaddr;

		part->from = (const uint8_t *)from;
		part->end = part->from + parts[i].p_memsz;
		if (parts[i].p_type == PT_LOAD && address - from < parts[i].p_memsz)
			return (parts[i].p_flags & flags) == flags;
	}
	*part = (struct bytes){module->dlfo_map_start, module->dlfo_map_end};
	if (flags & PF_X)
		*part = (struct bytes){(const uint8_t *)address, (const uint8_t *)address + 1};
	return !parts && address - (uintptr_t)part->from < (size_t)(part->end - part->from);
}

/* The description of the function that an address is in; 0: there is none, or none that is
 * understood. */
static uintptr_t find_description(const struct dl_find_object *module, uintptr_t pc)
{
	const uint8_t *header = module->dlfo_eh_frame, *table;
	uint32_t low = 0, high;
	struct bytes part;
	void *bases[3];

	if (!header)
		return _Unwind_Find_FDE ? (uintptr_t)_Unwind_Find_FDE((void *)pc, bases) : 0;
	if (!find_part(module, (uintptr_t)header, PF_R, &part) || part.end - header < 12 ||
	    header[0] != 1 || header[1] != FORM_RELATIVE || header[2] != FORM_COUNT ||
	    header[3] != FORM_TABLE)
		return 0;
	high = unwind_u32(header + 8);
	table = header + 12;
	if (high > (size_t)(part.end - table) / 8)
		return 0;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if ((uintptr_t)header + (uintptr_t)unwind_s32(table + middle * 8) <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? (uintptr_t)header + (uintptr_t)unwind_s32(table + (low - 1) * 8 + 4) : 0;
}

/* What follows the length at this address. False: not all of it is in this part. */
static bool open_record(const struct bytes *part, uintptr_t address, struct bytes *record)
{
	size_t size = (size_t)(part->end - part->from), at = address - (uintptr_t)part->from;

	if (at > size || size - at < 4)
		return false;
	record->from = part->from + at + 4;
	record->end = record->from + unwind_u32(part->from + at);
	return unwind_u32(part->from + at) <= size - at - 4;
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
static bool read_common(struct unwind_program *p, const struct bytes *common)
{
	const uint8_t *at = common->from + 4, *const end = common->end, *letter;
	uint8_t version = unwind_byte(&at, end);
	uint64_t length;

	letter = at;
	at = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;
	if (!at || (version != 1 && version != 3))
		return false;
	at++;
	p->code_align = unwind_uleb(&at, end);
	p->data_align = unwind_sleb(&at, end);
	if ((version == 1 ? unwind_byte(&at, end) : unwind_uleb(&at, end)) != UNWIND_REG_RA ||
	    *letter++ != 'z')
		return false;
	length = unwind_uleb(&at, end);
	if (length > (size_t)(end - at))
		return false;
	p->at = at + length;
	p->end = end;
	for (; *letter; letter++)
		if (*letter == 'P' || *letter == 'L' || *letter == 'R') {
			uint8_t form = unwind_byte(&at, end);

			if (*letter == 'P' ? !bytes_of_form(form)
					   : *letter == 'R' && form != FORM_RELATIVE)
				return false;
			at += *letter == 'P' ? bytes_of_form(form) : 0;
		} else if (*letter != 'B') {
			return false; /* S, a signal's frame, too. B: which key signs return addresses */
		}
	return true;
}

/* The state at this address of the function. */
static bool read_state(struct unwind_program *p, const struct dl_find_object *module,
		       uintptr_t function)
{
	struct bytes part, description, common;
	const uint8_t *at;
	uint64_t length;

	if (!find_part(module, function, PF_R, &part) ||
	    !open_record(&part, function, &description) || description.end - description.from < 12)
		return false;
	at = description.from;
	p->location = (uintptr_t)(at + 4) + (uintptr_t)unwind_s32(at + 4);
	if (p->target - p->location >= unwind_u32(at + 8) ||
	    !open_record(&part, (uintptr_t)at - unwind_u32(at), &common) ||
	    !read_common(p, &common))
		return false;
	unwind_run(p);
	p->first = p->now;
	at += 12;
	length = unwind_uleb(&at, description.end);
	if (length > (size_t)(description.end - at))
		return false;
	p->at = at + length;
	p->end = description.end;
	unwind_run(p);
	return !p->strange;
}

bool unwind_state_at(uintptr_t pc, struct unwind_state *state)
{
	struct unwind_program program = {.target = pc, .now.cfa_register = UNWIND_CFA_OTHER};
	struct dl_find_object module;
	uintptr_t function;

	if (!unwind_find_module(pc, &module))
		return false;
	function = find_description(&module, pc);
	if (!function || !read_state(&program, &module, function))
		return false;
	*state = program.now;
	return true;
}

bool unwind_code_at(uintptr_t pc, uintptr_t *from, uintptr_t *end)
{
	struct dl_find_object found;
	struct bytes part;

	if (!unwind_find_module(pc, &found) || !find_part(&found, pc, PF_R | PF_X, &part))
		return false;
	*from = (uintptr_t)part.from;
	*end = (uintptr_t)part.end;
	return true;
}

#endif
