/* SPDX-License-Identifier: MIT */
/* What a cache's sheaves hold, and where they go. */
#include "internal/kit/in_turn.h"

tests test_barn, test_budget, test_flow, test_locked_slots;

int main(void)
{
	tests *const parts[] = {test_barn, test_budget, test_flow, test_locked_slots};

	return in_turn(parts, sizeof(parts) / sizeof(parts[0]));
}
