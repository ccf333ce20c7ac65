/* SPDX-License-Identifier: MIT */
/*
 * With few addresses (ulimit -v), malloc() returns NULL when there are no more, and works again
 * after frees. realloc() that is refused leaves the block, and costs no addresses. Usage: limited
 * MIB...
 */
#include <errno.h>
#include <sys/resource.h>

#include "check.h"

static void use(size_t size)
{
	struct block {
		struct block *next;
	} *first = NULL, *block;
	unsigned int n = 0;

	errno = 0;
	while ((block = malloc(size)) != NULL) {
		block->next = first;
		first = block;
		n++;
	}
	CHECK(errno == ENOMEM && n > 0);
	while (first) {
		block = first->next;
		free(first);
		first = block;
	}
}

static bool can_have(size_t size)
{
	void *block = malloc(HIDDEN(size));

	free(block);
	return block;
}

static void refused(void)
{
	const size_t step = 1 << 20;
	size_t most = step, least;
	unsigned char *block, *larger;
	unsigned int n = 0;

	while (can_have(most + step))
		most += step;
	least = most / 4;
	block = malloc(HIDDEN(least));
	CHECK(block);
	memset(block, 7, least);
	for (size_t size = least; size <= most + step; size += step) {
		errno = 0;
		larger = realloc(block, HIDDEN(size));
		n += !larger;
		CHECK(larger || errno == ENOMEM);
		block = larger ? realloc(larger, HIDDEN(least)) : block;
		CHECK(block && block[0] == 7 && block[least - 1] == 7);
	}
	CHECK(n);
	free(block);
	CHECK(can_have(most - 2 * step));
}

int main(int argc, char **argv)
{
	struct rlimit limit = {0, 0};

	if (argc < 2) { /* the new image of the program below */
		check_ours();
		for (int i = 0; i < 3; i++) {
			use(HIDDEN((size_t)100));
			use(HIDDEN((size_t)20000));
			use(HIDDEN((size_t)2 << 20));
		}
		refused();
		churn(1, 1000);
		return 0;
	}
	limit.rlim_cur = limit.rlim_max = (rlim_t)atoi(argv[1]) << 20;
	CHECK(!setrlimit(RLIMIT_AS, &limit));
	execl("/proc/self/exe", argv[0], (char *)NULL);
	return 1;
}
