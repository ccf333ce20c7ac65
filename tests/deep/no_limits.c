/* SPDX-License-Identifier: MIT */
/*
 * Linked to the unit tests of builds whose runtime needs memory from the system at any time, as a
 * sanitizer's does: leaves out the tests that refuse memory to the process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

__attribute__((constructor)) static void leave_out(void)
{
	cmocka_set_skip_filter("*without_memory");
}
