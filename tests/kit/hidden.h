/* SPDX-License-Identifier: MIT */
/* Pointers of which the compiler, and what it adds to check programs, know nothing. */
#ifndef SHEAF_TESTS_HIDDEN_H
#define SHEAF_TESTS_HIDDEN_H

static inline void *hidden(void *p)
{
	__asm__("" : "+r"(p));
	return p;
}

#endif
