/* SPDX-License-Identifier: MIT */
/* Pages and their chunks, mappings, pools. */
#include "internal/kit/in_turn.h"

tests test_chunk, test_map, test_page, test_pool;

int main(void)
{
	tests *const parts[] = {test_chunk, test_map, test_page, test_pool};

	return in_turn(parts, sizeof(parts) / sizeof(parts[0]));
}
