/* SPDX-License-Identifier: MIT */
/* Finds programs in unwind tables, as the Linux Standard Base defines them; see
 * unwind_program.h. */
#include "os/linux/unwind_program.h"

#ifdef UNWIND_TABLES

/* Absent before glibc 2.35. */
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

/* The only forms that linkers write: relative addresses of four bytes. */
#define FORM_RELATIVE 0x1b
#define FORM_COUNT    0x03
#define FORM_TABLE    0x3b

/* The description of the function that an address is in; NULL: there is none, or none that is
 * understood. */
static const uint8_t *find_description(uintptr_t pc)
{
	struct dl_find_object found;
	const uint8_t *header, *table;
	uint32_t low = 0, high;

	if (!_dl_find_object || _dl_find_object((void *)pc, &found))
		return NULL;
	header = found.dlfo_eh_frame;
	if (!header || header[0] != 1 || header[1] != FORM_RELATIVE || header[2] != FORM_COUNT ||
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
		else if (*letter != 'R' || *at++ != FORM_RELATIVE)
			return false; /* S, a signal's frame, too */
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
	struct unwind_program program = {.target = pc, .now.cfa_register = UNWIND_OTHER_CFA};
	const uint8_t *function = find_description(pc);

	if (!function || !read_state(&program, function))
		return false;
	*state = program.now;
	return true;
}

#endif
