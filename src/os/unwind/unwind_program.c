/* SPDX-License-Identifier: MIT */
/* Runs programs of unwind tables, as the DWARF standard defines them; see unwind_program.h. */
#include "os/unwind/unwind_program.h"

#ifdef UNWIND_TABLES

static uint64_t read_uleb(struct unwind_program *p)
{
	return unwind_uleb(&p->at, p->end);
}

/* Offsets in units of the data's alignment. */
static int64_t read_offset(struct unwind_program *p)
{
	return (int64_t)(read_uleb(p) * (uint64_t)p->data_align);
}

static int64_t read_signed_offset(struct unwind_program *p)
{
	return (int64_t)((uint64_t)unwind_sleb(&p->at, p->end) * (uint64_t)p->data_align);
}

static uint64_t read_fixed(struct unwind_program *p, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < bytes; i++)
		value |= (uint64_t)unwind_byte(&p->at, p->end) << (8 * i);
	return value;
}

static struct unwind_rule *rule_of(struct unwind_state *state, uint64_t reg)
{
	return reg == UNWIND_REG_RA ? &state->ra : reg == UNWIND_REG_FP ? &state->fp : NULL;
}

static void set_rule(struct unwind_program *p, uint64_t reg, enum unwind_how how, int64_t offset)
{
	struct unwind_rule *place = rule_of(&p->now, reg);

	if (place)
		*place = (struct unwind_rule){how, offset};
}

static void restore(struct unwind_program *p, uint64_t reg)
{
	const struct unwind_rule *first = rule_of(&p->first, reg);

	if (first)
		set_rule(p, reg, first->how, first->offset);
}

/* The frame pointer plus an offset is understood, and a load from there: functions that align their
 * stacks to more than 16 bytes have these. */
enum expression {
	OTHER,
	FP_PLUS,
	AT_FP_PLUS
};

static enum expression read_expression(struct unwind_program *p, int64_t *offset)
{
	uint64_t length = read_uleb(p);
	const uint8_t *at = p->at, *end;

	p->strange |= length > (uint64_t)(p->end - at);
	p->at = end = p->strange ? p->end : at + length;
	if (unwind_byte(&at, end) != 0x70 + UNWIND_REG_FP) /* breg */
		return OTHER;
	*offset = unwind_sleb(&at, end);
	if (at == end)
		return FP_PLUS;
	return at + 1 == end && *at == 0x06 /* deref */ ? AT_FP_PLUS : OTHER;
}

static void save_state(struct unwind_program *p)
{
	if (p->nr_saved == UNWIND_STATES)
		p->strange = true;
	else
		p->saved[p->nr_saved++] = p->now;
}

static void restore_state(struct unwind_program *p)
{
	if (!p->nr_saved)
		p->strange = true;
	else
		p->now = p->saved[--p->nr_saved];
}

/* Instructions that define the CFA. */
static void define_cfa(struct unwind_program *p, uint8_t op)
{
	switch (op) {
	case 0x0c: /* def_cfa */
	case 0x12: /* def_cfa_sf */
		p->now.cfa_register = (unsigned int)read_uleb(p);
		p->now.cfa = op == 0x0c ? (int64_t)read_uleb(p) : read_signed_offset(p);
		break;
	case 0x0d: /* def_cfa_register */
		p->now.cfa_register = (unsigned int)read_uleb(p);
		break;
	case 0x0e: /* def_cfa_offset */
		p->now.cfa = (int64_t)read_uleb(p);
		break;
	case 0x13: /* def_cfa_offset_sf */
		p->now.cfa = read_signed_offset(p);
		break;
	default: /* def_cfa_expression */
		p->now.cfa_register = read_expression(p, &p->now.cfa) == AT_FP_PLUS
					      ? UNWIND_CFA_AT_FP
					      : UNWIND_CFA_OTHER;
	}
}

/* Instructions about a register whose number follows them. */
static void define_register(struct unwind_program *p, uint8_t op)
{
	uint64_t reg = read_uleb(p);
	int64_t offset = 0;
	bool known;

	switch (op) {
	case 0x05: /* offset_extended */
		set_rule(p, reg, UNWIND_AT_CFA, read_offset(p));
		break;
	case 0x11: /* offset_extended_sf */
		set_rule(p, reg, UNWIND_AT_CFA, read_signed_offset(p));
		break;
	case 0x06: /* restore_extended */
		restore(p, reg);
		break;
	case 0x07: /* undefined */
		set_rule(p, reg, UNWIND_UNDEFINED, 0);
		break;
	case 0x08: /* same_value */
		set_rule(p, reg, UNWIND_SAME, 0);
		break;
	case 0x10: /* expression */
	case 0x16: /* val_expression */
		known = read_expression(p, &offset) == FP_PLUS && op == 0x10;
		set_rule(p, reg, known ? UNWIND_AT_FP : UNWIND_OTHER, offset);
		break;
	default: /* register, val_offset, val_offset_sf */
		set_rule(p, reg, UNWIND_OTHER, 0);
		read_uleb(p);
	}
}

/* Instructions whose number is a whole byte. */
static void run_extended(struct unwind_program *p, uint8_t op)
{
	switch (op) {
	case 0x00: /* nop */
		break;
	case 0x02 ... 0x04: /* advance_loc1, 2, 4 */
		p->location += read_fixed(p, 1u << (op - 2)) * p->code_align;
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
	case 0x2d: /* negate_ra_state: the return address has a signature; see unwind.c */
		break;
	case 0x2e: /* GNU_args_size */
		read_uleb(p);
		break;
	default:
		p->strange = true;
	}
}

void unwind_run(struct unwind_program *p)
{
	while (!p->strange && p->at < p->end && p->location <= p->target) {
		uint8_t op = unwind_byte(&p->at, p->end), low = op & 0x3f;

		switch (op >> 6) {
		case 1: /* advance_loc */
			p->location += low * p->code_align;
			break;
		case 2: /* offset */
			set_rule(p, low, UNWIND_AT_CFA, read_offset(p));
			break;
		case 3:
			restore(p, low);
			break;
		default:
			run_extended(p, op);
		}
	}
}

#endif
