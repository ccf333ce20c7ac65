/* SPDX-License-Identifier: MIT */
/* Rows of unwind tables, as in the DWARF standard and the Linux Standard Base; see unwind.h. */
#include "os/linux/unwind.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "os/atomic.h"

#if defined(DLFO_STRUCT_HAS_EH_DBASE) && defined(UNWIND_HERE)

extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

#ifdef __x86_64__
#define REG_FP 6
#define REG_SP 7
#define REG_RA 16
#else
#define REG_FP 29
#define REG_SP 31
#define REG_RA 30
#endif

#define MOST_STATES 8
#define KEPT_BITS   12
#define WORD	    ((int64_t)sizeof(uintptr_t))

enum row_kind {
	ROW_NONE,
	ROW_USUAL,
	ROW_OUTERMOST,
	ROW_STRANGE,
};

/* Distances in words; the caller's stack pointer, the CFA, is where they begin. */
struct row {
	uint8_t kind;
	uint8_t by_fp; /* the CFA is so far from the frame pointer, not from the stack pointer */
	uint16_t cfa;
	int16_t ra;
	int16_t saved_fp; /* 0: the frame pointer is still the caller's */
};

_Static_assert(sizeof(struct row) == sizeof(uint64_t), "a row is one word");

static struct {
	uint64_t key, row;
} known_rows[1 << KEPT_BITS];

/* Where a register of the caller is. */
struct rule {
	enum {
		SAME,
		AT_CFA, /* plus this offset */
		UNDEFINED,
		OTHER,
	} how;
	int64_t offset;
};

struct unwind_state {
	unsigned int cfa_register; /* OTHER_CFA: an expression */
	int64_t cfa;
	struct rule ra, fp;
};

#define OTHER_CFA ~0u

/* A program of the tables that runs up to an address. */
struct program {
	const uint8_t *at, *end;
	uintptr_t location, target;
	uint64_t code_align;
	int64_t data_align;
	struct unwind_state now, first, saved[MOST_STATES];
	unsigned int nr_saved;
	bool strange;
};

/* --- numbers ---------------------------------------------------------------------------------- */

static uint64_t read_uleb(const uint8_t **at)
{
	uint64_t value = 0;

	for (unsigned int shift = 0;; shift += 7) {
		uint8_t byte = *(*at)++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

static int64_t read_sleb(const uint8_t **at)
{
	uint64_t value = 0;

	for (unsigned int shift = 0;;) {
		uint8_t byte = *(*at)++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (shift < 64 && byte & 0x40)
			value |= ~UINT64_C(0) << shift;
		return (int64_t)value;
	}
}

static uint32_t read_u32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int64_t read_s32(const uint8_t *at)
{
	return (int32_t)read_u32(at);
}

/* --- programs --------------------------------------------------------------------------------- */

static struct rule *rule_of(struct unwind_state *state, uint64_t reg)
{
	return reg == REG_RA ? &state->ra : reg == REG_FP ? &state->fp : NULL;
}

static void set_rule(struct program *p, uint64_t reg, struct rule rule)
{
	struct rule *place = rule_of(&p->now, reg);

	if (place)
		*place = rule;
}

static void restore(struct program *p, uint64_t reg)
{
	const struct rule *first = rule_of(&p->first, reg);

	if (first)
		set_rule(p, reg, *first);
}

static void skip_block(struct program *p)
{
	uint64_t length = read_uleb(&p->at);

	p->at += length;
}

static void save_state(struct program *p)
{
	if (p->nr_saved == MOST_STATES)
		p->strange = true;
	else
		p->saved[p->nr_saved++] = p->now;
}

static void restore_state(struct program *p)
{
	if (!p->nr_saved)
		p->strange = true;
	else
		p->now = p->saved[--p->nr_saved];
}

/* Instructions that define the CFA. */
static void define_cfa(struct program *p, uint8_t op)
{
	switch (op) {
	case 0x0c: /* def_cfa */
	case 0x12: /* def_cfa_sf */
		p->now.cfa_register = (unsigned int)read_uleb(&p->at);
		p->now.cfa =
			op == 0x0c ? (int64_t)read_uleb(&p->at) : read_sleb(&p->at) * p->data_align;
		break;
	case 0x0d: /* def_cfa_register */
		p->now.cfa_register = (unsigned int)read_uleb(&p->at);
		break;
	case 0x0e: /* def_cfa_offset */
		p->now.cfa = (int64_t)read_uleb(&p->at);
		break;
	case 0x13: /* def_cfa_offset_sf */
		p->now.cfa = read_sleb(&p->at) * p->data_align;
		break;
	default: /* def_cfa_expression */
		p->now.cfa_register = OTHER_CFA;
		skip_block(p);
	}
}

/* Instructions about one register that is named by a number behind them. */
static void define_register(struct program *p, uint8_t op)
{
	uint64_t reg = read_uleb(&p->at);

	switch (op) {
	case 0x05: /* offset_extended */
		set_rule(p, reg, (struct rule){AT_CFA, (int64_t)read_uleb(&p->at) * p->data_align});
		break;
	case 0x11: /* offset_extended_sf */
		set_rule(p, reg, (struct rule){AT_CFA, read_sleb(&p->at) * p->data_align});
		break;
	case 0x06: /* restore_extended */
		restore(p, reg);
		break;
	case 0x07: /* undefined */
		set_rule(p, reg, (struct rule){UNDEFINED, 0});
		break;
	case 0x08: /* same_value */
		set_rule(p, reg, (struct rule){SAME, 0});
		break;
	case 0x10: /* expression */
	case 0x16: /* val_expression */
		set_rule(p, reg, (struct rule){OTHER, 0});
		skip_block(p);
		break;
	default: /* register, val_offset, val_offset_sf */
		set_rule(p, reg, (struct rule){OTHER, 0});
		read_uleb(&p->at);
	}
}

/* Instructions whose number is a whole byte. */
static void run_extended(struct program *p, uint8_t op)
{
	uint16_t distance;

	switch (op) {
	case 0x00: /* nop */
		break;
	case 0x02: /* advance_loc1 */
		p->location += *p->at++ * p->code_align;
		break;
	case 0x03: /* advance_loc2 */
		memcpy(&distance, p->at, sizeof(distance));
		p->location += distance * p->code_align;
		p->at += sizeof(distance);
		break;
	case 0x04: /* advance_loc4 */
		p->location += read_u32(p->at) * p->code_align;
		p->at += sizeof(uint32_t);
		break;
	case 0x0a:
		save_state(p);
		break;
	case 0x0b:
		restore_state(p);
		break;
	case 0x0c ... 0x0f:
	case 0x12 ... 0x13:
		define_cfa(p, op);
		break;
	case 0x05 ... 0x09:
	case 0x10 ... 0x11:
	case 0x14 ... 0x16:
		define_register(p, op);
		break;
	case 0x2e: /* GNU_args_size */
		read_uleb(&p->at);
		break;
	default:
		p->strange = true;
	}
}

static void run(struct program *p)
{
	while (!p->strange && p->at < p->end && p->location <= p->target) {
		uint8_t op = *p->at++, low = op & 0x3f;

		switch (op >> 6) {
		case 1: /* advance_loc */
			p->location += low * p->code_align;
			break;
		case 2: /* offset */
			set_rule(p, low,
				 (struct rule){AT_CFA, (int64_t)read_uleb(&p->at) * p->data_align});
			break;
		case 3:
			restore(p, low);
			break;
		default:
			run_extended(p, op);
		}
	}
}

/* --- tables ----------------------------------------------------------------------------------- */

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
	high = read_u32(header + 8);
	table = header + 12;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if ((uintptr_t)header + (uintptr_t)read_s32(table + middle * 8) <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? header + read_s32(table + (low - 1) * 8 + 4) : NULL;
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

/* What is common to functions: alignments, and where their programs begin. */
static bool read_common(struct program *p, const uint8_t *common)
{
	const char *letters = (const char *)common + 9, *letter = letters;
	const uint8_t *at = common + 9 + strlen(letters) + 1, *end;
	uint64_t length;

	if (common[8] != 1 && common[8] != 3)
		return false;
	p->code_align = read_uleb(&at);
	p->data_align = read_sleb(&at);
	if ((common[8] == 1 ? *at++ : read_uleb(&at)) != REG_RA || *letter++ != 'z')
		return false;
	length = read_uleb(&at);
	end = at + length;
	for (; *letter; letter++)
		if (*letter == 'P' && bytes_of_form(*at))
			at += 1 + bytes_of_form(*at);
		else if (*letter == 'L')
			at++;
		else if (*letter != 'R' || *at++ != FORM_RELATIVE)
			return false; /* S, a signal's frame, too */
	p->at = end;
	p->end = common + 4 + read_u32(common);
	return true;
}

/* The state at this address of the function. */
static bool read_state(struct program *p, const uint8_t *function)
{
	const uint8_t *common = function + 4 - read_u32(function + 4);
	const uint8_t *at = function + 16;
	uint64_t length;

	p->location = (uintptr_t)(function + 8) + (uintptr_t)read_s32(function + 8);
	if (read_u32(function) == UINT32_MAX || read_u32(common) == UINT32_MAX ||
	    p->target - p->location >= read_u32(function + 12) || !read_common(p, common))
		return false;
	run(p);
	p->first = p->now;
	length = read_uleb(&at);
	p->at = at + length;
	p->end = function + 4 + read_u32(function);
	run(p);
	return !p->strange;
}

static bool fits(int64_t offset)
{
	return offset % WORD == 0 && offset / WORD == (int16_t)(offset / WORD);
}

static struct row row_of_state(const struct unwind_state *state)
{
	struct row row = {.kind = ROW_USUAL};

	if (state->ra.how == UNDEFINED)
		return (struct row){.kind = ROW_OUTERMOST};
	if (state->ra.how != AT_CFA || state->fp.how >= UNDEFINED || !fits(state->cfa) ||
	    !fits(state->ra.offset) || !fits(state->fp.offset) || state->cfa <= 0 ||
	    (state->cfa_register != REG_SP && state->cfa_register != REG_FP))
		return (struct row){.kind = ROW_STRANGE};
	row.by_fp = state->cfa_register == REG_FP;
	row.cfa = (uint16_t)(state->cfa / WORD);
	row.ra = (int16_t)(state->ra.offset / WORD);
	row.saved_fp = state->fp.how == AT_CFA ? (int16_t)(state->fp.offset / WORD) : 0;
	return row;
}

/* The address is behind a call, which may be the function's last instruction. */
static __attribute__((noinline)) struct row read_row(uintptr_t pc)
{
	struct program program = {.target = pc - 1, .now.cfa_register = OTHER_CFA};
	const uint8_t *function = find_description(pc - 1);

	if (!function || !read_state(&program, function))
		return (struct row){.kind = ROW_STRANGE};
	return row_of_state(&program.now);
}

/* --- rows that were read before --------------------------------------------------------------- */

#define CODE_BYTES 8

/* An address, and the code in front of it. */
static uint64_t key_of(uintptr_t pc)
{
	uint64_t code;

	memcpy(&code, (const char *)pc - CODE_BYTES, sizeof(code));
	return pc ^ code * UINT64_C(0x9e3779b97f4a7c15);
}

static struct row row_for(uintptr_t pc)
{
	uint64_t key, bits;
	struct row row;
	size_t place;

	/* Code may begin with its page. */
	if (pc % 4096 < CODE_BYTES)
		return read_row(pc);
	key = key_of(pc);
	place = key * UINT64_C(0xd6e8feb86659fd93) >> (64 - KEPT_BITS);
	bits = os_load_relaxed(&known_rows[place].row);
	if (bits && (os_load_relaxed(&known_rows[place].key) ^ bits) == key) {
		memcpy(&row, &bits, sizeof(row));
		return row;
	}
	row = read_row(pc);
	memcpy(&bits, &row, sizeof(bits));
	os_store_relaxed(&known_rows[place].row, bits);
	os_store_relaxed(&known_rows[place].key, key ^ bits);
	return row;
}

enum unwind_result unwind_step(struct unwind_frame *frame)
{
	struct row row = row_for(frame->pc);
	const uintptr_t *cfa;

	if (row.kind != ROW_USUAL)
		return row.kind == ROW_OUTERMOST ? UNWIND_END : UNWIND_UNKNOWN;
	cfa = (const uintptr_t *)(row.by_fp ? frame->fp : frame->sp) + row.cfa;
	/* Stacks grow downwards. */
	if ((uintptr_t)cfa <= frame->sp || (uintptr_t)cfa % sizeof(*cfa))
		return UNWIND_UNKNOWN;
	frame->pc = cfa[row.ra];
	if (row.saved_fp)
		frame->fp = cfa[row.saved_fp];
	frame->sp = (uintptr_t)cfa;
	return frame->pc ? UNWIND_STEP : UNWIND_END;
}

#endif
