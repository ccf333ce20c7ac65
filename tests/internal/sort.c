/* SPDX-License-Identifier: MIT */
/* Sorting without memory: elements of several sizes, some of them equal. */
#include <stdint.h>

#include "kit/random.h"
#include "kit/unit.h"
#include "os/sort.h"

#define MOST  300
#define WORDS 3

static int by_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Every word of an element moves with it. */
static void sort_elements(size_t n, size_t words)
{
	static uint64_t seed = 1, at[MOST * WORDS];
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		at[i * words] = random_below(&seed, 100);
		for (size_t k = 1; k < words; k++)
			at[i * words + k] = at[i * words] + k;
		sum += at[i * words];
	}
	os_sort(at, n, words * sizeof(*at), by_first);
	for (size_t i = 0; i < n; i++) {
		assert_true(!i || at[(i - 1) * words] <= at[i * words]);
		for (size_t k = 1; k < words; k++)
			assert_int_equal(at[i * words + k], at[i * words] + k);
		sum -= at[i * words];
	}
	assert_int_equal(sum, 0);
}

static void sorts(void **state)
{
	(void)state;
	for (size_t n = 0; n < 20; n++)
		sort_elements(n, 1);
	sort_elements(MOST, 1);
	sort_elements(MOST, WORDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sorts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
