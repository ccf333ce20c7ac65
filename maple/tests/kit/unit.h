/* SPDX-License-Identifier: MIT */
/* cmocka, after the headers that it needs. */
#ifndef SHEAF_TESTS_UNIT_H
#define SHEAF_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
