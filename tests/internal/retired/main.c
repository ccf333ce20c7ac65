/* SPDX-License-Identifier: MIT */
/* Retired objects: their grace periods, and what the library has for them. */
#include "internal/kit/in_turn.h"

tests test_passed, test_structures;

int main(void)
{
	tests *const parts[] = {test_passed, test_structures};

	return in_turn(parts, sizeof(parts) / sizeof(parts[0]));
}
