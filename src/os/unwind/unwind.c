/* SPDX-License-Identifier: MIT */
/* Rows of unwind tables that were read before; see unwind.h. */
#include "os/unwind/unwind.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "os/atomic.h"
#include "os/memory_tools.h"
#include "os/unwind/unwind_program.h"

#ifdef UNWIND_TABLES

#define KEPT_BITS  12
#define CODE_BYTES 8
#define WORD	   ((int64_t)sizeof(uintptr_t))

enum row_kind {
	ROW_NONE,
	ROW_USUAL,
	ROW_REALIGNED, /* the frame pointer leads to the CFA, and to the saved frame pointer */
	ROW_STRANGE,   /* also the outermost function's */
};

/* Distances in words; the caller's stack pointer, the CFA, is where they begin. */
struct row {
	uint8_t kind;
	uint8_t by_fp; /* the CFA's distance is from the frame pointer, not the stack pointer */
	int16_t cfa;
	int16_t ra;	  /* 0: in its register */
	int16_t saved_fp; /* 0: the frame pointer is still the caller's */
};

_Static_assert(sizeof(struct row) == sizeof(uint64_t), "a row is one word");

static struct {
	uint64_t key, row;
} known_rows[1 << KEPT_BITS] OS_LARGE;

static bool fits(int64_t offset)
{
	return offset % WORD == 0 && offset / WORD == (int16_t)(offset / WORD);
}

static bool is_realigned(const struct unwind_state *state)
{
	return state->cfa_register == UNWIND_CFA_AT_FP && state->fp.how == UNWIND_AT_FP;
}

static bool is_usual(const struct unwind_state *state)
{
	return (state->cfa_register == UNWIND_REG_SP || state->cfa_register == UNWIND_REG_FP) &&
	       state->cfa >= 0 && state->fp.how <= UNWIND_AT_CFA;
}

static struct row row_of_state(const struct unwind_state *state)
{
	struct row row = {.kind = is_realigned(state) ? ROW_REALIGNED : ROW_USUAL};

	if (state->ra.how > UNWIND_AT_CFA || !fits(state->cfa) || !fits(state->ra.offset) ||
	    !fits(state->fp.offset) || !(is_usual(state) || is_realigned(state)))
		return (struct row){.kind = ROW_STRANGE};
	row.by_fp = state->cfa_register == UNWIND_REG_FP;
	row.cfa = (int16_t)(state->cfa / WORD);
	row.ra = state->ra.how == UNWIND_AT_CFA ? (int16_t)(state->ra.offset / WORD) : 0;
	row.saved_fp = state->fp.how != UNWIND_SAME ? (int16_t)(state->fp.offset / WORD) : 0;
	return row;
}

static OS_NOINLINE struct row read_row(uintptr_t at)
{
	struct unwind_state state;

	if (!unwind_state_at(at, &state))
		return (struct row){.kind = ROW_STRANGE};
	return row_of_state(&state);
}

/* An address, and the code that ends there. */
static uint64_t key_of(uintptr_t at)
{
	uint64_t code;

	memcpy(&code, (const char *)at + 1 - CODE_BYTES, sizeof(code));
	return at ^ code * UINT64_C(0x9e3779b97f4a7c15);
}

static struct row row_for(const struct unwind_frame *frame, uintptr_t at)
{
	uint64_t key, bits;
	struct row row;
	size_t place;

	if (at - frame->code < CODE_BYTES)
		return read_row(at);
	key = key_of(at);
	place = key * UINT64_C(0xd6e8feb86659fd93) >> (64 - KEPT_BITS);
	bits = os_load_relaxed(&known_rows[place].row);
	if (bits && (os_load_relaxed(&known_rows[place].key) ^ bits) == key) {
		memcpy(&row, &bits, sizeof(row));
		return row;
	}
	row = read_row(at);
	memcpy(&bits, &row, sizeof(bits));
	os_store_relaxed(&known_rows[place].row, bits);
	os_store_relaxed(&known_rows[place].key, key ^ bits);
	return row;
}

/* --- the stack -------------------------------------------------------------------------------- */

/* Where the first thread's stack ends. */
extern const char *__libc_stack_end __attribute__((weak));

/* No stack is smaller; a thread's pointer is at the end of its stack. */
#define THREAD_STACK 16384
/* The kernel keeps more free for the first thread's stack. */
#define FIRST_STACK (64ul << 20)

/* Most of what a walk reads certainly exists: it is on the stack that the thread began with, above
 * the function that walks. */
static bool is_near_end(uintptr_t address)
{
	return (uintptr_t)__builtin_thread_pointer() - address < THREAD_STACK ||
	       (&__libc_stack_end && (uintptr_t)__libc_stack_end - address < FIRST_STACK);
}

/* The kernel reads the word in order to compare it, and fails if it cannot. */
static OS_NOINLINE bool kernel_can_read(uintptr_t address)
{
	static const struct timespec at_once;
	OS_KEEP_ERRNO;
	bool can;

	tools_look(true);
	can = syscall(SYS_futex, address, FUTEX_WAIT_PRIVATE, 0xdead0000, &at_once, NULL, 0) !=
		      -1 ||
	      errno != EFAULT;
	tools_look(false);
	return can;
}

/* Read a word of the stack. */
static bool load(struct unwind_frame *frame, uintptr_t address, uintptr_t *value)
{
	uintptr_t page = address & ~(uintptr_t)(UNWIND_PAGE - 1);

	if (address % sizeof(*value))
		return false;
	if (page - frame->stack >= frame->stack_end - frame->stack && !is_near_end(address)) {
		if (!kernel_can_read(address))
			return false;
		if (page != frame->stack_end)
			frame->stack = page;
		frame->stack_end = page + UNWIND_PAGE;
	}
	*value = *(const uintptr_t *)address;
	return true;
}

/* --- signals ---------------------------------------------------------------------------------- */

/* A handler returns to code that calls sigreturn; the kernel left the registers of the interrupted
 * function on the stack. */
#ifdef __x86_64__
#define SIGRETURN	"\x48\xc7\xc0\x0f\0\0\0\x0f\x05" /* mov $15, %rax; syscall */
#define BEFORE_CONTEXT	0
#define IN_CONTEXT(reg) (offsetof(ucontext_t, uc_mcontext.gregs[reg]))
#define CONTEXT_PC	IN_CONTEXT(REG_RIP)
#define CONTEXT_SP	IN_CONTEXT(REG_RSP)
#define CONTEXT_FP	IN_CONTEXT(REG_RBP)
#define CONTEXT_LINK	CONTEXT_PC /* not used: calls push return addresses */
#else
#define SIGRETURN      "\x68\x11\x80\xd2\x01\0\0\xd4" /* mov x8, #139; svc #0 */
#define BEFORE_CONTEXT sizeof(siginfo_t)
#define CONTEXT_PC     offsetof(ucontext_t, uc_mcontext.pc)
#define CONTEXT_SP     offsetof(ucontext_t, uc_mcontext.sp)
#define CONTEXT_FP     offsetof(ucontext_t, uc_mcontext.regs[29])
#define CONTEXT_LINK   offsetof(ucontext_t, uc_mcontext.regs[30])
#endif

static bool step_over_signal(struct unwind_frame *frame)
{
	uintptr_t context = frame->sp + BEFORE_CONTEXT;

	if (frame->interrupted || frame->code_end - frame->pc < sizeof(SIGRETURN) - 1 ||
	    memcmp((const void *)frame->pc, SIGRETURN, sizeof(SIGRETURN) - 1) != 0)
		return false;
	frame->interrupted = true;
	return load(frame, context + CONTEXT_PC, &frame->pc) &&
	       load(frame, context + CONTEXT_FP, &frame->fp) &&
	       load(frame, context + CONTEXT_LINK, &frame->link) &&
	       load(frame, context + CONTEXT_SP, &frame->sp);
}

/* --- a step ----------------------------------------------------------------------------------- */

/* Return addresses may be signed (-mbranch-protection). */
static uintptr_t without_signature(uintptr_t pc)
{
#ifdef __aarch64__
	register uintptr_t x30 __asm__("x30") = pc;

	__asm__("hint #7" : "+r"(x30)); /* xpaclri */
	return x30;
#else
	return pc;
#endif
}

static bool step_over_call(struct unwind_frame *frame, struct row row)
{
	const uintptr_t fp = frame->fp, word = sizeof(uintptr_t);
	uintptr_t cfa = (row.by_fp ? fp : frame->sp) + (uintptr_t)row.cfa * word, pc = frame->link;

	if (row.kind == ROW_REALIGNED && !load(frame, fp + (uintptr_t)row.cfa * word, &cfa))
		return false;
	/* Stacks grow downwards. */
	if (cfa < frame->sp || (cfa == frame->sp && !frame->interrupted) ||
	    (row.ra ? !load(frame, cfa + (uintptr_t)row.ra * word, &pc) : !frame->interrupted))
		return false;
	if ((row.saved_fp || row.kind == ROW_REALIGNED) &&
	    !load(frame, (row.kind == ROW_REALIGNED ? fp : cfa) + (uintptr_t)row.saved_fp * word,
		  &frame->fp))
		return false;
	frame->pc = without_signature(pc);
	frame->sp = cfa;
	frame->interrupted = false;
	return true;
}

/* The address of an instruction that was executed last, or is next after a signal. A return address
 * is behind a call, which may be the function's last instruction. */
static uintptr_t executed_at(const struct unwind_frame *frame)
{
	return frame->pc - !frame->interrupted;
}

static bool is_in_code(struct unwind_frame *frame)
{
	uintptr_t at = executed_at(frame);

	return at - frame->code < frame->code_end - frame->code ||
	       unwind_code_at(at, &frame->code, &frame->code_end);
}

bool unwind_step(struct unwind_frame *frame)
{
	struct row row;

	if (!is_in_code(frame)) /* where the walk begins */
		return false;
	row = row_for(frame, executed_at(frame));
	return (row.kind == ROW_STRANGE ? step_over_signal(frame) : step_over_call(frame, row)) &&
	       is_in_code(frame);
}

#endif
