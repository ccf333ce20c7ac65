/* SPDX-License-Identifier: MIT */
/* Rows of unwind tables that were read before; see unwind.h. */
#include "os/linux/unwind.h"

#include <stddef.h>
#include <string.h>

#include "os/atomic.h"
#include "os/linux/unwind_program.h"

#ifdef UNWIND_TABLES

#define KEPT_BITS  12
#define CODE_BYTES 8
#define WORD	   ((int64_t)sizeof(uintptr_t))

enum row_kind {
	ROW_NONE,
	ROW_USUAL,
	ROW_OUTERMOST,
	ROW_STRANGE,
};

/* Distances in words; the caller's stack pointer, the CFA, is where they begin. */
struct row {
	uint8_t kind;
	uint8_t by_fp; /* the CFA's distance is from the frame pointer, not the stack pointer */
	uint16_t cfa;
	int16_t ra;
	int16_t saved_fp; /* 0: the frame pointer is still the caller's */
};

_Static_assert(sizeof(struct row) == sizeof(uint64_t), "a row is one word");

static struct {
	uint64_t key, row;
} known_rows[1 << KEPT_BITS];

static bool fits(int64_t offset)
{
	return offset % WORD == 0 && offset / WORD == (int16_t)(offset / WORD);
}

static struct row row_of_state(const struct unwind_state *state)
{
	struct row row = {.kind = ROW_USUAL};

	if (state->ra.how == UNWIND_UNDEFINED)
		return (struct row){.kind = ROW_OUTERMOST};
	if (state->ra.how != UNWIND_AT_CFA || state->fp.how >= UNWIND_UNDEFINED ||
	    !fits(state->cfa) || !fits(state->ra.offset) || !fits(state->fp.offset) ||
	    state->cfa <= 0 ||
	    (state->cfa_register != UNWIND_REG_SP && state->cfa_register != UNWIND_REG_FP))
		return (struct row){.kind = ROW_STRANGE};
	row.by_fp = state->cfa_register == UNWIND_REG_FP;
	row.cfa = (uint16_t)(state->cfa / WORD);
	row.ra = (int16_t)(state->ra.offset / WORD);
	row.saved_fp = state->fp.how == UNWIND_AT_CFA ? (int16_t)(state->fp.offset / WORD) : 0;
	return row;
}

/* The address is behind a call, and the call may be the function's last instruction. */
static __attribute__((noinline)) struct row read_row(uintptr_t pc)
{
	struct unwind_state state;

	if (!unwind_state_at(pc - 1, &state))
		return (struct row){.kind = ROW_STRANGE};
	return row_of_state(&state);
}

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
