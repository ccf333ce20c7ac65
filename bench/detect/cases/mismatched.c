/* SPDX-License-Identifier: MIT */
/* Frees a block of kmalloc by free(); for a malloc, one of new by free(). */
#include "detect.h"

CASE("mismatched")
{
	char *block = block_of_other_kind(CONN);

	MISUSE(give_to_other_kind(block));
}
