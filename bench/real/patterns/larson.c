/* SPDX-License-Identifier: MIT */
/*
 * Each thread replaces blocks in an array and hands that to a new thread, as servers hand
 * over connections. Sized: blocks come from C++'s operator new and are freed by its sized operator
 * delete, if the allocator has them; the C++ library's call malloc() and free().
 */
#include <dlfcn.h>
#include <pthread.h>

#include "pattern.h"

#define BLOCKS 1000

typedef void *operator_new(size_t size);
typedef void sized_free(void *block, size_t size);

struct work {
	void *blocks[BLOCKS];
	uint32_t state;
	size_t left;
	operator_new *take;
	sized_free *sized; /* NULL: malloc() and free() */
};

static void give(const struct work *mine, void *block)
{
	if (!block || !mine->sized) {
		release(block);
		return;
	}
	check(block);
	mine->sized(block, *(size_t *)block);
}

static void *get(const struct work *mine, size_t size)
{
	return mine->sized ? mark(mine->take(size), size) : make(size);
}

static void *replace(void *data)
{
	struct work *mine = data;
	pthread_t successor;

	for (int i = 0; i < 20 * BLOCKS; i++) {
		void **at = &mine->blocks[next(&mine->state) % BLOCKS];

		give(mine, *at);
		*at = get(mine, 8 + next(&mine->state) % 500);
	}
	if (mine->left-- && !pthread_create(&successor, NULL, replace, mine)) {
		pthread_join(successor, NULL);
		return NULL;
	}
	for (int i = 0; i < BLOCKS; i++)
		give(mine, mine->blocks[i]);
	return NULL;
}

void *larson(void *number)
{
	struct work mine = {.state = seed(number), .left = rounds};

	return replace(&mine);
}

void *larson_sized(void *number)
{
	struct work mine = {.state = seed(number), .left = rounds};

	*(void **)&mine.take = dlsym(RTLD_DEFAULT, "_Znwm");
	if (mine.take)
		*(void **)&mine.sized = dlsym(RTLD_DEFAULT, "_ZdlPvm");
	return replace(&mine);
}
