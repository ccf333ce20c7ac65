/* SPDX-License-Identifier: MIT */
/* Pages and their chunks, mappings, pools. */
#include "internal/kit/in_turn.h"

tests test_chunk, test_map, test_page, test_pool, test_wide;

int main(void)
{
	tests *const parts[] = {test_chunk, test_map, test_page, test_pool, test_wide};

	return in_turn(parts, sizeof(parts) / sizeof(parts[0]));
}
