/* SPDX-License-Identifier: MIT */
/* Locks that other threads hold: who waits for which, and who does not. */
#include "internal/kit/in_turn.h"

tests test_held_locks, test_nowait;

int main(void)
{
	tests *const parts[] = {test_held_locks, test_nowait};

	return in_turn(parts, sizeof(parts) / sizeof(parts[0]));
}
