/* SPDX-License-Identifier: MIT */
/* What the tests of libsheaf-malloc share. The library is preloaded: they call malloc() as any
 * program does. */
#ifndef SHEAF_MALLOC_TESTS_CHECK_H
#define SHEAF_MALLOC_TESTS_CHECK_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			dprintf(STDERR_FILENO, "%s:%d: %s\n", __FILE__, __LINE__, #condition);     \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* A value that the compiler does not know, so that it leaves calls as they are. */
#define HIDDEN(value)                                                                              \
	__extension__({                                                                            \
		__typeof__(value) hidden_value = (value);                                          \
		__asm__("" : "+r"(hidden_value));                                                  \
		hidden_value;                                                                      \
	})

/* The address of a function of the preloaded library, or of another one. */
static inline void *symbol_of(void *object, const char *name)
{
	void *found = dlsym(object, name);

	if (!found) {
		dprintf(STDERR_FILENO, "%s\n", dlerror());
		_exit(1);
	}
	return found;
}

/* Is it a block of the library? */
#ifdef STATIC
bool is_ours(const void *address) __asm__("sheaf_sheaf_owns");
#else
static inline bool is_ours(const void *address)
{
	typedef bool owns_fn(const void *address);

	return ((owns_fn *)symbol_of(RTLD_DEFAULT, "sheaf_sheaf_owns"))(address);
}
#endif

/* The preloaded library has to be there, and to serve the program; no more from its boot heap,
 * which does not have this block. */
static inline void check_ours(void)
{
	void *block = calloc(HIDDEN((size_t)1), 100000);

	CHECK(is_ours(block));
	free(block);
}

/* Blocks with a stamp at each end, in sizes from a seed. */
static inline void churn(unsigned int seed, unsigned int rounds)
{
	enum {
		BLOCKS = 64
	};
	unsigned char *blocks[BLOCKS] = {NULL};
	size_t sizes[BLOCKS] = {0};

	for (unsigned int i = 0; i < rounds + BLOCKS; i++) {
		unsigned int at = i % BLOCKS;

		if (blocks[at]) {
			CHECK(blocks[at][0] == (unsigned char)at);
			CHECK(blocks[at][sizes[at] - 1] == (unsigned char)at);
			free(blocks[at]);
			blocks[at] = NULL;
		}
		if (i >= rounds)
			continue;
		seed = seed * 1103515245 + 12345;
		sizes[at] = 1 + (seed >> 8) % (seed % 97 ? 700 : 70000);
		blocks[at] = (unsigned char *)malloc(sizes[at]);
		CHECK(blocks[at]);
		blocks[at][0] = blocks[at][sizes[at] - 1] = (unsigned char)at;
	}
}

#endif
