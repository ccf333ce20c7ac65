/* SPDX-License-Identifier: MIT */
/* Slabs without caches. */
#include "internal/kit/in_turn.h"

tests test_frees, test_slab;

int main(void)
{
	tests *const parts[] = {test_frees, test_slab};

	return in_turn(parts, sizeof(parts) / sizeof(parts[0]));
}
