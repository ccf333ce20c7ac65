/* SPDX-License-Identifier: MIT */
/*
 * Linked to the unit tests of builds whose own runtime needs memory of the system at any time, as a
 * sanitizer's does: leaves out the tests which take the system's memory away from the process.
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
