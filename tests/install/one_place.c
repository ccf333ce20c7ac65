/* SPDX-License-Identifier: MIT */
/* One place in the program that allocates, with many callers; prints the caches' statistics. */
#include <sheaf/kmalloc.h>
#include <sheaf/stats.h>

static __attribute__((noinline)) int take(void)
{
	void *block = kmalloc_node(100, GFP_KERNEL, NUMA_NO_NODE);

	/* Keeps the call from becoming a jump. */
	__asm__ volatile("" : "+r"(block));
	return block != NULL;
}

int main(void)
{
	int taken = take() + take() + take() + take() + take() + take() + take() + take();

	return taken == 8 ? sheaf_stats_print(1, SHEAF_STATS_TEXT) : 1;
}
