/* SPDX-License-Identifier: MIT */
/*
 * Programs of unwind tables. Each function has one; run up to an address, it tells how to find the
 * function's caller from there: it gives rules for the caller's stack pointer (the CFA), return
 * address and frame pointer.
 *
 *   table --search--> description of the function --run--> state at the address --> row (unwind.h)
 *
 * Takes no lock, allocates nothing. Locks: none. Callers: src/os/unwind/.
 */
#ifndef SHEAF_OS_UNWIND_PROGRAM_H
#define SHEAF_OS_UNWIND_PROGRAM_H

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "os/unwind/unwind.h"

/* Without both, there are no stacks. */
#if defined(DLFO_STRUCT_HAS_EH_DBASE) && defined(UNWIND_HERE)
#define UNWIND_TABLES

#ifdef __x86_64__
#define UNWIND_REG_FP 6
#define UNWIND_REG_SP 7
#define UNWIND_REG_RA 16
#else
#define UNWIND_REG_FP 29
#define UNWIND_REG_SP 31
#define UNWIND_REG_RA 30
#endif

#define UNWIND_PAGE   4096 /* or a part of one */
#define UNWIND_STATES 8	   /* that a program may save at a time */

/* Where a register of the caller is. */
struct unwind_rule {
	enum unwind_how {
		UNWIND_SAME,
		UNWIND_AT_CFA, /* plus this offset */
		UNWIND_UNDEFINED,
		UNWIND_AT_FP, /* plus this offset */
		UNWIND_OTHER,
	} how;
	int64_t offset;
};

#define UNWIND_CFA_OTHER ~0u /* an expression */
#define UNWIND_CFA_AT_FP ~1u /* in memory, at this distance from the frame pointer */

struct unwind_state {
	unsigned int cfa_register; /* or one of these */
	int64_t cfa;
	struct unwind_rule ra, fp;
};

/* A program that runs up to an address. Behind its end it has zeros. */
struct unwind_program {
	const uint8_t *at, *end;
	uintptr_t location, target;
	uint64_t code_align;
	int64_t data_align;
	struct unwind_state now, first, saved[UNWIND_STATES];
	unsigned int nr_saved;
	bool strange; /* it has an instruction that is not known */
};

/* --- unwind_program.c ------------------------------------------------------------------------- */

/* Run instructions from p->at to p->end, or up to the target. */
void unwind_run(struct unwind_program *p);

/* --- unwind_table.c --------------------------------------------------------------------------- */

/* The state at this address, which is in a call, in front of the return address. False: there is no
 * table for it, or it is not understood. */
bool unwind_state_at(uintptr_t pc, struct unwind_state *state);

/* The code around this address that can be read: at least the address itself. False: no loaded
 * module has code there. */
bool unwind_code_at(uintptr_t pc, uintptr_t *from, uintptr_t *end);

/* --- numbers: what is not in front of `end` is zero ------------------------------------------- */

static inline uint8_t unwind_byte(const uint8_t **at, const uint8_t *end)
{
	return *at < end ? *(*at)++ : 0;
}

static inline uint64_t unwind_uleb(const uint8_t **at, const uint8_t *end)
{
	uint64_t value = 0;

	for (unsigned int shift = 0;; shift += 7) {
		uint8_t byte = unwind_byte(at, end);

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

static inline int64_t unwind_sleb(const uint8_t **at, const uint8_t *end)
{
	uint64_t value = 0;

	for (unsigned int shift = 0;;) {
		uint8_t byte = unwind_byte(at, end);

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

static inline uint32_t unwind_u32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static inline int64_t unwind_s32(const uint8_t *at)
{
	return (int32_t)unwind_u32(at);
}

#endif
#endif
