/* SPDX-License-Identifier: MIT */
/* Which node objects come from. */
#include "internal/kit/in_turn.h"

tests test_numa, test_policy;

int main(void)
{
	tests *const parts[] = {test_numa, test_policy};

	return in_turn(parts, sizeof(parts) / sizeof(parts[0]));
}
