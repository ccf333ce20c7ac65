/* SPDX-License-Identifier: MIT */
/* Fibres switch stacks, and the seed already identifies what they did, so there are no stack
 * traces. */
#include "os/unwind/stack.h"

#include <stdio.h>

unsigned int os_stack_walk(uintptr_t *ip, unsigned int n)
{
	(void)ip, (void)n;
	return 0;
}

size_t os_stack_frame(char *text, size_t size, uintptr_t ip)
{
	return (size_t)snprintf(text, size, " [%#zx]", (size_t)ip);
}

size_t os_stack(char *text, size_t size)
{
	(void)text, (void)size;
	return 0;
}

const char *os_stack_module(uintptr_t ip, size_t *offset)
{
	(void)ip, (void)offset;
	return NULL;
}
