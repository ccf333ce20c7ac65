/* SPDX-License-Identifier: MIT */
/* Pointers about which the compiler and its sanitizers know nothing. */
#ifndef SHEAF_TESTS_HIDDEN_H
#define SHEAF_TESTS_HIDDEN_H

static inline void *hidden(void *p)
{
	__asm__("" : "+r"(p));
	return p;
}

#endif
