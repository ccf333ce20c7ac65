/* SPDX-License-Identifier: MIT */
/* Freed memory, pages and mappings, that returns to the system over time. */
#include "internal/kit/in_turn.h"

tests test_keep, test_freed_mappings, test_mlocked;

int main(void)
{
	tests *const parts[] = {test_keep, test_freed_mappings, test_mlocked};

	return in_turn(parts, sizeof(parts) / sizeof(parts[0]));
}
