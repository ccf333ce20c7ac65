/* SPDX-License-Identifier: MIT */
/* The machine layer: locks, sorting, versions of the kernel; options. */
#include "internal/kit/in_turn.h"

tests test_channel, test_options, test_os;

int main(void)
{
	tests *const parts[] = {test_channel, test_options, test_os};

	return in_turn(parts, sizeof(parts) / sizeof(parts[0]));
}
