/* SPDX-License-Identifier: MIT */
/*
 * A program whose malloc() and free() count, and pass the call on to the next ones: the preloaded
 * library serves it, and does not step aside.
 */
#include <dlfcn.h>

#include "check.h"

static unsigned int mallocs, frees;

void *malloc(size_t size)
{
	static void *(*next)(size_t);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "malloc");
	mallocs++;
	return next(size);
}

void free(void *block)
{
	static void (*next)(void *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "free");
	frees++;
	next(block);
}

int main(void)
{
	char *text = strdup("a text");

	check_ours();
	CHECK(is_ours(text));
	free(text);
	churn(1, 1000);
	CHECK(mallocs > 1000 && frees > 1000);
	return 0;
}
