/* SPDX-License-Identifier: MIT */
/* Reports: who writes them when, where they go, which ones are left out. */
#include "internal/kit/in_turn.h"

tests test_misuse, test_report, test_sink;

int main(void)
{
	tests *const parts[] = {test_misuse, test_report, test_sink};

	return in_turn(parts, sizeof(parts) / sizeof(parts[0]));
}
