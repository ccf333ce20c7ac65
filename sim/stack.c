/* SPDX-License-Identifier: MIT */
/*
 * Stacks of fibres. A fibre begins with makecontext(); after that, _setjmp() and _longjmp() leave
 * and enter it without a system call.
 */
#undef _FORTIFY_SOURCE /* it mistakes a jump to another stack for an error */
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "sim/state.h"

#define STACK_SIZE ((size_t)256 << 10)
#define GUARD	   ((size_t)64 << 10)

struct stack {
	jmp_buf jump;
	ucontext_t first;
	void (*entry)(void);
	char *memory;
	bool begun;
};

void stack_reset(struct stack *stack)
{
	getcontext(&stack->first);
	stack->first.uc_stack.ss_sp = stack->memory + GUARD;
	stack->first.uc_stack.ss_size = STACK_SIZE - GUARD;
	makecontext(&stack->first, stack->entry, 0);
	stack->begun = false;
}

struct stack *stack_outside(void)
{
	static struct stack outside = {.begun = true};

	return &outside;
}

struct stack *stack_new(void (*entry)(void))
{
	struct stack *stack = calloc(1, sizeof(*stack));

	if (!stack)
		sim_fail("no memory for a fibre");
	stack->entry = entry;
	stack->memory = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stack->memory == MAP_FAILED || mprotect(stack->memory, GUARD, PROT_NONE))
		sim_fail("no memory for a fibre's stack");
	stack_reset(stack);
	return stack;
}

void stack_switch(struct stack *from, struct stack *to)
{
	if (_setjmp(from->jump))
		return;
	if (to->begun)
		_longjmp(to->jump, 1);
	to->begun = true;
	setcontext(&to->first);
}
